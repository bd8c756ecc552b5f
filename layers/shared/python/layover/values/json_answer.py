"""JSON in the answer of a model, whatever surrounds it."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

from pydantic_core import from_json

_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_MAX_BRACES = 100
"""Braces of an answer that are tried: finding the error behind one reads the whole text."""
_MARK = "\ufeff"
"""A byte order mark."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_CONTROL = re.compile(r"[\x01-\x1f]")
_RAW = re.compile(rf"\\.|{_CONTROL.pattern}", re.DOTALL)


def escape_raw(text: str) -> str:
    """Return JSON with the line breaks, tabs and other control characters escaped that its strings have as
    they are: models write them so, and nothing else can be meant. NUL stays, and so does what is not JSON
    otherwise."""
    if _CONTROL.search(text) is None:
        return text
    return _STRING.sub(lambda string: _RAW.sub(_escape, string[0]), text)


def read_json(text: str, partial: Literal["off", "trailing-strings"] = "off") -> Any:
    """Return the value of what a model wrote as JSON (`escape_raw`). Raises ValueError."""
    return from_json(escape_raw(text), allow_partial=partial)


def _escape(raw: re.Match[str]) -> str:
    return raw[0] if len(raw[0]) > 1 else f"\\u{ord(raw[0]):04x}"


def json_candidates(text: str) -> Iterator[str]:
    """Yield the parts of an answer that may be the JSON that was asked for: the answer itself, its fenced
    blocks, and objects among words. A list counts only by itself or in a fence: `[1]` among words is a
    reference. Each is as `escape_raw` returns it."""
    bare = text.strip().strip(_MARK).strip()
    yield escape_raw(bare)
    for block in _FENCE.finditer(bare):
        yield escape_raw(block[1].strip())
    decoder, end = json.JSONDecoder(strict=False), 0
    for brace in islice(re.finditer("{", bare), _MAX_BRACES):
        if brace.start() < end:
            continue  # within an object that was tried
        try:
            _, end = decoder.raw_decode(bare, brace.start())
        except (ValueError, RecursionError):
            continue
        yield escape_raw(bare[brace.start() : end])


def json_beginning(text: str) -> str:
    """Return the beginning of an answer from its JSON on; all of it if it has none yet."""
    bare = text.lstrip().lstrip(_MARK).lstrip()
    if bare[:1] in ("{", "["):
        return bare
    fence = re.search(r"```[\w+-]*[ \t]*\n", bare)
    return bare[fence.end() :] if fence else bare
