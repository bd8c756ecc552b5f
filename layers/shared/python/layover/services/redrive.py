"""Redrive: an operator starts a run's next execution by hand (DESIGN 1)."""

from layover.errors import Conflict, NotFound
from layover.ports import Runtime
from layover.services.ending import start_execution
from layover.services.runs import snapshot_of
from layover.services.views import run_view
from layover.values.run import Run, Status


async def redrive(runtime: Runtime, owner: str, run_id: str) -> Run:
    """The run goes on from its journal in a fresh execution, with all its attempts; whatever drove it may
    act no more.

    Raises NotFound, Conflict (the run is over, or waits in the queue of its thread)."""
    run = await runtime.journal.run(owner, run_id)
    if run is None:
        raise NotFound("there is no such run", run_id=run_id)
    if run.status is not Status.RUNNING:
        raise Conflict(f"the run is {run.status.value}: there is nothing to drive", run_id=run_id)
    if run.execution is not None:
        # Its branches would wait on for a year, on tokens that decide nothing any more.
        await runtime.callbacks.stop(run.execution, "redriven")
    n = await runtime.journal.succeed(owner, run_id, run.execution, fresh=True)
    if n is not None:
        await start_execution(runtime, owner, run_id, n)
    return run_view(await snapshot_of(runtime, owner, run_id))
