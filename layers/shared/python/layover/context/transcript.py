"""A run's own messages, rebuilt from its journal. Pure: the same records give the same messages, with the
same ids, times and parents, whichever process settled a call and whenever (docs/behaviour.md#message-times).
Live runs and replays read them here."""

from collections.abc import Mapping, Sequence
from typing import Any

from layover import ids, keys
from layover.clock import MICROSECOND
from layover.context.frames import steps_at
from layover.context.withheld import refused_ids, with_marks
from layover.values.decision import DecisionNote
from layover.values.message import DataPart, Message, Role, ToolResultPart
from layover.values.runs.run import CallRecord, CallState, RunSnapshot, StepRecord, ToolMessageSlot


def response_messages(snapshot: RunSnapshot) -> tuple[Message, ...]:
    """Return the response of a run (never its input): for each of its own steps the messages of the run in
    its prompt, the assistant message, the tool message of each settled call in call order, then the
    `to_message` messages. The messages form a chain of parents even if a call in the middle is not settled
    (yet), since a missing ancestor would end the branch there; a run that was set aside has one chain for
    each of its turns. Sub-agents' steps are left out."""
    calls = {call.key: call for call in snapshot.calls}
    steps, hears = own_steps(snapshot), snapshot.meta.hears
    pairs = zip(steps, tails(steps, hears), strict=True)
    messages = [m for step, tail in pairs for m in step_messages(step, calls, tail)]
    return tuple(with_marks(messages, refused_ids(steps)))


def tails(steps: Sequence[StepRecord], hears: str | None) -> list[str | None]:
    """Return for each step the message that its `to_message` messages come behind, if others have spoken
    since: the newest that the next step hears. `hears`: the run's, for the step that comes next."""
    heard = [step.heard_through if step.heard else None for step in steps]
    return [*heard[1:], unheard(steps, hears)][: len(steps)]


def unheard(steps: Sequence[StepRecord], hears: str | None) -> str | None:
    """Return the newest message of the thread that the next of these steps is to hear. `hears`: the run's."""
    return None if hears in [step.heard_through for step in steps] else hears


def said_so_far(snapshot: RunSnapshot) -> tuple[Message, ...]:
    """Return the input and the response of a run that waits, with the places of the results to come: what
    another run says meanwhile follows the last of them. The newest step's `to_message` messages are left
    out, because they come behind all that is said until the run goes on."""
    calls = {call.key: call for call in snapshot.calls}
    messages: list[Message] = [snapshot.meta.input]
    steps, hears = own_steps(snapshot), snapshot.meta.hears
    for step, tail in zip(steps, tails(steps, hears), strict=True):
        own = step_messages(step, calls, tail)
        if step is steps[-1]:
            ids = {
                step.message.id,
                *(m.id for m in step.notices),
                *(s.message_id for s in step.slots),
            }
            own = [message for message in own if message.id in ids]
        own_ids = {message.id for message in own}
        places = [_place(step, slot) for slot in step.slots if slot.message_id not in own_ids]
        if not places:
            messages += own
            continue
        order = {slot.message_id: n for n, slot in enumerate(step.slots)}
        tools = [m for m in own if m.id in order]
        results = sorted([*tools, *places], key=lambda m: order[m.id])
        others = [m for m in own if m.id not in order]
        at = others.index(step.message) + 1
        messages += [*others[:at], *results, *others[at:]]
    return tuple(with_marks(messages, refused_ids(steps)))


def _place(step: StepRecord, slot: ToolMessageSlot) -> Message:
    return Message(
        id=slot.message_id,
        thread_id=step.message.thread_id,
        run_id=step.message.run_id,
        parent_id=_previous_slot(step, slot),
        role=Role.TOOL,
        content=(),
        created_at=slot.created_at,
    )


def unread_messages(snapshot: RunSnapshot) -> tuple[Message, ...]:
    """Return what the run was sent after its input, and no step has read yet, oldest first."""
    read = {notice.id for step in own_steps(snapshot) for notice in step.notices}
    return tuple(message for message in snapshot.said if message.id not in read)


def unheard_leaf(snapshot: RunSnapshot) -> str | None:
    """Return the newest message of the thread up to which the run's next step is to hear; None: nothing was
    said that it has not heard."""
    return unheard(own_steps(snapshot), snapshot.meta.hears)


def own_steps(snapshot: RunSnapshot) -> tuple[StepRecord, ...]:
    """Return the steps of the run itself, without its sub-agents' (their keys have a path)."""
    return steps_at(snapshot.steps, "")


def step_messages(
    step: StepRecord, calls: Mapping[str, CallRecord], tail: str | None = None
) -> list[Message]:
    """Return one step's messages as in `response_messages`; `calls` are the run's calls by key. `tail`: as in
    `tails`."""
    messages = [*step.notices, step.message]
    customs: list[Message] = []
    for slot in step.slots:
        call = calls.get(keys.call_key(step.key, slot.tool_call_id))
        if call is None or call.state is not CallState.SETTLED:
            continue
        messages.append(_below(messages[-1].id, tool_message(step, slot, call)))
        if call.custom is not None:
            customs.append(call.custom)
    at = tail or messages[-1].id
    for custom in customs:
        messages.append(_below(at, custom))
        at = custom.id
    return messages


def slot_of(step: StepRecord, call: CallRecord) -> ToolMessageSlot:
    """Return the slot of the call's tool message."""
    return next(s for s in step.slots if s.tool_call_id == call.tool_call_id)


def tool_message(step: StepRecord, slot: ToolMessageSlot, call: CallRecord) -> Message:
    """Return the tool message of a settled call. Its parent: the slot before it, or the assistant message."""
    part = ToolResultPart(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        result=call.result,
        is_error=call.is_error,
        decision=DecisionNote.of(call.decision, call.votes) if call.decision else None,
    )
    return Message(
        id=slot.message_id,
        thread_id=step.message.thread_id,
        run_id=step.message.run_id,
        parent_id=_previous_slot(step, slot),
        role=Role.TOOL,
        content=(part,),
        created_at=slot.created_at,
        model_output=call.model_output,
    )


def custom_message(step: StepRecord, slot: ToolMessageSlot, name: str, data: Any) -> Message:
    """Return the `custom` message of a call (`to_message`), for `CallRecord.custom`. It comes after all tool
    messages of its step: calls and results stay adjacent."""
    position = len(step.slots) + 1 + _index(step, slot)
    return Message(
        id=ids.derive_id("msg", slot.message_id, "custom"),
        thread_id=step.message.thread_id,
        run_id=step.message.run_id,
        parent_id=step.slots[-1].message_id,
        role=Role.CUSTOM,
        content=(DataPart(name=name, data=data),),
        created_at=step.message.created_at + position * MICROSECOND,
    )


def _below(parent_id: str, message: Message) -> Message:
    if message.parent_id == parent_id:
        return message
    return message.model_copy(update={"parent_id": parent_id})


def _index(step: StepRecord, slot: ToolMessageSlot) -> int:
    return next(i for i, s in enumerate(step.slots) if s.message_id == slot.message_id)


def _previous_slot(step: StepRecord, slot: ToolMessageSlot) -> str:
    index = _index(step, slot)
    return step.slots[index - 1].message_id if index else step.message.id
