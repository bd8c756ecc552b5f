"""Answers that are too large for a function: they lose parts of long texts, and the oldest parts."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel
from pydantic_core import to_json

from layover.values.message import Message, ToolResultPart

MAX_ANSWER = 5_500_000
"""Bytes of a body inside the function's answer that fit plain and compressed: incompressible data grows by a
tenth in base64."""
_MAX_BODY = 6 * 1024 * 1024 - 16 * 1024
"""Bytes of a body as sent: Lambda's 6 MB, minus status and headers."""
_SURELY_FITS = MAX_ANSWER // 6
"""Characters: in the answer a character takes six bytes at most."""
_PIECE = 1_000_000
"""Characters that are compressed in one piece."""
_OPEN = frozenset({"result", "args", "payload", "resume_schema", "args_schema", "data", "output"})
"""Fields that hold whatever JSON a tool, a model or a caller made."""
_FIELD_LIMITS = (200_000, 20_000, 2_000)
"""Characters that such a field may have, tried in turn. The first is the longest result that a model sees."""
_MAX_TEXT = 20_000
_EXCERPT = 2_000
"""Characters of the head and of the tail, as a model sees them for a long result
(docs/behaviour.md#long-results)."""

_Wholes = Mapping[str, tuple[int, str]]
"""Results that are kept whole, by call: their length, and their path."""


def limit_response(value: BaseModel, takes_gzip: bool) -> tuple[str, bool]:
    """Return the JSON of the value, bounded if it would not fit, and whether to compress it."""
    text = value.model_dump_json()
    if not is_large(text):
        return text, False
    size = answer_size(text)
    if size <= MAX_ANSWER or (takes_gzip and _fits_compressed(text)):
        return text, True
    if size <= _MAX_BODY:
        return text, False
    return _bounded(json.loads(text), dict(_wholes(value))), True


def fits(value: BaseModel) -> bool:
    """Return whether the JSON fits uncompressed, whatever the client reads."""
    text = value.model_dump_json()
    return not is_large(text) or answer_size(text) <= MAX_ANSWER


def is_large(text: str) -> bool:
    """Return whether the text is worth compressing. One that is not always fits."""
    return len(text) > _SURELY_FITS


def answer_size(text: str) -> int:
    """Return the bytes of the text in the function's answer, which holds it as a JSON string."""
    return len(json.dumps(text))


def _fits_compressed(text: str) -> bool:
    # As the framework does before it sends the body: compressed, in base64.
    gzip = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    size = 0
    for at in range(0, len(text), _PIECE):
        size += len(gzip.compress(text[at : at + _PIECE].encode()))
        if size * 4 // 3 > _MAX_BODY:
            return False
    return (size + len(gzip.flush())) * 4 // 3 <= _MAX_BODY


def _bounded(data: dict[str, Any], wholes: _Wholes) -> str:
    """Cut the answer step by step until it fits: long fields go first, then the messages of sub-agents, then
    the oldest of the run's own, then long texts. A page that has only an item that does not fit comes with
    that item."""
    items = data.get("items")
    whole: dict[str, Any] = {**(items[0] if items else data), "truncated": True}
    for longest in _FIELD_LIMITS:
        one = _truncate_fields(whole, longest, wholes)
        if answer_size(text := _dumped(data, one)) <= MAX_ANSWER:
            return text
    if _size(data, one) > MAX_ANSWER and one.get("children"):
        # The run's events have them, too, and the run's own messages matter more to its caller.
        one["children"] = [_without_messages(child) for child in one["children"]]
    for field in ("messages", "unexecuted"):
        if one.get(field):
            one[field] = _newest(one[field], MAX_ANSWER - _size(data, {**one, field: []}))
    if _size(data, one) > MAX_ANSWER:
        one = _shortened(one)
    return _dumped(data, one)


def _without_messages(child: dict[str, Any]) -> dict[str, Any]:
    """Return a sub-agent's run without its messages, and without those of the runs below it."""
    below = [_without_messages(each) for each in child["children"]]
    return {**child, "messages": [], "children": below, "truncated": True}


def _dumped(data: dict[str, Any], one: dict[str, Any]) -> str:
    answer = {**data, "items": [one]} if "items" in data else one
    return _json(answer)


def _size(data: dict[str, Any], one: dict[str, Any]) -> int:
    return answer_size(_dumped(data, one))


def _truncate_fields(value: Any, longest: int, wholes: _Wholes) -> Any:
    """Return the value with head and tail in place of every open field that is longer."""
    if isinstance(value, list):
        return [_truncate_fields(item, longest, wholes) for item in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for name, content in value.items():
        if name not in _OPEN:
            result[name] = _truncate_fields(content, longest, wholes)
            continue
        text = content if isinstance(content, str) else to_json(content).decode()
        is_long = len(text) > longest
        result[name] = _truncate(text, longest, _path(value, text, wholes)) if is_long else content
    return result


def _truncate(text: str, longest: int, url: str | None) -> dict[str, Any]:
    length = min(_EXCERPT, longest // 4)
    return {
        "_truncated": True,
        "head": text[:length],
        "tail": text[-length:],
        "original_chars": len(text),
        "url": url,
    }


def _path(part: dict[str, Any], text: str, wholes: _Wholes) -> str | None:
    """Return the path of the whole result, if exactly this text was kept."""
    if part.get("type") != "tool_result":
        return None
    length, url = wholes.get(part["tool_call_id"], (0, None))
    return url if length == len(text) else None


def _wholes(value: BaseModel) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield the model's text of results that are kept whole; callers do not read it."""
    for message in _messages(value):
        output = message.model_output or ""
        part = message.content[0] if message.content else None
        if not isinstance(part, ToolResultPart) or not output.startswith('{"_truncated": true'):
            continue
        url = f"/runs/{message.run_id}/tool-calls/{quote(part.tool_call_id, safe='')}/result"
        try:
            excerpt = json.loads(output)
        except ValueError:  # a tool's own words
            continue
        if excerpt.get("url") == url:
            yield part.tool_call_id, (excerpt.get("original_chars", 0), url)


def _messages(value: Any) -> Iterable[Message]:
    """Return the messages of a run, or of a page with one run or one message."""
    one = value.items[0] if getattr(value, "items", None) else value
    return (one,) if isinstance(one, Message) else getattr(one, "messages", ())


def _newest(items: list[Any], room: int) -> list[Any]:
    """Return the last items, as many as fit."""
    start = len(items)
    while start and (room := room - answer_size(_json(items[start - 1])) - 1) >= 0:
        start -= 1
    return items[start:]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shortened(value: Any) -> Any:
    """Return the value with long texts cut, since nothing else is left to drop."""
    if isinstance(value, dict):
        return {name: _shortened(content) for name, content in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return f"{value[:_EXCERPT]}…{value[-_EXCERPT:]}"
    return value
