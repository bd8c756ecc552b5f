"""Runs as operators see them, made from the journal's records. No I/O, and no words of anybody but those in
which a provider, or an exception, failed a run, and a prompt's."""

from layover import keys
from layover.context.frames import usage_at
from layover.values.base import Json, compact_json
from layover.values.message import Message, ToolResultPart
from layover.values.prompt import Prompt
from layover.values.runs.failures import is_of_code
from layover.values.runs.operated import (
    OperatedCall,
    OperatedChild,
    OperatedDecision,
    OperatedError,
    OperatedHook,
    OperatedPrompt,
    OperatedRun,
    OperatedStep,
    OperatedTimeline,
    SentPrompt,
    SentTool,
)
from layover.values.runs.run import (
    CallRecord,
    CallState,
    ErrorDetail,
    ErrorInfo,
    RunSnapshot,
    StepRecord,
)

_UNREAD = "an exception of the agent's code: content=true shows what it says"


def glance_at(snapshot: RunSnapshot) -> OperatedRun:
    """Return the run as a list shows it."""
    # Its message and its detail are for one run at a time.
    error = snapshot.meta.error.type if snapshot.meta.error else None
    return OperatedRun.model_validate({**_facts(snapshot), "error": error})


def timeline_of(snapshot: RunSnapshot, *, with_content: bool = False) -> OperatedTimeline:
    """Return the run step by step, in the order in which its steps were made. `with_content`: also with what
    an exception of the agent's code said."""
    meta = snapshot.meta
    calls = {call.key: call for call in snapshot.calls}
    steps = sorted(snapshot.steps, key=lambda step: (step.message.created_at, step.key))
    more = {
        "error": meta.error and _error(meta.error, meta.error_detail, with_content),
        "finish_reason": meta.finish_reason,
        "model": meta.model or next((s.model for s in reversed(steps) if s.model), None),
        "attempts": meta.attempts,
        "executions": meta.n,
        "redriven_at": meta.redriven_at,
        "lost_at": meta.lost_at,
        "messages_sent": meta.said,
        "timeline": tuple(_step(step, calls) for step in steps),
    }
    return OperatedTimeline.model_validate({**_facts(snapshot), **more})


def _facts(snapshot: RunSnapshot) -> dict[str, Json]:
    meta, steps = snapshot.meta, snapshot.steps
    waits = [c.suspension.requested_at for c in snapshot.calls if c.undecided and c.suspension]
    first = next((step.definition for step in steps if step.definition), "")
    return {
        "id": meta.id,
        "owner": meta.owner,
        "agent": meta.agent,
        "thread_id": meta.thread_id,
        "status": meta.shown_status,
        "created_at": meta.created_at,
        "updated_at": meta.updated_at,
        "waiting_since": min(waits, default=None) if not meta.status.over else None,
        "waiting_for": snapshot.waiting_for,
        "steps": len(steps),
        "calls": sum(len(step.slots) for step in steps),
        "usage": usage_at(steps, {call.key: call for call in snapshot.calls}),
        "definition": meta.definition or first or None,
    }


def _error(error: ErrorInfo, detail: ErrorDetail | None, with_content: bool) -> OperatedError:
    if detail is not None and not with_content and is_of_code(error.type, detail):
        detail = detail.model_copy(update={"message": _UNREAD})
    return OperatedError(type=error.type, detail=detail)


def _step(step: StepRecord, calls: dict[str, CallRecord]) -> OperatedStep:
    parts = {part.tool_call_id: part for part in step.message.tool_calls}
    views = []
    for slot in step.slots:
        call = calls.get(keys.call_key(step.key, slot.tool_call_id))
        if call is None and (part := parts.get(slot.tool_call_id)) is not None:
            call = CallRecord(
                key=keys.call_key(step.key, slot.tool_call_id),
                run_id="",
                tool_call_id=slot.tool_call_id,
                tool_name=part.tool_name,
                args=part.args,
                offered=slot.offered,
            )
        if call is not None:
            views.append(_call(call))
    return OperatedStep(
        n=step.index,
        parent_call=keys.parent_call_of(step.key),
        agent=step.agent,
        model=step.model,
        at=step.message.created_at,
        finish_reason=step.finish_reason,
        usage=step.usage,
        prompt_tokens=step.estimated_tokens,
        text_chars=len(step.message.text),
        fell_back_to=step.fell_back_to,
        hook=step.replied.hook if step.replied else None,
        calls=tuple(views),
    )


def _call(call: CallRecord) -> OperatedCall:
    wait = call.suspension
    return OperatedCall(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name if call.offered else None,
        state=call.state,
        attempt=call.attempt,
        args_bytes=_size(call.proposed),
        result_bytes=_size(call.result) if call.state is CallState.SETTLED else 0,
        is_error=call.is_error,
        retry=call.retry,
        kind=wait.kind if wait else None,
        requested_at=wait.requested_at if wait else None,
        expires_at=call.expires_at,
        reminders=call.reminders,
        escalated=call.escalated,
        votes=len(call.votes),
        decisions=_decisions(call),
        hooks=tuple(
            OperatedHook(hook=each.hook, decision=each.decision)
            for each in (call.hooked.decisions if call.hooked else ())
        ),
        settled_at=call.settled_at,
        child=_child(call),
    )


def _decisions(call: CallRecord) -> tuple[OperatedDecision, ...]:
    """Return the decisions on all attempts, the oldest first."""
    attempts = (*(each["attempt"] for each in call.past), call.attempt)
    decided = ((attempt, call.decision_on(attempt)) for attempt in attempts)
    return tuple(
        OperatedDecision(
            attempt=attempt,
            decision=decision.kind,
            decided_by=decision.decided_by,
            on_behalf_of=decision.on_behalf_of,
            via=decision.via,
            at=decision.at,
        )
        for attempt, decision in decided
        if decision is not None
    )


def _child(call: CallRecord) -> OperatedChild | None:
    child = call.child
    if child is None:
        return None
    return OperatedChild(
        run_id=child.id,
        agent=child.agent,
        status=child.status,
        error=child.error.type if child.error else None,
        error_detail=child.error and _error(child.error, child.error_detail, False).detail,
        started_at=child.started_at,
        ended_at=child.ended_at,
    )


def prompt_view(number: int, prompt: Prompt | None, problem: str | None) -> OperatedPrompt:
    """Return a prompt as operators read it. `problem`: why there is none, or why it may be another one."""
    sent = prompt and SentPrompt(
        model=prompt.model,
        system=prompt.system,
        messages=tuple(map(_as_sent, prompt.messages)),
        tools=tuple(SentTool.model_validate(tool, from_attributes=True) for tool in prompt.tools),
        settings=prompt.settings.model_dump(mode="json", exclude_defaults=True),
        output=prompt.output and prompt.output.model_dump(),
        api=prompt.api,
        provider_tools=tuple(tool.model_dump() for tool in prompt.provider_tools),
    )
    is_sent = sent is not None and problem is None
    return OperatedPrompt(n=number, prompt=sent, as_sent=is_sent, problem=problem)


def _as_sent(message: Message) -> Message:
    """Return a tool's message with the text that the model reads in place of the result."""
    part = message.content[0] if message.content else None
    if message.model_output is None or not isinstance(part, ToolResultPart):
        return message
    read = part.model_copy(update={"result": message.model_output})
    return message.with_content((read, *message.content[1:]))


def _size(value: Json) -> int:
    return 0 if value is None else len(compact_json(value).encode("utf-8", "replace"))
