"""The words of a text as full text search knows them: the same for both stores and every script.

Postgres's own parser depends on the locale of the database, and knows no words in scripts that write none
(Chinese, Japanese, Thai). So this module finds the words, and the database only keeps them."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from layover.lazy import lazy_pattern

MAX_CHARACTERS = 20_000
"""Characters of a text that are indexed: a tsvector holds 16,383 positions."""
_MAX_WORD = 64
"""Characters of a word; a longer one is cut (blobs, URLs). At most 256 bytes: a tsvector's lexeme has at most
2,046, which Postgres does not check on every path."""
_MAX_MARKS = 8
"""Marks of a letter; no script needs more."""

# Scripts without blanks between words: their text is indexed by pairs of neighbouring characters.
UNSPACED = lazy_pattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003fffd]+"
)
# A word of one character is common in Chinese, so these are also indexed one by one.
_HAN = lazy_pattern("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]")
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2019\u02bc\u2018`", "'"))
_CONTRACTED = lazy_pattern(r"n't$|'(?:s|re|ve|ll|d|m|em)?$")
_VOWEL = lazy_pattern(r"[aeiouy]")


def words(text: str) -> list[str]:
    """Return the words of a text in order, in lower case and cut to their stems. They consist of letters,
    marks and digits only."""
    return [english_stem(word) for word in raw_words(text[:MAX_CHARACTERS])]


def spans(text: str) -> list[tuple[int, int, str]]:
    """Return the words of a text (not in Unicode's compatibility forms) with their start and end."""
    result = []
    for match in re.finditer(r"\S+", text):
        parts = words(match[0])
        if len(parts) == 1:
            result.append((match.start(), match.end(), parts[0]))
    return result


def raw_words(text: str) -> Iterator[str]:
    """Yield the words of a text in order, in lower case and with their endings."""
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_APOSTROPHES)
    for piece in "".join(c if _is_word_character(c) else " " for c in plain).split():
        yield from (word[:_MAX_WORD] for word in _parts(piece.strip("'")))


def _is_word_character(character: str) -> bool:
    return character == "'" or unicodedata.category(character)[0] in "LMN"


def _parts(piece: str) -> Iterator[str]:
    """Yield pairs of characters if the script has no blanks, else the word."""
    start = 0
    for run in UNSPACED.finditer(piece):
        yield from _word(piece[start : run.start()])
        yield from pairs(run[0])
        start = run.end()
    yield from _word(piece[start:])


def pairs(run: str) -> list[str]:
    """Return pairs: `abc` -> `ab`, `bc`. Marks stay with their letter, the first few. Chinese characters are
    also listed one by one."""
    letters: list[str] = []
    for character in run:
        if letters and unicodedata.category(character)[0] == "M":
            if len(letters[-1]) <= _MAX_MARKS:
                letters[-1] += character
        else:
            letters.append(character)
    bigrams = [a + b for a, b in pairwise(letters)]
    return bigrams + [c for c in letters if _HAN.match(c)] if bigrams else letters


def _word(piece: str) -> Iterator[str]:
    word = _CONTRACTED.sub("", piece).replace("'", "")
    if word:
        yield word


def english_stem(word: str) -> str:
    """Return an English word without its ending (most of Porter's steps 1 and a little of 2). Words of other
    languages lose at most a plural's s, in texts and queries alike."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    return _ending(_plural(word))


def _plural(word: str) -> str:
    if word.endswith("sses") or (word.endswith("ies") and len(word) > 4):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _ending(word: str) -> str:
    for ending in ("ingly", "edly", "ing", "ed"):
        root = word.removesuffix(ending)
        if root != word and len(root) > 2 and _VOWEL.search(root):
            return _final_form(root)
    return _final_form(word.removesuffix("ly") if len(word) > 5 else word)


def _final_form(root: str) -> str:
    """Return one form for all of a word's: `stopp` -> `stop`, `make` -> `mak`, `happy` -> `happi`."""
    if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "aeiouls":
        return root[:-1]
    if len(root) > 3 and root.endswith("e"):
        return root[:-1]
    if len(root) > 2 and root.endswith("y") and root[-2] not in "aeiou":
        return root[:-1] + "i"
    return root
