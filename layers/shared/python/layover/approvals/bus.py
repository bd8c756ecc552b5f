"""Events about waiting calls on the bus (docs/behaviour.md#callbacks)."""

import logging
from typing import Any

from layover.clock import rfc3339
from layover.errors import RetryableError
from layover.runtime import Runtime
from layover.values.decision import BusEvent
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


async def publish_vote(runtime: Runtime, run: RunMeta, call: CallRecord) -> None:
    """Publish that the call has one more vote. A failure is logged: the vote counts, and later events have
    it, too. A voter who died before it publishes it by repeating the request."""
    await _try_publish_outcome(runtime, BusEvent.VOTED, run, call)


async def publish_decision(runtime: Runtime, run: RunMeta, call: CallRecord) -> bool:
    """Publish the decision of a call, for whoever was asked. Return False if the bus did not take it. A
    caller that wakes the call does so afterwards: a process that dies in between leaves a call that is
    decided and asleep, which the sweeper finds."""
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
        context = {"run_id": run.id, "key": call.key, "cause": type(error).__name__}
        _log.warning("an outcome was not published", extra=context)
        runtime.metrics.count(Metric.PUBLISH_FAILED)
        return False
    return True


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
        "payload": suspension["payload"],
        "resume_schema": suspension["resume_schema"],
        "expires_at": rfc3339(call.expires_at) if call.expires_at else None,
        "approval": call.rule.model_dump(mode="json") if call.rule else None,
        "denied_before": suspension.get("denied_before", []),
    }
