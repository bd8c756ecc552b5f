"""Answers of token endpoints as tokens. They are a stranger's: everything in them is checked."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from layover.ports.grants import INVALID_RESPONSE, TokenRefused
from layover.values.grant import Tokens

MAX_TOKEN = 16_384
"""Characters of a token. Some services put a user's whole rights into one."""
_MAX_SCOPES = 100
_TOKEN = re.compile(r"[\x21-\x7e]+")
"""A header can have no other."""
_LONGEST = timedelta(days=3650)


def tokens_in(fields: Mapping[str, Any], now: datetime, before: Tokens | None = None) -> Tokens:
    """Return the tokens of an answer. `before`: those that were used to get it; a service that answers
    without a refresh token, or without scopes, means the same ones. Raises TokenRefused for an answer without
    a token that could be used."""
    kind = fields.get("token_type")
    if isinstance(kind, str) and kind.lower() not in ("bearer", "user", "bot"):
        # Tokens of other kinds (DPoP, MAC) do not work in an Authorization: Bearer.
        raise TokenRefused("unsupported_token_type")
    access = _token(fields.get("access_token"))
    if access is None:
        raise TokenRefused(INVALID_RESPONSE)
    lives = _seconds(fields.get("expires_in"))
    refresh = _token(fields.get("refresh_token")) or (before.refresh if before else None)
    scopes = _scopes(fields.get("scope"))
    return Tokens(
        access=access,
        refresh=refresh,
        expires_at=now + lives if lives is not None else None,
        lives=lives,
        granted=scopes if scopes is not None else (before.granted if before else None),
    )


def _token(value: Any) -> str | None:
    is_usable = isinstance(value, str) and len(value) <= MAX_TOKEN and _TOKEN.fullmatch(value)
    return value if is_usable else None


def _seconds(value: Any) -> timedelta | None:
    """Return a lifetime; None if the service did not say one. Some services send numbers as texts, and 0 or
    less for tokens without an end."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value[:12])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        return None
    return min(timedelta(seconds=value), _LONGEST)


def _scopes(value: Any) -> tuple[str, ...] | None:
    """Return scopes that are parted by blanks, as the standard says, or by commas, as some services do."""
    if not isinstance(value, str):
        return None
    words = re.split(r"[\s,]+", value.strip())[:_MAX_SCOPES]
    return tuple(word[:200] for word in words if word.isprintable() and word)
