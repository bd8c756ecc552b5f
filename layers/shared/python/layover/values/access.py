"""Who may call the API: what needs no token, and what a token has to allow."""

from layover.values.base import Value

DOCS = "/docs"
DISCOVERY = "/.well-known/layover"
"""Where a client learns how to sign in."""
OPEN_PATHS = frozenset({"/", "/healthz", DOCS, "/openapi.json", DISCOVERY})
"""Paths that need no token (CONTRACT 3); the gateway in front lets nothing else through without one."""
RESOURCE_HEADER = "X-Layover-Resource"
"""The end user for whom a backend asks."""


class Access(Value):
    """The scopes that tokens need, and where users get them (`issuer` None: on one machine)."""

    scope: str = "layover/use"
    """Every request. ID tokens have no scopes, so they are refused."""
    act_as_scope: str = "layover/act-as"
    """A backend's own token, to name the end user."""
    issuer: str | None = None
    client_id: str | None = None
    """The public client that people sign in with."""
