"""Words that say the opposite of each other. Pure.

No small library knows antonyms, and a vector puts them next to each other. Of two statements that differ in
words that the list lacks, both are kept (docs/behaviour.md#contradictions)."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "de", "des", "dés", "mis", "miss", "not")
_BEGINNINGS = (*_PREFIXES, *(f"{prefix}-" for prefix in _PREFIXES))
"""Beginnings that turn a word round: `unpaid`, `incomplete`, `non-refundable`."""
_MIN_ROOT = 4
"""Letters that a word has behind such a beginning: `disco` is not the opposite of `co`."""


def opposite_pairs(some: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of words, one of each list, that say the opposite of each other."""
    there = list(others)
    return [(a, b) for a in some for b in there if are_opposites(a, b)]


def are_opposites(one: str, other: str) -> bool:
    """Return whether two words in lower case say the opposite of each other: `before` and `after`, `paid` and
    `unpaid`, `enabled` and `disabled`."""
    if other in _opposites().get(one, frozenset()):
        return True
    longer, shorter = sorted((one, other), key=len, reverse=True)
    if longer.startswith(("dis", "dés")) and shorter.startswith(("en", "an")):
        return len(shorter) > _MIN_ROOT and longer[3:] == shorter[2:]
    return any(longer == prefix + shorter and len(shorter) >= _MIN_ROOT for prefix in _BEGINNINGS)


@cache
def _opposites() -> dict[str, frozenset[str]]:
    opposites: dict[str, set[str]] = {}
    text = files("layover.plugins.memory.text").joinpath("opposites.txt").read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    for pair in " ".join(lines).split():
        word, _, others = pair.partition(":")
        for other in others.split(","):
            opposites.setdefault(word, set()).add(other)
            opposites.setdefault(other, set()).add(word)
    return {word: frozenset(others) for word, others in opposites.items()}
