"""Cancel (DESIGN 1): a suspended or queued run ends at once, a running one within 2 s."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from layover.engine.progress import Over
from layover.engine.state import RunState
from layover.errors import Fenced, NotFound, RetryableError
from layover.ports import Runtime
from layover.services.ending import end_run, last_events
from layover.services.turn import head_of
from layover.values.run import FinishReason, Outcome, RunMeta, Status

HOLDER_HAS_S = 1.7
"""Seconds that the holder of a running run has to see the flag (it polls every 0.5 s)."""
LOOK_EVERY_S = 0.1
_TRIES = 5
"""How often a decision may come between the look at a run and its end."""
CANCELLED = Over(Status.CANCELLED, FinishReason.CANCELLED)


async def cancel(
    runtime: Runtime,
    owner: str,
    run_id: str,
    *,
    holder_has_s: float = HOLDER_HAS_S,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> RunMeta:
    """End the run as cancelled; one that is over stays as it is. Raises NotFound."""
    run = await runtime.journal.request_cancel(owner, run_id)
    if run is None:
        raise NotFound("there is no such run", run_id=run_id)
    if run.status is Status.QUEUED:
        await _drop(runtime, run)
        run = await _now(runtime, run)
    give_up = time.monotonic() + holder_has_s
    while run.shown_status is Status.RUNNING and time.monotonic() < give_up:
        await sleep(LOOK_EVERY_S)
        run = await _now(runtime, run)
    if not run.status.over:
        await _force(runtime, run)
        run = await _now(runtime, run)
    return run


async def _drop(runtime: Runtime, run: RunMeta) -> bool:
    """A queued run never began: nothing of it reaches the thread."""
    outcome = Outcome(
        status=Status.CANCELLED,
        finish_reason=FinishReason.CANCELLED,
        leaf_id=run.input.id,
        last_created_at=run.input.created_at,
    )
    events = last_events(runtime, outcome, ())
    return await runtime.journal.end_queued(run.owner, run.id, outcome, *events)


async def _force(runtime: Runtime, run: RunMeta) -> None:
    """Nobody listens, or the run waits: take it away from whoever holds it, and end it."""
    for _ in range(_TRIES):
        log = await runtime.journal.force(run.owner, run.id)
        if log is None:
            return
        # Stopped first: a process that dies in between leaves a run that is flagged, which the sweeper
        # ends, and never an execution that waits for a run that is over.
        if run.execution is not None:
            await _stop(runtime, run.execution)
        try:
            head = await head_of(runtime, run)
            # A cancel never needs the database: whoever reads the thread next saves the run first.
            await end_run(runtime, log, RunState(log.snapshot), head, CANCELLED, save=False)
        except Fenced:
            # A decision came first, or another end: the next look tells which.
            continue
        return


async def _stop(runtime: Runtime, execution: str) -> None:
    """Best effort: an execution that goes on finds the run over and does nothing."""
    try:
        await runtime.callbacks.stop(execution, "the run was cancelled")
    except RetryableError:
        return


async def _now(runtime: Runtime, run: RunMeta) -> RunMeta:
    return await runtime.journal.run(run.owner, run.id) or run
