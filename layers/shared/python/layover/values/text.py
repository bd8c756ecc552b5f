"""Makes callers' text safe to store: no NUL, no lone surrogates, bounded size and depth; and to show."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, TypeVar

from layover.errors import InvalidRequest
from layover.values.base import MAX_DEPTH, TOO_DEEP, compact_json

REPLACEMENT = "\ufffd"
_PLAIN = re.compile(r"[ -~\n\t]*")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co"})
_IGNORED = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\uffa0\ufff0-\ufffb"
    "\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
"""Letters, marks and symbols without ink, of other categories."""
_JOINER, _NON_JOINER, _EMOJI_STYLE = "\u200d", "\u200c", "\ufe0f"
_STYLES = frozenset(map(chr, range(0xFE00, 0xFE10)))
_LINKED = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc]"
)
"""Letters of scripts that are written with joiners: Arabic, those of India, Burmese, Khmer, Mongolian."""
_EMOJI = re.compile("[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff]")
_BREAKS = re.compile("(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
_BLANKS = re.compile(r"^[^\S\n]+|[^\S\n]+$|[^\S\n]{2,}|\t")
_MARKS = re.compile(r"‹(?=U\+|[0-9])|⏎")
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})

T = TypeVar("T")


def sanitise(value: T) -> T:
    """Return the same text or JSON value with U+FFFD for NUL and lone surrogates, in keys as well.

    Postgres stores neither of them. Raises InvalidRequest above 100 levels."""
    result: T = _sanitise(value, 0)
    return result


def reveal(text: str) -> str:
    """Return the text with each character that cannot be seen, turns the direction of others or is obeyed by
    a terminal as its number, `‹U+202E›`. Newlines and tabs stay, and so do joiners that a script or an emoji
    needs. Models, tools and people may have written it: a person decides about what runs, not about less."""
    if _PLAIN.fullmatch(text):
        return text
    text = text.replace("\r\n", "\n")
    return "".join(_reveal_at(text, n) for n in range(len(text)))


def show(text: str) -> str:
    """Return a stranger's text as one line that a person can decide by: `reveal`, with ` ⏎ ` for a line's end
    and the number of blanks where there are several, or where they stand at an end. Two texts that differ in
    more than the kind of a line's end or of a blank are shown differently."""
    text = _MARKS.sub(lambda mark: _number(mark[0]), text)
    text = _BLANKS.sub(_count_blanks, _BREAKS.sub("\n", text))
    return re.sub(r"\n+", lambda ends: f" {'⏎' * len(ends[0])} ", reveal(text)).strip(" ")


def isolate(text: str) -> str:
    """Return the text between isolates if any of its letters are written from the right: they order nothing
    that stands around it."""
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in text):
        return f"\u2068{text}\u2069"
    return text


def _reveal_at(text: str, n: int) -> str:
    char = text[n]
    if char in "\n\t":
        return char
    if char in _STYLES or char in (_JOINER, _NON_JOINER):
        return char if _is_needed(text, n) else _number(char)
    is_hidden = unicodedata.category(char) in _HIDDEN or _IGNORED.match(char)
    return _number(char) if is_hidden else char


def _is_needed(text: str, n: int) -> bool:
    """Return whether a script or an emoji needs a joiner, or the style of an emoji, at this place."""
    char, before = text[n], text[n - 1 : n]
    after = text[n + 1 : n + 2]
    if char == _EMOJI_STYLE:
        return bool(_EMOJI.match(before)) or after == "\u20e3"
    if char in _STYLES:
        return False
    if _LINKED.match(before) and _LINKED.match(after):
        return True
    is_emoji = _EMOJI.match(before) or before == _EMOJI_STYLE
    return char == _JOINER and bool(is_emoji and _EMOJI.match(after))


def _number(char: str) -> str:
    return f"‹U+{ord(char):04X}›"


def _count_blanks(blanks: re.Match[str]) -> str:
    count = len(blanks[0])
    if "\t" in blanks[0]:
        return "".join(map(_number, blanks[0]))
    return f"‹{count} blank{'' if count == 1 else 's'}›"


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
