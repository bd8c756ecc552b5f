"""Answers of token endpoints as tokens. They are a stranger's: everything in them is checked."""

import json
import re
from base64 import urlsafe_b64decode
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
_UNSAID = timedelta(hours=1)
"""The life of a token that can be renewed and whose service says nothing of its end, as Salesforce does."""
_OTHER_KINDS = frozenset({"dpop", "mac", "pop", "n_a"})
"""Kinds of tokens that do not work in an Authorization: Bearer. The other words that services have for
theirs (`jwt-bearer`, `user`, `BearerToken`) mean one that does."""
_OF_USERS = "authed_user"
"""Slack's place of a user's tokens; those at the top of its answer are the bot's."""
_ACCOUNTS = ("sub", "user_id", "userid", "account_id")
"""Fields in which services name the account."""
_OF_CLIENTS = re.compile(r"client|consumer|grant_type|redirect|unsupported_token_type")
"""Words of what only the deployer can mend."""
_OF_GRANTS = frozenset({"status_200", "status_400", "status_401", "unauthorized_client"})
"""Refusals without a word, with the statuses that token endpoints have for them; and what Atlassian and
Google say of a refresh token, although it names the client."""
_PASSING = re.compile(
    r"rate_?limit|too_many|slow_down|temporar|unavailable|server_error|internal_error|time_?out|fatal"
)


def passes(code: str) -> bool:
    """Return whether a service that refuses with this code may be asked again."""
    return _PASSING.search(code) is not None


def ends_grant(code: str) -> bool:
    """Return whether a renewal that is refused with this code needs the user's consent. That is the rule,
    because services have many words for a grant that is over: `invalid_grant`, `interaction_required`,
    `bad_refresh_token`, `token_revoked`. What says that the client is wrong is the deployer's, and so is what
    is not a token endpoint's answer."""
    if code in _OF_GRANTS:
        return True
    return (
        code != INVALID_RESPONSE and not code.startswith("status_") and not _OF_CLIENTS.search(code)
    )


def tokens_in(
    fields: Mapping[str, Any],
    now: datetime,
    before: Tokens | None = None,
    path: str | None = None,
) -> Tokens:
    """Return the tokens of an answer. `before`: those that were used to get it; what the service does not say
    anew (a refresh token, a lifetime, scopes, the account) stays. `path`: `Connection.token_path`. Raises
    TokenRefused for an answer without a token that could be used."""
    whole, fields = fields, _at(fields, path, before)
    kind = fields.get("token_type")
    if isinstance(kind, str) and kind.lower() in _OTHER_KINDS:
        raise TokenRefused("unsupported_token_type")
    access = _token(fields.get("access_token"))
    if access is None:
        raise TokenRefused(INVALID_RESPONSE)
    refresh = _token(fields.get("refresh_token")) or (before.refresh if before else None)
    if "expires_in" in fields:
        lives = _seconds(fields["expires_in"])
    else:
        lives = _told_by(access, now) or _unsaid(refresh, before)
    scopes = _scopes(fields.get("scope"))
    return Tokens(
        access=access,
        refresh=refresh,
        expires_at=now + lives if lives is not None else None,
        lives=lives,
        granted=scopes if scopes is not None else (before.granted if before else None),
        account=_account(fields) or _account(whole) or (before.account if before else None),
    )


def _at(fields: Mapping[str, Any], path: str | None, before: Tokens | None) -> Mapping[str, Any]:
    """Return the part of an answer that has the tokens. That of a renewal may have them at the top: it was
    asked for by their own refresh token."""
    places = [path] if path is not None else [_OF_USERS, ""]
    for place in [*places, ""] if before is not None else places:
        part: Any = fields
        for name in filter(None, place.split(".")):
            part = part.get(name) if isinstance(part, Mapping) else None
        if isinstance(part, Mapping) and "access_token" in part:
            return part
    raise TokenRefused(INVALID_RESPONSE)


def _account(fields: Mapping[str, Any]) -> str | None:
    """Return the account that an answer names: that of its ID token, which the endpoint itself has given, or
    one of its fields."""
    sub = _claims(fields.get("id_token")).get("sub")
    for name, value in [("sub", sub), *((each, fields.get(each)) for each in _ACCOUNTS)]:
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return f"{name}:{value}"[:500]
    return None


def _claims(token: Any) -> Mapping[str, Any]:
    """Return the claims of a JWT, as its sender wrote them; none if it is not one."""
    try:
        _, body, _ = str(token).split(".")
        claims = json.loads(urlsafe_b64decode(f"{body}==="))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, Mapping) else {}


def _unsaid(refresh: str | None, before: Tokens | None) -> timedelta | None:
    """Return the life of a token of which nobody says it: that of the one before, if that had one."""
    lives = before.lives if before else None
    return lives or (_UNSAID if refresh else None)


def _told_by(access: str, now: datetime) -> timedelta | None:
    """Return the life that a JWT has left by its own `exp`; None if it says none."""
    end = _claims(access).get("exp")
    return _seconds(end - now.timestamp()) if isinstance(end, int | float) else None


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
    """Return scopes that are parted by blanks, as the standard says, or by commas or in a list, as some
    services do."""
    if isinstance(value, list):
        value = " ".join(each for each in value if isinstance(each, str))
    if not isinstance(value, str):
        return None
    words = re.split(r"[\s,]+", value.strip())[:_MAX_SCOPES]
    return tuple(word[:200] for word in words if word.isprintable() and word)
