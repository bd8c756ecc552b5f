"""Sockets: connections, their subscriptions to runs, and notices of new events."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from layover.values.socket import Claim, Connection, Held, Subscription, Ticket


class SocketGone(Exception):
    """The connection is closed."""


class SocketUnsure(Exception):
    """The frame may have been sent or not."""


class Sockets(Protocol):
    """Open connections, by API Gateway's ids."""

    async def post(self, connection_id: str, frame: str) -> None:
        """Send one frame of at most `MAX_FRAME` bytes. Raises SocketGone, SocketUnsure (it may or may
        not have been sent), RetryableError (it was not)."""
        ...

    async def close(self, connection_id: str) -> None:
        """Close a connection; a closed one is not an error. Raises RetryableError."""
        ...


MAX_FRAME = 128 * 1024
"""Bytes that API Gateway takes in one message (docs/aws-facts.md#api-gateway)."""


class Connections(Protocol):
    """Records of tickets, of connections and of the runs that these follow. Connections are named only by API
    Gateway's ids, which no caller chooses. Everything else is kept under its owner."""

    async def put_ticket(self, ticket: Ticket) -> None:
        """Store a ticket, as a hash."""
        ...

    async def redeem(self, text: str, now: datetime) -> Ticket | None:
        """Remove a socket's ticket and return it. None: it does not exist, was used, or has expired. Of many
        concurrent callers, one gets it."""
        ...

    async def stream_ticket(self, text: str, now: datetime) -> Ticket | None:
        """Return the ticket for a run's events with this text. None: it does not exist, or has expired."""
        ...

    async def open(self, connection: Connection) -> None:
        """Record a connection."""
        ...

    async def get(self, connection_id: str) -> Connection | None:
        """Return a connection that was recorded and not closed."""
        ...

    async def of(self, owner: str) -> list[str]:
        """Return the ids of the owner's connections that are recorded."""
        ...

    async def close(self, connection_id: str) -> None:
        """Forget a connection and its subscriptions; its owner may open another. Repeatable."""
        ...

    async def subscribe(
        self, line: Subscription, token_expires_at: datetime | None, after: int
    ) -> bool:
        """Follow a run after this seq (again, if it was followed). From now on the run's writers know of it.
        Return False if another sender holds the line at the moment; ask again. Raises NotFound if the run or
        the connection is gone."""
        ...

    async def unsubscribe(self, line: Subscription) -> None:
        """Stop following a run. Repeatable."""
        ...

    async def forget(self, line: Subscription) -> None:
        """Remove a line that no longer exists from the records of the run's writers. Repeatable."""
        ...

    async def claim(self, line: Subscription, now: datetime) -> Claim | Held | None:
        """Take the right to send on a line, which only one sender has at a time. None: the line is gone."""
        ...

    async def release(self, claim: Claim, last_seq: int) -> bool:
        """Give the right back, and record the last seq sent. Return False if the line is gone."""
        ...


class PushLater(Protocol):
    """Hands the rest of a delivery to another invocation."""

    async def later(self, line: Subscription) -> None:
        """Send on this line soon, elsewhere. Raises RetryableError."""
        ...


class EventSink(Protocol):
    """Is notified of new events in a run's log."""

    def notify(self, owner: str, run_id: str, connections: Iterable[str]) -> None:
        """Notify these connections, which follow the run. Never waits, never raises."""
        ...


class NoSink:
    """`EventSink` without sockets."""

    def notify(self, owner: str, run_id: str, connections: Iterable[str]) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class SocketPorts:
    """Everything that a process needs for sockets. `url`: the URL to which clients connect."""

    url: str
    sockets: Sockets
    connections: Connections
    later: PushLater
