"""JSON in the answer of a model, whatever surrounds it."""

import json
import re
from collections.abc import Iterator
from itertools import islice

_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_MAX_BRACES = 100
"""Braces of an answer that are tried: finding the error behind one reads the whole text."""
_MARK = "\ufeff"
"""A byte order mark."""


def json_candidates(text: str) -> Iterator[str]:
    """Yield the parts of an answer that may be the JSON that was asked for: the answer itself, its fenced
    blocks, and objects among words. A list counts only by itself or in a fence: `[1]` among words is a
    reference."""
    bare = text.strip().strip(_MARK).strip()
    yield bare
    for block in _FENCE.finditer(bare):
        yield block[1].strip()
    decoder, end = json.JSONDecoder(), 0
    for brace in islice(re.finditer("{", bare), _MAX_BRACES):
        if brace.start() < end:
            continue  # within an object that was tried
        try:
            _, end = decoder.raw_decode(bare, brace.start())
        except (ValueError, RecursionError):
            continue
        yield bare[brace.start() : end]


def json_beginning(text: str) -> str:
    """Return the beginning of an answer from its JSON on; all of it if it has none yet."""
    bare = text.lstrip().lstrip(_MARK).lstrip()
    if bare[:1] in ("{", "["):
        return bare
    fence = re.search(r"```[\w+-]*[ \t]*\n", bare)
    return bare[fence.end() :] if fence else bare
