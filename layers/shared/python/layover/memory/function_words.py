"""Words that hold sentences together and say nothing of what they are about. Pure.

Full text search over a handful of entries has no statistics to find them by: with words joined by OR, "is"
and "the" would make every entry relevant to every question. Words that mean something in another of the
listed languages are left out of the list."""

from functools import cache
from importlib.resources import files

from layover.memory.words import words


def telling(found: list[str]) -> list[str]:
    """The words of a query (`memory.words`) that say what it is about."""
    return [word for word in found if word not in _function_words()]


@cache
def _function_words() -> frozenset[str]:
    text = files("layover.memory").joinpath("function_words.txt").read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return frozenset(words(" ".join(lines)))
