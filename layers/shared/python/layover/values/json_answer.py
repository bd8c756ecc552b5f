"""JSON in the answer of a model, whatever surrounds it."""

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic_core import from_json

_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_MAX_BRACES = 100
"""Braces of an answer that are tried: finding the error behind one reads the whole text."""
_DECODER = json.JSONDecoder(strict=False)
_MARK = "\ufeff"
"""A byte order mark."""
_WRONG = re.compile(r'[\x01-\x1f]|\\(?!["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})')
"""Finds nothing in JSON whose strings need no mending."""


def escape_raw(text: str) -> str:
    r"""Return JSON with its strings as they were meant where they are no JSON: line breaks, tabs and other
    control characters as they are get escaped, and so do the backslashes of a string whose author escapes
    none (`\sigma`, `\(`). Half of a character becomes U+FFFD. NUL stays, and so does what is not JSON
    otherwise, or can be meant in two ways (`\d \new`)."""
    if _WRONG.search(text) is None:
        return text
    from layover.values.json_strings import mend_strings

    return mend_strings(text)


def read_json(text: str, partial: Literal["off", "trailing-strings"] = "off") -> Any:
    """Return the value of what a model wrote as JSON (`escape_raw`). Raises ValueError."""
    return from_json(escape_raw(text), allow_partial=partial)


def json_candidates(text: str) -> Iterator[str]:
    """Yield the parts of an answer that may be the JSON that was asked for: the answer itself, its fenced
    blocks, and objects among words. A list counts only by itself or in a fence: `[1]` among words is a
    reference. Each is as `escape_raw` returns it."""
    bare = text.strip().strip(_MARK).strip()
    yield escape_raw(bare)
    for block in _FENCE.finditer(bare):
        yield escape_raw(block[1].strip())
    rest = bare
    for _ in range(_MAX_BRACES):
        _, brace, rest = rest.partition("{")
        if not brace:
            return
        pair = _split_object(brace + rest)
        if pair is not None:
            part, rest = pair  # what is within an object was tried with it
            yield part


def _split_object(text: str) -> tuple[str, str] | None:
    """Return the object that a text begins with, as `escape_raw` returns it, and the rest of the text."""
    for each in (text, escape_raw(text)):
        try:
            _, end = _DECODER.raw_decode(each)
        except (ValueError, RecursionError):
            continue
        return escape_raw(each[:end]), each[end:]
    return None


def json_beginning(text: str) -> str:
    """Return the beginning of an answer from its JSON on; all of it if it has none yet."""
    bare = text.lstrip().lstrip(_MARK).lstrip()
    if bare[:1] in ("{", "["):
        return bare
    fence = re.search(r"```[\w+-]*[ \t]*\n", bare)
    return bare[fence.end() :] if fence else bare
