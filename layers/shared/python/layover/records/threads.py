"""An owner's thread as journaled: its head, and the messages that the database does not have."""

from datetime import datetime

from layover.context.transcript import (
    response_messages,
    said_so_far,
    unheard_leaf,
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
    return (await live_branch(runtime, head))[0]


async def live_branch(runtime: Runtime, head: ThreadHead) -> tuple[list[Message], str | None]:
    """Return the thread's `live_messages`, and the id of the last message of the newest branch."""
    messages: list[Message] = []
    tip = head.leaf_id
    for run_id in dict.fromkeys((*head.unsaved, *head.waiting_runs, head.active_run)):
        snapshot = await runtime.journal.runs.snapshot(head.owner, run_id) if run_id else None
        if snapshot is None or snapshot.meta.status is Status.QUEUED:
            continue
        if run_id in head.waiting_runs:
            messages += said_so_far(snapshot)
            continue
        response = response_messages(snapshot)
        messages += [snapshot.meta.input, *response]
        last_id = messages[-1].id
        if not snapshot.meta.status.over:
            # It has its thread back, and goes on behind what was said meanwhile.
            hears = unheard_leaf(snapshot)
            if hears is not None and all(message.parent_id != hears for message in response):
                last_id = hears
            unread = _unread(head, snapshot, last_id, messages[-1].created_at)
            messages += unread
            last_id = unread[-1].id if unread else last_id
        if run_id == head.active_run:
            tip = last_id
    return messages, tip


def _unread(
    head: ThreadHead, snapshot: RunSnapshot, before: str, newest: datetime
) -> list[Message]:
    messages: list[Message] = []
    at = max(newest, head.last_created_at or newest)
    for message in unread_messages(snapshot):
        at = after(at, message.created_at)
        messages.append(message.model_copy(update={"parent_id": before, "created_at": at}))
        before = message.id
    return messages
