"""Slack (`ports.channels.Sender`, `Replies`): messages with buttons, and answers to one person.

Slack answers 200 and says in the body whether it did what it was asked for. Neither a token nor a text of a
message is logged or is part of an error."""

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from layover.adapters.http.client import Client, MakeClient, Response
from layover.adapters.http.direct import DirectClient
from layover.adapters.http.request import InvalidURL, join_url
from layover.declare.secret import Secret
from layover.errors import RetryableError
from layover.plugins.people.channels.slack.block_kit import (
    APPROVE,
    DENY,
    FORMS,
    MAX_BUTTON_VALUE,
    MAX_HEADER,
    MAX_TEXT,
    MAX_URL,
    OPEN_CONSOLE,
    CallRef,
    Json,
    escape,
    plain,
    sections,
)
from layover.plugins.people.channels.slack.shown import show_facts
from layover.plugins.people.words import denial_word, headline, outcome
from layover.ports.channels import ChannelBusy, ChannelRefused
from layover.values.channels import Address, Channels, Notice, NoticeKind, NoticeLinks
from layover.values.runs.run import SuspensionKind

EVENT_TYPE = "layover_delivery"
"""The type of the metadata by which a message is found again."""
TIMEOUT_S = 10.0
REPLY_TIMEOUT_S = 2.0
"""Seconds for an answer to a press, of the three that Slack gives the whole of it."""
MAX_ANSWER = 4 * 1024 * 1024
MAX_PAGES = 10
"""Pages of a channel's messages, or of a workspace's channels, that are looked through."""
_MESSAGES_A_PAGE = 100
_CHANNELS_A_PAGE = 1_000
_MAX_WAIT_S = 3_600
_SKEW = timedelta(minutes=5)
_USER = re.compile(r"[UW][A-Z0-9]+")
_CHANNEL = re.compile(r"[CGD][A-Z0-9]+")
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SCOPES = re.compile(r"[a-z:._, ]{1,200}")

_PASSING = frozenset(
    {
        "fatal_error",
        "internal_error",
        "request_timeout",
        "service_unavailable",
        "team_added_to_org",
        "accesslimited",
    }
)
_BUSY = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_BAD_TOKEN = frozenset(
    {"invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"}
)
_UNCHANGEABLE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
"""A message that was removed, or that nobody may change any more."""
_STALE_TRIGGER = frozenset({"expired_trigger_id", "exchanged_trigger_id", "invalid_trigger_id"})
_NEW_TOKEN = "install the app again and put its bot token (xoxb-...) into SLACK_BOT_TOKEN"
_INVITE = "invite the app to the channel (/invite), or correct the channel in LAYOVER_CHANNELS"
_MESSAGE = "report it to Layover: it has made a message that Slack does not take"
_ADVICE = {
    **dict.fromkeys(_BAD_TOKEN, _NEW_TOKEN),
    "not_allowed_token_type": _NEW_TOKEN,
    "channel_not_found": _INVITE,
    "not_in_channel": f"{_INVITE}, or give the app the scope chat:write.public",
    "is_archived": "name another channel in LAYOVER_CHANNELS: this one is archived",
    "user_not_found": "correct the user's id in LAYOVER_CHANNELS",
    "users_not_found": "correct the user's id in LAYOVER_CHANNELS",
    "user_disabled": "name another user in LAYOVER_CHANNELS: this one is deactivated",
    "cannot_dm_bot": "name a person in LAYOVER_CHANNELS: this user is an app",
    "messages_tab_disabled": "allow messages in the app's settings (App Home, Messages Tab)",
    "restricted_action": "let the app post there: the workspace's settings do not",
    "no_permission": "let the app post there: the workspace's settings do not",
    "invalid_blocks": _MESSAGE,
    "invalid_blocks_format": _MESSAGE,
    "invalid_arguments": _MESSAGE,
    "msg_too_long": _MESSAGE,
    "msg_blocks_too_long": _MESSAGE,
    "metadata_too_large": _MESSAGE,
}

logger = logging.getLogger("layover")


