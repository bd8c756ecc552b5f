"""Messages that runs of a chat answer, by the ids that front ends know them by."""

from dataclasses import dataclass

from layover.errors import NotFound
from layover.keys import can_be_id
from layover.plugins.fronts.chat.parts import content_hash
from layover.plugins.fronts.protocols.ui_messages import run_of_answer
from layover.ports import RequestKey
from layover.records.threads import head_of, live_messages
from layover.runtime import Runtime
from layover.values.message import Message, Role
from layover.values.runs.run import RunMeta
from layover.values.thread import ThreadHead

_OWN_IDS = "msg_"
MAX_EARLIER = 50
"""Versions of a message that are known: a late repetition of one starts nothing."""


@dataclass(frozen=True)
class Sent:
    """A user's message that a run answers.

    Args:
        id: The id by which the client names it.
        run_id: The newest run that answers it.
        message_id: That run's input.
        body_hash: The hash of what it says.
        is_kept: False if the id is the message's own, and no run was accepted under it.
        earlier: The hashes of what it said before.
    """

    id: str
    run_id: str
    message_id: str
    body_hash: str
    is_kept: bool
    earlier: tuple[str, ...] = ()

    def replaced_by(self, body_hash: str, thread_id: str) -> RequestKey:
        """Return the key of the run that takes this one's place under the same id."""
        past = [h for h in (*self.earlier, self.body_hash) if h != body_hash]
        return RequestKey(
            self.id,
            body_hash,
            None,
            thread_id,
            replaces=self.run_id if self.is_kept else None,
            earlier=tuple(past[-MAX_EARLIER:]),
        )


async def find_sent(runtime: Runtime, head: ThreadHead, id: str) -> Sent | None:
    """Return the message of this id; None if no run has it. A client knows a message by its own id of it, or,
    if it has read it from here, by the message's."""
    if not id:
        return None
    record = await runtime.journal.commands.sent_message(head.owner, head.id, id)
    if record is not None:
        return Sent(
            id,
            record.run_id,
            record.message_id,
            record.body_hash,
            is_kept=True,
            earlier=record.earlier,
        )
    # Other ids are none of ours: the database need not be asked.
    message = await find_message(runtime, head, id) if id.startswith(_OWN_IDS) else None
    if message is None or message.role is not Role.USER or message.run_id is None:
        return None
    return Sent(id, message.run_id, id, content_hash(message.content), is_kept=False)


async def find_message(runtime: Runtime, head: ThreadHead, id: str) -> Message | None:
    """Return a message of the thread, from the journal or the database."""
    if not can_be_id(id):
        return None
    live = {message.id: message for message in await live_messages(runtime, head)}
    return live.get(id) or await runtime.threads.message(head.owner, head.id, id)


async def find_run(runtime: Runtime, head: ThreadHead, answer_id: str) -> RunMeta | None:
    """Return the run of an answer, or of a part of it, if it is the thread's."""
    run_id, _ = run_of_answer(answer_id)
    meta = await runtime.journal.runs.get(head.owner, run_id) if can_be_id(run_id) else None
    return meta if meta is not None and meta.thread_id == head.id else None


async def input_of(runtime: Runtime, head: ThreadHead, sent: Sent) -> Message:
    """Return the input of the newest run that answers the message, or the message itself, if it was sent to a
    run that had begun. Raises NotFound."""
    meta = await find_run(runtime, head, sent.run_id)
    is_input = meta is not None and meta.input.id == sent.message_id
    message = meta.input if meta and is_input else None
    message = message or await find_message(runtime, head, sent.message_id)
    if message is None:
        raise NotFound("there is no such message in this chat", thread_id=head.id)
    return message


async def is_newest(runtime: Runtime, thread: ThreadHead, run_id: str) -> bool:
    """Return whether the thread ends with this run."""
    # As it is now: the run may have been accepted since the head was read.
    head = await head_of(runtime, thread.owner, thread.id)
    if head.active_run is not None or head.leaf_id is None:
        return run_id in (head.active_run, *head.queue)
    leaf = await find_message(runtime, head, head.leaf_id)
    return leaf is not None and leaf.run_id == run_id
