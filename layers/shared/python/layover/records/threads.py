"""An owner's thread as journaled: its id for a client, its head, and the messages that the database does not
have."""

import hashlib
from collections.abc import Collection, Sequence

from layover.context.transcript import branch, chain, later, placeless_messages
from layover.errors import NotFound
from layover.keys import can_be_id
from layover.runtime import Runtime
from layover.values.message import Message
from layover.values.runs.run import RunSnapshot, Status
from layover.values.text import sanitise
from layover.values.thread import ThreadHead

_PREFIX = "thread_"
LOOK = 500
"""Messages of a branch that are looked through for those of a run that was set aside."""


def thread_id_of(owner: str, client_id: str) -> str:
    """Return a thread's id as it is; for any other id, always the same one of the owner's."""
    if is_thread_id(client_id):
        return client_id
    text = f"{owner}\0{sanitise(client_id)}"
    return _PREFIX + hashlib.sha256(text.encode()).hexdigest()[:32]


def is_thread_id(client_id: str) -> bool:
    """Return whether a client's id of a conversation can only be a thread's."""
    return client_id.startswith(_PREFIX)


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
    messages follow them. Last of a run is what it was sent and has not read yet; of runs that were set aside,
    that is last of all. Does not ask the database."""
    messages, tip, aside = await _live(runtime, head)
    for snapshot in aside:
        messages += _unread(head, snapshot, tip or messages[-1].id, messages)
        tip = messages[-1].id
    return messages


async def live_branch(runtime: Runtime, head: ThreadHead) -> tuple[list[Message], str | None]:
    """Return the thread's `live_messages`, and the id of the last message of the newest branch. What a run
    was sent that was set aside comes behind all that others have said, as the run will read it; in the run's
    own branch, if the others chose another."""
    messages, tip, aside = await _live(runtime, head)
    # What a run left that is over comes behind the run at work, wherever that is.
    on_branch = [
        s.meta.status.over
        or await is_on_branch(
            runtime, head, messages, tip, {m.id for m in messages if m.run_id == s.meta.id}
        )
        for s in aside
    ]
    for snapshot, is_on in zip(aside, on_branch, strict=True):
        before = tip if is_on else branch(snapshot, ended=False).messages[-1].id
        messages += _unread(head, snapshot, str(before), messages)
        tip = messages[-1].id if is_on else tip
    return messages, tip


async def is_on_branch(
    runtime: Runtime,
    head: ThreadHead,
    live: Sequence[Message],
    tip: str | None,
    ids: Collection[str],
) -> bool:
    """Return whether the branch that ends in `tip` has one of these `live` messages, as far back as a run
    looks that goes on (`layover.runs.aside`)."""
    by_id = {message.id: message for message in live}
    at = tip
    while at is not None and (message := by_id.pop(at, None)) is not None:
        if message.id in ids:
            return True
        at = message.parent_id
    if at is None:
        return False
    stored = await runtime.threads.newest_messages(head.owner, head.id, at, LOOK)
    if any(message.id in ids for message in stored):
        return True
    newest = max(message.created_at for message in live if message.id in ids)
    return len(stored) == LOOK and stored[0].created_at >= newest


async def _live(
    runtime: Runtime, head: ThreadHead
) -> tuple[list[Message], str | None, list[RunSnapshot]]:
    """Return the messages of runs that the database does not have whole, the last one of the newest branch,
    and the runs that were set aside and have not read all that they were sent."""
    messages: list[Message] = []
    aside: list[RunSnapshot] = []
    tip = head.leaf_id
    is_aside = {*head.waiting_runs, *head.unplaced}
    in_order = (*head.unsaved, *head.waiting_runs, head.active_run, *head.unplaced)
    for run_id in dict.fromkeys(in_order):
        snapshot = await runtime.journal.runs.snapshot(head.owner, run_id) if run_id else None
        if snapshot is None or snapshot.meta.status is Status.QUEUED:
            continue
        own = branch(snapshot, ended=run_id not in is_aside, newest_at=head.last_created_at)
        if run_id not in is_aside or snapshot.meta.began:
            messages += own.messages
        if run_id in is_aside and placeless_messages(snapshot):
            aside.append(snapshot)
        if run_id == head.active_run:
            tip = own.leaf_id
    return messages, tip, aside


def _unread(
    head: ThreadHead, snapshot: RunSnapshot, before: str, behind: Sequence[Message]
) -> list[Message]:
    """Return what the run was sent and has not read yet: behind the message `before`, and later than all of
    `behind`."""
    newest = max((message.created_at for message in behind), default=head.created_at)
    newest = max(newest, head.last_created_at or newest)
    return chain(later(placeless_messages(snapshot), newest), before)
