"""Supervision of a piece of work (a model's stream, running tools): flush its events, and watch for a
cancel."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from layover.engine.invocation import Invocation
from layover.engine.progress import OutOfTime, Stopped
from layover.errors import RetryableError
from layover.ports import Aborts, RunLog
from layover.values.runs.run import CANCEL_GRACE

FLUSH_WITHIN = 0.1
FLUSH_EVERY = 0.2
"""Seconds until the first batch of deltas is written, and between two batches
(docs/behaviour.md#event-log)."""
POLL_INTERVAL_S = 0.05
"""Seconds between two checks of whether running work may be let go."""
POLL_CANCEL_EVERY = 0.5
"""Seconds between two reads of the cancel flag (docs/behaviour.md#cancel)."""
FAULTS_S = 10.0
"""Seconds for which looks at the journal may fail before the work is given up."""
LOST_GRACE_S = 0.9
"""Seconds that running tools have to finish once another attempt took the run, or the journal stays away. A
cancel brings its own."""

T = TypeVar("T")


async def supervise(invocation: Invocation, work: Coroutine[Any, Any, T]) -> T:
    """Return the work's result. Raises Stopped when the run is to be cancelled, Fenced when another
    attempt took it, OutOfTime when the invocation is about to be cut off, RetryableError when the journal has
    been away for `FAULTS_S`. In all cases the work is cancelled first, and tools are told through
    `invocation`."""
    log, running = invocation.log, invocation.running

    def can_be_cut() -> bool:
        return all(tool.idempotent for tool in running.values())

    task = asyncio.ensure_future(work)
    companions = [
        asyncio.create_task(_flush(log)),
        asyncio.create_task(_poll(log)),
        asyncio.create_task(_cut_off(invocation.time.until_cut, can_be_cut)),
    ]
    if invocation.runtime.aborts is not None:
        companions.append(asyncio.create_task(_abort(log, invocation.runtime.aborts)))
    try:
        done, _ = await asyncio.wait([task, *companions], return_when=asyncio.FIRST_COMPLETED)
        if task not in done:
            invocation.is_stopping = True
            if _is_away(done):
                # Another look may find the journal again, and the tool's outcome its record.
                while not (task.done() or can_be_cut()):
                    await asyncio.wait([task], timeout=POLL_INTERVAL_S)
            if running and not _is_out_of_time(done):
                await asyncio.wait([task], timeout=_tools_have_s(done))
            task.cancel()
            await asyncio.wait([task])
            for companion in companions:
                if companion in done:
                    companion.result()
        return task.result()
    finally:
        invocation.is_stopping = invocation.is_stopping or not task.done()
        for companion in companions:
            companion.cancel()
        if not task.done():
            task.cancel()
        await asyncio.gather(task, *companions, return_exceptions=True)


def _is_out_of_time(done: set[asyncio.Task[Any]]) -> bool:
    return any(isinstance(t.exception(), OutOfTime) for t in done)


def _is_away(done: set[asyncio.Task[Any]]) -> bool:
    return any(isinstance(t.exception(), RetryableError) for t in done)


def _tools_have_s(done: set[asyncio.Task[Any]]) -> float:
    grace_periods = [e.grace_s for t in done if isinstance(e := t.exception(), Stopped)]
    return grace_periods[0] if grace_periods else LOST_GRACE_S


async def _cut_off(left: Callable[[], float], can_be_cut: Callable[[], bool]) -> None:
    """Raise OutOfTime once the work has to be let go. A tool that must not run twice is never let go: it may
    still finish."""
    while (seconds := left()) > 0:
        await asyncio.sleep(min(seconds, 60))
    while not can_be_cut():
        await asyncio.sleep(POLL_INTERVAL_S)
    raise OutOfTime


async def _abort(log: RunLog, aborts: Aborts) -> None:
    await aborts.wait(log.snapshot.meta.id)
    raise Stopped(CANCEL_GRACE.total_seconds())


async def _flush(log: RunLog) -> None:
    look = _Look()
    while True:
        await asyncio.sleep(FLUSH_WITHIN)
        if await look.at(log.flush()):
            await asyncio.sleep(FLUSH_EVERY - FLUSH_WITHIN)


async def _poll(log: RunLog) -> None:
    time = asyncio.get_running_loop().time
    look, before = _Look(), time()
    while True:
        await asyncio.sleep(POLL_CANCEL_EVERY)
        began = time()
        request = await look.at(log.cancel_requested())
        if request is not None:
            # The request came after the previous look, whatever the clocks of two machines say.
            age = min(max(request.age.total_seconds(), 0.0), time() - before)
            raise Stopped(max(0.0, request.grace.total_seconds() - age))
        if look.succeeded:
            before = began


class _Look:
    """Repeated looks at the journal, which may fail for `FAULTS_S` seconds in a row: a tool under way is
    worth more than one answer."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._failing_since: float | None = None

    @property
    def succeeded(self) -> bool:
        """True if the last look did."""
        return self._failing_since is None

    async def at(self, answer: Awaitable[T]) -> T | None:
        """Return the answer; None if it failed. Raises RetryableError if looks have failed for too long."""
        try:
            result = await answer
        except RetryableError:
            now = self._time()
            self._failing_since = self._failing_since or now
            if now - self._failing_since >= FAULTS_S:
                raise
            return None
        self._failing_since = None
        return result
