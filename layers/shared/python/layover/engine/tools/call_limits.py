"""Limits on the calls of a tool in a run, on its requests for another attempt, and on a step's hand-offs. All
are counted from the journal, so every process that goes on with the run counts the same."""

from collections.abc import Mapping
from dataclasses import replace

from layover.declare.tools.tool import AnyTool
from layover.engine.outcomes import Ready, Settled, failed
from layover.engine.state import RunState
from layover.values.runs.run import CallRecord


def within_limit(ready: Ready | Settled, state: RunState, call: CallRecord) -> Ready | Settled:
    """Return the call as it was prepared, or the error of a call beyond its tool's `max_calls`."""
    most = ready.tool.options.max_calls if isinstance(ready, Ready) else None
    if most is None:
        return ready
    attempts = [
        part.tool_call_id
        for step in state.steps
        for part in step.message.tool_calls
        if part.tool_name == call.tool_name
    ]
    if call.tool_call_id not in attempts[most:]:
        return ready
    return failed(f"MaxCallsReached: {call.tool_name} may be called {most} times in a run")


def with_one_handoff(
    ready: Ready | Settled, tools: Mapping[str, AnyTool], state: RunState, call: CallRecord
) -> Ready | Settled:
    """Return the call as it was prepared, or the error of a hand-off that is not the first one of its
    step."""
    if not isinstance(ready, Ready) or ready.tool.handoff is None:
        return ready
    parts = [step.message.tool_calls for step in state.steps]
    together = next((s for s in parts if call.tool_call_id in [p.tool_call_id for p in s]), ())
    handoffs = [p for p in together if (tool := tools.get(p.tool_name)) and tool.handoff]
    if not handoffs or handoffs[0].tool_call_id == call.tool_call_id:
        return ready
    first = handoffs[0].tool_name
    return failed(f"Not done: a step hands the conversation over once, and {first} came first")


def with_retries_counted(
    tool: AnyTool | None, state: RunState, call: CallRecord, outcome: Settled
) -> Settled:
    """Return the outcome of a call that asks for another attempt: unchanged while the tool's `retries` allow
    one, then as an error that ends the attempts."""
    most = tool.options.retries if tool is not None else None
    if not outcome.retry or most is None:
        return outcome
    own = {s.tool_call_id for step in state.steps for s in step.slots}
    before = [
        c
        for c in state.calls.values()
        if c.retry and c.tool_name == call.tool_name and c.tool_call_id in own and c.key != call.key
    ]
    if len(before) < most:
        return outcome
    message = f"RetriesUsedUp: {call.tool_name} failed after {most} retries: {outcome.model_output}"
    return replace(outcome, result=message, model_output=message, retry=False)
