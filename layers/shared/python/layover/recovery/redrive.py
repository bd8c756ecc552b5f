"""Redrive: an operator starts a run's next execution by hand (docs/behaviour.md#sweeper)."""

from datetime import timedelta

from layover.context.transcript import branch
from layover.engine.state import RunState
from layover.errors import Conflict, LimitReached, NotFound
from layover.records.runs import snapshot_of
from layover.records.views import run_view
from layover.runs.executions import start_execution
from layover.runs.finish import save_unsaved
from layover.runtime import Runtime
from layover.values.runs.run import RunMeta, Status
from layover.values.runs.views import Run

PAUSE = timedelta(minutes=1)
"""The least time between two redrives of a run, because each asks people again for the decisions that it
waits for."""
_GONE_ON = "its thread has gone on since the run failed: send the message again"


async def redrive(runtime: Runtime, owner: str, run_id: str) -> Run:
    """Let the run go on from its journal in a fresh execution, with all its attempts. The execution that
    drove it can no longer write. A run that failed goes on as well, if its thread has not (docs/outages.md).
    Raises NotFound, Conflict (the run is over or waits in the queue of its thread, or its thread has gone
    on), LimitReached (it was redriven a moment ago)."""
    run = await runtime.journal.runs.get(owner, run_id)
    if run is None:
        raise NotFound("there is no such run", run_id=run_id)
    _check_pause(runtime, run)
    if run.status is Status.FAILED:
        n = await _reopen(runtime, run)
    elif run.status is Status.RUNNING:
        if run.execution is not None:
            # Otherwise its branches would wait for a year on tokens that no longer decide anything.
            await runtime.callbacks.stop(run.execution, "redriven")
        n = await runtime.journal.commands.start_successor(owner, run_id, run.execution, fresh=True)
    else:
        raise Conflict(f"the run is {run.status.value}: there is nothing to drive", run_id=run_id)
    snapshot = await snapshot_of(runtime, owner, run_id)
    if n is not None:
        await start_execution(runtime, owner, run_id, n)
        return run_view(snapshot, runtime.agents)
    # Another request came first: a redrive, the run's own end, or a message to its thread.
    _check_pause(runtime, snapshot.meta)
    if snapshot.meta.status is Status.FAILED:
        raise Conflict(_GONE_ON, run_id=run_id)
    return run_view(snapshot, runtime.agents)


async def _reopen(runtime: Runtime, run: RunMeta) -> int | None:
    """Return the number of the execution with which a run that failed goes on; None: it changed meanwhile.
    Raises Conflict."""
    expire_at = run.records_expire_at
    if expire_at is not None and not run.records_kept and expire_at <= runtime.clock.now():
        raise Conflict("records of the run have expired: send the message again", run_id=run.id)
    head = await runtime.journal.heads.get(run.owner, run.thread_id)
    if head is not None and not run.saved:
        await save_unsaved(runtime, head)
        head = await runtime.journal.heads.get(run.owner, run.thread_id)
    snapshot = await snapshot_of(runtime, run.owner, run.id)
    state = RunState(snapshot)
    is_newest = head is not None and head.leaf_id == branch(snapshot, ended=True).leaf_id
    if head is None or head.active_run or head.queue or not is_newest or state.unread():
        raise Conflict(_GONE_ON, run_id=run.id)
    step, _ = state.next_key()
    return await runtime.journal.commands.reopen(snapshot.meta, head, step)


def _check_pause(runtime: Runtime, run: RunMeta) -> None:
    if run.redriven_at is None:
        return
    wait = run.redriven_at + PAUSE - runtime.clock.now()
    if wait > timedelta(0):
        message = f"the run was redriven less than {PAUSE.total_seconds():g} s ago"
        raise LimitReached(message, wait, run_id=run.id)