class SlackRefused(ChannelRefused):
    """Slack has refused a request. `code`: Slack's own word for the reason."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class SlackSender:
    """`Sender` and `Replies` over Slack's Web API, with the bot token of an app.

    Args:
        token: The secret with the bot token. It is read anew once if Slack does not take it.
        base_url: The API's URL.
        http: Makes the HTTP client.
        channels: The configuration, by which messages name people.
    """

    def __init__(
        self,
        token: Secret,
        base_url: str,
        http: MakeClient = DirectClient,
        channels: Channels | None = None,
    ) -> None:
        self._token = token
        self._base_url = base_url
        self._make_client = http
        self._client: Client | None = None
        self._channels = channels

    async def send(
        self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
    ) -> str:
        """See `ports.channels.Sender`. The reference is `CHANNEL_ID:TS`."""
        to = await self._open_chat(address.to) if _USER.fullmatch(address.to) else address.to
        if unsure and (reference := await self._find(to, notice, once)):
            return reference
        message = {
            **self._message(notice, links),
            "channel": to,
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"id": once}},
            "unfurl_links": False,
            "unfurl_media": False,
            "parse": "none",
            "link_names": False,
        }
        answer = await self._ask("chat.postMessage", message)
        if notice.kind is NoticeKind.TEST:
            self._check_installation(answer.get("message"))
        return f"{answer.get('channel', to)}:{answer.get('ts', '')}"

    async def update(
        self, address: Address, reference: str, notice: Notice, links: NoticeLinks
    ) -> bool:
        """See `ports.channels.Sender`. False: the message is not there any more, or nobody may change it."""
        channel, _, ts = reference.partition(":")
        if not ts:
            return False
        message = {**self._message(notice, links), "channel": channel, "ts": ts}
        try:
            await self._ask("chat.update", {**message, "parse": "none", "link_names": False})
        except SlackRefused as error:
            if error.code in _UNCHANGEABLE:
                return False
            raise
        return True

    async def tell(self, reply_url: str, text: str) -> None:
        """See `ports.channels.Replies`."""
        if not self._is_slack(reply_url):
            raise ChannelRefused("the press came with a URL for answers that is not Slack's")
        message = {
            "response_type": "ephemeral",
            "replace_original": False,
            "text": escape(text),
        }
        headers = {"content-type": "application/json; charset=utf-8"}
        status, _, retry_after = await self._post(
            reply_url, headers, json.dumps(message).encode(), REPLY_TIMEOUT_S
        )
        if status == 429:
            raise ChannelBusy("Slack wants to be left in peace", retry_after)
        if status >= 500:
            raise RetryableError(f"Slack answered with status {status}")
        if status != 200:
            raise ChannelRefused(f"Slack refused an answer to a press with status {status}")

    async def open_form(self, trigger: str, form: Mapping[str, Any]) -> None:
        """See `ports.channels.Replies`."""
        fields = {"trigger_id": trigger, "view": dict(form)}
        await self._ask("views.open", fields, timeout_s=REPLY_TIMEOUT_S)

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        if self._client is not None:
            await self._client.aclose()

    def _check_installation(self, message: object) -> None:
        """Raise ChannelRefused if another installation has sent a message than the one whose presses count,
        as far as Slack says which."""
        place = self._channels.slack_team if self._channels else None
        if place is None or not isinstance(message, dict):
            return
        team, app = message.get("team"), message.get("app_id")
        if (team or place.team, app or place.app) != (place.team, place.app):
            raise ChannelRefused(
                f"it was sent by the app {app} in the workspace {team}, and slack_team names {place.app} in "
                f"{place.team}: presses would be refused. Correct slack_team, or SLACK_BOT_TOKEN"
            )

    def _message(self, notice: Notice, links: NoticeLinks) -> Json:
        blocks = message_blocks(notice, links, self._channels)
        # What a notification shows, and a reader of screens reads.
        lines = [headline(notice, self._channels), outcome(notice, self._channels)]
        return {"text": escape("\n".join(filter(None, lines))), "blocks": blocks}

    async def _open_chat(self, user: str) -> str:
        """Return the id of the app's chat with a user: messages are looked up and changed by it."""
        answer = await self._ask("conversations.open", {"users": user})
        channel = answer.get("channel")
        return str(channel.get("id", user)) if isinstance(channel, dict) else user

    async def _find(self, to: str, notice: Notice, once: str) -> str | None:
        """Return the reference of a message that an earlier sender may have sent. None: there is none, or
        the app may not look. Then it is sent again, because a second message is better than none."""
        try:
            channel = to if _CHANNEL.fullmatch(to) else await self._channel_id(to)
            return await self._message_of(channel, notice, once) if channel else None
        except SlackRefused as error:
            logger.warning(
                "Slack was not asked for a message that may have been sent: it is sent again",
                extra={"slack_error": error.code, "run_id": notice.call.run_id},
            )
            return None

    async def _message_of(self, channel: str, notice: Notice, once: str) -> str | None:
        fields: Json = {
            "channel": channel,
            "oldest": f"{(notice.call.requested_at - _SKEW).timestamp():.6f}",
            "include_all_metadata": True,
            "limit": _MESSAGES_A_PAGE,
        }
        async for page in self._pages("conversations.history", fields):
            for message in _objects(page.get("messages")):
                metadata = message.get("metadata")
                if not isinstance(metadata, dict) or metadata.get("event_type") != EVENT_TYPE:
                    continue
                if metadata.get("event_payload") == {"id": once}:
                    return f"{channel}:{message.get('ts', '')}"
        return None

    async def _channel_id(self, name: str) -> str | None:
        fields = {
            "types": "public_channel,private_channel",
            "exclude_archived": True,
            "limit": _CHANNELS_A_PAGE,
        }
        async for page in self._pages("conversations.list", fields):
            for channel in _objects(page.get("channels")):
                if channel.get("name") == name.removeprefix("#"):
                    return str(channel.get("id"))
        return None

    async def _pages(self, method: str, fields: Json) -> Any:
        cursor = ""
        for _ in range(MAX_PAGES):
            page = await self._ask(method, {**fields, "cursor": cursor} if cursor else fields)
            yield page
            cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return

    async def _ask(self, method: str, fields: Json, timeout_s: float = TIMEOUT_S) -> Json:
        """Return Slack's answer. Every method takes a form; values that are not texts are JSON in it."""
        token = await self._token.aget()
        try:
            return await self._ask_as(token, method, fields, timeout_s)
        except SlackRefused as error:
            if error.code not in _BAD_TOKEN:
                raise
            # It may have been replaced within the minutes for which a secret is remembered.
            if (fresh := await self._token.aget(fresh=True)) == token:
                raise
            return await self._ask_as(fresh, method, fields, timeout_s)

    async def _ask_as(self, token: str, method: str, fields: Json, timeout_s: float) -> Json:
        form = {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in fields.items()
        }
        headers = {
            "authorization": f"Bearer {token.strip()}",
            "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        }
        body = urlencode(form, errors="replace").encode()
        url = f"{self._base_url}/{method}"
        status, text, retry_after = await self._post(url, headers, body, timeout_s)
        if status == 429:
            raise ChannelBusy(f"Slack takes no {method} now", retry_after)
        if status >= 500:
            raise RetryableError(f"Slack answered {method} with status {status}")
        answer = _fields(text)
        if answer.get("ok") is True:
            return answer
        raise _refusal(method, status, answer, retry_after)

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> tuple[int, bytes, timedelta]:
        """Return the status, the body, and how long Slack asks to wait."""
        if self._client is None:
            self._client = self._make_client()
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._client.post(join_url(url, ""), headers, body, timeout_s)
                try:
                    text = await _read(response)
                finally:
                    await response.aclose()
        except InvalidURL:
            raise
        except OSError as error:  # also a timeout
            raise RetryableError(f"Slack did not answer: {type(error).__name__}") from error
        return response.status, text, _pause(response.headers.get("retry-after", ""))

    def _is_slack(self, url: str) -> bool:
        try:
            parts, own = urlsplit(url), urlsplit(self._base_url)
        except ValueError:
            return False
        hosts = (own.netloc, f"hooks.{own.netloc}")
        return parts.scheme == own.scheme and parts.netloc in hosts


def message_blocks(
    notice: Notice, links: NoticeLinks, channels: Channels | None = None
) -> list[Json]:
    """Return the blocks of a message: why it is there, what a person decides by, what was decided, and, as
    long as the call waits, the buttons. Where not all that a person decides by is shown, none decides."""
    title = headline(notice, channels)
    blocks: list[Json] = [{"type": "header", "text": plain(title, MAX_HEADER)}]
    if len(escape(title)) > MAX_HEADER:
        blocks += sections(title)
    verdict: list[Json] = []
    if result := outcome(notice, channels):
        verdict = [{"type": "divider"}, {"type": "section", "text": plain(result)}]
    table = show_facts(notice, channels, [*blocks, *verdict])
    blocks += [*table.blocks, *verdict]
    waits = notice.decision is None and not notice.kind.is_closed
    elements = [*(_decisions(notice) if waits and table.is_whole else ()), *_console(links)]
    if elements and waits:
        blocks.append({"type": "actions", "elements": elements})
    elif elements:
        blocks.append({"type": "context", "elements": [_link(links)]})
    return blocks


def _decisions(notice: Notice) -> list[Json]:
    call, rule = notice.call, notice.rule or notice.call.approval
    value = CallRef(call.run_id, call.tool_call_id, call.attempt).encode()
    if len(value) > MAX_BUTTON_VALUE:
        return []
    approve_form, deny_form, answer_form = FORMS
    needs_reason = rule is not None and rule.reason_required
    no = denial_word(call.kind)
    deny = (
        _button(deny_form, f"{no} with a reason", value, "danger")
        if needs_reason
        else _button(DENY, no, value, "danger")
    )
    if call.kind is SuspensionKind.INPUT:
        return [_button(answer_form, "Answer", value, "primary"), deny]
    if call.kind is SuspensionKind.CONNECT:
        # Only the account's owner can connect it, and only at the service.
        return [deny]
    if needs_reason:
        return [_button(approve_form, "Approve with a reason", value, "primary"), deny]
    return [_button(APPROVE, "Approve", value, "primary"), deny]


def _button(action: str, text: str, value: str, style: str) -> Json:
    return {
        "type": "button",
        "action_id": action,
        "text": plain(text),
        "value": value,
        "style": style,
    }


def _console(links: NoticeLinks) -> list[Json]:
    if not _is_url(links.console):
        return []
    text = plain("Open in the console")
    return [{"type": "button", "action_id": OPEN_CONSOLE, "text": text, "url": links.console}]


def _link(links: NoticeLinks) -> Json:
    url = escape(links.console).replace("|", "%7C")
    return {"type": "mrkdwn", "text": f"<{url}|Open in the console>", "verbatim": True}


def _is_url(text: str) -> bool:
    is_web = text.startswith(("https://", "http://"))
    return is_web and len(escape(text, MAX_TEXT + 1)) < min(MAX_URL, MAX_TEXT) - 30


def _refusal(method: str, status: int, answer: Json, retry_after: timedelta) -> Exception:
    code = answer.get("error")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        code = f"status_{status}" if status != 200 else "invalid_response"
    if code in _BUSY:
        return ChannelBusy(f"Slack takes no {method} now: {code}", retry_after)
    if code in _PASSING:
        return RetryableError(f"Slack answered {method} with {code}")
    advice = _ADVICE.get(code, "look the word up in Slack's documentation of the method")
    if code == "missing_scope":
        scopes = answer.get("needed")
        is_list = isinstance(scopes, str) and _SCOPES.fullmatch(scopes)
        advice = f"give the app the scope {scopes if is_list else 'it lacks'} and install it again"
    if code in _STALE_TRIGGER:
        return SlackRefused(f"Slack refused {method}: {code}. The person has to press again", code)
    return SlackRefused(f"Slack refused {method}: {code}. The deployer has to {advice}", code)


async def _read(response: Response) -> bytes:
    body = b""
    async for piece in response.pieces():
        body += piece
        if len(body) > MAX_ANSWER:
            raise RetryableError("Slack's answer is too large")
    return body


def _fields(body: bytes) -> Json:
    try:
        fields = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _objects(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _pause(header: str) -> timedelta:
    """Return the time of `Retry-After`; a second if it says none."""
    is_number = header.strip().isascii() and header.strip().isdigit()
    seconds = min(int(header), _MAX_WAIT_S) if is_number and len(header) < 10 else 1
    return timedelta(seconds=max(1, seconds))
