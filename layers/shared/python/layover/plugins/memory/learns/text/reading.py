"""Renders a conversation for a compacting model (docs/behaviour.md#compaction-reading): messages with
limits, without secrets and blobs, one escaped line each. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from layover.plugins.memory.learns.text.redaction import REDACTED, is_secret_key, redact
from layover.plugins.memory.text.escape import escape
from layover.values.message import (
    FilePart,
    Message,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.text import sanitise

MAX_TEXT = 8_000
"""Characters of a user's or an assistant's text."""
MAX_STRING = 500
"""Characters of a string in arguments and results."""
MAX_ITEMS = 20
MAX_KEYS = 40
MAX_VALUE = 2_000
"""Characters of arguments, or of a result, as JSON."""
_MAX_DEPTH = 8
_MAX_NUMBER = 256
"""Bits of a whole number; Python refuses to print very long ones."""
GAP = re.compile(r" …\[\d+ characters left out\]… ")
"""Stands for what was left out of a long text."""
_MARGIN = 2_000
"""Characters around the shown text that are searched for secrets: one may end behind the cut."""
_BASE64 = "[A-Za-z0-9+/_\\-]"
_BLOB = re.compile(
    r"\bdata:(?P<type>[\w.+\-]{1,60}/[\w.+\-]{1,80})(?:;[\w.+\-=]{1,60}){0,4},[^\s\"'<>)]*+"
    r"|(?P<token>(?<![\w\-])eyJ[\w\-]{8,}+(?:\.[\w\-]++){1,2})"
    rf"|(?<!{_BASE64})(?:[A-Za-z0-9+/]{{40,80}}\r?\n){{2,}}+[A-Za-z0-9+/]*+={{0,2}}"
    rf"|(?<!{_BASE64}){_BASE64}{{160,}}+={{0,2}}",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-fA-F\s]+")


def transcript(messages: Iterable[Message], names: Mapping[str, str] | None = None) -> list[str]:
    """Return lines `[date HH:MM] who: what`, in UTC, one for each text, file, call or result. Custom
    messages, thoughts and data parts are left out. Each line is escaped. `names`: of the speakers, by role
    (`Memory.role_prefix`)."""
    return [
        f"[{_minute(m)}] {escape(line)}"
        for m in messages
        if m.role is not Role.CUSTOM or m.is_notice
        for p in m.content
        if (line := _part_line(m, p, names or {}))
    ]


def render_value(value: Any) -> str:
    """Return arguments or a result with the limits of docs/behaviour.md#compaction-reading. Text that is JSON
    is read as such."""
    if isinstance(value, str):
        value = _parse_json(value)
    if isinstance(value, str):
        return plain(value, MAX_STRING)
    return cut(json.dumps(_limit(value, 0), ensure_ascii=False, default=str), MAX_VALUE)


def plain(text: str, limit: int) -> str:
    """Return a text without secrets and blobs; only head and tail if it is longer than `limit`."""
    text = _BLOB.sub(_replace_blob, sanitise(text))
    return cut(redact(cut(text, limit + _MARGIN)), limit)


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters: three quarters of them from the head, the rest from the tail, since
    errors and totals stand at the end."""
    if len(text) <= limit:
        return text
    gap = f" …[{len(text) - limit} characters left out]… "  # see GAP
    tail = limit // 4
    return f"{text[: limit - tail - len(gap)]}{gap}{text[-tail:]}"


def _minute(message: Message) -> str:
    return message.created_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _part_line(message: Message, part: Part, names: Mapping[str, str]) -> str:
    """Return `who: what` of a part; "" if it has no readable text."""
    role = names.get(message.role.value, message.role.value)
    if isinstance(part, TextPart):
        text = plain(part.text.strip(), MAX_TEXT)
        return f"{role}: {text}" if text else ""
    if isinstance(part, ToolCallPart):
        return f"{role} called {part.tool_name}: {render_value(part.args)}"
    if isinstance(part, ToolResultPart):
        output = part.result if message.model_output is None else message.model_output
        who = f"{names.get('tool', 'tool')} {part.tool_name}"
        return f"{who} {'failed' if part.is_error else 'answered'}: {render_value(output)}"
    if isinstance(part, FilePart):
        return f"{role} attached a file: {_file(part)}"
    return ""


def _file(part: FilePart) -> str:
    name = part.name or part.url or part.file_id or "without a name"
    kind = f" ({part.mime_type})" if part.mime_type else ""
    return plain(f"{name}{kind}", MAX_STRING)


def _parse_json(text: str) -> Any:
    """Return the object or list that a text is as JSON, else the text."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _limit(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return plain(value, MAX_STRING)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[data left out: {len(value)} bytes]"
    if isinstance(value, int) and value.bit_length() > _MAX_NUMBER:
        return "[number left out]"
    if isinstance(value, dict | list | tuple) and depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        return _limit_object(value, depth)
    if isinstance(value, list | tuple):
        items = [_limit(v, depth + 1) for v in value[:MAX_ITEMS]]
        more = len(value) - MAX_ITEMS
        return [*items, f"… {more} more"] if more > 0 else items
    return value


def _limit_object(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key in list(value)[:MAX_KEYS]:
        name, inner = str(key), value[key]
        is_secret = is_secret_key(name) and inner
        result[plain(name, MAX_STRING)] = REDACTED if is_secret else _limit(inner, depth + 1)
    if len(value) > MAX_KEYS:
        result["…"] = f"{len(value) - MAX_KEYS} more"
    return result


def _replace_blob(match: re.Match[str]) -> str:
    text = match[0]
    if match["token"]:
        return REDACTED
    if match["type"]:
        return f"[data left out: {match['type']}, {len(text)} characters]"
    # A long path or a row of dashes is not a blob: base64 mixes cases and digits.
    is_mixed = all(re.search(p, text) for p in ("[a-z]", "[A-Z]", "[0-9]"))
    if is_mixed or (_HEX.fullmatch(text) and re.search("[0-9]", text)):
        return f"[data left out: {len(text)} characters]"
    return text
