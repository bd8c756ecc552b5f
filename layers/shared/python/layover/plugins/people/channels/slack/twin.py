"""Slack, as one machine has it: the methods of its Web API that Layover asks, with Slack's own rules, and a
person who presses buttons and fills in forms."""

import hmac
import itertools
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode

from layover.clock import SystemClock
from layover.plugins.people.channels.slack import BOT_TOKEN, SIGNING_SECRET, URL
from layover.plugins.people.channels.slack.twin_rules import check_blocks, check_view, is_too_long
from layover.plugins.people.channels.twins import Outbox, Twin

Json = dict[str, Any]
Reply = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""
Send = Callable[[Mapping[str, str], bytes], tuple[int, bytes]]
"""Takes the headers and the body of a request of Slack's; returns status and body."""

LOCAL_TOKEN, LOCAL_SIGNING_SECRET = "xoxb-local", "local-signing-secret"
"""The secrets of the one app in the workspace, which nobody else has."""
PRESS_S = 3.0
"""Seconds in which a press has to be answered, and for which its trigger is good."""
MESSAGE_S = 1.0
"""Seconds between two messages to one channel."""
MAX_PAGE = 999
_TEAM, _APP = "T0LOCAL", "A0LOCAL"
_USERS = ("U", "W")
"""The beginnings of users' ids."""
_LINK = re.compile(r"<(https?://[^|>]+)\|[^>]*>")
"""A link as `mrkdwn` has it."""
_SCOPES = frozenset(
    {
        "chat:write",
        "channels:history",
        "channels:read",
        "im:history",
        "im:write",
    }
)


class PressFailed(Exception):
    """Slack shows the person that a press has failed: the app did not answer well, or not in time."""


@dataclass
class Channel:
    """A channel, or the app's chat with a user, with its messages by `ts`, the oldest first."""

    id: str
    name: str
    is_member: bool = True
    is_archived: bool = False
    messages: dict[str, Json] = field(default_factory=dict)
    last_at: float = float("-inf")


@dataclass
class _Trigger:
    at: float
    user: str
    is_used: bool = False


