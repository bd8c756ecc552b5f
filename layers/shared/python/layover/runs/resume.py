"""Await and Resume: a call's task token is stored, and when it is answered the call is settled."""

import logging
from datetime import datetime, timedelta
from typing import Any

from layover import logs
from layover.approvals.checks import LONGEST_REASON, check_reason
from layover.approvals.task_token import CALLBACK, decision_from_callback
from layover.approvals.waiting import waiting_call
from layover.engine.nested.log import NestedLog
from layover.engine.nested.subagents import NestedRuns
from layover.engine.progress import Stopped
from layover.engine.state import RunState
from layover.engine.supervise import supervise
from layover.engine.tools.calls import Calls
from layover.engine.tools.hooks import Stopping
from layover.engine.tools.run_files import RunFiles
from layover.errors import (
    DecisionError,
    DecisionInvalid,
    Fenced,
    InvalidRequest,
    RetryableError,
    RunFailed,
)
from layover.ports import RunLog, Runtime
from layover.runs.event_budget import BRANCH_EVENTS, spend
from layover.runs.finish import SYSTEM
from layover.runs.turn import agent_of
from layover.values.metrics import Metric
from layover.values.runs.event import ToolCallDecided
from layover.values.runs.payload import AwaitPayload, ResumePayload, WaitingCall
from layover.values.runs.run import CallRecord, CallState, Decision, DecisionKind, StepRecord, Via
from layover.values.text import cleaned

logger = logging.getLogger("layover")

SKEW = timedelta(minutes=1)
"""A time-out so long before a call expires is none of ours."""
DENIED = "Denied"
"""The error of SendTaskFailure that is a person's denial. Any other may be the platform's: it decides
nothing."""
MAX_PAUSE_S = 60
"""The longest rest between two tokens of a call; less than what the sweeper grants a branch."""
DECIDED = {"layover": "decided"}
"""What our own wake-up says: look at the record."""


async def await_decision(runtime: Runtime, payload: AwaitPayload) -> dict[str, Any]:
    """Store the token if the call waits; wake the branch at once if it does not."""
    call = await runtime.journal.store_token(
        payload.owner,
        payload.run_id,
        payload.execution,
        payload.call.key,
        payload.call.attempt,
        payload.token,
    )
    if call is None:
        await runtime.callbacks.wake(payload.token)
        return {"status": "woken"}
    try:
        await _publish(runtime, payload, call)
    except RetryableError:
        # The call waits and can be decided all the same: a failure here would cost the run an attempt.
        logger.warning("a request for a decision is published later", extra={"key": call.key})
        runtime.metrics.count(Metric.PUBLISH_FAILED)
        await runtime.journal.publish_later(payload.owner, payload.run_id, call.key, payload.token)
    return {"status": "waiting"}


async def _publish(runtime: Runtime, payload: AwaitPayload, call: CallRecord) -> None:
    run = await runtime.journal.run(payload.owner, payload.run_id)
    if run is None or call.suspension is None:
        return
    suspension = call.suspension.model_dump(mode="json")
    await runtime.callbacks.publish_approval(
        {
            "run_id": run.id,
            "thread_id": run.thread_id,
            "agent": run.agent,
            "agent_path": list(call.agent_path or (run.agent,)),
            "tool_call_id": call.tool_call_id,
            "tool_name": call.tool_name,
            "args": call.args,
            "payload": suspension["payload"],
            "expires_at": suspension["expires_at"],
            "approval": suspension["approval"],
            "task_token": payload.token,
        }
    )


async def resume(runtime: Runtime, payload: ResumePayload) -> WaitingCall:
    """Settle one call. Status `waiting`: it waits (again, or an invalid decision came); `done`."""
    log = await runtime.journal.attach(payload.owner, payload.run_id, payload.execution)
    call = log.snapshot.call(payload.call.key) if log else None
    if log is None or call is None:
        return _done(payload.call)
    logs.name(thread_id=log.snapshot.meta.thread_id)
    try:
        if call.undecided:
            call = await _decided(runtime, payload, log, call)
            if call.undecided:
                return await _wait_again(runtime, payload, call)
        return await _settle(runtime, payload, log, call)
    except (Fenced, Stopped):
        logger.info("the call was settled elsewhere", extra={"run_id": payload.run_id})
        return _done(payload.call)


async def _wait_again(runtime: Runtime, payload: ResumePayload, call: CallRecord) -> WaitingCall:
    """The call waits on a new token: at once after a wake-up, later and later after what was no decision
    (a fault of the platform, an answer of another shape)."""
    await spend(runtime, payload, BRANCH_EVENTS)
    woken = _answer(payload)[1] == DECIDED or payload.call.attempt != call.attempt
    pause_s = 0 if woken else min(max(1, 2 * payload.call.pause_s), MAX_PAUSE_S)
    return waiting_call(call, runtime.clock.now(), pause_s)


