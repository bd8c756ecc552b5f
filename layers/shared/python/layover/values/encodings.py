"""Texts of files, in the encoding that the mark at their beginning tells, as Windows writes it."""

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The encodings by their marks; that of UTF-16 is the beginning of another."""


def decode(data: bytes) -> str:
    """Return the text, without its mark; one without a mark is UTF-8. Raises ValueError for what is not a
    text."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    text = data.decode(encoding)
    if "\0" in text:
        raise ValueError("a text has no NUL")
    return text
