"""Secrets stay out of what is remembered (BEHAVIOUR 7.6 and 12.6)."""

import re
from typing import Any

REDACTED = "[redacted]"

_WORDS = (
    r"pass(?:word|wd|phrase|code)?|pwd|secret|token|authorization|api[_\- ]?key|apikey|access[_\- ]?key"
    r"|private[_\- ]?key|client[_\- ]?secret|pin"
    r"|pass[wk]ort|kennwort|wachtwoord|contrase[nñ]a|mot de passe|senha|has[lł]o|пароль"
)
_UNSPACED = "密码|密碼|口令|パスワード|暗証番号|비밀번호|पासवर्ड|كلمة المرور|كلمة السر"
"""Password, PIN: Chinese, Japanese, Korean, Hindi, Arabic."""
_KEY = re.compile(rf"(?:^|[_\-. ])(?:{_WORDS})(?:$|[_\-. ])|(?:{_UNSPACED})", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Bounded, as every place of a long run of words and hyphens is a place to begin.
_NAMED = re.compile(
    rf"(?P<name>\b(?:[\w\-]{{0,64}}[_\-])?(?:{_WORDS})\b[\"']?|(?:{_UNSPACED}))"
    r"(?P<link>\s{0,8}(?:[:=\uff1a]+>?|\b(?:is|was|are|to|ist|lautet|es|est|é)\b:?|[是为為は])\s{0,8})"
    r"(?P<value>\"[^\"]*\"|'[^']*'|(?:(?:bearer|basic)\s+)?[^\s\uff0c。\uff1b、]+)",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:bearer|basic)\s{1,8}[A-Za-z0-9._~+/\-]{12,}=*"
    r"|(?<![\w\-])eyJ[\w\-]{8,}+\.[\w\-]{8,}(?:\.[\w\-]*)?"
    r"|\b(?:sk|pk|rk|ghp|gho|ghs|ghr|github_pat|glpat|xox[abprs])[_\-][A-Za-z0-9_\-]{12,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)",
    re.DOTALL | re.IGNORECASE,
)


def is_secret_key(key: str) -> bool:
    """Whether a field of this name holds a secret: `password`, `apiKey`, `X-Auth-Token`, ..."""
    return _KEY.search(_CAMEL.sub("_", key)) is not None


def redact(text: str) -> str:
    """The text without what looks like a secret or is named as one (`password: x`, `Bearer x`)."""
    text = _SHAPES.sub(REDACTED, text)
    return _NAMED.sub(_without_value, text)


def redacted(value: Any) -> Any:
    """A JSON value without secrets: texts are redacted, fields with a secret's name whole."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {
            k: REDACTED if is_secret_key(str(k)) and v else redacted(v) for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(v) for v in value]
    return value


def _without_value(match: re.Match[str]) -> str:
    """After a word (`is`), only what has a digit or a sign in it: "the password is wrong" is no secret."""
    value = match["value"]
    spoken = match["link"].strip(" :").isalpha()
    if spoken and not re.search(r"[^\W_]*[\d_!@#$%^&*+=~]", value.strip("\"'.,;!?")):
        return match[0]
    return f"{match['name']}{match['link']}{REDACTED}"
