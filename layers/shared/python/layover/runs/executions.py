"""The executions of a run: start the first and the next one, and count what they may have used of their
history. Step Functions ends an execution at its 25,000th event; a successor takes over before that."""

import logging

from layover.errors import RetryableError
from layover.runtime import Runtime
from layover.values.runs.payload import RunPayload

BRANCH_EVENTS = 90
"""Events of a waiting call until it is settled or waits again: Await, Resume, with all their retries."""
PAUSE_EVENTS = 40
"""Events of a Turn while everything is stopped, with all its retries, and of its pause."""
SETTLE_EVENTS = 80
"""Events of a Turn that failed with all its retries, and of Settle after it."""
logger = logging.getLogger("layover")


async def start_execution(runtime: Runtime, owner: str, run_id: str, n: int) -> None:
    """Start an execution. If that fails, the sweeper does it later."""
    try:
        await runtime.callbacks.start(owner, run_id, n)
    except RetryableError:
        logger.warning("execution not started, left to the sweeper", extra={"run_id": run_id})


async def start_successor(
    runtime: Runtime, owner: str, run_id: str, execution: str | None
) -> int | None:
    """Start the execution that follows, and return its number. None: the run is over, or another process has
    started one."""
    # The journal names it before it is started: from then on a writer of the previous execution can open no
    # call. A process that dies in between leaves a run whose execution does not exist, which the sweeper
    # notices.
    n = await runtime.journal.commands.start_successor(owner, run_id, execution)
    if n is not None:
        await start_execution(runtime, owner, run_id, n)
    return n


async def spend(runtime: Runtime, payload: RunPayload, events: int) -> None:
    """Count events of a branch. If there are too many, the sweeper looks at once and starts a successor as
    soon as no call is being made."""
    await runtime.journal.commands.spend(
        payload.owner, payload.run_id, payload.execution, events, runtime.settings.max_history
    )


async def room_for(
    runtime: Runtime,
    payload: RunPayload,
    events: int,
    *,
    fresh: bool = False,
    rests: int | None = None,
) -> bool:
    """Count events to come. If there would be too many, start the successor and return False: this execution
    has no more to do. `fresh`: the run has all its attempts again. `rests`: the epoch of the writer that
    leaves it waiting."""
    owner, run_id, limit = payload.owner, payload.run_id, runtime.settings.max_history
    spent = await runtime.journal.commands.spend(
        owner, run_id, payload.execution, events, limit, fresh=fresh, rests=rests
    )
    if spent is None or spent <= limit:
        return True
    await start_successor(runtime, owner, run_id, payload.execution)
    return False
