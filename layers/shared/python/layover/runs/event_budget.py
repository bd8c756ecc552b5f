"""The budget of an execution's history: Step Functions ends an execution at its 25,000th event. So the events
that it may have used are counted, and a successor takes over before the limit."""

from layover.runs.finish import start_execution
from layover.runtime import Runtime
from layover.values.runs.payload import RunPayload

BRANCH_EVENTS = 90
"""Events of a waiting call until it is settled or waits again: Await, Resume, with all their retries."""
PAUSE_EVENTS = 40
"""Events of a Turn while everything is stopped, with all its retries, and of its pause."""
SETTLE_EVENTS = 80
"""Events of a Turn that failed with all its retries, and of Settle after it."""


async def spend(runtime: Runtime, payload: RunPayload, events: int) -> None:
    """Count events of a branch. If they are too many, the sweeper looks at once: it starts a successor as
    soon as no call is being made."""
    await runtime.journal.commands.spend(
        payload.owner, payload.run_id, payload.execution, events, runtime.settings.max_history
    )


async def room_for(
    runtime: Runtime, payload: RunPayload, events: int, *, fresh: bool = False
) -> bool:
    """Count events to come. Return False if they would be too many: the successor is started, and this
    execution has no more to do. `fresh`: the run has all its attempts again."""
    owner, run_id, limit = payload.owner, payload.run_id, runtime.settings.max_history
    spent = await runtime.journal.commands.spend(
        owner, run_id, payload.execution, events, limit, fresh=fresh
    )
    if spent is None or spent <= limit:
        return True
    await start_successor(runtime, owner, run_id, payload.execution)
    return False


async def start_successor(runtime: Runtime, owner: str, run_id: str, execution: str | None) -> None:
    """Start the execution that follows, unless another one has."""
    n = await runtime.journal.commands.start_successor(owner, run_id, execution)
    if n is not None:
        await start_execution(runtime, owner, run_id, n)