class FakeSlack:
    """A workspace with one app in it.

    Args:
        outbox: Shows what was sent.
        token: The app's bot token.
        signing_secret: The secret by which requests to the app are signed.
        url: Where this is served; URLs for answers begin with it.
        channels: The names of all channels; None: each exists as soon as something is sent there.
        scopes: What the app may do.
        now: Returns the seconds since 1970.
    """

    def __init__(
        self,
        outbox: Outbox,
        token: str = LOCAL_TOKEN,
        signing_secret: str = LOCAL_SIGNING_SECRET,
        url: str = "https://slack.com",
        channels: Collection[str] | None = None,
        scopes: Collection[str] = _SCOPES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._outbox = outbox
        self._token = token
        self._signing_secret = signing_secret
        self._url = url
        self._makes_channels = channels is None
        self.scopes = frozenset(scopes)
        self._now = now
        self._n = itertools.count(1)
        self.channels: dict[str, Channel] = {}
        self.views: dict[str, Json] = {}
        """Open forms, by id."""
        self.private: list[tuple[str, str]] = []
        """Texts that one person only was shown: (user, text)."""
        self._triggers: dict[str, _Trigger] = {}
        self._replies: dict[str, str] = {}
        """Users, by path of the URL for answers."""
        self.asked: list[str] = []
        """Methods, in the order in which they were asked."""
        self.odd: list[Reply] = []
        """Answers in place of the usual ones, one for each request."""
        for name in channels or ():
            self.add_channel(name)

    def add_channel(self, name: str, *, is_member: bool = True, is_archived: bool = False) -> str:
        """Make a channel, and return its id."""
        id = f"C{next(self._n):08d}"
        self.channels[id] = Channel(id, name.removeprefix("#"), is_member, is_archived)
        return id

    def messages(self, to: str) -> list[Json]:
        """Return the messages of a channel (id or name) or of the app's chat with a user, oldest first."""
        channel = self._channel(to)
        return list(channel.messages.values()) if channel else []

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Answer one request, as Slack does: also a refusal has status 200."""
        if self.odd:
            return self.odd.pop(0)
        if path in self._replies:
            return self._take_reply(self._replies[path], body)
        name = path.rsplit("/", 1)[-1]
        self.asked.append(name)
        answer = {
            "chat.postMessage": self._post_message,
            "chat.update": self._update,
            "conversations.open": self._open_chat,
            "conversations.history": self._history,
            "conversations.list": self._list,
            "views.open": self._open_view,
        }.get(name)
        if answer is None or method != "POST":
            return _refuse("unknown_method")
        lowered = {key.lower(): value for key, value in headers.items()}
        sent = lowered.get("authorization", "")
        if not sent.startswith("Bearer "):
            return _refuse("not_authed")
        if sent != f"Bearer {self._token}":
            return _refuse("invalid_auth")
        return answer(_fields(body))

    def sign(self, body: bytes, at: float | None = None) -> dict[str, str]:
        """Return the headers with which Slack sends a body to the app.

        Args:
            body: The body.
            at: The time of the signature in seconds since 1970; None: now.
        """
        timestamp = str(int(self._now() if at is None else at))
        base = f"v0:{timestamp}:".encode() + body
        digest = hmac.new(self._signing_secret.encode(), base, sha256).hexdigest()
        return {
            "content-type": "application/x-www-form-urlencoded",
            "x-slack-request-timestamp": timestamp,
            "x-slack-signature": f"v0={digest}",
        }

    def press(
        self, send: Send, to: str, action_id: str, user: str, *, ts: str | None = None
    ) -> Json:
        """Press a button of the newest message, and return what was sent. Raises PressFailed.

        Args:
            send: Sends a request to the app.
            to: The channel.
            action_id: The button's.
            user: The id of whoever presses.
            ts: The message; None: the newest one.
        """
        interaction = self.pressing(to, action_id, user, ts=ts)
        self._deliver(send, interaction)
        return interaction

    def pressing(self, to: str, action_id: str, user: str, *, ts: str | None = None) -> Json:
        """Return the interaction of a press. Raises PressFailed if the message has no such button."""
        channel = self._channel(to)
        if channel is None or not channel.messages:
            raise PressFailed("there is no message")
        message = channel.messages[ts or list(channel.messages)[-1]]
        button = next(
            (
                {**element, "block_id": block.get("block_id", "")}
                for block in message["blocks"]
                for element in block.get("elements", ())
                if element.get("action_id") == action_id
            ),
            None,
        )
        if button is None:
            raise PressFailed("the message has no such button")
        action = {**button, "type": "button", "action_ts": f"{self._now():.6f}"}
        reply_path = f"/actions/{_TEAM}/{next(self._n)}/reply"
        self._replies[reply_path] = user
        return {
            "type": "block_actions",
            "user": {"id": user, "username": "somebody", "team_id": _TEAM},
            "api_app_id": _APP,
            "team": {"id": _TEAM, "domain": "local"},
            "container": {
                "type": "message",
                "message_ts": message["ts"],
                "channel_id": channel.id,
            },
            "trigger_id": self._trigger(user),
            "channel": {"id": channel.id, "name": channel.name},
            "message": message,
            "response_url": f"{self._url}{reply_path}",
            "actions": [action],
        }

    def submit(self, send: Send, view_id: str, inputs: Mapping[str, Any], user: str) -> Json:
        """Send an open form, and return the answer; a form that was taken is closed. Raises PressFailed.

        Args:
            send: Sends a request to the app.
            view_id: The form's.
            inputs: What each input has, by block: a text, the text of an option, or a list of such.
            user: The id of whoever sends it.
        """
        answer = self._deliver(send, self.submitting(view_id, inputs, user))
        view = self.views[view_id]
        match answer.get("response_action"):
            case "errors":
                unknown = answer["errors"].keys() - {b.get("block_id") for b in view["blocks"]}
                if unknown or not answer["errors"]:
                    raise PressFailed("errors of blocks that the form does not have")
            case "update":
                if wrong := check_view(answer["view"]):
                    raise PressFailed(f"a view that Slack does not take: {wrong}")
                self.views[view_id] = {**answer["view"], "id": view_id}
            case None | "clear":
                del self.views[view_id]
            case other:
                raise PressFailed(f"an unknown action: {other}")
        return answer

    def submitting(self, view_id: str, inputs: Mapping[str, Any], user: str) -> Json:
        """Return the interaction of a form that is sent."""
        view = self.views[view_id]
        values = {
            block["block_id"]: {
                block["element"]["action_id"]: _state(
                    block["element"], inputs.get(block["block_id"])
                )
            }
            for block in view["blocks"]
            if block["type"] == "input"
        }
        return {
            "type": "view_submission",
            "user": {"id": user, "username": "somebody", "team_id": _TEAM},
            "api_app_id": _APP,
            "team": {"id": _TEAM, "domain": "local"},
            "trigger_id": self._trigger(user),
            "view": {**view, "state": {"values": values}},
            "response_urls": [],
        }

    def _deliver(self, send: Send, interaction: Json) -> Json:
        body = urlencode({"payload": json.dumps(interaction)}).encode()
        began = self._now()
        status, text = send(self.sign(body), body)
        if self._now() - began > PRESS_S:
            raise PressFailed("the app did not answer within three seconds")
        if status != 200:
            raise PressFailed(f"the app answered with status {status}")
        answer = json.loads(text) if text else {}
        return answer if isinstance(answer, dict) else {}

    def _trigger(self, user: str) -> str:
        id = f"{next(self._n)}.trigger"
        self._triggers[id] = _Trigger(self._now(), user)
        return id

    def _channel(self, to: str) -> Channel | None:
        """Return a channel by id or name, or the app's chat with a user."""
        if to in self.channels:
            return self.channels[to]
        name = to.removeprefix("#")
        return next((c for c in self.channels.values() if c.name == name), None)

    def _target(self, fields: Json, *, by_id: bool = False) -> Channel | str:
        """Return the channel that a request names, or the error."""
        to = str(fields.get("channel", ""))
        channel = self.channels.get(to) if by_id else self._channel(to)
        if channel is None and to.startswith("#") and self._makes_channels and not by_id:
            channel = self.channels[self.add_channel(to)]
        if channel is None:
            return "channel_not_found"
        if channel.is_archived:
            return "is_archived"
        return channel if channel.is_member else "not_in_channel"

    def _post_message(self, fields: Json) -> Reply:
        if lacking := self._lacks("chat:write"):
            return lacking
        to = str(fields.get("channel", ""))
        # Slack takes a user for the app's chat with them, which it opens if need be.
        channel = self._chat(to) if to.startswith(_USERS) else self._target(fields)
        if isinstance(channel, str):
            return _refuse(channel)
        if wrong := _wrong_message(fields):
            return wrong
        if self._now() - channel.last_at < MESSAGE_S:
            return _json(429, {"ok": False, "error": "ratelimited"}, {"retry-after": "1"})
        channel.last_at = self._now()
        ts = f"{int(self._now())}.{next(self._n):06d}"
        names = ("text", "blocks", "metadata")
        message = {name: fields[name] for name in names if name in fields}
        channel.messages[ts] = {"type": "message", "ts": ts, **message}
        self._show(channel, "message", fields)
        sent = {**message, "team": _TEAM, "app_id": _APP}
        return _json(200, {"ok": True, "channel": channel.id, "ts": ts, "message": sent})

    def _update(self, fields: Json) -> Reply:
        if lacking := self._lacks("chat:write"):
            return lacking
        channel = self._target(fields, by_id=True)
        if isinstance(channel, str):
            return _refuse(channel)
        message = channel.messages.get(str(fields.get("ts")))
        if message is None:
            return _refuse("message_not_found")
        if wrong := _wrong_message(fields):
            return wrong
        message.update({name: fields[name] for name in ("text", "blocks") if name in fields})
        self._show(channel, "update", fields)
        return _json(200, {"ok": True, "channel": channel.id, "ts": fields["ts"]})

    def _open_chat(self, fields: Json) -> Reply:
        if lacking := self._lacks("im:write"):
            return lacking
        user = str(fields.get("users", ""))
        if not user.startswith(_USERS):
            return _refuse("user_not_found")
        return _json(200, {"ok": True, "channel": {"id": self._chat(user).id}})

    def _chat(self, user: str) -> Channel:
        """Return the app's chat with a user, who may have none yet."""
        id = f"D{user[1:]}"
        return self.channels.setdefault(id, Channel(id, user))

    def _history(self, fields: Json) -> Reply:
        is_chat = str(fields.get("channel", "")).startswith("D")
        if lacking := self._lacks("im:history" if is_chat else "channels:history"):
            return lacking
        channel = self._target(fields, by_id=True)
        if isinstance(channel, str):
            return _refuse(channel)
        oldest, limit = float(fields.get("oldest", 0)), int(fields.get("limit", 100))
        start = int(fields.get("cursor") or 0)
        newest = [m for m in reversed(channel.messages.values()) if float(m["ts"]) > oldest]
        page = newest[start : start + min(limit, MAX_PAGE)]
        if not fields.get("include_all_metadata"):
            page = [{k: v for k, v in m.items() if k != "metadata"} for m in page]
        more = start + len(page) < len(newest)
        cursor = str(start + len(page)) if more else ""
        history = {"messages": page, "has_more": more, "response_metadata": {"next_cursor": cursor}}
        return _json(200, {"ok": True, **history})

    def _list(self, fields: Json) -> Reply:
        if lacking := self._lacks("channels:read"):
            return lacking
        listed = [
            {"id": c.id, "name": c.name, "is_archived": c.is_archived}
            for c in self.channels.values()
            if c.id.startswith("C")
        ]
        metadata = {"next_cursor": ""}
        return _json(200, {"ok": True, "channels": listed, "response_metadata": metadata})

    def _open_view(self, fields: Json) -> Reply:
        trigger = self._triggers.get(str(fields.get("trigger_id")))
        if trigger is None:
            return _refuse("invalid_trigger_id")
        if trigger.is_used:
            return _refuse("exchanged_trigger_id")
        if self._now() - trigger.at > PRESS_S:
            return _refuse("expired_trigger_id")
        if wrong := check_view(fields.get("view")):
            return _refuse("invalid_arguments", response_metadata={"messages": wrong})
        trigger.is_used = True
        id = f"V{next(self._n):08d}"
        self.views[id] = {**fields["view"], "id": id}
        return _json(200, {"ok": True, "view": {"id": id}})

    def _take_reply(self, user: str, body: bytes) -> Reply:
        message = json.loads(body)
        if message.get("response_type") != "ephemeral" or message.get("replace_original"):
            return 400, {}, b"only answers to one person are understood here"
        self.private.append((user, str(message.get("text", ""))))
        return 200, {}, b"ok"

    def _lacks(self, scope: str) -> Reply | None:
        return None if scope in self.scopes else _refuse("missing_scope", needed=scope)

    def _show(self, channel: Channel, kind: str, fields: Json) -> None:
        to = f"#{channel.name}" if channel.id.startswith("C") else channel.name
        urls = list(_urls(fields.get("blocks", ())))
        self._outbox.add("slack", to, kind, str(fields.get("text", "")), next(iter(urls), None))


def make_twin(outbox: Outbox, url: str) -> Twin:
    """Return the workspace of this machine. `url`: where it is asked."""
    # Messages are looked up by the time of their request, which the machine's clock tells.
    now = SystemClock().now
    slack = FakeSlack(outbox, url=url, now=lambda: now().timestamp())
    secrets = {BOT_TOKEN: LOCAL_TOKEN, SIGNING_SECRET: LOCAL_SIGNING_SECRET}
    return Twin(slack.respond, {**secrets, URL: f"{url}/api"})


def _urls(blocks: Iterable[Json]) -> Iterator[str]:
    """Yield the URLs of a message's buttons and links."""
    for block in blocks:
        for element in block.get("elements", ()):
            if "url" in element:
                yield element["url"]
            elif element.get("type") == "mrkdwn":
                yield from (unescape(url) for url in _LINK.findall(element["text"]))


def _wrong_message(fields: Json) -> Reply | None:
    wrong = check_blocks(fields.get("blocks"))
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict) or (
        metadata and not isinstance(metadata.get("event_payload"), dict)
    ):
        return _refuse("invalid_metadata_format")
    if not fields.get("text") or len(fields["text"]) > 40_000:
        return _refuse("no_text" if not fields.get("text") else "msg_too_long")
    if wrong:
        return _refuse("invalid_blocks", errors=wrong)
    return _refuse("msg_blocks_too_long") if is_too_long(fields["blocks"]) else None


def _state(element: Json, value: Any) -> Json:
    """Return an input's state as Slack sends it."""
    kind = element["type"]
    if kind in ("static_select", "multi_static_select"):
        options = {option["text"]["text"]: option for option in element["options"]}
        if kind == "static_select":
            return {"type": kind, "selected_option": options[value] if value else None}
        return {"type": kind, "selected_options": [options[each] for each in value or ()]}
    return {"type": kind, "value": None if value is None else str(value)}


def _fields(body: bytes) -> Json:
    """Return a form's fields; values that are JSON are read, as Slack reads them."""
    fields: Json = {}
    for name, text in parse_qsl(body.decode(), keep_blank_values=True):
        is_json = name in ("blocks", "metadata", "view", "include_all_metadata")
        fields[name] = json.loads(text) if is_json else text
    return fields


def _refuse(code: str, **more: Any) -> Reply:
    return _json(200, {"ok": False, "error": code, **more})


def _json(status: int, value: Json, headers: Mapping[str, str] | None = None) -> Reply:
    kind = {"content-type": "application/json; charset=utf-8"}
    return status, {**kind, **(headers or {})}, json.dumps(value).encode()
