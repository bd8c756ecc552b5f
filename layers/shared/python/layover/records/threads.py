"""An owner's thread as journaled: its head, and the messages that the database does not have."""

from collections.abc import Sequence

from layover.context.transcript import (
    own_steps,
    response_messages,
    said_so_far,
    unheard,
    unread_messages,
)
from layover.errors import NotFound
from layover.keys import can_be_id
from layover.runtime import Runtime
from layover.values.message import Message
from layover.values.runs.run import RunSnapshot, Status
from layover.values.thread import ThreadHead, after


async def head_of(runtime: Runtime, owner: str, thread_id: str) -> ThreadHead:
    """Return the head of an existing thread. Raises NotFound if it is foreign or deleted. A head that the
    journal has lost (a restored table, a restarted runner) is restored from Postgres."""
    if not can_be_id(thread_id):
        raise NotFound("there is no such thread", thread_id=thread_id)
    head = await runtime.journal.heads.get(owner, thread_id)
    if head is None:
        stored_head = await runtime.threads.head(owner, thread_id)
        if stored_head is not None and not stored_head.deleted:
            await runtime.journal.heads.put(stored_head)
            head = await runtime.journal.heads.get(owner, thread_id)
    if head is None or head.deleted:
        raise NotFound("there is no such thread", thread_id=thread_id)
    return head


async def live_messages(runtime: Runtime, head: ThreadHead) -> list[Message]:
    """Return input and finished messages of the runs that are not (whole) in the database, oldest run
    first. Of runs that were set aside there are places for the results to come (`Message.is_place`): others'
    messages follow them. Last of a run is what it was sent and has not read yet."""
    messages: list[Message] = []
    for run_id in dict.fromkeys((*head.unsaved, *head.waiting_runs, head.active_run)):
        snapshot = await runtime.journal.runs.snapshot(head.owner, run_id) if run_id else None
        if snapshot is None or snapshot.meta.status is Status.QUEUED:
            continue
        if run_id in head.waiting_runs:
            messages += said_so_far(snapshot)
            continue
        messages += [snapshot.meta.input, *response_messages(snapshot)]
        if not snapshot.meta.status.over:
            messages += _unread(head, snapshot, messages[-1])
    return messages


def tip_of(head: ThreadHead, live: Sequence[Message]) -> str | None:
    """Return the last message of the newest branch. `live`: the thread's `live_messages`."""
    active = [message for message in live if message.run_id == head.active_run]
    if head.active_run is None or not active:
        return head.leaf_id
    # A run that took its thread back has said nothing since: others' messages come behind its results.
    if head.last_created_at is not None and active[-1].created_at <= head.last_created_at:
        return head.leaf_id
    return active[-1].id


def _unread(head: ThreadHead, snapshot: RunSnapshot, last: Message) -> list[Message]:
    messages: list[Message] = []
    before = unheard(own_steps(snapshot), snapshot.meta.hears) or last.id
    at = max(last.created_at, head.last_created_at or last.created_at)
    for message in unread_messages(snapshot):
        at = after(at, message.created_at)
        messages.append(message.model_copy(update={"parent_id": before, "created_at": at}))
        before = message.id
    return messages
