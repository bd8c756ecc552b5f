"""Adaptive Cards about calls, for Teams. Every text in them comes from `words`, and stands where a card has
no Markdown, so that none becomes a link."""

import json
import re
from typing import Any

from layover.plugins.people.words import MISSING, cut, headline, rest
from layover.values.channels import Channels, Notice, NoticeLinks

MAX_BYTES = 28 * 1024
"""Bytes of a message that Teams takes, as it keeps it: the card is a text in it, with a backslash before each
quotation mark. A workflow has said 202 by the time Teams refuses one."""
_LENGTHS = (1_200, 300, 120, 40)
"""Characters to which each line is cut until the message fits."""
_CARD = "application/vnd.microsoft.card.adaptive"


def write_card(notice: Notice, links: NoticeLinks, channels: Channels) -> bytes:
    """Return the message of a webhook, as JSON. A channel has many readers, so it leads to the console, where
    each signs in.

    Args:
        notice: The call, as it is now.
        links: The pages; `links.decide` is one person's and is not used.
        channels: The configuration, which names people.
    """
    head = headline(notice, channels)
    lines, facts = rest(notice, channels)
    # A fact with several lines has a pair for each.
    pairs = [
        (name if n == 0 else "", line)
        for name, value in facts
        for n, line in enumerate(value.splitlines())
    ]
    label = "Open the console" if notice.kind.is_closed else "Decide in the console"
    for limit in _LENGTHS:
        body = [
            _heading(head),
            *(_line([_run(cut(line, limit))]) for line in lines),
            *(_fact(*pair, limit) for pair in pairs),
        ]
        if any(len(text) > limit for text in (*lines, *(value for _, value in pairs))):
            body.append(_line([_run(MISSING)]))
        message = _message(head, body, label, links.console)
        if _size_in_teams(message) <= MAX_BYTES:
            return message
    return _message(head, [_heading(head), _line([_run(MISSING)])], label, links.console)


def _size_in_teams(message: bytes) -> int:
    return len(json.dumps(message.decode(), ensure_ascii=False).encode())


def _heading(text: str) -> dict[str, Any]:
    return _line([_run(text, size="medium", weight="bolder")])


def _fact(label: str, value: str, limit: int) -> dict[str, Any]:
    name = [_run(f"{label}: ", weight="bolder")] if label else []
    return _line([*name, _run(cut(value, limit))], spacing="small")


def _line(inlines: list[dict[str, Any]], **style: str) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": inlines, **style}


def _run(text: str, **style: str) -> dict[str, Any]:
    return {"type": "TextRun", "text": _inert(text), **style}


def _inert(text: str) -> str:
    """Return a text in which a card replaces nothing, as it does {{DATE(...)}} and {{TIME(...)}}."""
    return re.sub(r"\{(?=\{)", "{ ", text)


def _message(head: str, body: list[dict[str, Any]], label: str, console: str) -> bytes:
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": _inert(head),
        "body": body,
        "actions": [{"type": "Action.OpenUrl", "title": label, "url": console}],
        "msteams": {"width": "Full"},
    }
    message = {"type": "message", "attachments": [{"contentType": _CARD, "content": card}]}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
