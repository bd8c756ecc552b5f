"""A bench of services whose runs can be followed by socket."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from layover.adapters.journal.journal import table_journal
from layover.adapters.journal.leases import TableLeases
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.table import InMemoryTable
from layover.ports import EventSink, NoSink, RunLog
from layover.ports.table import Table
from layover.runs.finish import last_events
from layover.sockets import subscriptions as sockets
from layover.sockets.delivery import DeliveryQueue, SocketDelivery
from layover.values.runs.event import DataEvent, Event
from layover.values.runs.run import FinishReason, Outcome, Status
from layover.values.socket import Connection, Subscription
from support.inmemory.sockets import InMemoryLater, InMemorySockets, in_memory_sockets
from support.worlds.services import ANN, ServiceBench


class Sink:
    """`EventSink` that is made before what it stands for."""

    def __init__(self) -> None:
        self.to: EventSink = NoSink()

    def notify(self, owner: str, run_id: str, connections: Iterable[str]) -> None:
        self.to.notify(owner, run_id, connections)


class SocketBench(ServiceBench):
    """`ServiceBench` with sockets; connections `c1` and `c2` are open."""

    def __init__(
        self,
        table: Table | None = None,
        sockets: InMemorySockets | None = None,
        finish_s: float = 0.5,
    ) -> None:
        super().__init__()
        self.table = table or InMemoryTable()
        self.sink = Sink()
        self.journal = table_journal(self.table, InMemoryBlobs(), self.clock, self.sink)
        self.sockets = sockets or InMemorySockets("c1", "c2")
        self.ports = replace(in_memory_sockets(table=self.table), sockets=self.sockets)
        self.runtime = replace(
            self.runtime, journal=self.journal, sockets=self.ports, leases=TableLeases(self.table)
        )
        self.pushing = SocketDelivery(self.journal, self.ports, self.clock)
        self.pusher = DeliveryQueue(self.pushing, finish_s)
        self.sink.to = self.pusher

    @property
    def left(self) -> list[Subscription]:
        """The subscriptions left to another invocation."""
        return cast(InMemoryLater, self.ports.later).lines

    async def connect(self, connection_id: str = "c1", token_lives: float | None = None) -> None:
        """An open connection of ANN's."""
        now = self.clock.now()
        expires_at = None if token_lives is None else now + timedelta(seconds=token_lives)
        await self.ports.connections.open(
            Connection(
                id=connection_id,
                owner=ANN,
                token_expires_at=expires_at,
                ends_at=now + timedelta(hours=3),
            )
        )

    async def subscribe(
        self, run_id: str, connection_id: str = "c1", after: int = 0
    ) -> Subscription:
        """ANN's connection follows a run; nothing is sent by that."""
        connection = await self.ports.connections.get(connection_id)
        assert connection is not None
        line = Subscription(ANN, run_id, connection_id)
        assert await self.ports.connections.subscribe(line, connection.token_expires_at, after)
        return line

    async def followed(self, log: RunLog, connection_id: str = "c1") -> Subscription:
        """`subscribe`, and the run's writer has seen it."""
        line = await self.subscribe(log.snapshot.meta.id, connection_id)
        await log.cancel_requested()
        return line

    async def ask(self, connection_id: str = "c1", **request: Any) -> None:
        """A client's request."""
        parsed = sockets.REQUEST.validate_python(request)
        await sockets.receive(self.runtime, connection_id, parsed)

    async def running(self) -> RunLog:
        """A run in its writer's hand."""
        return await self.take((await self.run((await self.thread()).id)).id)

    def data(self, *values: Any) -> list[Event]:
        """Events that say this."""
        now = self.clock.now()
        return [DataEvent(at=now, tool_call_id="c", data=value) for value in values]

    async def tell(self, log: RunLog, *values: Any) -> None:
        """Events that say this are in the log, and have been sent as far as that goes."""
        log.emit(*self.data(*values))
        await log.flush()
        await self.pusher.finish()

    async def end(self, log: RunLog) -> None:
        """The run ends well, in this writer's hand, and that has been sent."""
        outcome = Outcome(
            status=Status.SUCCESS,
            finish_reason=FinishReason.STOP,
            leaf_id="m1",
            last_created_at=self.clock.now(),
        )
        await log.end(outcome, *last_events(self.runtime, outcome, ()))
        await self.pusher.finish()

    def sent(self, connection_id: str = "c1") -> list[Any]:
        """All frames of a connection."""
        return [json.loads(frame) for frame in self.sockets.frames[connection_id]]

    def seqs(self, connection_id: str = "c1") -> list[int]:
        """Numbers of the events that were sent."""
        return [frame["seq"] for frame in self.sent(connection_id)]
