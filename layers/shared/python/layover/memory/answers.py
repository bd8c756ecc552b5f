"""What a model answers in the background, read leniently: it is a text by somebody unknown."""

import json
import re
from typing import Any

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)


def json_object(text: str) -> dict[str, Any] | None:
    """The first JSON object in an answer, whatever stands around it; None where there is none."""
    text = _THINKING.sub(" ", text)
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            value, _ = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        return value if isinstance(value, dict) else None
    return None


def objects(answer: dict[str, Any] | None, *names: str) -> list[dict[str, Any]]:
    """The objects of the first list among these fields."""
    lists = (answer[n] for n in names if answer and isinstance(answer.get(n), list))
    return [item for item in next(lists, []) if isinstance(item, dict)]


def text_of(item: dict[str, Any], *names: str) -> str:
    """The first of these fields that is a text, stripped; "" where none is."""
    texts = (item[n].strip() for n in names if isinstance(item.get(n), str))
    return next((t for t in texts if t), "")
