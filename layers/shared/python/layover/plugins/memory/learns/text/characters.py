"""One form for characters that look alike, applied before names in texts are compared
(docs/behaviour.md#evidence). Pure."""

import re
import unicodedata

from layover.lazy import lazy_pattern

_SHOWN_AS_NOTHING = lazy_pattern(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""Besides Unicode's category Cf."""
_HAN_NUMERALS = lazy_pattern("[\u3007\u3021-\u3029\u3038-\u303a]")
"""They count as words like the others: 二〇二四."""
_APART = lazy_pattern(
    "([\u00bc-\u00be\u2150-\u215e\u2189\u2460-\u249b\u24ea-\u24ff\u2776-\u2793\u3251-\u325f\u32b1-\u32bf])"
)
"""Fractions and encircled numbers: 2½ is 2 1/2, not 21/2."""
_RAISED = lazy_pattern(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070-\u2079])")
"""10² is not 102."""
_ENCIRCLED = range(0x24B6, 0x24EA)
_MAX_FORMS = 20_000
_OTHER_DOTS = lazy_pattern(
    "(?<=\\d)[\uff0e\uff61](?=\\d)"
    "|(?<=[a-z0-9])[\u3002\uff0e\uff61]"
    "(?=(?:com|net|org|info|biz|xyz|dev|app|gov|edu|shop|site|online|[a-z]{2})(?![a-z0-9]))",
    re.IGNORECASE,
)
"""Browsers treat them as the dots of a host (IDNA). Elsewhere they end a sentence."""


def plain_characters(text: str) -> str:
    """Return digits of all scripts as 0 to 9, and letters of all widths and styles as the usual ones, without
    invisible characters. Punctuation stays, except the dots of numbers and hosts."""
    if text.isascii():
        return text
    text = _APART.sub(r" \1 ", unicodedata.normalize("NFC", text))
    text = _RAISED.sub("^", text).translate(_FORMS)
    return _OTHER_DOTS.sub(".", unicodedata.normalize("NFC", text))


class _Forms(dict[int, str]):
    """Character -> its form, computed on first use, and kept while the table is small."""

    def __missing__(self, code: int) -> str:
        form = _form(chr(code))
        if len(self) < _MAX_FORMS:
            self[code] = form
        return form


_FORMS = _Forms()


def _form(character: str) -> str:
    kind = unicodedata.category(character)
    if kind == "Cf" or _SHOWN_AS_NOTHING.match(character):
        return ""
    if kind[0] == "N" and not _HAN_NUMERALS.match(character):
        return _number(character)
    if character in "\u00aa\u00ba":  # 1º and 1ª: as good as 1
        return ""
    # Signs stay unchanged: `Foo™` is not FooTM, `50㎡` is not 50m2.
    if kind[0] in "LM" or ord(character) in _ENCIRCLED:
        return unicodedata.normalize("NFKC", character)
    return character


def _number(character: str) -> str:
    value = unicodedata.numeric(character)
    if value.is_integer():
        return str(int(value))
    return unicodedata.normalize("NFKC", character).replace("\u2044", "/")
