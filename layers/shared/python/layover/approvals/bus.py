"""Events on the bus: about waiting calls (docs/behaviour.md#callbacks), and of runs that end."""

import logging
from typing import Any

from layover.clock import rfc3339
from layover.errors import RetryableError
from layover.runtime import Runtime
from layover.values.decision import RUN_FINISHED, BusEvent
from layover.values.metrics import Metric
from layover.values.runs.run import CallRecord, RunMeta

_log = logging.getLogger("layover")
_OUTCOME = {"kind", "decided_by", "on_behalf_of", "via", "at", "reason"}
"""The facts of a decision that an event tells. Its arguments and data are the run's."""


async def publish(
    runtime: Runtime, kind: BusEvent, run: RunMeta, call: CallRecord, **more: Any
) -> None:
    """Publish an event about a call that waits, with its newest token. `more`: of its detail. Raises
    RetryableError."""
    if call.suspension is None:
        return
    asks = {**_detail(run, call), "task_token": call.token}
    await runtime.callbacks.publish(kind.value, {**asks, **more})


async def publish_request(runtime: Runtime, run: RunMeta, call: CallRecord) -> bool:
    """Publish the request for a decision, with the token on which the call waits. Return False if the bus did
    not take it."""
    try:
        await publish(runtime, BusEvent.REQUESTED, run, call)
    except RetryableError as error:
        _count_failure(runtime, error, run_id=call.run_id, key=call.key)
        return False
    return True


async def publish_escalation(runtime: Runtime, run: RunMeta, call: CallRecord) -> bool:
    """Publish that more groups may decide the call. Return False if the bus did not take it."""
    rule = call.rule
    to = list(rule.escalate_to) if rule is not None else []
    try:
        await publish(runtime, BusEvent.ESCALATED, run, call, to=to)
    except RetryableError as error:
        _count_failure(runtime, error, run_id=call.run_id, key=call.key)
        return False
    return True


async def publish_vote(runtime: Runtime, run: RunMeta, call: CallRecord) -> bool:
    """Publish that the call has one more vote. Return False if the bus did not take it."""
    return await _try_publish_outcome(runtime, BusEvent.VOTED, run, call)


async def publish_decision(runtime: Runtime, run: RunMeta, call: CallRecord) -> bool:
    """Publish the decision of a call, for whoever was asked. Return False if the bus did not take it."""
    return await _try_publish_outcome(runtime, BusEvent.DECIDED, run, call)


async def _try_publish_outcome(
    runtime: Runtime, kind: BusEvent, run: RunMeta, call: CallRecord
) -> bool:
    if call.suspension is None:
        return True
    decision = call.decision and call.decision.model_dump(mode="json", include=_OUTCOME)
    votes = [v.model_dump(mode="json", exclude={"args", "exact_args"}) for v in call.votes]
    detail = {**_detail(run, call), "decision": decision, "votes": votes}
    try:
        await runtime.callbacks.publish(kind.value, detail)
    except RetryableError as error:
        _count_failure(runtime, error, run_id=call.run_id, key=call.key)
        return False
    return True


async def publish_end(runtime: Runtime, run: RunMeta) -> bool:
    """Publish that the run is over (docs/behaviour.md#told-ends). Return False if the bus did not take it."""
    detail = {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "owner": run.owner,
        "agent": run.agent,
        "status": run.status.value,
        "finish_reason": run.finish_reason.value if run.finish_reason else None,
        "error_type": run.error.type if run.error else None,
    }
    try:
        await runtime.callbacks.publish(RUN_FINISHED, detail)
    except RetryableError as error:
        _count_failure(runtime, error, run_id=run.id)
        return False
    return True


def _count_failure(runtime: Runtime, error: Exception, **ids: str) -> None:
    context = {**ids, "cause": type(error).__name__}
    _log.warning("an event is published later", extra=context)
    runtime.metrics.count(Metric.PUBLISH_FAILED)


def _detail(run: RunMeta, call: CallRecord) -> dict[str, Any]:
    assert call.suspension is not None
    suspension = call.suspension.model_dump(mode="json")
    return {
        "owner": run.owner,
        "run_id": run.id,
        "thread_id": run.thread_id,
        "agent": run.agent,
        "agent_path": list(call.agent_path or (run.agent,)),
        "tool_call_id": call.tool_call_id,
        "attempt": call.attempt,
        "tool_name": call.tool_name,
        "kind": suspension["kind"],
        "args": call.exact_args,
        "summary": suspension.get("summary"),
        "risk": suspension.get("risk"),
        "asked_again": suspension.get("asked_again"),
        "taken_back_at": rfc3339(call.taken_back_at) if call.taken_back_at else None,
        "payload": suspension["payload"],
        "resume_schema": suspension["resume_schema"],
        "expires_at": rfc3339(call.expires_at) if call.expires_at else None,
        "approval": call.rule.model_dump(mode="json") if call.rule else None,
        "denied_before": suspension.get("denied_before", []),
    }
