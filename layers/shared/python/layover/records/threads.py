"""An owner's thread as journaled: its head, and the messages that the database does not have."""

from layover.context.transcript import response_messages
from layover.errors import NotFound
from layover.keys import can_be_id
from layover.runtime import Runtime
from layover.values.message import Message
from layover.values.runs.run import Status
from layover.values.thread import ThreadHead


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
    first."""
    messages: list[Message] = []
    for run_id in (*head.unsaved, head.active_run):
        snapshot = await runtime.journal.runs.snapshot(head.owner, run_id) if run_id else None
        if snapshot is None or snapshot.meta.status is Status.QUEUED:
            continue
        messages += [snapshot.meta.input, *response_messages(snapshot)]
    return messages
