"""Compares what two texts state by their words, for texts without vectors
(docs/behaviour.md#likeness-by-words). Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

from layover.lazy import lazy_pattern
from layover.memory.text.evidence import anchors
from layover.memory.text.function_words import without_function_words
from layover.memory.text.words import words

MIN_TOPICS = 3
"""Topics of a statement that may be compared. Of fewer, too many share all."""
_ROOT = 6
"""Letters of a word that are compared: no stemmer knows every language, and endings differ."""
_ARTICLES = frozenset(
    "a an the der die das den dem des ein eine einen einem einer le la les un une el los las il lo os"  # noqa: SIM905
    " um uma".split()
)
_NEGATION = lazy_pattern(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|nicht|kein\w*|nie|niemals|ohne|ne|pas|jamais|sans"
    r"|nunca|non|senza|não|не|нет|никогда|без)\b|n['\u2019]t\b|[不没沒無无]|ない|ません|않|없",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Statement:
    """A text as it is compared. `topics`: roots of the words that carry it, without numbers and names;
    `literals`: its numbers, addresses and identifiers, in lower case."""

    topics: frozenset[str]
    literals: frozenset[str]
    denies: bool

    def coverage(self, topics: frozenset[str]) -> float:
        """Return the share of its topics that are among these."""
        return len(self.topics & topics) / len(self.topics) if self.topics else 0.0

    def alikeness(self, other: "Statement") -> float:
        """Return the share of both statements' topics that they have in common."""
        total = len(self.topics) + len(other.topics)
        return 2 * len(self.topics & other.topics) / total if total else 0.0


@lru_cache(maxsize=1_024)
def statement(text: str) -> Statement:
    """Return what a text states."""
    literals = [anchor.casefold().replace("\u2212", "-") for anchor in anchors(text)]
    plain = _NEGATION.sub(" ", text)
    parts = {part for literal in literals for part in words(literal)}
    topics = (w for w in without_function_words(words(plain), plain) if w not in parts)
    return Statement(
        topics=frozenset(t[:_ROOT] for t in topics if not t.isdecimal()),
        literals=frozenset(literals),
        denies=denies(text),
    )


def denies(text: str) -> bool:
    """Return whether a text has a word of denial."""
    return _NEGATION.search(text) is not None


def adds_nothing(new: str, old: str) -> bool:
    """Return whether the old text says all that the new one says: it has all its words but articles, each in
    the same form, since another tense is another state. Of few words, that is not known."""
    a, b = statement(new), statement(old)
    if len(a.topics) < MIN_TOPICS or a.denies != b.denies or not a.literals <= b.literals:
        return False
    return _forms(new) - _forms(old) <= _ARTICLES


def _forms(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
