"""Whether what a model wants to remember was said (BEHAVIOUR 12.6). Pure."""

import re
from collections.abc import Sequence

MIN_WORDS = 4
MIN_LETTERS = 16

_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"\d+(?:[.,:/\-]\d+)*")
_QUANTITY = re.compile(r"[€$£¥#~<>=+\-]?\d[\d.,:/\-]*[^\W\d_]{0,4}[%€$£¥°]?")
"""A number with a unit stuck to it: `5kg`, `$40`, `99.9%`."""
_URL = re.compile(r"\b[a-z][a-z0-9+.\-]*://\S+", re.IGNORECASE)
_PATH = re.compile(r"(?:[a-z]:)?(?:~|\.{1,2})?[/\\][\w.~\-]", re.IGNORECASE)
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]+[A-Z]")
_DOTTED = re.compile(r"\w{2,}(?:\.\w{2,})+")
_WRAPPING = "\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb()[]{}<>.,;:!?\u2026*"
_NO_BLANKS = (
    "\u0e00-\u1fff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003fffd"
    "\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uffef"
)
"""Scripts that write no blanks, or stick endings to a name in Latin letters (Korean); their punctuation."""
_UNBOUNDED = re.compile(f"[{_NO_BLANKS}]")
_LETTER = rf"[^\W_{_NO_BLANKS}]"
"""A letter or a digit that is part of the word beside it."""
_POSSESSIVE = re.compile("['\u2019]s$")


def normalised(text: str) -> str:
    """Runs of white space as one blank, none at the ends."""
    return _SPACE.sub(" ", text).strip()


def has_evidence(evidence: str, messages: Sequence[str]) -> bool:
    """Whether `evidence` is an exact piece of one of the messages and says enough: at least 4 words or
    16 letters, or the whole message."""
    piece = normalised(evidence)
    if not any(c.isalnum() for c in piece):
        return False
    whole = [normalised(m) for m in messages]
    if piece in whole:
        return True
    return says_enough(piece) and any(_stands_in(piece, m) for m in whole)


def says_enough(piece: str) -> bool:
    """At least 4 words or 16 letters."""
    words = sum(any(c.isalnum() for c in w) for w in piece.split())
    return words >= MIN_WORDS or sum(c.isalpha() for c in piece) >= MIN_LETTERS


def unsaid(content: str, texts: Sequence[str]) -> list[str]:
    """Numbers, URLs, addresses, paths and identifiers of `content` that occur in none of the turn's
    texts. What they name would be made up."""
    said = normalised(" \x00 ".join(texts)).casefold()
    return [a for a in anchors(content) if not _occurs(a.casefold(), said)]


def anchors(content: str) -> list[str]:
    """What has to have been said literally: numbers, URLs, addresses, paths, identifiers."""
    found: list[str] = []
    for word in _UNBOUNDED.sub(" ", content).split():
        token = _POSSESSIVE.sub("", word.strip(_WRAPPING))
        if _is_identifier(token):
            found.append(token)
        else:
            found += _NUMBER.findall(token)
    return found


def _is_identifier(token: str) -> bool:
    if _URL.match(token) or _PATH.match(token) or "@" in token or "_" in token:
        return len(token) > 1
    if _CAMEL.search(token) or _DOTTED.search(token):
        return not _QUANTITY.fullmatch(token)
    if "/" in token or "\\" in token:
        return token.count("/") + token.count("\\") > 1 or any(c.isdigit() for c in token)
    has_digit = any(c.isdigit() for c in token)
    has_letter = any(c.isalpha() for c in token)
    return has_digit and has_letter and not _QUANTITY.fullmatch(token)


def _occurs(anchor: str, said: str) -> bool:
    if _NUMBER.fullmatch(anchor):
        return (
            re.search(rf"(?<!\d)(?<!\d[.,]){re.escape(anchor)}(?!\d)(?![.,]\d)", said) is not None
        )
    return _stands_in(anchor, said)


def _stands_in(piece: str, text: str) -> bool:
    """As a whole: `c4` does not stand in `abc42`. Scripts without blanks between words have no such
    bounds."""
    before = f"(?<!{_LETTER})" if _bounded(piece[0]) else ""
    after = f"(?!{_LETTER})" if _bounded(piece[-1]) else ""
    return re.search(f"{before}{re.escape(piece)}{after}", text) is not None


def _bounded(character: str) -> bool:
    return character.isalnum() and ord(character) < 0x0E00
