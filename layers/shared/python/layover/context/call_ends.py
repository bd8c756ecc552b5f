"""The events of a call's begin and end. Pure, so that whoever finds an end that is journaled but not in the
log can make them again."""

from collections.abc import Mapping
from datetime import datetime

from layover.context.transcript import slot_of, step_messages, tool_message
from layover.values.message import Role
from layover.values.runs.event import (
    Event,
    HookDecided,
    LoopEvent,
    MessageEvent,
    ToolExecutionEnd,
    TurnEnd,
)
from layover.values.runs.run import CallRecord, CallState, StepRecord


def hook_events(call: CallRecord, at: datetime) -> list[Event]:
    """Return the events of the hooks' answers about a call. They go with the first fact about it."""
    if call.hooked is None or call.state is not CallState.PLANNED:
        return []
    return [
        HookDecided(
            at=at,
            tool_call_id=call.tool_call_id,
            tool_name=call.tool_name,
            hook=decision.hook,
            decision=decision.decision,
            args=decision.args,
            reason=decision.reason,
        )
        for decision in call.hooked.decisions
    ]


def end_events(step: StepRecord, call: CallRecord, at: datetime) -> list[Event]:
    """Return the events of a settled call: what ended the sub-agent in it, its end, and its messages."""
    messages = [
        tool_message(step, slot_of(step, call), call),
        *([call.custom] if call.custom else []),
    ]
    ends = [*loop_events(call, at), ToolExecutionEnd.of(call, at)]
    return [*ends, *(MessageEvent.of(call, m, at) for m in messages)]


def loop_events(call: CallRecord, at: datetime) -> list[Event]:
    """Return the event of a sub-agent that came no further; an empty list if it ended otherwise. Empty as
    well for one in the background whose call is settled, but which is not done."""
    loop = call.child.loop if call.child else None
    if loop is None:
        return []
    place = {"agent_path": loop.agent_path, "parent_tool_call_id": call.tool_call_id}
    return [LoopEvent(at=at, tools=loop.tools, steps=loop.steps, **place)]


def turn_end(step: StepRecord, calls: Mapping[str, CallRecord], at: datetime) -> TurnEnd:
    """Return the event of a complete step. `calls`: the run's, by key."""
    results = tuple(m for m in step_messages(step, calls) if m.role is Role.TOOL)
    return TurnEnd(at=at, step=step.index, message=step.message, tool_results=results)
