"""More time for a call that waits."""

from datetime import datetime, timedelta

from layover.approvals.open_call import check_open, find_call, view_for, with_call
from layover.approvals.waiting import A_YEAR
from layover.errors import InvalidRequest, NotAnApprover, NotFound
from layover.ports import StaleCall
from layover.records.deeds import Deed, as_operator, is_operator
from layover.records.runs import snapshot_of
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.event import ApprovalExtended
from layover.values.runs.operations import OperationKind
from layover.values.runs.run import CallRecord, RunSnapshot, Suspension
from layover.values.runs.views import Run, RunGlimpse

MAX_WAIT = timedelta(seconds=A_YEAR)
"""The longest wait of a call, from its request on."""


async def extend(
    runtime: Runtime,
    actor: Actor,
    run_id: str,
    tool_call_id: str,
    expires_at: datetime,
    *,
    attempt: int,
) -> tuple[Run | RunGlimpse, bool]:
    """Let the call expire later, if it still waits for the attempt that the actor saw. Return the run, or
    what an approver sees of another's run, and whether it expired then already (a repetition changes
    nothing). Whoever may decide the call may do it, and operators. Raises what `decide` raises, and
    InvalidRequest for a time that gives the call no more time, or more than a year."""
    try:
        snapshot, call = await find_call(runtime, actor, run_id, tool_call_id)
    except (NotFound, NotAnApprover):
        if not is_operator(runtime, actor):
            raise
    else:
        return await _extend(runtime, actor, snapshot, call, expires_at, attempt=attempt)
    snapshot, call = await find_call(runtime, actor, run_id, tool_call_id, operates=True)
    return await as_operator(
        runtime,
        actor,
        Deed(OperationKind.EXTEND, snapshot.meta),
        lambda: _extend(runtime, actor, snapshot, call, expires_at, attempt=attempt),
    )


async def _extend(
    runtime: Runtime,
    actor: Actor,
    snapshot: RunSnapshot,
    call: CallRecord,
    expires_at: datetime,
    *,
    attempt: int,
) -> tuple[Run | RunGlimpse, bool]:
    while True:
        suspension = check_open(runtime, snapshot, call, attempt)
        if call.extended_to == expires_at:
            return view_for(runtime, actor, snapshot), True
        now = runtime.clock.now()
        _check_time(call, suspension, expires_at, now)
        later = call.model_copy(update={"extended_to": expires_at})
        event = ApprovalExtended.of(call, actor.sub, expires_at, now)
        try:
            await runtime.journal.decisions.amend(snapshot.meta, call, later, event)
        except StaleCall:
            # Somebody else has extended it in the meantime, perhaps for longer.
            snapshot = await snapshot_of(runtime, snapshot.meta.owner, snapshot.meta.id)
            call = next(each for each in snapshot.calls if each.key == call.key)
            continue
        return view_for(runtime, actor, with_call(snapshot, later)), False


def _check_time(
    call: CallRecord, suspension: Suspension, expires_at: datetime, now: datetime
) -> None:
    if call.expires_at is None:
        raise _refusal(call, "this call never expires: it needs no more time")
    latest = suspension.requested_at + MAX_WAIT
    if expires_at > latest:
        raise _refusal(call, f"a call waits for a year at most: until {latest.isoformat()}")
    if expires_at <= now:
        raise _refusal(call, "this time is over: name a later one")
    if expires_at <= call.expires_at:
        expiry = call.expires_at.isoformat()
        raise _refusal(call, f"this call expires at {expiry}: name a later time")


def _refusal(call: CallRecord, message: str) -> InvalidRequest:
    wrong = {"loc": ["body", "expires_at"], "msg": message, "type": "expires_at"}
    return InvalidRequest(message, [wrong], run_id=call.run_id, tool_call_id=call.tool_call_id)
