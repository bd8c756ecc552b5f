"""A workflow's webhook of Teams on one machine: it takes Adaptive Cards, with the limits of the service."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from layover.plugins.people.channels.twins import Answer, Outbox, Rate, Twin

RATE = 4
"""Messages in a second."""
MAX_BYTES = 28 * 1024
"""Bytes of a message as Teams keeps it: its card is a text in it."""
RETRY_AFTER_S = 7
_CARD = "application/vnd.microsoft.card.adaptive"
_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")
_ELEMENTS = frozenset(
    ["TextBlock", "RichTextBlock", "FactSet", "Container", "ColumnSet", "Column", "ActionSet"]
)


def make_twin(outbox: Outbox, url: str) -> Twin:
    """Return the webhooks of this machine, each below `url` by the name of its secret."""
    return Twin(LocalTeams(outbox).respond)


class LocalTeams:
    """Webhooks of one tenant.

    Args:
        outbox: The place for messages that were taken.
        deleted: Paths of workflows that were deleted.
        rate: Messages in a second.
        now: Seconds that only grow.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        deleted: frozenset[str] = frozenset(),
        rate: int = RATE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox = outbox
        self._deleted = deleted
        self._rate = Rate(rate, now)
        self.cards: list[dict[str, Any]] = []
        """The cards that were taken."""

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return status, headers and body of the answer to a request. `headers`: names in lower case."""
        if method != "POST":
            return _refusal(405, "MethodNotAllowed")
        if urlsplit(path).path in self._deleted:
            return _refusal(404, "WorkflowNotFound")
        if not self._rate.takes():
            status, kind, document = _refusal(429, "WorkflowRunActionsThrottled")
            return status, {**kind, "retry-after": str(RETRY_AFTER_S)}, document
        if (
            len(json.dumps(body.decode("utf-8", "replace"), ensure_ascii=False).encode())
            > MAX_BYTES
        ):
            return _refusal(413, "RequestEntityTooLarge")
        if headers.get("content-type", "").partition(";")[0] != "application/json":
            return _refusal(400, "TriggerInputSchemaMismatch")
        try:
            card = _card(json.loads(body))
        except (ValueError, KeyError, TypeError, IndexError):
            return _refusal(400, "TriggerInputSchemaMismatch")
        self.cards.append(card)
        links = [action["url"] for action in card.get("actions", [])]
        text = "\n".join(_texts(card["body"]))
        self._outbox.add("teams", urlsplit(path).path, "card", text, links[0] if links else None)
        return 202, {}, b""


def _refusal(status: int, code: str) -> Answer:
    document = json.dumps({"error": {"code": code, "message": code}}).encode()
    return status, {"content-type": "application/json"}, document


def _card(message: dict[str, Any]) -> dict[str, Any]:
    """Return the card of a message. Raises ValueError and the errors of look-ups for another message."""
    [attachment] = message["attachments"]
    card: dict[str, Any] = attachment["content"]
    if message["type"] != "message" or attachment["contentType"] != _CARD:
        raise ValueError("not a message with a card")
    if card["type"] != "AdaptiveCard" or card["version"] not in _VERSIONS or not card["body"]:
        raise ValueError("not a card")
    if not all(element["type"] in _ELEMENTS for element in card["body"]):
        raise ValueError("an element that no card has")
    for action in card.get("actions", []):
        if action["type"] != "Action.OpenUrl" or not action["title"]:
            raise ValueError("an action that a webhook cannot have")
        if urlsplit(action["url"]).scheme not in ("http", "https"):
            raise ValueError("an action that leads nowhere")
    return card


def _texts(elements: list[dict[str, Any]]) -> Iterator[str]:
    for element in elements:
        match element["type"]:
            case "TextBlock":
                yield str(element["text"])
            case "RichTextBlock":
                yield "".join(
                    each if isinstance(each, str) else str(each["text"])
                    for each in element["inlines"]
                )
            case "FactSet":
                yield from (f"{fact['title']}: {fact['value']}" for fact in element["facts"])
