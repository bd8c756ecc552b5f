"""Checks that evidence was said in the conversation (docs/behaviour.md#evidence). Pure."""

import re
from collections.abc import Sequence

from layover.lazy import lazy_pattern
from layover.plugins.memory.learns.text.characters import plain_characters
from layover.plugins.memory.learns.text.forms import Form, bare
from layover.plugins.memory.learns.text.quoted import pieces
from layover.plugins.memory.learns.text.reading import GAP
from layover.plugins.memory.learns.text.redaction import redact
from layover.plugins.memory.learns.text.values import Values, has_half_of_day
from layover.plugins.memory.text.words import UNSPACED

MIN_WORDS = 4
MIN_LETTERS = 16
_DENSE = 3
"""The letters of an alphabet that a character of Chinese, Japanese, Korean, Thai, Lao, Burmese or Khmer is
worth: 6 of them say what 16 letters say."""
_HANGUL = lazy_pattern("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]+")
_MAX_WORD = 300
"""The most characters of a word that is examined, at quadratic cost. A longer word is a blob."""

_MAX_SENTENCES = 500
"""Characters of the sentences around a quote."""

_SENTENCE_END = lazy_pattern(r"(?<!\d)\.(?=\s|$)|[!?](?=\s|$)|[\u3002\uff01\uff1f\u0964\u061f]")
_SPACE = lazy_pattern(r"\s+")
_NUMBER = lazy_pattern(r"(?:^[\-\u2212])?\d+(?:[.,:/\-]\d+)*")
_UNIT = (
    "(?i:[smhdkglxwytº]|[munμµ]s|ª|mins?|hrs?|secs?|[kmgtp]i?b|[kmg]?bits?|[kmg]bps|[kmg]?hz"
    "|[mk]?v|ma|mah|[km]w|[km]?wh|[munμµ]m|[ckd]m|[km]g|lbs?|oz|[mcd]l|°[cf]|ft|yd|mi|mph|kmh|px|pt|em|rem"
    "|v[hw]|dpi|fps|rpm|d[b]|st|nd|rd|th|am|pm|usd|eur|gbp|chf|mio|mrd|deg|k?j|k?cal|h?pa|bar|psi|er|e|[eè]me"
    "|mal|fach)|[AVWNJCFKMBh]"
)
_QUANTITY = lazy_pattern(
    rf"[€$£¥#~<>=+\-\u2212]?[€$£¥]?\d[\d.,:/\-]*(?:{_UNIT})?[%€$£¥°]?(?:/(?:{_UNIT}))?"
)
"""A number with a unit stuck to it: `5kg`, `$40`, `99.9%`. Other letters make it a name: `12a`."""
_URL = lazy_pattern(r"\b[a-z][a-z0-9+.\-]*://\S+", re.IGNORECASE)
_PATH = lazy_pattern(r"(?:[a-z]:)?(?:~|\.{1,2})?[/\\][\w.~\-]", re.IGNORECASE)
_CAMEL = lazy_pattern(r"[a-z][A-Z]|[A-Z]{2,}[a-z]+[A-Z]")
_DOTTED = lazy_pattern(r"\w{2,}(?:\.\w{2,})+|(?<![\w.])[^\W\d_](?:\.\w{2,})+")
_ABBREVIATED = lazy_pattern(
    r"(?i:p\.(?:ex|ej|es|chr)|t\.ex|f\.eks|m\.fl|z\.bsp|[vna]\.chr|i\.(?:allg|ggs)|s\.th)"
    r"|(?:[A-Z]\.)+[A-Z][a-z]+"
)
"""`p.ex` and `J.Smith`; an abbreviation of single letters (`e.g`, `p.m`) is not `_DOTTED`."""
_HIDDEN = lazy_pattern(r"[/\\]\.\w")
_FILE = lazy_pattern(
    r"\w\.(?:py|js|[jt]sx?|go|rs|rb|sh|md|txt|csv|tsv|json|ya?ml|toml|sql|java|kt|cs|cc|cpp|hpp|html?|css|xml"
    r"|log|cfg|conf|ini|env|pdf|png|jpe?g|svg|zip|tar|gz|so|lua|php|pl|swift|exe|dll|bat|ps1|ipynb)"
    r"|\w{2,}\.[chrmo]",
    re.IGNORECASE,
)
"""`a.py`, `main.c`; `e.g` and `d.h` are not."""
_FOLDER = lazy_pattern(
    r"(?:src|libs?|s?bin|etc|usr|var|opt|tmp|dist|vendor|node_modules|pkg|cmd|packages|scripts|tests"
    r"|deploy|infra|terraform|helm|charts|migrations|fixtures|mnt|srv|proc"
    r"|features?|feat|bugfix|hotfix|chore|refactor|origin|upstream|refs|heads)/[\w.\-]+",
    re.IGNORECASE,
)
"""`src/main`, `feature/login`: with one slash, a path begins with a usual folder or a branch's prefix. Any
other two words may just be alternatives: and/or, read/write, client/server."""
_HEX = lazy_pattern(r"[0-9a-f]{8,}", re.IGNORECASE)
_LOUD = lazy_pattern(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MIN_LOUD = 4
"""The capital letters that make a word a name: `ECONNREFUSED`, `ORDER-ABC`."""
_CODE = lazy_pattern(r"(?=.*\d)[^\W\d_][^\W_]*(?:[\-_#][^\W_]+)*")
_VERSION = lazy_pattern(r"v?\d+(?:\.\d+)*(?:-?(?:alpha|beta|rc)\d*)?|[0-9a-f]{7,}", re.IGNORECASE)
_MINUS = lazy_pattern(r"\u2212|\b(?:minus|negative) (?=\d)", re.IGNORECASE)
_WRAPPING = "\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb()[]{}<>.,;:!?\u2026*"
_NO_BLANKS = (
    "\u0e00-\u1fff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003fffd"
    "\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uffef"
)
"""Scripts that write no blanks, or stick endings to a name in Latin letters (Korean); their punctuation."""
_UNBOUNDED = lazy_pattern(f"[{_NO_BLANKS}]")
_LETTER = rf"[^\W_{_NO_BLANKS}]"
"""A letter or a digit that is part of the word next to it."""
_POSSESSIVE = lazy_pattern("['\u2019]s$")


def normalise(text: str) -> str:
    """Return the text with runs of white space as one blank, and none at the ends."""
    return _SPACE.sub(" ", text).strip()


class Witness:
    """A text as a model was shown it, of which the model quotes pieces."""

    def __init__(self, text: str) -> None:
        parts = pieces(text)
        self.own_texts = [p.text for p in parts if not p.quoted]
        self._is_all_own = len(self.own_texts) == len(parts) == 1
        self._whole = _forms(text)
        self._own = [form for own in self.own_texts for form in _forms(own)]

    def own_piece(self, evidence: str) -> str | None:
        """Return the piece that the evidence quotes of what the text's author wrote; None if it quotes none,
        or too short a one, which is not the whole text."""
        return _quoted_piece(evidence, self._own, self._whole if self._is_all_own else ())

    def piece(self, evidence: str) -> str | None:
        """Return the piece that the evidence quotes of any part of the text."""
        return _quoted_piece(evidence, self._whole, self._whole)


def has_evidence(evidence: str, texts: Sequence[str]) -> bool:
    """Return whether the evidence quotes a piece of one of the texts that its author wrote."""
    return any(Witness(text).own_piece(evidence) is not None for text in texts)


def _forms(text: str) -> list[Form]:
    """Return the forms of a text's parts: what was left out of it is no part of a quote."""
    return [Form(part) for part in GAP.split(text)]


def _quoted_piece(evidence: str, parts: Sequence[Form], whole: Sequence[Form]) -> str | None:
    for quote in dict.fromkeys((bare(evidence), bare(redact(evidence)))):
        if not quote:
            continue
        for form in whole:
            if len(whole) == 1 and quote == form.bare:
                return normalise(form.piece(0, len(form.text)))
        if not says_enough(quote):
            continue
        for form in parts:
            if (start := form.text.find(quote)) >= 0:
                return normalise(form.piece(start, start + len(quote)))
    return None


def says_enough(piece: str) -> bool:
    """Return whether the piece has at least 4 words, 16 letters, or 6 characters of a dense script."""
    words = sum(any(c.isalnum() for c in w) for w in piece.split())
    dense = "".join(run for pattern in (UNSPACED, _HANGUL) for run in pattern.findall(piece))
    letters = sum(c.isalpha() for c in piece) + (_DENSE - 1) * sum(c.isalpha() for c in dense)
    return words >= MIN_WORDS or letters >= MIN_LETTERS


def sentences_around(piece: str, texts: Sequence[str]) -> str:
    """Return the whole sentences of which one of the texts has the piece, since half a sentence may say
    something else; the piece itself if it stands in none as it is."""
    for text in map(normalise, texts):
        if (at := text.find(piece)) >= 0:
            start = max((m.end() for m in _SENTENCE_END.finditer(text, 0, at)), default=0)
            end = _SENTENCE_END.search(text, at + len(piece) - 1)
            whole = text[start : end.end() if end else len(text)].strip()
            return whole if len(whole) <= _MAX_SENTENCES else piece
    return piece


def missing_anchors(content: str, texts: Sequence[str]) -> list[str]:
    """Return the numbers, URLs, addresses, paths and identifiers of `content` that occur in none of the
    turn's texts, because the model made them up. Numbers, dates and times are compared by value."""
    conversation = " \x00 ".join(map(plain_characters, texts))
    conversation_text = _MINUS.sub("-", normalise(conversation).casefold())

    def unsaid(content: str) -> list[str]:
        candidates = dict.fromkeys(anchors(content))
        return [
            a for a in candidates if not _occurs(_MINUS.sub("-", a.casefold()), conversation_text)
        ]

    content = _MINUS.sub("-", normalise(plain_characters(content)))
    missing = unsaid(content)
    if not missing and not has_half_of_day(content):
        return []
    values = Values(conversation_text)
    missing = [a for a in unsaid(values.without(content)) if not values.names(a)]
    return missing + values.opposed(content)


def anchors(content: str) -> list[str]:
    """Return the parts that have to be literal: numbers, URLs, addresses, paths, identifiers."""
    literals: list[str] = []
    content = plain_characters(content)
    words = _UNBOUNDED.sub(" ", content).split()
    is_all_capitals = content == content.upper() and len(words) >= MIN_WORDS
    for word in words:
        token = _POSSESSIVE.sub("", word.strip(_WRAPPING))
        if _is_identifier(token) or (not is_all_capitals and _is_loud(token)):
            literals.append(token)
        else:
            literals += _NUMBER.findall(token)
    return literals


def codes(content: str) -> set[str]:
    """Return the codes that name things (`Q-14`, `INV-2041`), in lower case. They begin with a letter. A
    version, an address, a path or a number with letters after it (`30-day`, `14h30`) is a value of a thing
    and may change."""
    literals = (a for a in anchors(content) if _CODE.fullmatch(a) and not _VERSION.fullmatch(a))
    return {a.casefold() for a in literals}


def _is_identifier(token: str) -> bool:
    if len(token) > _MAX_WORD:
        return True
    if _URL.match(token) or _PATH.match(token) or "@" in token or "_" in token:
        return len(token) > 1
    if _CAMEL.search(token) or _is_dotted(token):
        return not _QUANTITY.fullmatch(token)
    has_digit = any(c.isdigit() for c in token)
    has_letter = any(c.isalpha() for c in token)
    if "/" in token or "\\" in token:
        several = token.count("/") > 1 or "\\" in token or _FOLDER.fullmatch(token)
        return bool(several or has_digit) and not _QUANTITY.fullmatch(token)
    if has_letter and _HEX.fullmatch(token):
        return True
    return has_digit and has_letter and not _QUANTITY.fullmatch(token)


def _is_dotted(token: str) -> bool:
    """Return whether the token is a host, a file or a member: `evil.com`, `t.me/x`, `a.py`, `deploy/.env`."""
    if _FILE.fullmatch(token) or _HIDDEN.search(token):
        return True
    return _DOTTED.search(token) is not None and not _ABBREVIATED.fullmatch(token)


def _is_loud(token: str) -> bool:
    letters = sum(c.isalpha() for c in token)
    return token.isupper() and letters >= _MIN_LOUD and _LOUD.fullmatch(token) is not None


def _occurs(anchor: str, text: str) -> bool:
    if anchor not in text:
        return False
    if _NUMBER.fullmatch(anchor):
        before = r"(?<![\w.])" if anchor.startswith("-") else r"(?<!\d)(?<!\d[.,])"
        return re.search(rf"{before}{re.escape(anchor)}(?!\d)(?![.,]\d)", text) is not None
    return _stands_in(anchor, text)


def _stands_in(piece: str, text: str) -> bool:
    """Return whether the piece occurs in the text as a whole word: `c4` does not occur in `abc42`. Scripts
    without blanks between words have no such bounds."""
    before = f"(?<!{_LETTER})" if _has_bounds(piece[0]) else ""
    after = f"(?!{_LETTER})" if _has_bounds(piece[-1]) else ""
    return re.search(f"{before}{re.escape(piece)}{after}", text) is not None


def _has_bounds(character: str) -> bool:
    return character.isalnum() and ord(character) < 0x0E00
