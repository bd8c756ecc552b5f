"""Grants: the rights that users have given agents at other services, one for each connection, and the
requests for consent that lead to one."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field

from layover.values.base import Time, Value

EARLY = timedelta(seconds=60)
"""A token is replaced this long before it expires, or a tenth of its life, whichever is less: whoever gets it
still has time to use it."""


class Tokens(Value):
    """The tokens of a grant, as its service gave them. They are stored sealed, and shown nowhere."""

    access: str = Field(repr=False)
    refresh: str | None = Field(default=None, repr=False)
    expires_at: Time | None = None
    """None: the service did not say."""
    lives: timedelta | None = None
    """The time from the answer of the service to `expires_at`."""
    granted: tuple[str, ...] | None = None
    """The scopes that the service says it granted; None: it said nothing."""

    def is_due(self, now: datetime) -> bool:
        """Return whether the token should be replaced before it is used."""
        if self.expires_at is None:
            return False
        lives = self.lives or EARLY * 10
        return now >= self.expires_at - min(EARLY, lives / 10)

    def has_expired(self, now: datetime) -> bool:
        """Return whether no service takes the token any more."""
        return self.expires_at is not None and now >= self.expires_at


class Grant(Value):
    """The rights that an owner has given at one connection. `version` counts its writes: a writer replaces
    only the one that it has read."""

    owner: str
    connection: str
    service: str = ""
    """The service that gave it (`Connection.service`): it is sent to no other, whatever its name is."""
    version: int = 1
    scopes: tuple[str, ...] = ()
    """The scopes that the owner was asked for."""
    granted: tuple[str, ...] | None = None
    """The scopes that the service says it granted; None: it said nothing."""
    sealed: str = Field(repr=False)
    """The tokens (`Tokens`), readable only with the deployment's key."""
    connected_at: Time
    refreshed_at: Time | None = None
    ended_at: Time | None = None
    """The time at which the service said that it takes the tokens no more; None: it takes them."""
    renewing_until: Time | None = None
    """The time until which one process has the right to ask the service for new tokens."""

    def needs_consent(self, service: str, scopes: Iterable[str]) -> bool:
        """Return whether its owner has to be asked, because it is of another service, the service ended it,
        or the connection wants more scopes than the owner was asked for."""
        is_good = self.service == service and self.ended_at is None
        return not is_good or not set(scopes) <= set(self.scopes)


class Consent(Value):
    """A request for a user's consent, found by its owner and the hash of its `state`."""

    owner: str
    connection: str
    service: str = ""
    """The service whose page was to be shown."""
    scopes: tuple[str, ...]
    redirect_url: str
    sealed_verifier: str = Field(repr=False)
    """The secret of PKCE (RFC 7636), sealed."""
    asked_at: Time
    expires_at: Time
    is_used: bool = False
    """True if its code was exchanged, or is being exchanged."""


class ConnectionView(Value):
    """A connection as its user sees it. There is no token in it."""

    name: str
    status: Literal["connected", "missing", "expired", "more"]
    """`missing`: the user was not asked, or said no. `expired`: the service takes the tokens no more. `more`:
    agents want scopes that the user was not asked for."""
    scopes: tuple[str, ...]
    """The scopes that agents want."""
    granted: tuple[str, ...] | None = None
    """The scopes that the user has allowed, as the service says; None: unknown, or not connected."""
    agents: tuple[str, ...] = ()
    """Names of the agents that have it; empty: none has it any more."""
    connected_at: Time | None = None
    refreshed_at: Time | None = None
