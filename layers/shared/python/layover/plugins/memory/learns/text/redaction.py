"""Redaction, which keeps secrets out of memory (docs/behaviour.md#secrets)."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from layover.lazy import lazy_pattern

REDACTED = "[redacted]"

_PASSWORDS = (
    r"pass[_\- ]?(?:word|phrase|code)|passwd|pwd|pass[wk]ort|kennwort|wachtwoord|contrase[nñ]a"
    r"|mot[_\- ]de[_\- ]passe|senha|has[lł]o|пароль"
)
_KEYS = r"(?:api|access|private|signing|encryption|secret)[_\- ]?key"
_GLUED = (
    rf"(?:{_PASSWORDS}|{_KEYS}|secret|credential)s?|token"
    r"|(?:access|auth|refresh|session|api|id)[_\-]?tokens"
)
"""Also found at the end of a longer word: `PGPASSWORD`, `authtoken`. `tokens` are usually counted."""
_WHOLE = r"pass|pin|authorization|cookies?"
"""Found only as a whole word: `shipping` is not a PIN."""
_TAILS = (
    r"counts?|limits?|usage|budget|length|size|type|policy|status|required|enabled|expir(?:y|es|ed|ation)"
    r"|ttl|name|file|path|consent|banner"
)
"""Endings of fields that describe a secret instead of holding it: `token_count`, `password_policy`."""
_UNSPACED = "密码|密碼|口令|パスワード|暗証番号|비밀번호|पासवर्ड|كلمة المرور|كلمة السر"
"""Password, PIN: Chinese, Japanese, Korean, Hindi, Arabic."""
_KEY = lazy_pattern(
    rf"(?:(?:{_GLUED})|(?:^|[_\-. ])(?:{_WHOLE}))\d*(?:$|[_\-. ](?!(?:{_TAILS})(?:$|[_\-. ])))|{_UNSPACED}",
    re.IGNORECASE,
)
_CAMEL = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# A name begins where a run of letters begins, so that each run is examined once.
_RUN = r"(?:[\w\-]|\.(?=\w))"
_NAME = lazy_pattern(rf"(?<![\w\-])(?<!\w\.){_RUN}*?(?:{_GLUED}|{_WHOLE}){_RUN}*+", re.IGNORECASE)
_FIELD = lazy_pattern(
    r"\\{0,4}[\"']?\]?\s{0,8}"
    r"(?::\s{0,4}(?:str|bytes|string|SecretStr|Optional\[str\]|str \| None)\s{0,4}=(?!=)"
    r"|(?:(?:is|was|are|to|ist|lautet|es|est|é)\s{0,4}:|[:=\uff1a])[:=\uff1a]*+>?)\s{0,8}",
    re.IGNORECASE,
)
_SPOKEN = lazy_pattern(
    r"[\"']?\s{1,8}(?P<word>(?:is|was|has been)(?:\s(?:now|still|(?:now )?(?:set|changed|reset) to))?"
    r"|are|to|ist|lautet|es|est|é)\s{1,8}",
    re.IGNORECASE,
)
_ADJACENT = lazy_pattern(r"[\"']?\s{1,8}")
_VALUE = lazy_pattern(
    r"\\{1,4}\".{0,500}?\\{1,4}\"|\"(?:[^\"\\]|\\.)*+(?:\"|\Z)|'(?:[^'\\]|\\.)*+(?:'|\Z)|\[[^\]]{0,500}\]|\{[^}]{0,500}\}"
    r"|(?:(?:bearer|basic)\s+)?[^\s\uff0c。\uff1b、]+",
    re.IGNORECASE | re.DOTALL,
)
_COOKIES = lazy_pattern(
    r"(\b(?:set-)?cookies?\s{0,8}[:=]\s{0,8})[^\s=;\"']+=[^\s;\"']*(?:;\s?[^\s=;\"']+(?:=[^\s;\"']*)?)*",
    re.IGNORECASE,
)
_UNSPACED_NAMED = lazy_pattern(
    rf"(?P<name>{_UNSPACED})(?P<link>\s{{0,8}}(?:[:=\uff1a]+>?|[是为為は]|\bis\b:?)\s{{0,8}})"
    r"(?P<value>\"[^\"]*\"|'[^']*'|[^\s\uff0c。\uff1b、]+)",
)
_SHAPES = lazy_pattern(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:bearer|basic)\s{1,8}[A-Za-z0-9._~+/\-]{12,}=*"
    r"|(?<![\w\-])eyJ[\w\-]{8,}+\.[\w\-]{8,}(?:\.[\w\-]*)?"
    r"|\b(?:sk|pk|rk|ghp|gho|ghs|ghr|github_pat|glpat|xox[abprs])[_\-][A-Za-z0-9_\-]{12,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",
    re.DOTALL | re.IGNORECASE,
)
_PASSWORD = lazy_pattern(rf"(?:{_PASSWORDS})s?\d*$", re.IGNORECASE)
_MARKED = lazy_pattern(r"[^\W_]*[\d_!@#$%^&*+=~]")
_MIXED = lazy_pattern(r"(?=.*\d)(?=.*[^\W\d_])|[^\W_]+[!@#$%^&*]")
_DIGITS = lazy_pattern(r"\d{4,}")
_RANDOM = lazy_pattern(r"(?=\D*\d)(?=[\d_]*[^\W\d_])\w{12,}")
_COUNTED = (
    r"characters?|chars?|digits?|letters?|bits?|bytes?|[kmg]b|days?|weeks?|months?|years?"
    r"|zeichen|stellen"
)
_MEASURED = (
    rf"{_COUNTED}|(?:kilo|centi|milli|zenti)?m(?:et(?:er|re)s?|[èe]tres?|etros?|etri)|[kcm]?m"
    r"|f(?:ee|oo)?t|miles?|inch(?:es)?|yards?|hours?|minutes?|seconds?|grams?|k?g|euros?|dollars?"
    r"|cents?|pounds?|francs?|percent|degrees?"
)
_SIDE = r"high|long|wide|deep|thick|tall|hoch|lang|breit|tief|dick"
_COUNT = lazy_pattern(rf"\d+(?:[.,]\d+)?\s(?:{_COUNTED})(?!\w)", re.IGNORECASE)
_MEASURE = lazy_pattern(
    rf"(?:\d+(?:[.,]\d+)?\s(?:{_MEASURED})|\d{{1,2}}\s[^\W\d_]+\s(?:{_SIDE}))(?!\w)", re.IGNORECASE
)
"""A number with its unit, "2410 metres" or "3 lanes wide", is a fact about a thing: a pass, a pin, a token. A
password may have any words, so only its length and its age are none."""
_WRAPPING = "\"'`.,;:!?()"
_NO_PASSWORD = lazy_pattern(
    r"v\d[\d.]*|sha-?\d+|md5|base-?\d+|bcrypt\d*|argon2\w*|oauth2?|utf-?\d+|s3|ec2|k8s|\d+[a-z]{1,5}"
    r"|[^@]+@[\w\-]+\.\w+",
    re.IGNORECASE,
)
"""Words that may follow "password" without being one: a version, an algorithm, a length, an owner."""
_DESCRIPTIVE = lazy_pattern(r"[a-z]{3,}(?:ed|ing|able|ible|ly|less|n't)", re.IGNORECASE)
"""Endings of words that describe a password: `expired`, `missing`, `unreadable`."""


def is_secret_key(key: str) -> bool:
    """Return whether a field of this name holds a secret: `password`, `apiKey`, `X-Auth-Token`, ..."""
    return _KEY.search(_CAMEL.sub("_", key)) is not None


def redact(text: str) -> str:
    """Return the text without what looks like a secret (`Bearer x`) or is named as one: `db_password: x`,
    `the password is x`, `password x1`."""
    text = _COOKIES.sub(rf"\1{REDACTED}", _SHAPES.sub(REDACTED, text))
    text = _UNSPACED_NAMED.sub(_without_value, text)
    pieces, at = [], 0
    for begin, end in _values(text):
        pieces += [text[at:begin], REDACTED]
        at = end
    return "".join(pieces) + text[at:]


def redact_value(value: Any) -> Any:
    """Return a JSON value without secrets: texts are redacted, fields with a secret's name as a whole."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {
            k: REDACTED if is_secret_key(str(k)) and v else redact_value(v)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_value(v) for v in value]
    return value


