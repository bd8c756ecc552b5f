"""Redrive: an operator starts a run's next execution by hand (docs/behaviour.md#sweeper)."""

from datetime import timedelta

from layover.errors import Conflict, LimitReached, NotFound
from layover.records.runs import snapshot_of
from layover.records.views import run_view
from layover.runs.executions import start_execution
from layover.runtime import Runtime
from layover.values.runs.run import RunMeta, Status
from layover.values.runs.views import Run

PAUSE = timedelta(minutes=1)
"""The least time between two redrives of a run, because each asks people again for the decisions that it
waits for."""


async def redrive(runtime: Runtime, owner: str, run_id: str) -> Run:
    """Let the run go on from its journal in a fresh execution, with all its attempts. The execution that
    drove it can no longer write. Raises NotFound, Conflict (the run is over, or waits in the queue of its
    thread), LimitReached (it was redriven a moment ago)."""
    run = await runtime.journal.runs.get(owner, run_id)
    if run is None:
        raise NotFound("there is no such run", run_id=run_id)
    if run.status is not Status.RUNNING:
        raise Conflict(f"the run is {run.status.value}: there is nothing to drive", run_id=run_id)
    _check_pause(runtime, run)
    if run.execution is not None:
        # Otherwise its branches would wait for a year on tokens that no longer decide anything.
        await runtime.callbacks.stop(run.execution, "redriven")
    n = await runtime.journal.commands.start_successor(owner, run_id, run.execution, fresh=True)
    snapshot = await snapshot_of(runtime, owner, run_id)
    if n is None:
        # Another request came first: a redrive, or the run's own end.
        _check_pause(runtime, snapshot.meta)
    else:
        await start_execution(runtime, owner, run_id, n)
    return run_view(snapshot, runtime.agents)


def _check_pause(runtime: Runtime, run: RunMeta) -> None:
    if run.redriven_at is None:
        return
    wait = run.redriven_at + PAUSE - runtime.clock.now()
    if wait > timedelta(0):
        message = f"the run was redriven less than {PAUSE.total_seconds():g} s ago"
        raise LimitReached(message, wait, run_id=run.id)
