"""A run's own messages, rebuilt from its journal. Pure: the same records give the same messages, with the
same ids, times and parents, whichever process settled a call and whenever (docs/behaviour.md#message-times).
Live runs and replays read them here."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple

from layover import ids, keys
from layover.clock import MICROSECOND
from layover.context.frames import steps_at
from layover.context.withheld import refused_ids, with_marks
from layover.values.decision import DecisionNote
from layover.values.message import DataPart, Message, Role, ToolResultPart
from layover.values.runs.run import CallRecord, CallState, RunSnapshot, StepRecord, ToolMessageSlot
from layover.values.thread import after


class Branch(NamedTuple):
    """A run's part of its thread. Each message has its own parent: the one before it, or what others said
    while the run waited."""

    messages: tuple[Message, ...]
    """The input and all that follows, with places (`Message.is_place`) for results that are not there."""
    leaf_id: str
    """The message that the thread's next one follows."""
    loose: tuple[Message, ...] = ()
    """The last of the messages: they come behind all that others say meanwhile."""

    def without_loose(self) -> "Branch":
        """Return what is fixed."""
        fixed = self.messages[: len(self.messages) - len(self.loose)]
        return self._replace(messages=fixed, loose=())

    @property
    def response(self) -> list[Message]:
        """The messages behind the input that readers are shown."""
        return [message for message in self.messages[1:] if not message.is_place]


def branch(
    snapshot: RunSnapshot,
    *,
    ended: bool,
    places: bool = True,
    newest_at: datetime | None = None,
) -> Branch:
    """Return the run's part of its thread, without its sub-agents' steps. What is set aside, saved, ended and
    shown is read from here: nothing else knows parents.

    A step's record fixes the id, time and parent of its messages. A result follows the result before it,
    which may be there or not. Only two kinds of messages are loose, as they come behind all that others say
    until the run goes on: the `to_message` messages of its newest step, and what it was sent and has not
    read. They are left out unless the run has `ended`, or is shown as it would end now. `places`: False
    leaves the places out. `newest_at`: the time of the thread's newest message, which those that were not
    read come after."""
    meta, steps = snapshot.meta, own_steps(snapshot)
    calls = {call.key: call for call in snapshot.calls}
    messages = [meta.input]
    for step, following in zip_longest(steps, steps[1:]):
        messages += _fixed_messages(step, calls, places=places)
        if following is not None:
            messages += _customs(step, calls, heard_by(following) or _last_id(step))
    loose = _loose_messages(snapshot, messages, newest_at) if ended else []
    while places and ended and not loose and not meta.aside and messages[-1].is_place:
        # The run held its thread to the end, so nothing follows the place of a call that never began.
        messages.pop()
    last_id = _last_id(steps[-1]) if loose and steps else messages[-1].id
    leaf_id = unheard(steps, meta.hears) or last_id
    marks = refused_ids(steps)
    fixed = tuple(with_marks(messages, marks))
    if not loose:
        return Branch(fixed, leaf_id)
    last = tuple(with_marks(chain(loose, leaf_id), marks))
    return Branch(fixed + last, last[-1].id, last)


def _loose_messages(
    snapshot: RunSnapshot, fixed: Sequence[Message], newest_at: datetime | None
) -> list[Message]:
    """Return the messages that come last: those of the newest step's tools, and those that nobody read."""
    loose, steps = list[Message](), own_steps(snapshot)
    if steps and any(call.custom is not None for call in snapshot.calls):
        loose = _customs(steps[-1], {call.key: call for call in snapshot.calls}, "")
    if not loose and not snapshot.said:
        return []
    last_at = max(message.created_at for message in fixed)
    messages = [*loose, *unread_messages(snapshot)]
    return later(messages, max(last_at, newest_at or last_at), snapshot.meta.loose_at)


def chain(messages: Iterable[Message], behind: str) -> list[Message]:
    """Return the messages, each behind the one before, and the first behind this message."""
    chained: list[Message] = []
    for message in messages:
        chained.append(_below(behind, message))
        behind = message.id
    return chained


def later(
    messages: Iterable[Message], than: datetime, first_at: datetime | None = None
) -> list[Message]:
    """Return the messages with times later than this one, and than each other's. `first_at`: the time of the
    first, if that is fixed."""
    moved: list[Message] = []
    for message in messages:
        than = first_at or after(than, message.created_at)
        moved.append(message.model_copy(update={"created_at": than}))
        first_at = None
    return moved


def parents_first(messages: Iterable[Message]) -> list[Message]:
    """Return the messages of several branches, each behind its parent."""
    left = {message.id: message for message in messages}
    ordered: list[Message] = []
    while left:
        path = [next(iter(left))]
        while (parent_id := left[path[-1]].parent_id) in left:
            path.append(str(parent_id))
        ordered += [left.pop(id) for id in reversed(path)]
    return ordered


