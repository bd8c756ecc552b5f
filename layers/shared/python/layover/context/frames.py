"""The frames of a run: the run itself, and each sub-agent inside one of its calls, at any depth
(docs/sub-agents.md). Pure: read from the journal's records."""

from collections.abc import Iterable, Mapping
from typing import Any

from layover import keys
from layover.ids import derive_id
from layover.values.runs.child import ChildRun
from layover.values.runs.run import (
    REPLIES_TOOL,
    CallRecord,
    StepRecord,
    UnusedReply,
)
from layover.values.runs.usage import Usage


def steps_at(steps: Iterable[StepRecord], path: str) -> tuple[StepRecord, ...]:
    """Return the steps of one frame: `path` is "" for the run itself."""
    return tuple(step for step in steps if keys.path_of(step.key) == path)


def calls_at(steps: Iterable[StepRecord], calls: Mapping[str, CallRecord]) -> list[CallRecord]:
    """Return the journaled calls of these steps, in the order in which the model asked for them."""
    call_keys = (keys.call_key(step.key, s.tool_call_id) for step in steps for s in step.slots)
    return [calls[key] for key in call_keys if key in calls]


def usage_at(steps: Iterable[StepRecord], calls: Mapping[str, CallRecord], path: str = "") -> Usage:
    """Return a frame's usage, its sub-agents' included and itemised. It is always summed over the steps,
    never counted."""
    all_steps = tuple(steps)
    own = steps_at(all_steps, path)
    usages = [step.usage for step in own]
    usages += [reply.usage for reply in unused_at(own, calls.values(), path)]
    paid_keys = [step.key for step in all_steps]
    paid_keys += [call.key for call in calls.values() if call.tool_name == REPLIES_TOOL]
    items: list[dict[str, Any]] = []
    for call in calls_at(own, calls):
        below = keys.child_path(call.key)
        if call.child is None or not any(k.startswith(below) for k in paid_keys):
            continue
        usage = usage_at(all_steps, calls, below)
        facts = {"agent": call.child.agent, "run_id": call.child.id}
        fields = {"tool_call_id": call.tool_call_id, **usage.model_dump(mode="json")}
        items.append({**facts, **fields})
        usages.append(usage)
    return Usage.total(usages).model_copy(update={"sub_agents": tuple(items)})


def unused_replies(
    steps: Iterable[StepRecord], calls: Iterable[CallRecord]
) -> list[tuple[str, UnusedReply]]:
    """Return the replies that were asked for again, at every depth, each with the path of its frame."""
    # A model may name a tool as it likes.
    records = [call for call in calls if call.tool_name == REPLIES_TOOL]
    if not records:
        return []
    model_call_keys = {keys.call_key(s.key, slot.tool_call_id) for s in steps for slot in s.slots}
    return [
        (keys.path_of(record.key), UnusedReply.model_validate(record.result))
        for record in records
        if record.key not in model_call_keys
    ]


def unused_at(
    steps: Iterable[StepRecord], calls: Iterable[CallRecord], path: str
) -> list[UnusedReply]:
    """Return those of one frame."""
    return [reply for frame, reply in unused_replies(steps, calls) if frame == path]


def notice_id(child: ChildRun) -> str:
    """Return the id of the message that tells a run of the end of a sub-agent in the background."""
    return derive_id("msg", child.id, "notice")


def pending_notices(steps: Iterable[StepRecord], calls: Iterable[CallRecord]) -> list[CallRecord]:
    """Return the calls whose background sub-agents are done but whose notice no step's prompt has had, in the
    order of their ends."""
    ended = [
        (call.child.ended_at, call.key, notice_id(call.child), call)
        for call in calls
        if call.child is not None and call.child.answer is not None and call.child.ended_at
    ]
    if not ended:
        return []
    noticed = {notice.id for step in steps for notice in step.notices}
    left = [end for end in ended if end[2] not in noticed]
    return [end[3] for end in sorted(left, key=lambda end: end[:2])]
