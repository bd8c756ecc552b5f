"""The frames of a run: the run itself, and each sub-agent inside one of its calls, at any depth
(docs/sub-agents.md). Pure: read from the journal's records."""

from collections.abc import Iterable, Mapping
from typing import Any

from layover import keys
from layover.values.runs.run import CallRecord, StepRecord
from layover.values.runs.usage import Usage


def steps_at(steps: Iterable[StepRecord], path: str) -> tuple[StepRecord, ...]:
    """Return the steps of one frame: `path` is "" for the run itself."""
    return tuple(step for step in steps if keys.path_of(step.key) == path)


def calls_at(steps: Iterable[StepRecord], calls: Mapping[str, CallRecord]) -> list[CallRecord]:
    """Return the journaled calls of these steps, in the order in which the model asked for them."""
    call_keys = (keys.call_key(step.key, s.tool_call_id) for step in steps for s in step.slots)
    return [calls[key] for key in call_keys if key in calls]


def usage_at(steps: Iterable[StepRecord], calls: Mapping[str, CallRecord], path: str = "") -> Usage:
    """Return a frame's usage, its sub-agents' included and itemised. The sum over the steps: never a
    counter."""
    all_steps = tuple(steps)
    own = steps_at(all_steps, path)
    usages = [step.usage for step in own]
    items: list[dict[str, Any]] = []
    for call in calls_at(own, calls):
        below = keys.child_path(call.key)
        if call.child is None or not any(s.key.startswith(below) for s in all_steps):
            continue
        usage = usage_at(all_steps, calls, below)
        facts = {"agent": call.child.agent, "run_id": call.child.id}
        fields = {"tool_call_id": call.tool_call_id, **usage.model_dump(mode="json")}
        items.append({**facts, **fields})
        usages.append(usage)
    return Usage.total(usages).model_copy(update={"sub_agents": tuple(items)})
