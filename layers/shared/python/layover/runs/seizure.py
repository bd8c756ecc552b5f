"""The one door to a run for whoever ends it by force (docs/run-lifecycle.md#phases): a cancel, Settle, the
sweeper."""

import asyncio
from collections.abc import Awaitable, Callable

from layover.errors import Fenced
from layover.ports import BeingEnded, RunLog
from layover.runtime import Runtime

ENDS_WITHIN_S = 3.0
"""Seconds that whoever took a run to end it has for that: hooks at the end, the bus, the database. After them
another process takes the run from it, since it may have died. This is patience only: epochs decide who may
write."""
LOOK_EVERY_S = 0.1
_TRIES = 20
"""Attempts to end a run when something is written between reading it and ending it."""


async def end_by_force(
    runtime: Runtime,
    owner: str,
    run_id: str,
    end: Callable[[RunLog], Awaitable[object]],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> bool:
    """Take the run from whoever holds it, and end it. Return False if others have ended it, or have changed
    it each time in between.

    Args:
        runtime: The ports.
        owner: The run's.
        run_id: The run.
        end: Ends the run with the log of whoever has taken it.
        sleep: Waits for some seconds.
    """
    ended_by: int | None = None
    tries = 0
    while tries < _TRIES:
        # From here on the process that held the run opens no call and ends nothing. It may still close a call
        # that it opened before.
        try:
            log = await runtime.journal.writers.seize(owner, run_id, ended_by)
        except BeingEnded as other:
            # To take the run from it at once would fence both off, again and again.
            await _wait_for_end(runtime, owner, run_id, other.epoch, sleep)
            ended_by = other.epoch
            continue
        if log is None:
            return False
        tries, ended_by = tries + 1, log.snapshot.meta.epoch
        try:
            await end(log)
        except Fenced:
            # A decision, a tool's result or another end came first. The next read shows which.
            continue
        return True
    return False


async def _wait_for_end(
    runtime: Runtime,
    owner: str,
    run_id: str,
    epoch: int,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Wait until the writer of this epoch has ended the run, another has taken it, or its time is over."""
    for _ in range(round(ENDS_WITHIN_S / LOOK_EVERY_S)):
        await sleep(LOOK_EVERY_S / 2 + runtime.dice.up_to(LOOK_EVERY_S))
        run = await runtime.journal.runs.get(owner, run_id)
        if run is None or run.status.over or run.epoch != epoch:
            return
