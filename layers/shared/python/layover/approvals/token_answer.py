"""The answer to a task token: a decision, our own wake-up, or neither
(docs/behaviour.md#callbacks)."""

import logging
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from layover.approvals.checks import MAX_REASON, check_args, check_data, check_reason
from layover.approvals.outbox import tell_decision
from layover.approvals.waiting import waiting_call
from layover.errors import DecisionError, DecisionInvalid, InvalidRequest
from layover.ports import StaleCall
from layover.runtime import Runtime
from layover.values.decision import WakeUp
from layover.values.runs.event import ToolCallDecided
from layover.values.runs.payload import WaitingCall
from layover.values.runs.run import (
    SYSTEM,
    CallRecord,
    CallState,
    Decision,
    DecisionKind,
    RunMeta,
    SuspensionKind,
    Via,
)
from layover.values.text import sanitise

logger = logging.getLogger("layover")

SKEW = timedelta(minutes=1)
"""The state machine's own time-out comes at most this long before a call expires."""
DENIED = "Denied"
"""The error of SendTaskFailure that is a person's denial. Any other error may come from the platform, and
decides nothing."""
MAX_PAUSE_S = 60
"""The longest pause between two tokens of a call. It is shorter than the sweeper's grace for a branch."""
DECIDED = {"layover": WakeUp.DECIDED.value}
"""Our own wake-up: the decision is in the record, and the bus knows of it."""
UNTOLD = {"layover": WakeUp.UNTOLD.value}
"""The same, but the bus may not know of it."""
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


async def record_answer(
    runtime: Runtime, run: RunMeta, call: CallRecord, attempt: int, output: Any
) -> CallRecord:
    """Return the call with the decision in its token's answer, or still waiting. `attempt`: the one that the
    token belongs to. Raises RetryableError."""
    while True:
        # The token of an earlier attempt may be answered late. Its answer is not about this suspension.
        decision = None if attempt != call.attempt else _decision_in(runtime, run, call, output)
        if decision is None:
            break
        event = ToolCallDecided.of(call, decision)
        try:
            return await runtime.journal.decisions.decide(run, call, decision, event)
        except DecisionError:
            logger.info("a decision came first", extra={"run_id": run.id})
            break
        except StaleCall:
            # A person may have given the call more time a moment ago, on which an expiry depends.
            call = await runtime.journal.runs.call(run.owner, run.id, call.key) or call
    # Read again: a decision that came first is in the record.
    return await runtime.journal.runs.call(run.owner, run.id, call.key) or call


async def tell_answer(
    runtime: Runtime, run: RunMeta, call: CallRecord, item: WaitingCall, output: Any
) -> frozenset[str]:
    """Publish the decision of a call that this answer woke, unless whoever sent it has. Return what the run
    does not owe any more."""
    if call.decision is None or call.state is not CallState.WAITING:
        return frozenset()
    # Otherwise also for a decision that was there: its decider may not have come so far.
    is_told = _unwrap(output)[1] == DECIDED and item.attempt == call.attempt
    return await tell_decision(runtime, run, call, is_told=is_told)


def _decision_in(runtime: Runtime, run: RunMeta, call: CallRecord, answer: Any) -> Decision | None:
    """Return the decision in a token's answer; None leaves the call waiting. An outside caller's decision is
    validated like an HTTP body."""
    now = runtime.clock.now()
    is_answer, output = _unwrap(answer)
    if output in (DECIDED, UNTOLD):
        return None
    if not is_answer and isinstance(output, dict) and "Error" in output:
        return _decision_of_error(run.id, output, call, now)
    try:
        return _decision_of_caller(runtime, run.agent, call, output, now)
    except InvalidRequest as error:
        logger.warning(
            "an invalid decision came through the callback: the call waits on a new token",
            extra={"run_id": run.id, "problem": str(error)},
        )
        return None


def _unwrap(output: Any) -> tuple[bool, Any]:
    """Unwrap a token's answer, which lies inside `answer` (True). A bare answer is an error, or comes from an
    execution that began before `answer` existed."""
    if isinstance(output, dict) and output.keys() == {"answer"}:
        return True, output["answer"]
    return False, output


