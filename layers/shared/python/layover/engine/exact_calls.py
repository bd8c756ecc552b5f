"""Calls that run exactly as a person approved them (docs/behaviour.md#exact-approvals).

A request shows the validated arguments, with their defaults. Days later another deployment may validate the
same words of the model to something else: such a call does not run, and its request is made again."""

from collections.abc import Callable
from datetime import datetime

from layover.declare.context import ToolContext
from layover.declare.tools.approval import APPROVAL_SCHEMA
from layover.engine.definition import tool_definition_of
from layover.engine.isolation import isolate
from layover.engine.outcomes import Ready, Settled, failed
from layover.values.base import Json, compact_json
from layover.values.decision import Args
from layover.values.runs.run import (
    CallRecord,
    DecisionKind,
    Suspension,
    SuspensionKind,
)
from layover.values.text import sanitise

Prepare = Callable[[Json], Ready | Settled]
"""Validates arguments of the call by the code that is deployed now."""
MAX_SUMMARY = 500
"""Characters of a summary."""


def approval_request(ready: Ready, now: datetime, **more: Json) -> Suspension:
    """Return the suspension of a call that a person has to approve. `more`: of its payload."""
    tool, args = ready.tool, ready.args.as_dict()
    return Suspension(
        kind=SuspensionKind.APPROVAL,
        payload={"type": "approval", "tool_name": tool.name, "args": args, **more},
        resume_schema=APPROVAL_SCHEMA,
        requested_at=now,
        expires_at=now + tool.expires_after if tool.expires_after else None,
        approval=tool.approvers,
        args=args,
        definition=tool_definition_of(tool),
    )


async def described(suspension: Suspension, ready: Ready, ctx: ToolContext) -> Suspension:
    """Return the suspension with the author's summary and risk. Raises what the author's functions raise."""
    summary = await isolate(ready.tool.summary(ready.args, ctx))
    risk = await isolate(ready.tool.risk(ready.args, ctx))
    if summary is not None:
        summary = sanitise(summary)[:MAX_SUMMARY]
    return suspension.model_copy(update={"summary": summary, "risk": risk})


def exact_call(call: CallRecord, prepare: Prepare, now: datetime) -> Ready | Settled | Suspension:
    """Return the call as a person decided it, if today's code gives its tool the same arguments; otherwise
    the request to make again, or the error that settles it."""
    decision = call.decision
    assert decision is not None
    words = call.proposed if call.edited is None else call.edited
    ready = prepare(words)
    # What the person made, or saw.
    decided = call.exact_args if decision.exact_args is None else decision.exact_args
    if isinstance(ready, Settled):
        return failed(
            f"ToolChanged: a deployment changed the parameters of {call.tool_name} after the request was "
            f"made, so it did not run. {ready.model_output}"
        )
    args = ready.args.as_dict()
    if _is_same(args, decided):
        return ready
    # A default may be made anew at each validation (an id, the time). Such a value is the one that the person
    # saw; everything else has to be as it was.
    again = prepare(words)
    anew = _differences(args, again.args.as_dict()) if isinstance(again, Ready) else set()
    if _differences(args, decided) <= anew:
        exact = prepare(decided)
        if isinstance(exact, Ready) and _is_same(exact.args.as_dict(), decided):
            return exact
    if decision.kind is DecisionKind.CONNECTED:
        return _after_consent(call, ready, now)
    return _request_again(call, ready, now)


def _after_consent(call: CallRecord, ready: Ready, now: datetime) -> Ready | Suspension:
    """Return a call whose user has consented, while a deployment changed what it would run with: the request
    for approval once more, if persons had approved the call before; else nobody has decided about
    arguments."""
    if not any(each["kind"] == DecisionKind.APPROVED for each in call.past):
        return ready
    rule = call.suspension.approved_under if call.suspension else None
    request = approval_request(ready, now)
    return request.model_copy(update={"approval": rule, "asked_again": "definition"})


def _request_again(call: CallRecord, ready: Ready, now: datetime) -> Suspension:
    """Return the request with today's arguments, under the rule that it was made with: a deployment decides
    what runs, and not who may allow it."""
    request = call.suspension
    assert request is not None
    args = ready.args.as_dict()
    payload = request.payload
    if request.kind is SuspensionKind.APPROVAL:
        payload = {**payload, "args": args}
    changes = {"payload": payload, "args": args, "asked_again": "definition", "requested_at": now}
    if request.definition is not None:
        changes["definition"] = tool_definition_of(ready.tool)
    expires_after = ready.tool.expires_after
    changes["expires_at"] = now + expires_after if expires_after else None
    return request.model_copy(update=changes)


def _differences(args: Args, others: Args) -> set[str]:
    """Return the names of the arguments that are not equal in both."""
    names = args.keys() | others.keys()
    return {n for n in names if not _is_same(args.get(n, _MISSING), others.get(n, _MISSING))}


_MISSING = "missing from the arguments"


def _is_same(value: Json, other: Json) -> bool:
    return compact_json(value) == compact_json(other)
