"""Watching over runs: the death of an execution is never the death of a run (docs/behaviour.md#sweeper)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from layover import logs
from layover.approvals.bus import publish_end
from layover.approvals.consent import go_on_if_connected
from layover.approvals.outbox import calls_of, tell, wake_cut
from layover.batches import batched
from layover.engine.progress import failed
from layover.engine.state import RunState
from layover.errors import LayoverError, RetryableError
from layover.ports import DueCheck, RunLog
from layover.records.lifetimes import keep_records, set_ttl
from layover.recovery.give_up import attempts_used_up
from layover.recovery.reminders import expire_due, send_due
from layover.recovery.stalled_branches import check_branches, is_busy
from layover.retention.erase import erase
from layover.retention.expire import after_failures, expire
from layover.runs.aside import find_waiting, go_on, hand_on
from layover.runs.cancel import cancel
from layover.runs.executions import start_successor
from layover.runs.finish import end_even_unsaved, head_now, save_unsaved, thread_of
from layover.runs.seizure import end_by_force
from layover.runtime import Runtime
from layover.sockets.subscriptions import catch_up, close
from layover.values.metrics import Metric
from layover.values.runs.debts import WAKE_CUT
from layover.values.runs.run import MAX_ATTEMPTS, CallState, RunMeta, Status
from layover.values.thread import ThreadHead

logger = logging.getLogger("layover")

PAGE = 100
"""Items of a page, for each partition of the watch."""
MAX_CONCURRENT = 8
"""Items that are looked at side by side. Most of a look is waiting for AWS."""
CALM = 60
"""The factor by which looks at a suspended or queued run are rarer, since waiting must cost nothing."""
ERASE_UNTIL = timedelta(seconds=45)
"""Seconds from its beginning during which a sweep may erase; its function has 60 s. The rest waits for the
next sweep."""
_Page = Callable[[datetime, int, Collection[DueCheck]], Awaitable[list[DueCheck]]]
"""Returns what is due by then, so much of it, without what was looked at."""


async def sweep(runtime: Runtime, erase_until: timedelta = ERASE_UNTIL) -> dict[str, int]:
    """Look at every run that is due, then erase what is deleted or expired. Return the work done, counted.
    One item's failure affects no other item, whatever fails. A sweep that erases for longer than the
    sweeper's patience looks at runs again each time that the patience is over: where one sweep follows
    another, no other process does."""
    watch = runtime.journal.watch
    swept_at = runtime.clock.now()
    end = asyncio.get_running_loop().time() + erase_until.total_seconds()
    counts = await _look_through(runtime, watch.due, swept_at, end)
    # Behind the runs, and side by side: users with thousands of deleted threads may take all the time that is
    # left, and keep nobody's data from its expiry.
    erasing = asyncio.gather(
        _look_through(runtime, watch.deletions, swept_at, end), expire(runtime, swept_at, end)
    )
    try:
        while await _lasts(erasing, runtime.settings.sweep_patience, end):
            counts.update(await _look_through(runtime, watch.due, runtime.clock.now(), end))
        for more in await erasing:
            counts.update(more)
    finally:
        erasing.cancel()
    return dict(counts)


async def _lasts(work: "asyncio.Future[Any]", span: timedelta, end: float) -> bool:
    """Wait for the work. Return True if it still lasts after `span`, and `end` is not reached."""
    await asyncio.wait([work], timeout=span.total_seconds())
    return not work.done() and asyncio.get_running_loop().time() < end


async def _look_through(
    runtime: Runtime, page: _Page, swept_at: datetime, end: float
) -> Counter[str]:
    """Look at all that is due, page by page until `end`, and at the first page in any case. A look moves its
    item to a later time; one that is still due all the same is left to the next sweep."""
    counts: Counter[str] = Counter()
    past: set[DueCheck] = set()
    while True:
        due = await page(swept_at, PAGE, past)
        # Among runs are the threads that a release before this one deleted.
        counts.update(await _look_at_all(runtime, sorted(due, key=_is_deletion), swept_at, end))
        past.update(due)
        if not due or asyncio.get_running_loop().time() >= end:
            return counts


async def _look_at_all(
    runtime: Runtime, items: Sequence[DueCheck], swept_at: datetime, end: float
) -> list[str]:
    """Look at `MAX_CONCURRENT` items at a time. Return an outcome for each."""
    outcomes: list[str] = []
    for some in batched(items, MAX_CONCURRENT):
        outcomes += await asyncio.gather(*(_try_look(runtime, d, swept_at, end) for d in some))
    return outcomes


async def _try_look(runtime: Runtime, due: DueCheck, swept_at: datetime, end: float) -> str:
    try:
        with logs.bind_ids(run_id=due.run_id, thread_id=due.thread_id):
            return await _look(runtime, due, swept_at, end)
    except Exception as error:  # whatever is wrong with one item: the others are due as well
        about = {"run_id": due.run_id, "connection_id": due.connection_id}
        context = {**about, "thread_id": due.thread_id, "cause": type(error).__name__}
        if _is_deletion(due) and not isinstance(error, RetryableError):
            # Users were told that it is gone. No later sweep does better until somebody has looked.
            runtime.metrics.count(Metric.DELETION_FAILED)
            logger.exception("a deletion fails", extra=context)
        else:
            logger.warning("the sweeper failed with a due item", extra=context)
        # A hundred items that fail would keep all others from being due.
        with suppress(LayoverError):
            await runtime.journal.watch.put_off(due, after_failures(runtime, due.failures))
        return "trouble"


def _is_deletion(due: DueCheck) -> bool:
    return due.run_id is None and due.connection_id is None


async def _look(runtime: Runtime, due: DueCheck, swept_at: datetime, end: float) -> str:
    if due.connection_id is not None:
        await close(runtime, due.connection_id)
        return "disconnected"
    if due.run_id is None:
        return await _erase(runtime, due, end)
    # The index that names what is due lags behind, so the record decides what is done.
    run = await runtime.journal.runs.get(due.owner, due.run_id)
    if run is None:
        return "gone"
    if run.status.over:
        await catch_up(runtime, run)
        return await _finish(runtime, run, due)
    if run.cancel:
        # The process that cancelled may have died between the flag and the end.
        await cancel(runtime, run.owner, run.id, asks_hooks=False)
        return "cancelled"
    if run.status is Status.QUEUED:
        # The run ahead of it starts it when that run ends, or waits.
        if await hand_on(runtime, run.owner, run.thread_id):
            return "handed on"
        await _reschedule(runtime, due, calm=CALM)
        return "queued"
    return await _ensure_driven(runtime, run, due, swept_at)


async def _ensure_driven(runtime: Runtime, run: RunMeta, due: DueCheck, swept_at: datetime) -> str:
    """Tell what a run that is not over owes, remind people of its calls, and ensure that it has an execution
    that listens for these and has room in its history."""
    await keep_records(runtime, run)
    records = await calls_of(runtime, run, run.waiting | run.decided)
    paid = await tell(runtime, run, records, run.owed)
    owed = run.owed - paid
    calls = [call for call in records.values() if call.state is CallState.WAITING]
    remind_at, more_paid = await send_due(runtime, run, calls)
    paid |= more_paid
    for call in calls:
        # Whoever kept the grant finds calls in an index that lags, and may have died before.
        await go_on_if_connected(runtime, run, call)
    if run.ready:
        expire_at = await expire_due(runtime, run, calls)
        return await _start_ready(runtime, run, due, paid, latest=_first(remind_at, expire_at))
    abandoned_at = await check_branches(runtime, run, calls, owed)
    if run.execution is not None and await runtime.callbacks.alive(run.execution):
        # An execution is replaced only while none of its calls is being made, because its successor would
        # take an open call for one in doubt. It is stopped first, since its other branches may wait for a
        # year on tokens that no longer decide anything. The next execution finds all calls in their present
        # state.
        is_stalled = abandoned_at is not None and abandoned_at <= swept_at
        if is_stalled and not await is_busy(runtime, run):
            await runtime.callbacks.stop(run.execution, "a branch left its call")
            return await _replace_execution(runtime, run)
        if run.history > runtime.settings.max_history:
            if await is_busy(runtime, run):
                await _reschedule(runtime, due, paid)
                return "driven"
            await runtime.callbacks.stop(run.execution, "its history is long")
            return await _replace_execution(runtime, run)
        pauses_until = run.pauses_until(runtime.clock.now())
        is_idle = run.shown_status is Status.SUSPENDED or pauses_until is not None
        is_calm = is_idle and not run.decided and not owed
        latest = _first(abandoned_at, remind_at, pauses_until)
        await _reschedule(runtime, due, paid, calm=CALM if is_calm else 1, latest=latest)
        return "driven"
    return await _replace_lost(runtime, run, due, paid)


async def _start_ready(
    runtime: Runtime, run: RunMeta, due: DueCheck, paid: frozenset[str], latest: datetime | None
) -> str:
    """Start a run for whose calls no branch listens. The end of the run at work in its thread does that. One
    that waits, or died, may have missed it."""
    if await _awaits_its_turn(runtime, run):
        await _reschedule(runtime, due, paid, latest=latest)
        return "ready"
    return "handed on" if await go_on(runtime, run.owner, run.id) else "driven"


async def _replace_lost(runtime: Runtime, run: RunMeta, due: DueCheck, paid: frozenset[str]) -> str:
    """Let a run whose execution is gone go on in another one. The answer about the execution may be older
    than its start (DescribeExecution is eventually consistent): a second look, one patience later, has to
    confirm it."""
    now, patience = runtime.clock.now(), runtime.settings.sweep_patience
    if run.lost_at is None or run.lost_at + patience > now:
        lost_at = run.lost_at or now
        at = lost_at + patience
        await runtime.journal.watch.reschedule(due, at, lost_at=lost_at, paid=paid)
        return "lost"
    return await _replace_execution(runtime, run)


async def _awaits_its_turn(runtime: Runtime, run: RunMeta) -> bool:
    """Return whether another run of the thread is at work."""
    head = await runtime.journal.heads.get(run.owner, run.thread_id)
    if head is None or run.id not in head.ready or head.active_run in (None, run.id):
        return False
    return await find_waiting(runtime, run.owner, str(head.active_run)) is None


async def _replace_execution(runtime: Runtime, run: RunMeta) -> str:
    """Let the run go on in another execution. After five attempts without a step, it has failed."""
    if run.attempts >= MAX_ATTEMPTS:

        async def end(log: RunLog) -> None:
            over, state = failed(attempts_used_up(run.id), run.id), RunState(log.snapshot)
            await end_even_unsaved(runtime, log, state, thread_of(log), over)

        return "failed" if await end_by_force(runtime, run.owner, run.id, end) else "over"
    n = await start_successor(runtime, run.owner, run.id, run.execution)
    if n is None:
        return "driven"
    logger.warning("a run goes on in a new execution", extra={"run_id": run.id, "n": n})
    return "succeeded"


async def _finish(runtime: Runtime, run: RunMeta, due: DueCheck) -> str:
    """Watch a run that is over until the database has it, others know what it owes, and its records are
    retired."""
    # Saved before the records get their time to live: until then, only the journal has the run.
    head = None if run.saved else await _save(runtime, run)
    calls = await calls_of(runtime, run)
    paid = await tell(runtime, run, calls, run.owed)
    if WAKE_CUT in run.owed:
        # Its end may have died before it woke them: their execution would wait for a year.
        snapshot = await runtime.journal.runs.snapshot(run.owner, run.id)
        paid |= await wake_cut(runtime, snapshot.calls if snapshot else (), run.owed)
    is_told = not run.untold or await publish_end(runtime, run)
    if run.owed - paid or not is_told:
        await _reschedule(runtime, due, paid, is_told=is_told)
        return "owing"
    if head is not None and run.id in head.unplaced:
        # The end of the run at work gives its last messages their place.
        await keep_records(runtime, run)
        await _reschedule(runtime, due, paid, calm=CALM, is_told=True)
        return "unplaced"
    if await _is_forgotten(runtime, run):
        now = runtime.clock.now()
        at = now + runtime.settings.sweep_patience
        # Refused if the execution has retired the run since the read: it had not died but finished.
        watch = runtime.journal.watch
        if await watch.reschedule(due, at, lost_at=now, paid=paid, is_told=True):
            await runtime.callbacks.start(run.owner, run.id, run.n + 1)
        return "remembering"
    await set_ttl(runtime, run, paid)
    return "retired"


async def _save(runtime: Runtime, run: RunMeta) -> ThreadHead:
    """Save the run. Return its thread."""
    head = await head_now(runtime, run)
    await save_unsaved(runtime, head)
    return head


async def _is_forgotten(runtime: Runtime, run: RunMeta) -> bool:
    """Return whether the run's execution died or was stopped before the work that follows a run (its texts
    are kept for recall). A new execution finds the run over and does that work. This is tried only once."""
    was_tried = run.lost_at is not None and run.lost_at >= run.updated_at
    if run.execution is None or was_tried:
        return False
    return not await runtime.callbacks.alive(run.execution)


async def _erase(runtime: Runtime, due: DueCheck, end: float) -> str:
    """Erase until `end`, in the loop's time. Erased data stays erased, and the next sweep goes on: with
    others first, if this one has begun. What it does not begin keeps its place, and costs no write."""
    if asyncio.get_running_loop().time() >= end:
        return "erasing"
    try:
        async with asyncio.timeout_at(end):
            await erase(runtime, due.owner, due.thread_id)
    except TimeoutError:
        await runtime.journal.watch.reschedule(due, runtime.clock.now())
        return "erasing"
    return "erased"


async def _reschedule(
    runtime: Runtime,
    due: DueCheck,
    paid: frozenset[str] = frozenset(),
    *,
    calm: int = 1,
    latest: datetime | None = None,
    is_told: bool = False,
) -> None:
    """After a while, or at `latest`, whichever comes first; not before one patience is over."""
    now, patience = runtime.clock.now(), runtime.settings.sweep_patience
    at = now + patience * calm
    if latest is not None:
        at = max(now + patience, min(at, latest))
    # Changes nothing if another look was requested since this one began, so that a decision that has just
    # arrived is not put off.
    await runtime.journal.watch.reschedule(due, at, paid=paid, is_told=is_told)


def _first(*times: datetime | None) -> datetime | None:
    return min(filter(None, times), default=None)
