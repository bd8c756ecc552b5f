"""The function `settle`: it gives a run whose Turn failed another attempt, or ends it. It imports no user
code."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from layover import logs
from layover.engine.progress import failed
from layover.engine.state import RunState
from layover.errors import AttemptsUsedUp, NewerFormat
from layover.ports import RunLog
from layover.runs.executions import SETTLE_EVENTS, room_for
from layover.runs.finish import end_even_unsaved, thread_of
from layover.runs.seizure import end_by_force
from layover.runtime import Runtime
from layover.values.runs.payload import SettlePayload
from layover.values.runs.run import MAX_ATTEMPTS, Status

MAX_FAULTS = 20
"""Faults in a row that kept every attempt from its beginning (its function cannot be loaded, its execution
fails), and after which the run has failed: hours, since the pauses grow. A deployment that is broken is
mended meanwhile."""


async def give_up(runtime: Runtime, payload: SettlePayload) -> Mapping[str, Any]:
    """Return the status, and the seconds to wait before the next attempt. `again`: fewer than five attempts
    since the last journaled step, or it waits for another release; `over`: the run has failed; `left`: it
    ended otherwise, or another execution drives it (also one that starts now, if this one's history is
    full)."""
    run = await runtime.journal.runs.get(payload.owner, payload.run_id)
    if run is None or run.status is not Status.RUNNING or run.execution != payload.execution:
        if runtime.settings.traces and run is not None and run.status.over:
            # Turn may have died between the end and its trace. Nobody can take a run that is over; who tries
            # sees to its trace.
            await runtime.journal.writers.seize(run.owner, run.id)
        # Turn may have died behind the end of a run that failed: its execution fails even so.
        has_failed = run is not None and run.status is Status.FAILED
        return _answer("over" if has_failed else "left")
    logs.name(thread_id=run.thread_id)
    faults = await runtime.journal.commands.count_fault(run.owner, run.id, run.epoch)
    # A deployment has migrated the database and not yet replaced the functions, or was rolled back: the run
    # has done nothing wrong, and goes on with the release that fits. So it has all its attempts again.
    waits = payload.error.get("Error") == NewerFormat.__name__
    if waits or (run.attempts < MAX_ATTEMPTS and faults < MAX_FAULTS):
        if not await room_for(runtime, payload, SETTLE_EVENTS, fresh=waits):
            return _answer("left")
        patience = runtime.settings.sweep_patience
        grown_s = _pause_s(max(run.attempts, faults), patience)
        return _answer("again", math.ceil(patience.total_seconds()) if waits else grown_s)
    last_error = _last_error(payload.error)
    failure = failed(attempts_used_up(run.id, last_error, faults), run.id)

    async def end(log: RunLog) -> None:
        await end_even_unsaved(runtime, log, RunState(log.snapshot), thread_of(log), failure)

    is_over = await end_by_force(runtime, payload.owner, payload.run_id, end)
    return _answer("over" if is_over else "left")


def _answer(status: str, pause_s: int = 0) -> Mapping[str, Any]:
    return {"status": status, "pause_s": pause_s}


def _pause_s(failures: int, patience: timedelta) -> int:
    """Return whole seconds: 2, 6, 18, 54 and so on, 15 minutes at most, where the patience is 60 s."""
    s = patience.total_seconds()
    grown: float = s / 30 * 3 ** max(0, failures - 1)
    return max(1, math.ceil(min(s * 15, grown)))


def attempts_used_up(run_id: str, last_error: str = "", faults: int = 0) -> AttemptsUsedUp:
    """Return the error of a run that was attempted five times without a step, or that `faults` kept from
    every attempt. `last_error`: the kind of the last attempt's error, where it is known."""
    reason = f"the last error: {last_error}" if last_error else "the log of `turn` has the errors"
    if faults >= MAX_FAULTS:
        message = f"no attempt at the run could begin, {faults} times in a row; {reason}"
    else:
        message = f"the run was attempted {MAX_ATTEMPTS} times since its last step; {reason}"
    return AttemptsUsedUp(message, run_id=run_id)


def _last_error(error: Mapping[str, Any]) -> str:
    """Return the kind of the last attempt's error, as far as the state machine knows it. Its text is in the
    log only: an exception may quote what users wrote. An attempt that only saw that no more are left knows
    nothing."""
    kind = str(error.get("Error") or "unknown")
    return "" if kind == AttemptsUsedUp.__name__ else kind
