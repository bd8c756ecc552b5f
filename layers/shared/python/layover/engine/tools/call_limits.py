"""Limits on the calls of a tool in a run, and on its requests for another attempt. Both are counted from the
journal, so every process that goes on with the run counts the same."""

from dataclasses import replace

from layover.declare.tool import AnyTool
from layover.engine.state import RunState
from layover.engine.tools.execute import Ready, Settled, failed
from layover.values.runs.run import CallRecord


def within_limit(ready: Ready | Settled, state: RunState, call: CallRecord) -> Ready | Settled:
    """Return the call as it was prepared, or the error of a call beyond its tool's `max_calls`."""
    most = ready.tool.options.max_calls if isinstance(ready, Ready) else None
    if most is None:
        return ready
    asked = [
        part.tool_call_id
        for step in state.steps
        for part in step.message.tool_calls
        if part.tool_name == call.tool_name
    ]
    if call.tool_call_id not in asked[most:]:
        return ready
    return failed(f"MaxCallsReached: {call.tool_name} may be called {most} times in a run")


def with_retries_counted(
    tool: AnyTool | None, state: RunState, call: CallRecord, outcome: Settled
) -> Settled:
    """Return the outcome of a call that asks for another attempt: as it is while the tool's `retries` allow
    one, then as an error that allows none."""
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
    told = f"RetriesUsedUp: {call.tool_name} failed after {most} retries: {outcome.model_output}"
    return replace(outcome, result=told, model_output=told, retry=False)
