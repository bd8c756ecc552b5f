"""Tells that a text is in another language than its original, by scripts and function words. Pure."""

import re
import unicodedata
from collections import Counter
from functools import cache

from layover.plugins.memory.text.function_words import words_by_language

_MIN_LETTERS = 4
_MIN_WORDS, _MIN_OTHER_WORDS = 3, 2
"""Function words of a language that a text in it has at least, and those of others in a text that is not."""
_JAPANESE, _LATIN = "JAPANESE", "LATIN"
_SCRIPTS = {"HIRAGANA": _JAPANESE, "KATAKANA": _JAPANESE, "KATAKANA-HIRAGANA": _JAPANESE}


def is_translation(text: str, original: str) -> bool:
    """Return whether a text is clearly in another language than its original. Names and terms in Latin
    letters do not make a text another language."""
    one, other = _script(text), _script(original)
    if one is None or other is None:
        return False
    if one != other:
        return {one, other} != {_JAPANESE, "CJK"}
    return one == _LATIN and _is_of_other_words(text, original)


def _is_of_other_words(text: str, original: str) -> bool:
    (language, most), (_, next_most) = _hits(text).most_common(2)
    if most < _MIN_WORDS or most < 2 * next_most:
        return False
    hits = _hits(original)
    same = hits.pop(language)
    others = max(hits.values())
    return others >= _MIN_OTHER_WORDS and others >= 2 * same


def _script(text: str) -> str | None:
    """Return the script that a text is written in; None if it has too few letters. A text with some words in
    another script than the Latin one is in that script: terms are often Latin."""
    counts: Counter[str] = Counter()
    for character in text:
        if character.isalpha():
            name = unicodedata.name(character, "?").partition(" ")[0]
            counts[_SCRIPTS.get(name, name)] += 1
    if sum(counts.values()) < _MIN_LETTERS:
        return None
    if counts[_JAPANESE]:
        return _JAPANESE
    others = [(n, script) for script, n in counts.items() if script != _LATIN and n >= _MIN_LETTERS]
    return max(others)[1] if others else _LATIN


def _hits(text: str) -> Counter[str]:
    """Count the function words of each language in a Latin text."""
    tokens = re.findall(r"[^\W\d_]+", text.casefold())
    return Counter({name: sum(t in listed for t in tokens) for name, listed in _lists().items()})


@cache
def _lists() -> dict[str, frozenset[str]]:
    return words_by_language()
