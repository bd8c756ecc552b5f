"""Lenient reading of background models' answers, which are untrusted text."""

import json
import re
from itertools import islice
from typing import Any

THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_MAX_BRACES = 1_000
"""The most braces of an answer that are tried, since finding the error behind one takes reading the whole
text."""


def json_object(text: str) -> dict[str, Any] | None:
    """Return the first JSON object in an answer, whatever surrounds it; None if it has none."""
    text = THINKING.sub(" ", text)
    decoder = json.JSONDecoder()
    for brace in islice(re.finditer("{", text), _MAX_BRACES):
        try:
            value, _ = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def objects(answer: dict[str, Any] | None, *names: str) -> list[dict[str, Any]]:
    """Return the objects of the first list among these fields."""
    lists = (answer[n] for n in names if answer and isinstance(answer.get(n), list))
    return [item for item in next(lists, []) if isinstance(item, dict)]


def text_of(item: dict[str, Any], *names: str) -> str:
    """Return the first of these fields that is a text, stripped; "" if none is."""
    texts = (item[n].strip() for n in names if isinstance(item.get(n), str))
    return next((t for t in texts if t), "")
