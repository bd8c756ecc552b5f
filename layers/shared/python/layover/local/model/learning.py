"""The stand-in model's extraction from a turn: the user's sentences that report a fault, word for word. It
has no judgement, so it keeps only what it cannot get wrong."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.](?=\S)[^.!?\n]*)*[.!?]?")
_FAULT = re.compile(
    r"\b(?:fails?|failed|flickers?|breaks?|broken?|crash(?:es|ed)?|stops? working|stopped|leaks?|squeaks?"
    r"|wobbles?|damaged|scratched|missing|faulty"
    r"|does(?: not|n['\u2019]t)|won['\u2019]t|can(?:not|['\u2019]t))\b",
    re.IGNORECASE,
)
_MIN_WORDS = 6
_MAX_ENTRIES = 3


def entries(messages: Sequence[Mapping[str, Any]]) -> str:
    """The answer to an extractor's request (`memory.episodic.rules.request`), as JSON."""
    request = _read(messages)
    texts = [t.get("text", "") for t in request.get("turn", []) if t.get("role") == "user"]
    known_entries = set(request.get("known", []))
    symptoms = [s for text in texts for s in _faults(text) if s not in known_entries][:_MAX_ENTRIES]
    proposed = [{"content": s, "source": "user_assertion", "evidence": s} for s in symptoms]
    return json.dumps({"entries": proposed}, ensure_ascii=False)


def _read(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    content = messages[-1].get("content") if messages else None
    if isinstance(content, list):
        content = "".join(str(p.get("text") or "") for p in content if isinstance(p, Mapping))
    try:
        read = json.loads(content or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _faults(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip()
        tells = not sentence.endswith("?") and len(sentence.split()) >= _MIN_WORDS
        if tells and _FAULT.search(sentence):
            yield sentence
