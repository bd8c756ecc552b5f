"""Events about waiting calls on the bus (docs/behaviour.md#callbacks)."""

from enum import StrEnum
from typing import Any

from layover.clock import rfc3339
from layover.runtime import Runtime
from layover.values.runs.run import CallRecord, RunMeta


class BusEvent(StrEnum):
    """The type of an event, as rules of the bus have it."""

    REQUESTED = "ApprovalRequested"
    REMINDER = "ApprovalReminder"
    ESCALATED = "ApprovalEscalated"
    VOTED = "ApprovalVoted"
    DECIDED = "ApprovalDecided"


async def publish(
    runtime: Runtime, kind: BusEvent, run: RunMeta, call: CallRecord, **more: Any
) -> None:
    """Publish an event about a call that waits, with its newest token. `more`: of its detail. Raises
    RetryableError."""
    if call.suspension is None:
        return
    await runtime.callbacks.publish(kind.value, {**_detail(run, call), **more})


def _detail(run: RunMeta, call: CallRecord) -> dict[str, Any]:
    assert call.suspension is not None
    suspension = call.suspension.model_dump(mode="json")
    return {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "agent": run.agent,
        "agent_path": list(call.agent_path or (run.agent,)),
        "tool_call_id": call.tool_call_id,
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
        "task_token": call.token,
    }
