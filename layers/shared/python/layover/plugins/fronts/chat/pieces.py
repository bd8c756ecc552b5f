"""The parts of a run's answer. Where others have spoken in the middle of it, because the run waited or was
sent a message, what it says behind them is shown behind them, as a separate message
(docs/behaviour.md#answers-in-parts)."""

from collections.abc import Sequence
from datetime import datetime

from layover.context.transcript import own_steps, unheard_leaf, unread_messages
from layover.runs.aside import find_waiting
from layover.runtime import Runtime
from layover.values.client_ids import shown_id
from layover.values.message import Message, Role
from layover.values.runs.event import LoggedEvent, TurnStart
from layover.values.runs.run import RunSnapshot
from layover.values.thread import ThreadHead


def starts_of(
    snapshot: RunSnapshot, head: ThreadHead, begun_at: datetime | None = None
) -> list[int]:
    """Return the steps with which the parts of the run's answer begin. The last one may be the step that
    comes next. `begun_at`: the time at which that one began, if it is under way: what the run was sent later
    it does not read."""
    steps, meta = own_steps(snapshot), snapshot.meta
    starts = [s.index for s in steps if s.heard or any(m.role is Role.USER for m in s.notices)]
    is_aside = meta.id in head.waiting_runs
    unread = (m for m in unread_messages(snapshot) if not begun_at or m.created_at <= begun_at)
    if is_aside or unheard_leaf(snapshot) or any(unread):
        starts.append(len(steps) + 1)
    return [1, *(step for step in starts if step > 1)]


async def is_sent_to(runtime: Runtime, head: ThreadHead, run_id: str, message_id: str) -> bool:
    """Return whether the user's message of this id was sent to a run that had begun before. `head`: the
    thread, as it was before the message."""
    if run_id not in (head.active_run, *head.waiting_runs):
        return False
    meta = await runtime.journal.runs.get(head.owner, run_id)
    return meta is not None and message_id not in (meta.input.id, shown_id(meta.input.id))


async def step_to_show(
    runtime: Runtime, head: ThreadHead, run_id: str, message_id: str | None = None
) -> int:
    """Return the step with which the newest part of the run's answer begins, or the one that answers the
    user's message of this id. `head`: the thread, as it was before the message."""
    if run_id not in (head.active_run, *head.waiting_runs):
        # The message began it.
        return 1
    snapshot = await runtime.journal.runs.snapshot(head.owner, run_id)
    if snapshot is None:
        return 1
    if message_id is not None:
        if message_id in (snapshot.meta.input.id, shown_id(snapshot.meta.input.id)):
            return 1
        for step in own_steps(snapshot):
            if any(message_id in (m.id, shown_id(m.id)) for m in step.notices):
                return step.index
    starts, count = starts_of(snapshot, head), len(own_steps(snapshot))
    waits = message_id is None or await find_waiting(runtime, head.owner, run_id) is not None
    # The next step of a run that waits is far: it is asked for with what the run said before.
    return max(step for step in starts if step <= max(count, 1)) if waits else starts[-1]


class Pieces:
    """Finds where the parts of an answer begin that is followed as it is written."""

    def __init__(self, runtime: Runtime, owner: str, run_id: str, step: int) -> None:
        self._runtime = runtime
        self._owner = owner
        self._run_id = run_id
        self._step = step
        """The step with which the newest part begins."""

    async def begins(self, event: LoggedEvent) -> int | None:
        """Return the step, if a part begins with this event."""
        if not isinstance(event, TurnStart) or event.agent_path or event.step <= self._step:
            return None
        meta = await self._runtime.journal.runs.get(self._owner, self._run_id)
        if meta is None or not (meta.aside or meta.said):
            return None
        snapshot = await self._runtime.journal.runs.snapshot(self._owner, self._run_id)
        head = await self._runtime.journal.heads.get(self._owner, meta.thread_id)
        if (
            snapshot is None
            or head is None
            or event.step not in starts_of(snapshot, head, event.at)
        ):
            return None
        self._step = event.step
        return event.step


async def steps_before(runtime: Runtime, owner: str, messages: Sequence[Message]) -> int:
    """Return how many steps the run of these messages had made before the first of them."""
    run_id, ids = str(messages[0].run_id), {message.id for message in messages}
    snapshot = await runtime.journal.runs.snapshot(owner, run_id)
    if snapshot is not None:
        steps = own_steps(snapshot)
        return next((s.index - 1 for s in steps if s.message.id in ids), len(steps))
    past = await runtime.threads.past_run(owner, run_id)
    before = 0
    for message in past.messages if past else ():
        if message.id in ids:
            break
        before += message.role is Role.ASSISTANT
    return before
