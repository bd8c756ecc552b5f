"""One form for texts that differ only in how they are written down: case, quotation marks, dashes, ellipses,
Markdown, white space (docs/behaviour.md#evidence). Pure."""

import re
import unicodedata

from layover.lazy import lazy_pattern

_MARKS = lazy_pattern(
    r"^[ \t]*(?:(?:#{1,6}|>+|[-*+\u2022\u2023\u25aa\u2013]|\d{1,3}[.)])[ \t]+)+"
    r"|(?<!\w)[*_~]{1,3}(?=\S)|(?<=\S)[*_~]{1,3}(?!\w)"
    r"|(?<=\s)[-\u2010-\u2015\u2212|\u2022*+#>]+(?=\s)",
    re.MULTILINE,
)
"""Marks of headings, lists, quotes and emphasis, and signs that stand by themselves."""
_QUOTES = (
    "\"'`\u00ab\u00b4\u00bb\u02bc\u2018-\u201f\u2032\u2033\u2039\u203a\u300c-\u300f\u301d-\u301f"
    "\uff02\uff07"
)
_DASHES = "\u2010-\u2015\u2212\ufe58\ufe63\uff0d"
_QUOTE, _DASH = lazy_pattern(f"[{_QUOTES}]"), lazy_pattern(f"[{_DASHES}]")
_ENDS = " .,;:!?\u2026-\u3002\uff0c\u3001\uff1b\uff1a\uff01\uff1f\u061f\u060c\u061b\u0964"
"""Punctuation at the ends of a piece, which a quote may lack or have instead."""


class Form:
    """A text in this form. `text`: the form; it knows which piece of the text a piece of it stands for."""

    def __init__(self, text: str) -> None:
        self._source = unicodedata.normalize("NFC", text)
        pieces: list[str] = []
        self._places: list[int] = []
        at = 0
        for mark in _MARKS.finditer(self._source):
            self._add(pieces, at, mark.start())
            at = mark.end()
        self._add(pieces, at, len(self._source))
        self.text = "".join(pieces)

    @property
    def bare(self) -> str:
        """The form without the punctuation at its ends."""
        return self.text.strip(_ENDS)

    def piece(self, start: int, end: int) -> str:
        """Return the piece of the text that this piece of its form stands for."""
        return self._source[self._places[start] : self._places[end - 1] + 1]

    def _add(self, pieces: list[str], start: int, end: int) -> None:
        for place in range(start, end):
            form = _FORMS[ord(self._source[place])]
            if form == " " and (not pieces or pieces[-1] == " "):
                continue
            for character in form:
                pieces.append(character)
                self._places.append(place)


def bare(text: str) -> str:
    """Return the form of a text without the punctuation at its ends."""
    return Form(text).bare


class _Forms(dict[int, str]):
    """Character -> its form, computed on first use, and kept while the table is small."""

    def __missing__(self, code: int) -> str:
        form = _form(chr(code))
        if len(self) < 20_000:
            self[code] = form
        return form


def _form(character: str) -> str:
    if character.isspace():
        return " "
    if _QUOTE.match(character) or unicodedata.category(character) == "Cf":
        return ""
    if _DASH.match(character):
        return "-"
    return "..." if character == "\u2026" else character.casefold()


_FORMS = _Forms()
