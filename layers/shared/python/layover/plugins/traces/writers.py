"""The seam between runs and their traces: the log that a writer writes. What it journals becomes spans."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from layover.plugins.traces.run_spans import RunSpans
from layover.ports import Clock, Ended, Journal, RunEvents, RunLog, Tracing, Writers
from layover.records.runs import all_events
from layover.values.runs.event import Event, LoggedEvent
from layover.values.runs.run import CallRecord, Outcome, RunMeta, RunSnapshot, StepRecord
from layover.values.thread import ThreadHead

MAX_EVENTS = 20_000
"""The most events that are read after the death of a process. The spans of what a longer log tells later
begin where they end."""
logger = logging.getLogger("layover")


@contextmanager
def harmless() -> Iterator[None]:
    """Log what goes wrong inside: a trace never costs a run anything."""
    try:
        yield
    except Exception:
        logger.warning("a part of a trace is missing", exc_info=True)


class TracedLog:
    """`ports.RunLog` of the whole run that also says it to `RunSpans`, after it is journaled."""

    def __init__(self, log: RunLog, spans: RunSpans) -> None:
        self._log = log
        self._spans = spans
        self.is_over = False
        # The rest tells nothing that a trace shows.
        self.pay, self.flush, self.wait = log.pay, log.flush, log.wait
        self.has_begun, self.end_step, self.redefine = log.has_begun, log.end_step, log.redefine
        self.take_thread, self.wait_for_thread = log.take_thread, log.wait_for_thread
        self.wait_for_compaction, self.pause = log.wait_for_compaction, log.pause
        self.new_messages, self.cancel_requested = log.new_messages, log.cancel_requested

    @property
    def snapshot(self) -> RunSnapshot:
        """See `ports.RunLog`."""
        return self._log.snapshot

    @property
    def head(self) -> ThreadHead | None:
        """See `ports.RunLog`."""
        return self._log.head

    @property
    def opener(self) -> str:
        """See `ports.RunLog`."""
        return self._log.opener

    @property
    def owed(self) -> frozenset[str]:
        """See `ports.RunLog`."""
        return self._log.owed

    def emit(self, *events: Event) -> None:
        """See `ports.RunLog`."""
        self._log.emit(*events)
        with harmless():
            self._spans.emitted(events)

    async def put_step(
        self,
        step: StepRecord,
        *events: Event,
        is_complete: bool = False,
        open_calls: Sequence[CallRecord] = (),
        heard: int | None = None,
    ) -> None:
        """See `ports.RunLog`."""

        def tell() -> None:
            self._spans.answered(step)
            self._spans.started(open_calls, events)

        write = self._log.put_step(
            step, *events, is_complete=is_complete, open_calls=open_calls, heard=heard
        )
        await _write_and_tell(write, tell)

    async def open_calls(
        self, calls: Sequence[CallRecord], *events: Event, heard: int | None = None
    ) -> None:
        """See `ports.RunLog`."""
        write = self._log.open_calls(calls, *events, heard=heard)
        await _write_and_tell(write, lambda: self._spans.started(calls, events))

    async def close_call(
        self,
        call: CallRecord,
        *events: Event,
        ended_step: StepRecord | None = None,
        wait: bool = True,
    ) -> None:
        """See `ports.RunLog`."""
        write = self._log.close_call(call, *events, ended_step=ended_step, wait=wait)
        await _write_and_tell(write, lambda: self._spans.settled(call))

    async def suspend_calls(self, calls: Sequence[CallRecord], *events: Event) -> None:
        """See `ports.RunLog`."""
        write = self._log.suspend_calls(calls, *events)
        await _write_and_tell(write, lambda: self._spans.suspended(calls))

    async def cancel_calls(
        self, calls: Sequence[CallRecord], *events: Event, more_follow: bool = False
    ) -> None:
        """See `ports.RunLog`."""
        write = self._log.cancel_calls(calls, *events, more_follow=more_follow)
        await _write_and_tell(write, lambda: self._spans.cancelled(calls))

    async def hand_over(self, agent: str, definition: str, *events: Event) -> None:
        """See `ports.RunLog`."""
        write = self._log.hand_over(agent, definition, *events)
        await _write_and_tell(write, lambda: self._spans.handed_over(events))

    async def end(
        self,
        outcome: Outcome,
        *events: Event,
        head: ThreadHead | None = None,
        retention: timedelta | None = None,
        untold: bool = False,
    ) -> Ended:
        """See `ports.RunLog`."""
        ended = await self._log.end(outcome, *events, head=head, retention=retention, untold=untold)
        self.is_over = True
        with harmless():
            self._spans.ended(outcome, ended.at)
        return ended


async def _write_and_tell(write: Coroutine[Any, Any, None], tell: Callable[[], None]) -> None:
    """Write, then tell. A write that was told to stop ends all the same (`log.writer.run_to_end`)."""
    try:
        await write
    except asyncio.CancelledError:
        with harmless():
            tell()
        raise
    with harmless():
        tell()


class TracedWriters:
    """`ports.Writers` whose logs are traced. `content`: spans also say what messages say."""

    def __init__(self, journal: Journal, tracing: Tracing, clock: Clock, *, content: bool) -> None:
        self._writers: Writers = journal.writers
        self._events: RunEvents = journal.events
        self._runs = journal.runs
        self._commands = journal.commands
        self._tracing = tracing
        self._clock = clock
        self._content = content
        self._taken: list[tuple[RunMeta, TracedLog]] = []

    async def acquire(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """See `ports.Writers`."""
        log = await self._writers.acquire(owner, run_id, execution)
        if log is not None:
            return await self._take(log)
        await self._tell_end(owner, run_id)
        return None

    async def attach(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """See `ports.Writers`."""
        log = await self._writers.attach(owner, run_id, execution)
        return None if log is None else self._traced(log)[0]

    async def seize(self, owner: str, run_id: str, ended_by: int | None = None) -> RunLog | None:
        """See `ports.Writers`."""
        log = await self._writers.seize(owner, run_id, ended_by)
        if log is not None:
            return await self._take(log)
        await self._tell_end(owner, run_id)
        return None

    async def leave(self) -> None:
        """Note for the next writer of each run that this process did not die. Raises nothing."""
        logs, self._taken = self._taken, []
        for run, log in logs:
            if not log.is_over:
                with harmless():
                    await self._commands.mark_left(run.owner, run.id, run.takes)

    async def _tell_end(self, owner: str, run_id: str) -> None:
        """Tell of a run that is over already: the process that ended it may have died before it told."""
        with harmless():
            snapshot = await self._runs.snapshot(owner, run_id)
            if snapshot is not None and snapshot.meta.status.over:
                self._spans(snapshot).repeat(snapshot, await self._events_of(snapshot.meta))

    async def _take(self, log: RunLog) -> RunLog:
        run = log.snapshot.meta
        traced, spans = self._traced(log)
        self._taken.append((run, traced))
        if run.left < run.takes - 1:
            with harmless():
                spans.repeat(log.snapshot, await self._events_of(run))
        return traced

    def _traced(self, log: RunLog) -> tuple[TracedLog, RunSpans]:
        spans = self._spans(log.snapshot)
        return TracedLog(log, spans), spans

    def _spans(self, snapshot: RunSnapshot) -> RunSpans:
        return RunSpans(self._tracing, self._clock, snapshot, content=self._content)

    async def _events_of(self, run: RunMeta) -> list[LoggedEvent]:
        return await all_events(self._events, run.owner, run.id, MAX_EVENTS)
