"""One call about which people were asked, while it waits and afterwards."""

from layover.approvals.approvers import may_decide
from layover.approvals.open_call import check_open, find_call
from layover.errors import DecisionAlreadyMade, NotAnApprover, NotFound
from layover.records.deployed import with_args_schema
from layover.runtime import Runtime
from layover.values.decision import DecisionNote
from layover.values.deployment.access import Actor
from layover.values.runs.run import CallRecord, RunSnapshot
from layover.values.runs.views import AskedCall


async def read_call(runtime: Runtime, actor: Actor, run_id: str, tool_call_id: str) -> AskedCall:
    """Return the call, for the run's owner and for everybody who may decide it, also after the decision: an
    address that was sent to several people says what became of the request. Raises NotFound, also for a call
    that asked nobody, and for a caller who may not know of it."""
    nobody = NotFound(
        "there is no such call, or it asked nobody", run_id=run_id, tool_call_id=tool_call_id
    )
    try:
        run, call = await _find(runtime, actor, run_id, tool_call_id)
    except DecisionAlreadyMade as error:  # It is planned, and may never ask.
        raise nobody from error
    if call.suspension is None:
        raise nobody
    owner, is_own = run.meta.owner, run.meta.owner == actor.owner
    view = AskedCall.of(
        call,
        run.meta.agent,
        run_id=run.meta.id,
        agent=run.meta.agent,
        owner=owner,
        thread_id=run.meta.thread_id if is_own else None,
        waits=_waits(runtime, run, call),
        may_decide=may_decide(actor, owner, call.rule),
        decision=DecisionNote.of(call.decision, call.votes) if call.decision else None,
    )
    return with_args_schema(runtime.agents, view.agent, view)


async def _find(
    runtime: Runtime, actor: Actor, run_id: str, tool_call_id: str
) -> tuple[RunSnapshot, CallRecord]:
    try:
        return await find_call(runtime, actor, run_id, tool_call_id)
    except NotAnApprover:
        # Only the run's owner is refused so. They may see who can decide, as in their run.
        return await find_call(runtime, actor, run_id, tool_call_id, operates=True)


def _waits(runtime: Runtime, run: RunSnapshot, call: CallRecord) -> bool:
    try:
        check_open(runtime, run, call)
    except DecisionAlreadyMade:
        return False
    return True
