"""A run, and the calls that wait in it, as callers see them (docs/reference/http-api.md#objects)."""

from typing import Any, Self

from pydantic import Field

from layover.values.base import Json, Time, Value
from layover.values.decision import PendingApproval
from layover.values.message import Message
from layover.values.runs.run import CallRecord, SuspensionKind
from layover.values.runs.status import ErrorInfo, FinishReason, Status
from layover.values.runs.usage import Usage


class Pending(Value):
    """A call that waits for a person."""

    tool_call_id: str
    tool_name: str
    args: Json
    kind: SuspensionKind
    payload: Json
    resume_schema: dict[str, Any]
    attempt: int
    agent_path: tuple[str, ...]
    requested_at: Time
    expires_at: Time | None = None
    approval: PendingApproval | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Who may decide, where that is not the run's owner alone, and who has approved so far.",
    )

    @classmethod
    def of(cls, call: CallRecord, agent: str, /, **more: Any) -> Self:
        """Return the view of a call that waits. `agent`: its run's; `more`: fields of a wider view."""
        suspension = call.suspension
        assert suspension is not None  # a call that waits has one
        fields = {
            "tool_call_id": call.tool_call_id,
            "tool_name": call.tool_name,
            "args": call.proposed,
            "kind": suspension.kind,
            "payload": suspension.payload,
            "resume_schema": suspension.resume_schema,
            "attempt": call.attempt,
            "agent_path": call.agent_path or (agent,),
            "requested_at": suspension.requested_at,
            "expires_at": suspension.expires_at,
            "approval": call.approval,
        }
        return cls.model_validate({**fields, **more})


class ApproverItem(Pending):
    """A Pending in the list of its approvers, over all users."""

    run_id: str
    agent: str
    owner: str


class OpenApproval(Pending):
    """A Pending in the list over all of a user's runs."""

    run_id: str
    thread_id: str
    agent: str


class UnexecutedCall(Value):
    """A call that stays planned while a sibling waits."""

    tool_call_id: str
    tool_name: str
    args: Json


class RunGlimpse(Value):
    """A run as an approver of one of its calls sees it."""

    id: str
    status: Status


class Run(Value):
    """A run as its owner sees it."""

    id: str
    thread_id: str
    agent: str
    status: Status
    finish_reason: FinishReason | None = None
    text: str = ""
    output: Json = None
    messages: tuple[Message, ...] = ()
    pending: tuple[Pending, ...] = ()
    unexecuted: tuple[UnexecutedCall, ...] = ()
    usage: Usage = Usage()
    model: str | None = None
    error: ErrorInfo | None = None
    input: Message
    children: tuple["Run", ...] = ()
    created_at: Time
    updated_at: Time
    truncated: bool = Field(
        default=False,
        exclude_if=lambda value: not value,
        description="There, and true, only where the run does not fit into one answer (6 MB): its long "
        "results, arguments and payloads are cut to `{_truncated, head, tail, original_chars, url}`, and "
        "where that is not enough its oldest messages are left out. The thread's messages have all of it.",
    )