def response_messages(snapshot: RunSnapshot) -> tuple[Message, ...]:
    """Return the response of a run, as it would end now, without what it was sent and has not read."""
    if snapshot.said:
        snapshot = snapshot.model_copy(update={"said": ()})
    return branch(snapshot, ended=True, places=False).messages[1:]


def unread_messages(snapshot: RunSnapshot) -> tuple[Message, ...]:
    """Return what the run was sent after its input, and no step has read yet, oldest first."""
    read = {notice.id for step in own_steps(snapshot) for notice in step.notices}
    return tuple(message for message in snapshot.said if message.id not in read)


def placeless_messages(snapshot: RunSnapshot) -> tuple[Message, ...]:
    """Return what has no place in the thread yet while other runs have it: what was not read, behind the
    input of a run that ended in the queue."""
    meta, unread = snapshot.meta, unread_messages(snapshot)
    if meta.status.over and meta.unplaced is None:
        return ()
    return unread if meta.began else (meta.input, *unread)


def loose_ids(snapshot: RunSnapshot) -> set[str]:
    """Return the ids of the messages that have no place in the thread yet: nothing may follow them."""
    meta = snapshot.meta
    if meta.status.over and meta.unplaced is None:
        return set()
    loose = branch(snapshot, ended=True).loose
    return {message.id for message in (*loose, *placeless_messages(snapshot))}


def unheard_leaf(snapshot: RunSnapshot) -> str | None:
    """Return the newest message of the thread up to which the run's next step is to hear; None: nothing was
    said that it has not heard."""
    return unheard(own_steps(snapshot), snapshot.meta.hears)


def unheard(steps: Sequence[StepRecord], hears: str | None) -> str | None:
    """Return the same of a run with these steps. `hears`: `RunMeta.hears`."""
    return None if hears in [step.heard_through for step in steps] else hears


def own_steps(snapshot: RunSnapshot) -> tuple[StepRecord, ...]:
    """Return the steps of the run itself, without its sub-agents' (their keys have a path)."""
    return steps_at(snapshot.steps, "")


def step_messages(
    step: StepRecord, calls: Mapping[str, CallRecord], behind: str | None = None
) -> list[Message]:
    """Return one step's messages without places: those of its prompt, the assistant's, the result of each
    settled call in call order, then the `to_message` messages. `calls`: the run's, by key; `behind`: what
    others said before the latter."""
    fixed = _fixed_messages(step, calls, places=False)
    return [*fixed, *_customs(step, calls, behind or _last_id(step))]


def newest_of(step: StepRecord, calls: Mapping[str, CallRecord], heard: str | None) -> str:
    """Return the id of the message that the next one of the run follows, behind a step that is complete.
    `heard`: what others have said since."""
    customs = _customs(step, calls, "")
    return customs[-1].id if customs else heard or _last_id(step)


def heard_by(step: StepRecord) -> str | None:
    """Return what others said that the step heard: the `to_message` messages of the step before it come
    behind that. None: it heard nothing."""
    return step.heard_through if step.heard else None


def _fixed_messages(
    step: StepRecord, calls: Mapping[str, CallRecord], *, places: bool
) -> list[Message]:
    """Return the messages that the step's record fixes, with places for the results that are not there, or
    without."""
    messages = [*step.notices, step.message]
    for slot in step.slots:
        call = calls.get(keys.call_key(step.key, slot.tool_call_id))
        is_settled = call is not None and call.state is CallState.SETTLED
        if is_settled or places:
            messages.append(tool_message(step, slot, call if is_settled else None))
    return messages


def _last_id(step: StepRecord) -> str:
    return step.slots[-1].message_id if step.slots else step.message.id


def _customs(step: StepRecord, calls: Mapping[str, CallRecord], behind: str) -> list[Message]:
    here = (calls.get(keys.call_key(step.key, slot.tool_call_id)) for slot in step.slots)
    settled = (call for call in here if call is not None and call.state is CallState.SETTLED)
    customs = [call.custom for call in settled if call.custom is not None]
    # Most steps have none.
    return chain(customs, behind) if customs else customs


def slot_of(step: StepRecord, call: CallRecord) -> ToolMessageSlot:
    """Return the slot of the call's tool message."""
    return next(s for s in step.slots if s.tool_call_id == call.tool_call_id)


def tool_message(step: StepRecord, slot: ToolMessageSlot, call: CallRecord | None) -> Message:
    """Return the tool message of a settled call; None: the place that waits for its result. The parent is the
    slot before it, or the assistant's message, whatever is settled by now: the step's record has all of
    this."""
    message = Message(
        id=slot.message_id,
        thread_id=step.message.thread_id,
        run_id=step.message.run_id,
        parent_id=_previous_slot(step, slot),
        role=Role.TOOL,
        content=(),
        created_at=slot.created_at,
    )
    if call is None:
        return message
    part = ToolResultPart(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        result=call.result,
        is_error=call.is_error,
        decision=DecisionNote.of(call.decision, call.votes) if call.decision else None,
    )
    return message.with_content((part, *call.files), model_output=call.model_output)


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
