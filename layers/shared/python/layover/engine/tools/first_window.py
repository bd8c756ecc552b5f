"""The calls that begin as soon as their step is journaled: one transaction stores the step and opens them
(docs/saved-writes.md#opened-with-the-step)."""

from collections.abc import Callable, Mapping, Sequence

from layover.declare.tools.tool import AnyTool
from layover.engine.outcomes import Ready, Settled
from layover.values.runs.run import CallRecord


def ready_at_once(
    calls: Sequence[CallRecord],
    tools: Mapping[str, AnyTool],
    prepare: Callable[[CallRecord], Ready | Settled],
) -> dict[str, Ready]:
    """Return the calls that only have to begin: they ask no person and no code of the author's, have no limit
    to count, no sub-agent to brief and no hand-off before them, and their arguments are valid."""
    ready_calls: dict[str, Ready] = {}
    for call in calls:
        tool = tools.get(call.tool_name)
        if tool is None or tool.needs_approval is not False or tool.delegate is not None:
            continue
        if tool.handoff is not None and any(r.tool.handoff for r in ready_calls.values()):
            continue
        if tool.options.max_calls is None and isinstance(ready := prepare(call), Ready):
            ready_calls[call.key] = ready
    return ready_calls
