"""The stand-in model's summary of older messages: the beginning of each line, nothing made up."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_LINE = re.compile(
    r"^\[(\d{4}-\d\d-\d\d) (\d\d:\d\d)\] (user|assistant|tool)\b([^:\n]*): (.+)$", re.MULTILINE
)
_MAX_CHARACTERS = 160
_MAX_LINES = 12
_MARKERS = {"user": "IMPORTANT"}


def observations(messages: Sequence[Mapping[str, Any]]) -> str:
    """The answer to an observer's request: a line for what was said, by day."""
    answer: list[str] = []
    for day, time, speaker, what, text in _lines(messages):
        if f"Date: {day}" not in answer:
            answer.append(f"Date: {day}")
        marker = _MARKERS.get(speaker, "INFO")
        answer.append(f"* {marker} ({time}) {speaker}{what}: {_shorten(text)}")
    return "\n".join(answer)


def summary(messages: Sequence[Mapping[str, Any]]) -> str:
    """The answer to a request for a summary: what the user asked first and last."""
    questions = [_shorten(text) for _, _, speaker, _, text in _lines(messages) if speaker == "user"]
    if not questions:
        return ""
    facts = "\n".join(f"- {text}" for text in questions[-_MAX_LINES:])
    return f"## Goal\n{questions[0]}\n## Facts and decisions\n{facts}\n## Current state\n{questions[-1]}"


def _lines(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    content = messages[-1].get("content") if messages else ""
    if isinstance(content, list):
        content = "".join(str(p.get("text") or "") for p in content if isinstance(p, Mapping))
    return [match.groups() for match in _LINE.finditer(str(content or ""))]


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} …"
