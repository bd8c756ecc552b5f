"""The call that a caller's request is about, if it waits and the caller may decide it, and the run as that
caller then sees it."""

from layover.approvals.approvers import check_right, foreign_run, may_decide
from layover.approvals.waiting import is_expired
from layover.errors import DecisionAlreadyMade, NotFound, RequestError
from layover.records.runs import snapshot_of
from layover.records.views import run_view
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.run import (
    HOOKS_TOOL,
    REPLIES_TOOL,
    CallRecord,
    CallState,
    RunSnapshot,
    Suspension,
)
from layover.values.runs.views import Run, RunGlimpse

_NO_CALLS = (HOOKS_TOOL, REPLIES_TOOL)
"""Records that stand among the calls."""


async def find_call(
    runtime: Runtime, actor: Actor, run_id: str, tool_call_id: str, *, operates: bool = False
) -> tuple[RunSnapshot, CallRecord]:
    """Return the call, if the actor may decide it. `operates`: the actor is an operator, who needs no further
    right, and finds the actor's own runs and those that have asked people other than their owner. Raises
    NotFound, NotAnApprover, DecisionAlreadyMade (the call is not executed yet)."""
    try:
        own = await snapshot_of(runtime, actor.owner, run_id)
    except NotFound as error:
        # Only an approver may learn that another user has such a run: every refusal is answered as if the run
        # did not exist.
        try:
            foreign = await foreign_run(runtime, actor, run_id, operates=operates)
            call = _find(foreign, tool_call_id)
        except RequestError:
            raise error from None
        rule = call.rule
        may = rule is not None and may_decide(actor, foreign.meta.owner, rule)
        if not (may or operates):
            raise error from None
        return foreign, call
    call = _find(own, tool_call_id)
    if not operates:
        check_right(actor, own.meta.owner, call)
    return own, call


def check_open(
    runtime: Runtime, snapshot: RunSnapshot, call: CallRecord, attempt: int | None = None
) -> Suspension:
    """Return what the call waits for. Raises DecisionAlreadyMade if it does not wait undecided, or not for
    this attempt."""
    if snapshot.meta.status.over:
        raise _refusal(call, "the run is over")
    if call.state is not CallState.WAITING or call.suspension is None:
        raise _refusal(call, "the call does not wait")
    if call.decision is not None:
        raise _refusal(call, f"the call was {call.decision.kind.value} already")
    if is_expired(call, runtime.clock.now()):
        # Expiry is a decision as well, but it is recorded where the wait ends, not here.
        raise _refusal(call, "the call has expired")
    if attempt is not None and attempt != call.attempt:
        raise _refusal(call, f"attempt {call.attempt} of the call waits, not {attempt}")
    return call.suspension


def with_call(snapshot: RunSnapshot, call: CallRecord) -> RunSnapshot:
    """Return the snapshot with the call as it was written, without reading it again."""
    waiting = snapshot.meta.waiting - ({call.key} if call.decision else set())
    calls = tuple(call if c.key == call.key else c for c in snapshot.calls)
    meta = snapshot.meta.model_copy(update={"waiting": waiting})
    return snapshot.model_copy(update={"meta": meta, "calls": calls})


def view_for(runtime: Runtime, actor: Actor, snapshot: RunSnapshot) -> Run | RunGlimpse:
    """Return the run as its owner sees it, or what others who decide see of it."""
    if snapshot.meta.owner == actor.owner:
        return run_view(snapshot, runtime.agents)
    return RunGlimpse(id=snapshot.meta.id, status=snapshot.meta.shown_status)


def _find(snapshot: RunSnapshot, tool_call_id: str) -> CallRecord:
    """Return the call's record. A planned call has no record: it exists, but it is not waiting."""
    ids = {"run_id": snapshot.meta.id, "tool_call_id": tool_call_id}
    for call in snapshot.calls:
        if call.tool_call_id == tool_call_id and call.tool_name not in _NO_CALLS:
            return call
    if any(slot.tool_call_id == tool_call_id for s in snapshot.steps for slot in s.slots):
        raise DecisionAlreadyMade("the call is not executed yet", **ids)
    raise NotFound("there is no such call in this run", **ids)


def _refusal(call: CallRecord, why: str) -> DecisionAlreadyMade:
    return DecisionAlreadyMade(why, run_id=call.run_id, tool_call_id=call.tool_call_id)
