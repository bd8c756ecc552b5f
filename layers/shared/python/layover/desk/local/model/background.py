"""The stand-in model's work for memory: observations, summaries, and entries for episodic memory. It has no
judgement, so it keeps only what it cannot get wrong: the beginning of each line, the user's own words."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LINE = re.compile(
    r"^\[(\d{4}-\d\d-\d\d) (\d\d:\d\d)\] (user|assistant|tool)\b([^:\n]*): (.+)$", re.MULTILINE
)
_MAX_CHARACTERS = 160
_MAX_LINES = 12
_MARKERS = {"user": "IMPORTANT"}
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.](?=\S)[^.!?\n]*)*[.!?]?")
_FAULT = re.compile(
    r"\b(?:fails?|failed|flickers?|breaks?|broken?|crash(?:es|ed)?|stops? working|stopped|leaks?|squeaks?"
    r"|wobbles?|damaged|scratched|missing|faulty"
    r"|does(?: not|n['\u2019]t)|won['\u2019]t|can(?:not|['\u2019]t))\b",
    re.IGNORECASE,
)
_MIN_WORDS = 6
_MAX_ENTRIES = 3


def observations(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the reply to an observer's request: a line for each message, by day."""
    answer: list[str] = []
    for day, time, speaker, what, text in _lines(messages):
        if f"Date: {day}" not in answer:
            answer.append(f"Date: {day}")
        marker = _MARKERS.get(speaker, "INFO")
        answer.append(f"* {marker} ({time}) {speaker}{what}: {_shorten(text)}")
    return "\n".join(answer)


def summary(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the reply to a request for a summary: what the user asked first and last."""
    questions = [_shorten(text) for _, _, speaker, _, text in _lines(messages) if speaker == "user"]
    if not questions:
        return ""
    facts = "\n".join(f"- {text}" for text in questions[-_MAX_LINES:])
    return f"## Goal\n{questions[0]}\n## Facts and decisions\n{facts}\n## Current state\n{questions[-1]}"


def entries(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the reply to an extractor's request (`memory.learns.rules.request`), as JSON: the user's
    sentences that report a fault, word for word."""
    try:
        request = json.loads(_content(messages) or "{}")
    except ValueError:
        request = {}
    if not isinstance(request, dict):
        request = {}
    texts = [t.get("text", "") for t in request.get("turn", []) if t.get("role") == "user"]
    known_entries = set(request.get("known", []))
    symptoms = [s for text in texts for s in _faults(text) if s not in known_entries][:_MAX_ENTRIES]
    proposed = [{"evidence": s, "kind": "symptom", "content": s} for s in symptoms]
    return json.dumps({"entries": proposed}, ensure_ascii=False)


def _faults(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip()
        tells = not sentence.endswith("?") and len(sentence.split()) >= _MIN_WORDS
        if tells and _FAULT.search(sentence):
            yield sentence


def _lines(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return day, time, speaker, what the speaker did, and text of each line of a conversation."""
    return [match.groups() for match in _LINE.finditer(_content(messages))]


def _content(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the request, which is the last message."""
    content = messages[-1].get("content") if messages else ""
    if isinstance(content, list):
        content = "".join(str(p.get("text") or "") for p in content if isinstance(p, Mapping))
    return str(content or "")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} …"
