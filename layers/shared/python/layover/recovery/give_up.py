"""The function `settle`: it gives a run whose Turn failed another attempt, or ends it. It imports no user
code."""

import json
from collections.abc import Mapping
from typing import Any

from layover import logs
from layover.engine.loop import failed
from layover.engine.state import RunState
from layover.errors import AttemptsUsedUp, Fenced
from layover.runs.executions import SETTLE_EVENTS, room_for
from layover.runs.finish import end_even_unsaved, thread_of
from layover.runtime import Runtime
from layover.values.runs.payload import SettlePayload
from layover.values.runs.run import MAX_ATTEMPTS, Status


async def give_up(runtime: Runtime, payload: SettlePayload) -> Mapping[str, Any]:
    """Return the status. `again`: fewer than five attempts since the last journaled step; `over`: the run has
    failed now; `left`: it is over, or another execution drives it (including one that starts now because this
    one's history is full)."""
    run = await runtime.journal.runs.get(payload.owner, payload.run_id)
    if run is None or run.status is not Status.RUNNING or run.execution != payload.execution:
        return {"status": "left"}
    logs.name(thread_id=run.thread_id)
    if run.attempts < MAX_ATTEMPTS:
        room = await room_for(runtime, payload, SETTLE_EVENTS)
        return {"status": "again" if room else "left"}
    log = await runtime.journal.writers.seize(payload.owner, payload.run_id)
    if log is None:
        return {"status": "left"}
    failure = failed(attempts_used_up(payload.run_id, _last_error(payload.error)))
    state = RunState(log.snapshot)
    try:
        head = thread_of(log)
        await end_even_unsaved(runtime, log, state, head, failure)
    except Fenced:
        return {"status": "left"}
    return {"status": "over"}


def attempts_used_up(run_id: str, last_error: str = "") -> AttemptsUsedUp:
    """Return the error of a run that was attempted five times without a step. `last_error`: the reason of the
    last attempt's end, where it is known."""
    reason = f"the last error: {last_error}" if last_error else "the log of `turn` has the errors"
    message = f"the run was attempted {MAX_ATTEMPTS} times since its last step; {reason}"
    return AttemptsUsedUp(message, run_id=run_id)


def _last_error(error: Mapping[str, Any]) -> str:
    """Return the last attempt's error, as far as the state machine knows it. An attempt that only found that
    none was left has no error to report."""
    kind = str(error.get("Error") or "unknown")
    if kind == AttemptsUsedUp.__name__:
        return ""
    try:
        cause = json.loads(error.get("Cause") or "{}")
    except ValueError:
        cause = {}
    text = cause.get("errorMessage") if isinstance(cause, dict) else None
    return f"{kind}: {str(text)[:500]}" if text else kind
