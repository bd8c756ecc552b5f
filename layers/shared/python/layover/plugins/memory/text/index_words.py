"""The words by which a text is stored and found in any language (docs/retrieval.md#languages).
Pure.

A stored text has one word for each of its own. A query has a term for each of its words: all that it may be
stored as, by the language of the text, and by the release that stored it."""

from collections.abc import Collection, Iterable
from functools import cache

from layover.plugins.memory.text.function_words import (
    function_stems,
    names_in_capitals,
    words_by_language,
)
from layover.plugins.memory.text.stems import fold, stem, stems
from layover.plugins.memory.text.words import MAX_CHARACTERS, UNSPACED, english_stem, raw_words

OR = "|"
"""Between the alternatives of a term, as Postgres writes it."""
ROOT = "\u01c0"
"""Before a root: a letter that no text has. English words would meet roots of other languages otherwise."""
_MIN_EVIDENCE = 2
"""Function words that tell a text's language."""
_EVIDENCE = {
    "tr": "bir ve bu için ile çok var ne mi mı değil evet daha gibi ama nerede benim nasıl yok hangi olan",
    "fi": "on ja ei että se oli mutta hän minun minä kun missä mikä mitä niin ovat olen sinun kuin me hänen",
    "hu": "a az egy és nem van hogy ez meg mi hol volt már csak most vagy azt nincs lesz én az is",
}
_LETTERS = {"tr": "ışğ", "hu": "őű"}


def index_words(text: str) -> list[str]:
    """Return the words of a text as they are stored, in order. The words of an English text are cut as
    English ones, those of any other as `memory.text.stems` cuts them."""
    plain = list(raw_words(text[:MAX_CHARACTERS]))
    if _says_english(plain):
        return [english_stem(fold(word)) for word in plain]
    language = _language(plain)
    return [word if _is_whole(word) else ROOT + stem(word, language) for word in plain]


def is_english(text: str) -> bool:
    """Return whether a text is clearly English: it has more of its function words than of any other's."""
    return _says_english(list(raw_words(text[:MAX_CHARACTERS])))


def name_words(name: str) -> list[str]:
    """Return the words of a speaker's name, as a query may have them: with and without accents."""
    plain = [english_stem(word) for word in raw_words(name)]
    return list(dict.fromkeys([*plain, *map(fold, plain)]))


def query_terms(text: str) -> list[str]:
    """Return the terms of a query, in order."""
    return [term(word) for word in raw_words(text[:MAX_CHARACTERS])]


def raw_topics(text: str) -> list[str]:
    """Return the words of a text as they are written, without function words."""
    names = names_in_capitals(text)
    pairs = ((word, english_stem(word)) for word in raw_words(text))
    return [word for word, root in pairs if root in names or root not in function_stems()]


def head(term: str) -> str:
    """Return the word of a term, as `memory.text.words.words` has it."""
    return term.partition(OR)[0]


def alternatives(terms: Iterable[str]) -> frozenset[str]:
    """Return all words that one of these terms stands for."""
    return frozenset(word for term in terms for word in term.split(OR))


def has_term(words: Collection[str], term: str) -> bool:
    """Return whether a text with these words has the term."""
    return any(word in words for word in term.split(OR))


def term(word: str) -> str:
    """Return the term of a word, as it is written in lower case."""
    if _is_whole(word):
        return word
    forms = (english_stem(word), english_stem(fold(word)), *(ROOT + root for root in stems(word)))
    return OR.join(dict.fromkeys(forms))


def _is_whole(word: str) -> bool:
    return UNSPACED.match(word) is not None or (word.isascii() and not word.isalpha())


def _says_english(plain: list[str]) -> bool:
    evidence, others = _lists()
    english = sum(word in evidence for word in plain)
    return english >= _MIN_EVIDENCE and all(
        english > sum(word in each for word in plain) for each in others
    )


def _language(plain: list[str]) -> str | None:
    counts = {
        name: sum(word in each for word in plain)
        + (_MIN_EVIDENCE if any(c in word for word in plain for c in _LETTERS.get(name, "")) else 0)
        for name, each in _evidence().items()
    }
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= _MIN_EVIDENCE else None


@cache
def _evidence() -> dict[str, frozenset[str]]:
    return {name: frozenset(text.split()) for name, text in _EVIDENCE.items()}


@cache
def _lists() -> tuple[frozenset[str], tuple[frozenset[str], ...]]:
    lists = dict(words_by_language())
    english = lists.pop("English")
    return english, (*lists.values(), *_evidence().values())
