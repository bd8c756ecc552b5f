"""The log of a run, as its writer sees it (docs/journal.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from layover.values.message import Message
from layover.values.runs.event import Event
from layover.values.runs.provider_wait import ProviderWait
from layover.values.runs.run import (
    CallRecord,
    Outcome,
    RunMeta,
    RunSnapshot,
    StepRecord,
)
from layover.values.thread import ThreadHead

MAX_CANCELLED = 40
"""Calls that one write settles when a run ends."""


class Unheard(Exception):
    """The run was sent a message that the model of a step has not read. Nothing was written."""


@dataclass(frozen=True)
class CancelRequest:
    """A request to cancel a run. `age`: the time since the request; running tools may go on until it is
    `grace`. `by`: the caller who asked for it, and `on_behalf_of` as in a decision; None: no person did, or
    an earlier release wrote the request."""

    age: timedelta
    grace: timedelta
    by: str | None = None
    on_behalf_of: str | None = None


@dataclass(frozen=True)
class SetAside:
    """A run that only waits, and from which another run takes the thread. Every write of it is conditional on
    that it still waits as it was read.

    Args:
        run: Its META as read.
        leaf_id: The last message of what it has said so far, and of the results to come: the next run's first
            message follows it.
        last_created_at: No message of it so far, or of its newest step, is later.
    """

    run: RunMeta
    leaf_id: str
    last_created_at: datetime

    def __post_init__(self) -> None:
        if not self.run.only_waits:
            raise ValueError("a run is set aside while it only waits")


@dataclass(frozen=True)
class Ended:
    """The end of a run. `next_run`: the run that holds the thread now and whose execution `next_n` has to be
    started; `at`: the time of the end; `sockets`: the connections that followed it then; `retired`: its
    records expire by themselves, and nothing looks at the run again; `owed`: what it owes then."""

    at: datetime
    next_run: str | None = None
    next_n: int = 1
    sockets: frozenset[str] = frozenset()
    retired: bool = False
    owed: frozenset[str] = frozenset()


class RunLog(Protocol):
    """The journal of one run for one writer, under the epoch that the writer took.

    Every fact is one transaction with its events, except the end of a step's last call
    (docs/saved-writes.md#events-behind-the-record). Events that were emitted before go with it. A writer
    whose epoch is gone gets `Fenced` and must stop."""

    @property
    def snapshot(self) -> RunSnapshot:
        """The run as journaled when this writer took it. The writer's own writes are not added."""
        ...

    @property
    def head(self) -> ThreadHead | None:
        """The thread's head at the time when this writer took the run; None: the thread is gone, or the
        writer did not take the run."""
        ...

    @property
    def opener(self) -> str:
        """This writer's name on the calls that it opens."""
        ...

    @property
    def owed(self) -> frozenset[str]:
        """The debts of the run (`layover.values.runs.debts`), as far as this writer knows: others decide
        while it works."""
        ...

    def pay(self, paid: frozenset[str]) -> None:
        """Note what is not owed any more, for the next writes of META."""
        ...

    def emit(self, *events: Event) -> None:
        """Add events to the run's sequence. They become durable with the next fact or `flush`."""
        ...

    async def flush(self) -> bool:
        """Write the events emitted so far. Return False if there were none."""
        ...

    async def has_begun(self) -> bool:
        """Return whether the run has any event already (`agent-start` is never repeated)."""
        ...

    async def put_step(
        self,
        step: StepRecord,
        *events: Event,
        is_complete: bool = False,
        open_calls: Sequence[CallRecord] = (),
        heard: int | None = None,
    ) -> None:
        """Journal a model call. The count of the run's attempts starts again. `is_complete`: `turn-end` is
        among the events. `open_calls`: its calls that begin at once. `heard`: as in `open_calls`."""
        ...

    async def end_step(self, step: StepRecord, *events: Event) -> None:
        """Record that a step whose calls were settled by other writers is complete, with its `turn-end`."""
        ...

    async def hand_over(self, agent: str, definition: str, *events: Event) -> None:
        """Give the run and its thread to another agent, of this definition."""
        ...

    async def redefine(self, definition: str, *events: Event) -> None:
        """Record the definition under which the run goes on, which differs from the previous one."""
        ...

    async def wait_for_compaction(self, index: int) -> None:
        """Record that the run yields for its compaction before step `index`, with the events emitted so far.
        It waits only once for each step."""
        ...

    async def pause(self, wait: ProviderWait, *events: Event) -> None:
        """Record that the run waits for a provider that is away."""
        ...

    async def open_calls(
        self, calls: Sequence[CallRecord], *events: Event, heard: int | None = None
    ) -> None:
        """Open calls, given in their journaled state (planned, decided, or open by a dead writer), in one
        transaction, before they run. `heard`: only if the run was sent no more messages than these after its
        input; raises `Unheard` otherwise."""
        ...

    async def close_call(
        self,
        call: CallRecord,
        *events: Event,
        ended_step: StepRecord | None = None,
        wait: bool = True,
    ) -> None:
        """Record a settled call. `call.state` is the journaled state: OPEN by this writer needs no epoch (no
        other writer can close it), any other state does. Raises `Fenced`.

        `wait`: False returns while the write is under way. Nothing else is written before it is done, or if
        it fails. The events have to be those of the end of a step's last call: they may go with the next
        write, and a later writer that finds them missing makes them from the record."""
        ...

    async def wait(self) -> None:
        """Wait for the write that `close_call` did not wait for. Raises what that would have raised."""
        ...

    async def suspend_calls(self, calls: Sequence[CallRecord], *events: Event) -> None:
        """Record that calls wait, in one transaction: new attempt, no token, no decision.
        `call.state` as above."""
        ...

    async def cancel_calls(
        self, calls: Sequence[CallRecord], *events: Event, more_follow: bool = False
    ) -> None:
        """Settle up to `MAX_CANCELLED` calls as they are given, in whatever state they were: the run is about
        to end. `more_follow`: others of it wait or run, and are settled next; the run is shown as waiting
        until then. Raises `Fenced` if one was decided or settled meanwhile."""
        ...

    async def take_thread(self, head: ThreadHead, aside: SetAside | None = None) -> bool:
        """Take the thread back for this run, which was set aside, and let its next step hear what was said
        meanwhile. `head`: as read, with no run at work. `aside`: the active run of it, which only waits and
        is set aside instead. False: something has changed since, and is to be read again. Raises `Fenced`."""
        ...

    async def wait_for_thread(self, head: ThreadHead, busy: RunMeta) -> bool:
        """Note that this run goes on once the run at work in its thread, `busy`, ends or waits. False as in
        `take_thread`. Raises `Fenced`."""
        ...

    async def new_messages(self, number: int) -> tuple[Message, ...]:
        """The messages that the run was sent after its input, from `number` + 1 on, as far as this
        writer has learned of them; it learns with `cancel_requested`."""
        ...

    async def cancel_requested(self) -> CancelRequest | None:
        """The request to cancel this run; None without one. Raises `Fenced` if the epoch has changed."""
        ...

    async def end(
        self,
        outcome: Outcome,
        *events: Event,
        head: ThreadHead | None = None,
        retention: timedelta | None = None,
        untold: bool = False,
    ) -> "Ended":
        """Write the end in one transaction: run over, thread handed on, last events. `retention`: no work is
        left for the run, and its records may expire after this time. `untold`: the sweeper tells the bus of
        the end, unless the run is retired before."""
        ...
