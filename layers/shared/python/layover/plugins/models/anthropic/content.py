"""Messages as turns of the Messages API: users and the assistant in alternation, each turn a list of
blocks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from layover.plugins.models import opaque, wire
from layover.plugins.models.call_ids import CallIds
from layover.plugins.models.turns import DATA_URL, IS_A_FILE, Turns
from layover.values.message import FilePart, Message, Part, ProviderState, Role, TextPart
from layover.values.prompt import Prompt

Body = dict[str, Any]

CONTENT = "content"
"""The field of a message's state with the blocks of an answer in their order. Of its texts and calls, which
the thread holds, it has the place, and of a text the length."""
LENGTH = "length"
TEXT, CALL = "text", "tool_use"
THOUGHTS = ("thinking", "redacted_thinking")
CACHE = {"cache_control": {"type": "ephemeral"}}
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
"""Calls of tools that Anthropic runs. Each goes back with its result, or not at all."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF = "application/pdf"


def turns(prompt: Prompt, model: str, provider: str, left_out: frozenset[str]) -> list[Body]:
    """Return the turns of a prompt, with marks for the cache if it wants some. `provider`: the host that is
    called, which gets its own blocks back."""
    sendable = [m for m in prompt.messages if m.role is not Role.CUSTOM]
    writer = _Turns(left_out, CallIds(provider, model))
    marks = caches(prompt, left_out)
    is_history = True
    for at, message in enumerate(sendable):
        if marks and is_history and prompt.run_id and message.run_id == prompt.run_id:
            # The next run begins with the history, without the steps of this one.
            writer.mark()
            is_history = False
        writer.add(sendable, at, opaque.state_of(message, provider, model))
    result = writer.whole()
    if marks:
        writer.mark()
    return result


def caches(prompt: Prompt, left_out: frozenset[str]) -> bool:
    """Return whether the request has marks for the cache."""
    return (
        prompt.cache_key is not None
        and prompt.settings.cache == "auto"
        and wire.CACHE not in left_out
    )


class _Turns(Turns):
    """Turns of the Messages API in the making."""

    def __init__(self, left_out: frozenset[str], ids: CallIds) -> None:
        super().__init__(ids)
        self._left_out = left_out

    def mark(self) -> None:
        """Mark the end of a part that later requests begin with as well. A thought takes no mark."""
        for turn in reversed(self._turns):
            for block in reversed(turn["content"]):
                if block["type"] not in THOUGHTS:
                    block.update(CACHE)
                    return

    def _text(self, text: str) -> Body:
        return {"type": TEXT, "text": text}

    def _user(self, content: Sequence[Part]) -> Iterator[Body]:
        blocks = [block for part in content for block in _part(part)]
        yield from blocks
        if blocks and all(block["type"] == "document" for block in blocks):
            yield self._text(IS_A_FILE)

    def _assistant(
        self, message: Message, ids: Mapping[str, str], state: ProviderState | None
    ) -> list[Body]:
        calls = {
            call.tool_call_id: {
                "type": CALL,
                "id": ids[call.tool_call_id],
                "name": wire.safe_name(call.tool_name),
                "input": wire.arguments(call.args),
            }
            for call in message.tool_calls
            if call.tool_call_id in ids
        }
        in_order = [calls.get(call.tool_call_id) for call in message.tool_calls]
        layout = [] if state is None else state.fields.get(CONTENT, [])
        return _as_it_came(message.text, in_order, layout, self._left_out)

    def _takes_files(self, answer: wire.CallResult) -> bool:
        # The API refuses an error with anything but text.
        return not answer.is_error

    def _result(self, wire_id: str, answer: wire.CallResult) -> Body:
        content: str | list[Body] = answer.text
        if answer.parts and self._takes_files(answer):
            content = [block for part in answer.parts for block in _part(part)]
        result: Body = {"type": "tool_result", "tool_use_id": wire_id, "content": content}
        if answer.is_error:
            result["is_error"] = True
        return result


def _as_it_came(
    text: str, calls: Sequence[Body | None], layout: Sequence[Body], left_out: frozenset[str]
) -> list[Body]:
    """Return the blocks of an answer in the order in which they came. `calls`: None for one that was not
    answered. What the layout does not know of, because a hook changed it, stands behind the rest."""
    lengths = [int(entry[LENGTH]) for entry in layout if entry["type"] == TEXT]
    texts = iter(opaque.split_text(text, lengths) or [text])
    rest_of_calls = iter(calls)
    blocks: list[Body] = []
    for entry in _paired(layout):
        if entry["type"] == TEXT:
            blocks += _text_blocks(next(texts, ""))
        elif entry["type"] == CALL:
            blocks += [call for call in [next(rest_of_calls, None)] if call is not None]
        elif entry["type"] not in left_out:
            blocks.append(dict(entry))
    for piece in texts:
        blocks += _text_blocks(piece)
    blocks += [call for call in rest_of_calls if call is not None]
    says_something = any(block["type"] not in THOUGHTS for block in blocks)
    return blocks if says_something else []


def _paired(layout: Sequence[Body]) -> list[Body]:
    """Return the layout without calls of Anthropic's tools that have no result, and results without a call:
    an answer that was cut short may end between the two."""
    called = {entry.get("id") for entry in layout if entry["type"] in SERVER_CALLS}
    answered = {entry.get("tool_use_id") for entry in layout if "tool_use_id" in entry}
    return [
        entry
        for entry in layout
        if not (entry["type"] in SERVER_CALLS and entry.get("id") not in answered)
        and not ("tool_use_id" in entry and entry["tool_use_id"] not in called)
    ]


def _text_blocks(text: str) -> list[Body]:
    """Return a block of text; none for blanks, which the API refuses."""
    return [{"type": TEXT, "text": text}] if text.strip() else []


def _part(part: object) -> list[Body]:
    if isinstance(part, TextPart):
        return _text_blocks(part.text)
    return [_file(part)] if isinstance(part, FilePart) else []


def _file(part: FilePart) -> Body:
    url, told_kind = part.url or "", (part.mime_type or "").lower()
    match = DATA_URL.fullmatch(url)
    kind = match[1].lower() if match else told_kind
    source: Body | None = None
    if match:
        source = {"type": "base64", "media_type": kind, "data": match[2]}
    elif url.startswith("https://"):
        source = {"type": "url", "url": url}
    if source is not None and (kind in _IMAGES if match else wire.is_image(url, told_kind)):
        return {"type": "image", "source": source}
    if source is not None and kind == _PDF:
        title = {"title": part.name} if part.name else {}
        return {"type": "document", "source": source, **title}
    return {"type": TEXT, "text": wire.named_only(part)}