def _decision_of_error(
    run_id: str, output: dict[str, Any], call: CallRecord, now: datetime
) -> Decision | None:
    """Return the decision in an error: `Denied` is a denial, `States.Timeout` an expiry if the time has come;
    None if there is no decision."""
    expires_at, is_timeout = call.expires_at, output["Error"] == "States.Timeout"
    if is_timeout and expires_at is not None and expires_at <= now + SKEW:
        # The state machine's clock may be ahead of ours. The call then waits a moment longer.
        if expires_at > now:
            return None
        return Decision(kind=DecisionKind.EXPIRED, decided_by=SYSTEM, via=Via.SYSTEM, at=now)
    if is_timeout and call.extended_to is not None:
        # The state machine waits for as long as it was told before a person put the expiry off.
        return None
    if output["Error"] != DENIED:
        logger.warning(
            "a token ended with an error that is not a denial: the call waits on a new token",
            extra={"run_id": run_id, "error": sanitise(str(output["Error"])[:256])},
        )
        return None
    cause = sanitise(str(output.get("Cause") or "")[:MAX_REASON])
    try:
        check_reason(call, cause)
    except DecisionInvalid as error:
        logger.warning(
            "a denial without its reason came through the callback: the call waits on a new token",
            extra={"run_id": run_id, "problem": str(error)},
        )
        return None
    # The cause of a SendTaskFailure is optional.
    return _callback(DecisionKind.DENIED, now, reason=cause or DENIED)


def _decision_of_caller(
    runtime: Runtime, agent: str, call: CallRecord, output: Any, now: datetime
) -> Decision:
    """Return the decision of a caller of SendTaskSuccess, validated like an HTTP body. Raises
    DecisionInvalid."""
    if call.suspension is None:
        raise DecisionInvalid("the call does not wait", tool_call_id=call.tool_call_id)
    try:
        if call.suspension.kind is SuspensionKind.INPUT and not _is_denial(output):
            data = sanitise(_Input.model_validate(output).data)
            check_data(runtime, agent, call, data)
            return _callback(DecisionKind.RESUMED, now, data=data)
        approval = _Approval.model_validate(output)
        if approval.approved and call.suspension.kind is SuspensionKind.CONNECT:
            raise DecisionInvalid(
                "a call that waits for a connection goes on once its user has consented",
                tool_call_id=call.tool_call_id,
            )
        reason = sanitise(approval.reason)
        check_reason(call, reason)
        if not approval.approved:
            return _callback(DecisionKind.DENIED, now, reason=reason)
        args = sanitise(approval.args)
        exact_args = None if args is None else check_args(runtime, agent, call, args)
        return _callback(
            DecisionKind.APPROVED, now, args=args, exact_args=exact_args, reason=reason
        )
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        errors = [{"loc": list(p["loc"]), "msg": p["msg"], "type": p["type"]} for p in problems]
        raise DecisionInvalid("the output does not have the shape of a decision", errors) from None


def _is_denial(output: Any) -> bool:
    """Return whether an answer is a denial. One to a form has its data inside `data`."""
    return isinstance(output, dict) and output.get("approved") is False


def _callback(kind: DecisionKind, now: datetime, **fields: Any) -> Decision:
    return Decision(kind=kind, decided_by=CALLBACK, via=Via.CALLBACK, at=now, **fields)


def is_wake_up(output: Any) -> bool:
    """Return whether a token's answer is our own wake-up."""
    return _unwrap(output)[1] in (DECIDED, UNTOLD)


def next_wait(item: WaitingCall, output: Any, call: CallRecord, now: datetime) -> WaitingCall:
    """Return the call's wait for a new token: at once after a wake-up, with growing pauses after an answer
    without a decision (a platform fault, or an unknown shape)."""
    at_once = is_wake_up(output) or item.attempt != call.attempt
    pause_s = 0 if at_once else min(max(1, 2 * item.pause_s), MAX_PAUSE_S)
    return waiting_call(call, now, pause_s)
