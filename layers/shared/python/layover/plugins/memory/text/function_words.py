"""Words that hold sentences together and carry no topic. Pure.

Full text search over a handful of entries has no statistics to find them by: with words joined by OR, "is"
and "the" would make every entry relevant to every question. Words that have a meaning in another of the
listed languages, or in computing (os, su, em, make, c), are left out of the list."""

import re
from functools import cache
from importlib.resources import files

from layover.plugins.memory.text.words import words

_TERMS = frozenset({"IT", "US", "WHO", "DE", "ES", "DO", "LA", "CON", "PAR", "SE"})
"""Names, if written like this: the department, the country, the organisation."""


def names_in_capitals(text: str) -> set[str]:
    """Return the names in capitals; none if the whole text is in capitals."""
    if text == text.upper() and " " in text.strip():
        return set()
    return {t.lower() for t in re.findall(r"\b[A-Z]{2,3}\b", text) if t in _TERMS}


def words_by_language() -> dict[str, frozenset[str]]:
    """Return the words as they are written, by the languages that the list names."""
    parts = (part.partition("\n") for part in _listed().split("# ") if part.strip())
    return {name.strip(): frozenset(text.split()) for name, _, text in parts}


@cache
def function_stems() -> frozenset[str]:
    """Return the words of all languages, as `memory.text.words` has them."""
    lines = (line for line in _listed().splitlines() if not line.startswith("#"))
    return frozenset(words(" ".join(lines)))


def _listed() -> str:
    return files("layover.plugins.memory.text").joinpath("function_words.txt").read_text("utf-8")
