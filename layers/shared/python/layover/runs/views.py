"""What owners see (docs/reference/http-api.md#objects), made from what is journaled. Pure."""

from collections.abc import Mapping

from layover import keys
from layover.context.transcript import own_steps, response_messages
from layover.values.message import Message, Role, ToolCallPart
from layover.values.runs.run import (
    BUDGET_TOOL,
    CallRecord,
    CallState,
    Pending,
    Run,
    RunMeta,
    RunSnapshot,
    StepRecord,
    UnexecutedCall,
)
from layover.values.runs.usage import Usage
from layover.values.thread import ActiveRun, Thread, ThreadHead


def run_view(snapshot: RunSnapshot) -> Run:
    """The run with its messages, what it waits for and what it has used so far."""
    meta = snapshot.meta
    messages = response_messages(snapshot)
    waits = pending_calls(snapshot)
    return Run(
        id=meta.id,
        thread_id=meta.thread_id,
        agent=meta.agent,
        status=meta.shown_status,
        finish_reason=meta.finish_reason,
        text=last_text(messages),
        output=meta.output,
        messages=messages,
        pending=waits,
        unexecuted=unexecuted_calls(snapshot) if waits else (),
        usage=Usage.total([step.usage for step in snapshot.steps]),
        model=meta.model or (snapshot.steps[-1].model if snapshot.steps else None),
        error=meta.error,
        input=meta.input,
        created_at=meta.created_at,
        updated_at=meta.updated_at,
    )


def last_text(messages: tuple[Message, ...]) -> str:
    """The newest text that the assistant wrote, "" before the first."""
    texts = (m.text for m in reversed(messages) if m.role is Role.ASSISTANT)
    return next((text for text in texts if text), "")


def pending_calls(snapshot: RunSnapshot) -> tuple[Pending, ...]:
    """Calls that wait undecided, in the order of the calls; none once the run is over."""
    if snapshot.meta.status.over:
        return ()
    waiting = {call.key: call for call in snapshot.calls if call.undecided}
    ordered = [key for step in snapshot.steps for key in _call_keys(step) if key in waiting]
    ordered += [key for key, call in waiting.items() if call.tool_name == BUDGET_TOOL]
    return tuple(_pending(snapshot.meta, waiting[key]) for key in ordered)


def unexecuted_calls(snapshot: RunSnapshot) -> tuple[UnexecutedCall, ...]:
    """Calls of the last step that have not begun (they stay planned while a sibling waits)."""
    steps = own_steps(snapshot)
    if not steps:
        return ()
    begun = {c.key for c in snapshot.calls if c.state is not CallState.PLANNED}
    asked = _asked(steps[-1])
    return tuple(
        UnexecutedCall(tool_call_id=p.tool_call_id, tool_name=p.tool_name, args=p.args)
        for slot, key in zip(steps[-1].slots, _call_keys(steps[-1]), strict=True)
        if key not in begun and (p := asked.get(slot.tool_call_id))
    )


def thread_view(head: ThreadHead, active: RunMeta | None) -> Thread:
    """The thread; `active` is the run that holds it, as far as it is there and not over."""
    holds = active is not None and not active.status.over
    return Thread(
        id=head.id,
        agent=head.agent,
        title=head.title or None,
        metadata=head.metadata,
        created_at=head.created_at,
        updated_at=head.updated_at,
        active_run=ActiveRun(id=active.id, status=active.shown_status)
        if active is not None and holds
        else None,
    )


def _call_keys(step: StepRecord) -> list[str]:
    return [keys.call_key(step.key, slot.tool_call_id) for slot in step.slots]


def _asked(step: StepRecord) -> Mapping[str, ToolCallPart]:
    return {part.tool_call_id: part for part in step.message.tool_calls}


def _pending(meta: RunMeta, call: CallRecord) -> Pending:
    suspension = call.suspension
    assert suspension is not None  # a call that waits has one
    return Pending(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        args=call.args,
        kind=suspension.kind,
        payload=suspension.payload,
        resume_schema=suspension.resume_schema,
        attempt=call.attempt,
        agent_path=(meta.agent,),
        requested_at=suspension.requested_at,
        expires_at=suspension.expires_at,
        approval=call.approval,
    )