def _values(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the values of names that `is_secret_key` knows, in order."""
    at = 0
    for name in _NAME.finditer(text):
        if name.start() >= at and is_secret_key(name[0]):
            value = _value_of(name, text)
            if value is not None:
                yield value.span()
                at = value.end()


def _value_of(name: re.Match[str], text: str) -> re.Match[str] | None:
    """Return the value behind a name; None if it is not a secret."""
    for link in (_FIELD, _SPOKEN, _ADJACENT):
        if separator := link.match(text, name.end()):
            if _is_measured(name[0], text, separator.end()):
                return None
            value = _VALUE.match(text, separator.end())
            if value is None or link is _FIELD:
                return value
            bare = value[0].strip(_WRAPPING)
            if link is _SPOKEN:
                secret = _is_stated(name[0], separator["word"].casefold(), bare)
            else:
                secret = _follows_name(name[0], bare)
            return value if secret else None
    return None


def _is_measured(name: str, text: str, at: int) -> bool:
    """Return whether a number with a unit stands here. `PIN` in capitals has none."""
    is_thing = name != "PIN" and not _PASSWORD.search(name)
    return (_MEASURE if is_thing else _COUNT).match(text, at) is not None


def _follows_name(name: str, bare: str) -> bool:
    """`password hunter2`, `pin 4821`, `--password x`: without a word between them."""
    if name.startswith("--"):
        return not bare.startswith("-")
    if _PASSWORD.search(name) or name.casefold() == "pin":
        match = _DIGITS.fullmatch(bare) or _MIXED.match(bare)
        return bool(match) and not _NO_PASSWORD.fullmatch(bare)
    return _RANDOM.fullmatch(bare) is not None


def _is_stated(name: str, word: str, bare: str) -> bool:
    """After `is`: a word with a digit or a sign and, for a password, any word that does not describe it. "The
    password is wrong" has no secret, "my password is swordfish" has one."""
    if _MARKED.match(bare):
        return True
    if not bare or not _PASSWORD.search(name) or word.split()[0] not in ("is", "was", "has"):
        return False
    return not _DESCRIPTIVE.fullmatch(bare) and bare.casefold() not in _descriptive_words()


def _without_value(match: re.Match[str]) -> str:
    is_prose = match["link"].strip(" :").isalpha()
    if is_prose and not _MARKED.match(match["value"].strip("\"'.,;!?")):
        return match[0]
    return f"{match['name']}{match['link']}{REDACTED}"


@cache
def _descriptive_words() -> frozenset[str]:
    text = (
        files("layover.plugins.memory.learns.text")
        .joinpath("password_words.txt")
        .read_text("utf-8")
    )
    return frozenset(
        w for line in text.splitlines() if not line.startswith("#") for w in line.split()
    )
