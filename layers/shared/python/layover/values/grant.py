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

_UNTOLD = frozenset({"openid", "offline_access"})
"""Scopes of OpenID Connect that services grant and do not list."""


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
    account: str | None = None
    """The account as its service names it, behind the name of the field, such as `sub:42`; None: unknown."""

    def is_of_another_account(self, other: "Tokens") -> bool:
        """Return whether these are known to be of another account than the others."""
        if self.account is None or other.account is None or self.account == other.account:
            return False
        return self.account.partition(":")[0] == other.account.partition(":")[0]

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
    asked_at: Time | None = None
    """The time at which its owner was asked; None: a release that did not note it."""
    connected_at: Time
    refreshed_at: Time | None = None
    ended_at: Time | None = None
    """The time at which the service said that it takes the tokens no more; None: it takes them."""
    renewing_until: Time | None = None
    """The time until which one process has the right to ask the service for new tokens."""
    left_at: Time | None = None
    """The time at which its owner disconnected it, or was erased: nobody uses it any more, and its service is
    still to be told."""

    @property
    def began_at(self) -> datetime:
        """Return the time from which an erasure of its owner's earlier data spares it."""
        return self.asked_at or self.connected_at

    def needs_consent(self, service: str, scopes: Iterable[str]) -> bool:
        """Return whether its owner has to be asked, because it is of another service, the service ended it,
        or the connection wants more scopes than the owner was asked for."""
        is_good = self.service == service and self.ended_at is None
        return not is_good or not set(scopes) <= set(self.scopes)

    def lacks(self, scopes: Iterable[str]) -> bool:
        """Return whether its owner has not allowed some of these scopes, as far as the service says. Services
        word them in their own way: with an address before them, or by a wider one."""
        words = [word.lower() for word in (self.scopes if self.granted is None else self.granted)]
        return not all(_is_among(scope.lower(), words) for scope in set(scopes) - _UNTOLD)


def _is_among(scope: str, words: Iterable[str]) -> bool:
    return any(
        word == scope or word.endswith((f"/{scope}", f".{scope}")) or scope.startswith(f"{word}:")
        for word in words
    )


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
    proof_hash: str | None = None
    """The SHA-256 of a secret of the browser that began it, which has to come back; None: it has none."""
    is_used: bool = False
    """True if its code was exchanged, or is being exchanged."""


class Arrival(Value):
    """The way in which a browser came back from a service, as its page tells it; None: it does not say.
    `connection`: whose page it is. `iss`: the issuer, as the service sent it (RFC 9207). `proof`: the secret
    of the browser that began (`Consent.proof_hash`)."""

    connection: str | None = None
    iss: str | None = None
    proof: str | None = Field(default=None, repr=False)


class ConnectionView(Value):
    """A connection as its user sees it. There is no token in it."""

    name: str
    status: Literal["connected", "missing", "expired", "more"]
    """`missing`: the user was not asked, or said no. `expired`: the service takes the tokens no more. `more`:
    agents want scopes that the user was not asked for, or did not allow."""
    scopes: tuple[str, ...]
    """The scopes that agents want."""
    granted: tuple[str, ...] | None = None
    """The scopes that the user has allowed, as the service says; None: unknown, or not connected."""
    agents: tuple[str, ...] = ()
    """Names of the agents that have it; empty: none has it any more."""
    connected_at: Time | None = None
    refreshed_at: Time | None = None
