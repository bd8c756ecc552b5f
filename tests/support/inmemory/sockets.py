"""Sockets in memory: frames that were sent on each, and faults that a test sets."""

from collections import defaultdict

from layover.adapters.journal.followers.connections import TableConnections
from layover.errors import RetryableError
from layover.inmemory.table import InMemoryTable
from layover.ports import SocketPorts
from layover.ports.sockets import MAX_FRAME, SocketGone, SocketUnsure
from layover.ports.table import Table
from layover.values.socket import Subscription


class InMemorySockets:
    """`ports.Sockets`. Connections are open once they are named in `open`."""

    def __init__(self, *open: str) -> None:
        self.open: set[str] = set(open)
        self.frames: dict[str, list[str]] = defaultdict(list)
        self.busy = 0
        """The number of posts that find no room."""

    async def post(self, connection_id: str, frame: str) -> None:
        """See `ports.Sockets`."""
        if connection_id not in self.open:
            raise SocketGone
        if len(frame.encode()) > MAX_FRAME:
            raise SocketUnsure("the frame is too large")
        if self.busy:
            self.busy -= 1
            raise RetryableError("no room")
        self.frames[connection_id].append(frame)

    async def close(self, connection_id: str) -> None:
        """See `ports.Sockets`."""
        self.open.discard(connection_id)


class InMemoryLater:
    """`ports.PushLater`: it records requests."""

    def __init__(self) -> None:
        self.lines: list[Subscription] = []

    async def later(self, line: Subscription) -> None:
        """Record the request."""
        self.lines.append(line)


def in_memory_sockets(
    *open: str, table: Table | None = None, url: str = "ws://localhost"
) -> SocketPorts:
    """Return ports that end with the process. `table`: the journal's, so that its runs are known."""
    return SocketPorts(
        url=url,
        sockets=InMemorySockets(*open),
        connections=TableConnections(table or InMemoryTable()),
        later=InMemoryLater(),
    )
