"""The caller: the claims of a verified token, and the end user that a backend names."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from functions.api.problems import Forbidden, Unauthenticated
from layover.errors import InvalidRequest
from layover.values.deployment.access import RESOURCE_HEADER, Access, Actor, is_open

_NONE: frozenset[str] = frozenset()
_JWT = re.compile(r"(?:bearer\s+)?[\w-]+\.([\w-]+)\.[\w-]*", re.IGNORECASE | re.ASCII)
_RESOURCE = re.compile(r"[!-+\--~]{1,256}")
"""Printable ASCII without blanks and commas: a gateway joins repeated headers by commas."""


def caller(event: Mapping[str, Any], path: str, access: Access) -> Actor | None:
    """Return the caller, with the user for whom it acts; None on open paths. The gateway has verified
    signature, issuer, audience and expiry. Raises Unauthenticated (no token), Forbidden (a scope is missing),
    InvalidRequest (the named user is not an id)."""
    if is_open(path):
        return None
    claims = claims_of(event)
    sub = claims.get("sub")
    if not isinstance(sub, str) or not sub:
        raise Unauthenticated("send `Authorization: Bearer TOKEN`")
    scopes = _scopes(claims)
    if access.scope not in scopes:
        raise Forbidden("the token lacks a scope; an ID token has none", access.scope)
    groups = _groups(event, claims, access.groups_claim)
    scopes = access.scopes_of(scopes, groups)
    resource = _header(event, RESOURCE_HEADER)
    if resource is None:
        return Actor(sub=sub, scopes=scopes, groups=groups)
    if access.act_as_scope not in scopes:
        raise Forbidden(f"`{RESOURCE_HEADER}` is for backends", access.act_as_scope)
    return Actor(sub=sub, on_behalf_of=_resource(resource), scopes=scopes, groups=groups)


def claims_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the claims that the authorizer passes on; empty without a token."""
    authorizer = (event.get("requestContext") or {}).get("authorizer") or {}
    claims: Mapping[str, Any] = (authorizer.get("jwt") or {}).get("claims") or {}
    return claims


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes of `scope` (RFC 8693) and `scp`; the authorizer passes lists on as `[a b]`."""
    values = [claims.get(name) for name in ("scope", "scp")]
    return frozenset(
        s for each in values if isinstance(each, str) for s in each.strip("[]").split()
    )


def _groups(event: Mapping[str, Any], claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Return the groups of the caller.

    The JWT authorizer of an HTTP API passes a list on as one text, `[finance ops]`: a group whose name has a
    blank would become two. So the groups are read from the token itself, which the authorizer has verified.
    If the token is not there, they are read from the text."""
    value = _payload(event, claims).get(claim, claims.get(claim))
    if isinstance(value, str):
        value = _split(value)
    return frozenset(g for g in value if isinstance(g, str)) if isinstance(value, list) else _NONE


def _split(text: str) -> list[Any]:
    text = text.strip()
    if text.startswith('["'):
        try:
            groups = json.loads(text)
        except (ValueError, RecursionError):
            return []
        return groups if isinstance(groups, list) else []
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    return [group for group in re.split(r"[,\s]+", text) if group]


def _payload(event: Mapping[str, Any], claims: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the claims as the token has them, if the authorizer passed on the claims of this token."""
    token = _JWT.fullmatch(_header(event, "Authorization") or "")
    if token is None:
        return {}
    try:
        payload = json.loads(base64.urlsafe_b64decode(token[1] + "=" * (-len(token[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    is_it = isinstance(payload, dict) and all(
        str(payload.get(name)) == str(claims.get(name)) for name in ("sub", "jti")
    )
    return payload if is_it else {}


def _header(event: Mapping[str, Any], name: str) -> str | None:
    headers = event.get("headers") or {}
    return next((str(v).strip() for k, v in headers.items() if k.lower() == name.lower()), None)


def _resource(text: str) -> str:
    if not _RESOURCE.fullmatch(text):
        wrong = {
            "loc": ["header", RESOURCE_HEADER],
            "msg": "is not a user's id",
            "type": "resource",
        }
        raise InvalidRequest(f"`{RESOURCE_HEADER}` has to be one user's id", [wrong])
    return text
