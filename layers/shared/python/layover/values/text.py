"""Makes callers' text safe to store: no NUL, no lone surrogates, bounded size and depth; and to show."""

from collections.abc import Mapping
from typing import Any, TypeVar

from layover.errors import InvalidRequest
from layover.values.base import MAX_DEPTH, TOO_DEEP, compact_json

REPLACEMENT = "\ufffd"
_CONTROLS = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")})
"""C0 and C1, which move a terminal's cursor, or begin what does. Newlines and tabs stay."""

T = TypeVar("T")


def sanitise(value: T) -> T:
    """Return the same text or JSON value with U+FFFD for NUL and lone surrogates, in keys as well.

    Postgres stores neither of them. Raises InvalidRequest above 100 levels."""
    result: T = _sanitise(value, 0)
    return result


def drop_controls(text: str) -> str:
    """Return the text without characters that a terminal obeys: models, tools and people may have written it,
    and could overwrite what a person is asked."""
    return text.translate(_CONTROLS)


def json_size(value: Any) -> int:
    """Return the bytes of the value as compact JSON in UTF-8."""
    return len(compact_json(value).encode("utf-8", "replace"))


def _sanitise_text(text: str) -> str:
    if not text.isascii():
        # Halves of a character that meet again are whole.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", REPLACEMENT)


def _sanitise(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _sanitise_text(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == MAX_DEPTH:
        raise InvalidRequest(TOO_DEEP, [{"loc": ["body"], "msg": TOO_DEEP, "type": "too_deep"}])
    if isinstance(value, Mapping):
        return {_sanitise(k, depth): _sanitise(v, depth + 1) for k, v in value.items()}
    return [_sanitise(v, depth + 1) for v in value]