async def _decided(
    runtime: Runtime, payload: ResumePayload, log: RunLog, call: CallRecord
) -> CallRecord:
    """The call with the decision that the token's answer makes, or as it waits."""
    decision = _from_output(runtime, payload, log.snapshot.meta.agent, call)
    if decision is not None:
        event = ToolCallDecided.of(call, decision)
        try:
            decided = await runtime.journal.decide(log.snapshot.meta, call, decision, event)
            return decided.call
        except DecisionError:
            logger.info("a decision came first", extra={"run_id": payload.run_id})
    return await runtime.journal.call(payload.owner, payload.run_id, call.key) or call


def _from_output(
    runtime: Runtime, payload: ResumePayload, agent: str, call: CallRecord
) -> Decision | None:
    """An outside caller's output is validated like an HTTP body; None leaves the call waiting."""
    now = runtime.clock.now()
    is_answer, output = _answer(payload)
    if output == DECIDED or payload.call.attempt != call.attempt:
        return None
    if not is_answer and isinstance(output, dict) and "Error" in output:
        return _from_error(payload.run_id, output, call, now)
    try:
        return decision_from_callback(runtime, agent, call, output, now)
    except InvalidRequest as error:
        logger.warning(
            "an invalid decision came through the callback: the call waits on a new token",
            extra={"run_id": payload.run_id, "problem": str(error)},
        )
        return None


def _answer(payload: ResumePayload) -> tuple[bool, Any]:
    """What a token was answered with comes inside `answer` (True): what lies bare is an error, or comes
    from an execution that began before there was an `answer`."""
    output = payload.output
    if isinstance(output, dict) and output.keys() == {"answer"}:
        return True, output["answer"]
    return False, output


def _from_error(
    run_id: str, output: dict[str, Any], call: CallRecord, now: datetime
) -> Decision | None:
    """A denial is `Denied`, an expiry `States.Timeout` when it is time. None: nobody decided."""
    expires_at = call.suspension.expires_at if call.suspension else None
    if output["Error"] == "States.Timeout" and expires_at is not None and expires_at <= now + SKEW:
        # The state machine's clock may be ahead of ours: then the call waits a moment more.
        if expires_at > now:
            return None
        return Decision(kind=DecisionKind.EXPIRED, decided_by=SYSTEM, via=Via.SYSTEM, at=now)
    if output["Error"] != DENIED:
        logger.warning(
            "a token ended with an error that is no denial: the call waits on a new token",
            extra={"run_id": run_id, "error": cleaned(str(output["Error"])[:256])},
        )
        return None
    cause = cleaned(str(output.get("Cause") or "")[:LONGEST_REASON])
    try:
        check_reason(call, cause)
    except DecisionInvalid as error:
        logger.warning(
            "a denial without its reason came through the callback: the call waits on a new token",
            extra={"run_id": run_id, "problem": str(error)},
        )
        return None
    # The cause is optional in SendTaskFailure.
    return Decision(
        kind=DecisionKind.DENIED,
        decided_by=CALLBACK,
        via=Via.CALLBACK,
        at=now,
        reason=cause or DENIED,
    )


async def _settle(
    runtime: Runtime, payload: ResumePayload, log: RunLog, call: CallRecord
) -> WaitingCall:
    if call.state is CallState.SETTLED:
        return _done(_item(call))
    run = RunState(log.snapshot)
    run.update(call)
    try:
        agent = agent_of(runtime, run.meta).at(call.agent_path)
    except RunFailed:
        # The turn that follows ends the run with this error; nothing can be settled without code.
        return _done(_item(call))
    if agent is None:
        # The turn that follows tells the parent's model that its sub-agent is gone.
        return _done(_item(call))
    state = run.frame_of(call.key)
    step = _step_of(state, call)
    stopping = Stopping(log, runtime.aborts)
    calls = Calls(
        NestedLog(log, state.agent_path),
        state,
        agent,
        runtime.clock,
        stopping,
        memory=runtime.memory,
        belongings=RunFiles(runtime, state.meta, agent.name),
        sub_agents=NestedRuns(runtime, state),
    )
    await supervise(log, calls.settle(step, call), stopping)
    settled = state.calls[call.key]
    if settled.undecided:
        return await _wait_again(runtime, payload, settled)
    return _done(_item(settled))


def _step_of(state: RunState, call: CallRecord) -> StepRecord:
    return next(s for s in state.steps if call.key.startswith(f"{s.key}#CALL#"))


def _item(call: CallRecord) -> WaitingCall:
    return WaitingCall(key=call.key, attempt=call.attempt, timeout_s=1)


def _done(item: WaitingCall) -> WaitingCall:
    return item.model_copy(update={"status": "done"})
