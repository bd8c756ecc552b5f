"""Decisions that come through a task token instead of the API (docs/behaviour.md#callbacks)."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from layover.approvals.checks import MAX_REASON, check_args, check_data, check_reason
from layover.errors import DecisionInvalid
from layover.runtime import Runtime
from layover.values.runs.run import CallRecord, Decision, DecisionKind, SuspensionKind, Via
from layover.values.text import sanitise

CALLBACK = "callback"
"""`decided_by` of a caller of `states:SendTaskSuccess`."""


class _Approval(BaseModel):
    model_config = ConfigDict(extra="forbid")
    approved: StrictBool
    args: dict[str, Any] | None = None
    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = None


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")
    data: Any


def decision_from_callback(
    runtime: Runtime, agent: str, call: CallRecord, output: Any, now: datetime
) -> Decision:
    """Return the caller's decision, validated like an HTTP body. Raises DecisionInvalid."""
    if call.suspension is None:
        raise DecisionInvalid("the call does not wait", tool_call_id=call.tool_call_id)
    try:
        if call.suspension.kind is SuspensionKind.INPUT:
            return _resume(runtime, agent, call, _Input.model_validate(output), now)
        return _approval(runtime, agent, call, _Approval.model_validate(output), now)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        errors = [{"loc": list(p["loc"]), "msg": p["msg"], "type": p["type"]} for p in problems]
        raise DecisionInvalid("the output has not the shape of a decision", errors) from None


def _resume(
    runtime: Runtime, agent: str, call: CallRecord, output: _Input, now: datetime
) -> Decision:
    data = sanitise(output.data)
    check_data(runtime, agent, call, data)
    return _decision(DecisionKind.RESUMED, now, data=data)


def _approval(
    runtime: Runtime, agent: str, call: CallRecord, output: _Approval, now: datetime
) -> Decision:
    reason = sanitise(output.reason)
    check_reason(call, reason)
    if not output.approved:
        return _decision(DecisionKind.DENIED, now, reason=reason)
    args = sanitise(output.args)
    if args is not None:
        check_args(runtime, agent, call, args)
    return _decision(DecisionKind.APPROVED, now, args=args, reason=reason)


def _decision(kind: DecisionKind, now: datetime, **fields: Any) -> Decision:
    return Decision(kind=kind, decided_by=CALLBACK, via=Via.CALLBACK, at=now, **fields)
