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
        """Close a connection; one that is closed already is fine. Raises RetryableError."""
        ...


MAX_FRAME = 128 * 1024
"""Bytes of a message that API Gateway takes (docs/aws-facts.md#api-gateway)."""


class Connections(Protocol):
    """Records of tickets, of connections and of what they follow.

    Connections are named by API Gateway's ids alone, which no caller chooses; everything else is kept
    under its owner."""

    async def put_ticket(self, ticket: Ticket) -> None:
        """Keep a ticket, as a hash."""
        ...

    async def redeem(self, text: str, now: datetime) -> Ticket | None:
        """Take a socket's ticket away and tell what it stands for. None: there is none, it was used, or it
        has expired. Of many at once, one gets it."""
        ...

    async def stream_ticket(self, text: str, now: datetime) -> Ticket | None:
        """The ticket for a run's events with this text. None: there is none, or it has expired."""
        ...

    async def open(self, connection: Connection) -> None:
        """Record a connection."""
        ...

    async def get(self, connection_id: str) -> Connection | None:
        """A connection that was recorded and not closed."""
        ...

    async def of(self, owner: str) -> list[str]:
        """Ids of the owner's connections that are recorded."""
        ...

    async def close(self, connection_id: str) -> None:
        """Forget a connection and all that it follows; its owner may open another. Repeatable."""
        ...

    async def subscribe(
        self, line: Subscription, token_expires_at: datetime | None, after: int
    ) -> bool:
        """Follow a run after this seq (again, if it was followed). From now on the run's writers know
        of it. False: another sender holds the line at this moment, ask again. Raises NotFound
        where the run or the connection is gone."""
        ...

    async def unsubscribe(self, line: Subscription) -> None:
        """Follow a run no more. Repeatable."""
        ...

    async def forget(self, line: Subscription) -> None:
        """The run's writers need not know of a line that is gone. Repeatable."""
        ...

    async def claim(self, line: Subscription, now: datetime) -> Claim | Held | None:
        """The right to send on a line, for one at a time. None: the line is gone."""
        ...

    async def release(self, claim: Claim, sent: int) -> bool:
        """Give the right back, and say what was sent. False: the line is gone."""
        ...


class PushLater(Protocol):
    """Has another invocation send the rest."""

    async def later(self, line: Subscription) -> None:
        """Send on this line soon, elsewhere. Raises RetryableError."""
        ...


class EventSink(Protocol):
    """Hears that a run's log has new events."""

    def notify(self, owner: str, run_id: str, connections: Iterable[str]) -> None:
        """These connections follow the run. Never waits, never raises."""
        ...


class NoSink:
    """`EventSink` where there are no sockets."""

    def notify(self, owner: str, run_id: str, connections: Iterable[str]) -> None:
        """Nothing."""


@dataclass(frozen=True)
class SocketPorts:
    """All that a process needs for sockets. `url`: where clients connect."""

    url: str
    sockets: Sockets
    connections: Connections
    later: PushLater
