"""Lenient reading of background models' answers, which are untrusted text."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from layover.lazy import lazy_pattern

THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_MAX_BRACES = 1_000
"""The most braces of an answer that are tried, since finding the error behind one takes reading the whole
text."""
_MAX_BEGINNINGS = 20
_MAX_ENDS = 50
_MAX_CUT = 200_000
"""Characters of an answer that is not whole of which the whole part is searched."""
_MAX_NUMBERS = 50
_WHOLE_NUMBER = lazy_pattern(r"[0-9]{1,9}")
_TOKEN = lazy_pattern(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_BARE_LIST = lazy_pattern(r"[^{]*?(?=\[\s*\{)")
_OBJECT, _LIST = ["{"], ["{", "["]


def json_object(text: str, *names: str) -> dict[str, Any] | None:
    """Return the first JSON object in an answer that has one of these fields (none named: the first of all),
    whatever surrounds it. If there is none, a list of objects counts as the first of these fields, and of an
    object that breaks off, what is whole of its fields and lists. None if there is nothing of that."""
    text = THINKING.sub(" ", text)
    for value in _objects_in(text):
        if not names or not value.keys().isdisjoint(names):
            return value
    if not names:
        return None
    text = text[:_MAX_CUT]
    bare = _BARE_LIST.match(text)
    return _whole_part(f'{{"{names[0]}": {text[bare.end() :]}' if bare else text, names)


def objects(answer: dict[str, Any] | None, *names: str) -> list[dict[str, Any]]:
    """Return the objects of the first list among these fields."""
    lists = (answer[n] for n in names if answer and isinstance(answer.get(n), list))
    return [item for item in next(lists, []) if isinstance(item, dict)]


def text_of(item: dict[str, Any], *names: str) -> str:
    """Return the first of these fields that is a text, stripped; "" if none is."""
    texts = (item[n].strip() for n in names if isinstance(item.get(n), str))
    return next((t for t in texts if t), "")


def numbers_of(value: Any) -> tuple[int, ...]:
    """Return the numbers in a field of an answer: a list, a single number, or either of them as text."""
    items = value if isinstance(value, list) else [value]
    texts = (str(item).strip() for item in items[:_MAX_NUMBERS] if not isinstance(item, bool))
    return tuple(dict.fromkeys(int(t) for t in texts if _WHOLE_NUMBER.fullmatch(t)))


def _objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in a text, those inside others as well."""
    decoder = json.JSONDecoder(strict=False)
    for brace in islice(re.finditer("{", text), _MAX_BRACES):
        try:
            value, _ = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _whole_part(text: str, names: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what is whole of the first object that breaks off and has one of these fields."""
    for brace in islice(re.finditer("{", text), _MAX_BEGINNINGS):
        rest = text[brace.start() :]
        for end, closing in islice(_ends(rest), _MAX_ENDS):
            try:
                value = json.loads(rest[:end] + closing, strict=False)
            except (ValueError, RecursionError):
                continue
            if not value.keys().isdisjoint(names):
                return value  # type: ignore[no-any-return]
            break
    return None


def _ends(text: str) -> list[tuple[int, str]]:
    """Return the places behind which an object can be closed without losing a piece of a field or of an
    element of one of its lists, with what closes it; the last one first."""
    ends: list[tuple[int, str]] = []
    open_brackets: list[str] = []
    for token in _TOKEN.finditer(text):
        mark, end = token[0], token.end()
        if mark in "{[":
            open_brackets.append(mark)
            continue
        if mark in "}]":
            open_brackets.pop()
            if not open_brackets:
                break
        if mark == ",":
            end = token.start()
        if open_brackets == _LIST:
            ends.append((end, "]}"))
        elif open_brackets == _OBJECT and mark in ",]}":
            ends.append((end, "}"))
    return ends[::-1]
