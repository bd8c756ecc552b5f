"""Calls of sub-agents that work in the background of a run (docs/sub-agents.md#background): their limits, and
the answers to the calls."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from layover.engine.outcomes import Settled, failed
from layover.engine.state import RunState
from layover.values.runs.run import MAX_WINDOW, CallRecord, ErrorInfo, FinishReason, Status

MAX_BACKGROUND = 10
"""The most sub-agents of a run that may work in the background at once."""
WIDTH = 2
"""Calls that may wait at once in each of them."""
_NOTE = "It works in the background. You will be told its result before you are done."


def foreground_width(tools: Iterable[Any], state: RunState, width: int) -> int:
    """Return how many calls may wait at once in the frame itself. The rest of `width` is for its background
    sub-agents."""
    has_background = any(t.delegate is not None and t.delegate.background for t in tools)
    if state.path or not (has_background or state.in_background()):
        return width
    return min(width, MAX_WINDOW - MAX_BACKGROUND * WIDTH)


def unfinished(state: RunState) -> list[CallRecord]:
    """Return the calls whose sub-agents are not done, in the order of their keys."""
    calls = (c for c in state.in_background() if c.child is not None and c.child.answer is None)
    return sorted(calls, key=lambda call: call.key)


def start_background(call: CallRecord, state: RunState) -> Settled:
    """Return the answer to a call whose sub-agent begins to work in the background; too many are an error."""
    assert call.child is not None
    if len(unfinished(state)) >= MAX_BACKGROUND:
        message = (
            f"{MAX_BACKGROUND} tasks are already working in the background: wait for one to end"
        )
        error = ErrorInfo(type="LimitReached", message=message)
        changes = {"status": Status.FAILED, "finish_reason": FinishReason.ERROR, "error": error}
        return replace(failed(message), child=call.child.model_copy(update=changes))
    result = {"started": call.child.id, "note": _NOTE}
    return Settled(
        result={"started": call.child.id},
        model_output=json.dumps(result, ensure_ascii=False),
        child=call.child.model_copy(update={"background": True}),
    )
