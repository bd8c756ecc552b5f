"""Groups of words that tell without a model what a later statement does to an earlier one. Pure.

Opposites come in pairs (`memory.text.opposites`), but states come in groups: an order is in preparation, then
shipped, then delivered. No vector and no small library knows which words exclude each other. Of two
statements that differ in words without a group, both are kept (docs/behaviour.md#succession). Each group of
the two files says why it is there."""

from functools import cache, lru_cache
from importlib.resources import files

_FAULT, _CURE = "fault", "cure"


def exclude_each_other(one: str, other: str) -> bool:
    """Return whether of two words in lower case, in this order, the later one ends what the earlier one says:
    both are states of one group, or the first is a fault and the second its end."""
    if one == other:
        return False
    a, b = states_of(one), states_of(other)
    return not (a - {_FAULT, _CURE}).isdisjoint(b) or (_FAULT in a and _CURE in b)


@lru_cache(maxsize=2_048)
def states_of(word: str) -> frozenset[str]:
    """Return the groups of states that a word in lower case belongs to."""
    return _groups_of(word, "states.txt")


@lru_cache(maxsize=2_048)
def is_of(group: str, word: str) -> bool:
    """Return whether a word in lower case belongs to a group of those that hold a statement together."""
    return group in _groups_of(word, "frames.txt")


def _groups_of(word: str, file: str) -> frozenset[str]:
    whole, beginnings = _listed(file)
    groups = set(whole.get(word, ()))
    for size in range(2, len(word) + 1):
        groups.update(beginnings.get(word[:size], ()))
    return frozenset(groups)


@cache
def _listed(file: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the groups of whole words, and those of beginnings (`livr*`)."""
    whole: dict[str, set[str]] = {}
    beginnings: dict[str, set[str]] = {}
    group = ""
    for line in files("layover.plugins.memory.text").joinpath(file).read_text("utf-8").splitlines():
        if line.startswith("["):
            group = line.strip("[]")
            continue
        for word in () if line.startswith("#") else line.split():
            listed = beginnings if word.endswith("*") else whole
            listed.setdefault(word.rstrip("*"), set()).add(group)
    return whole, beginnings
