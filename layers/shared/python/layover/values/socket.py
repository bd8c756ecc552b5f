"""Sockets: tickets that open one, connections, and the runs that a connection follows
(docs/behaviour.md#sockets)."""

from dataclasses import dataclass

from layover.values.base import Time, Value
from layover.values.lease import Lease, LeaseKind

MAX_FOLLOWERS = 20
"""Connections that follow one run."""


class SocketTicket(Value):
    """Opens one connection, once, until it expires; one for a run's events opens any number of streams of
    them. `url` has it in its query already."""

    ticket: str
    url: str
    expires_at: Time


class Ticket(Value):
    """A socket's ticket. `text` is kept as a hash."""

    text: str
    owner: str
    run_id: str | None = None
    """The run whose events are streamed, any number of times; None: the ticket opens one socket."""
    expires_at: Time
    token_expires_at: Time | None = None
    """Expiry of the token that opened it; None: never."""


class Connection(Value):
    """An open socket and its owner. `id` is API Gateway's."""

    id: str
    owner: str
    token_expires_at: Time | None = None
    """The time from which the connection is closed; None: never."""
    ends_at: Time
    """No connection is older than this: its records may go."""

    @property
    def lease(self) -> Lease:
        """The lease that its owner holds while the connection is open."""
        return Lease(self.owner, LeaseKind.SOCKET, self.id, self.ends_at)


@dataclass(frozen=True)
class Subscription:
    """One connection that follows one run."""

    owner: str
    run_id: str
    connection_id: str


@dataclass(frozen=True)
class Claim:
    """The right to send to a subscription, until it is released. `sent`: the last seq that was sent."""

    subscription: Subscription
    id: str
    sent: int
    token_expires_at: Time | None


@dataclass(frozen=True)
class Held:
    """Another process has the right to send to the subscription, since then."""

    since: Time
