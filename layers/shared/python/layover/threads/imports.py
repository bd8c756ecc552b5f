"""Threads that other systems had (docs/guides/memory.md#import).

The messages of a request are one transaction in the database: none of them is stored without the others,
nor without their texts for recall. The thread's head in the journal comes after it, and nobody sees the
thread before. A process that dies between the two leaves a thread without a head: the same request, or a look
of the sweeper, makes it. Of messages that are added to a thread, it leaves some that only the same request
shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from layover.context.tokens import with_token_count
from layover.errors import Conflict, InvalidRequest, NotFound, ThreadBusy, TooLarge, UnknownAgent
from layover.ids import derive_id
from layover.keys import can_be_id
from layover.metering.allowance import may_embed
from layover.records.lifetimes import watch_thread
from layover.records.threads import head_of, is_thread_id, thread_id_of
from layover.runtime import Runtime
from layover.threads.threads import clean_metadata, clean_title, view_of
from layover.values.base import Json
from layover.values.imports import CLOCK_LEEWAY, EARLIEST
from layover.values.memory.context import IndexedText
from layover.values.message import Message, Role, TextPart
from layover.values.text import json_size, sanitise
from layover.values.thread import Thread, ThreadHead, after

MAX_MESSAGES = 500
"""Messages in one request."""
MAX_MESSAGES_BYTES = 256 * 1024
"""Bytes of JSON of the messages of one request."""
MAX_EXTERNAL_ID = 255
"""Characters."""
MAX_OFFSET = 1_000_000
"""The most messages before those of a request."""
_PLACE = 16
"""Characters of a message's id that tell its place; the rest tells what it says."""


@dataclass(frozen=True)
class ImportedMessage:
    """A message of another system. `created_at` None: right after the message before it."""

    role: Literal["user", "assistant"]
    content: str | Sequence[TextPart]
    created_at: datetime | None = None


@dataclass(frozen=True)
class ThreadImport:
    """A conversation of another system, or a part of it. `external_id`: the id that it has there; `offset`:
    the number of its messages that come before these."""

    agent: str
    messages: Sequence[ImportedMessage] = ()
    title: str | None = None
    metadata: dict[str, Json] | None = None
    external_id: str | None = None
    offset: int = 0


@dataclass(frozen=True)
class ImportOutcome:
    """The thread, and whether this request has made it."""

    thread: Thread
    is_new: bool


async def import_thread(runtime: Runtime, owner: str, request: ThreadImport) -> ImportOutcome:
    """Make a thread of a conversation, or add messages to one. Repeatable: a conversation is known by its
    `external_id`, or else by all that the request says, and a message by its place and its words.

    Raises UnknownAgent, InvalidRequest (also for a thread's id that is not the owner's), TooLarge,
    ThreadBusy, Conflict (other messages are at this place, or some before it are missing; another agent has
    the conversation; it was deleted), RetryableError."""
    agents = runtime.agents()
    if request.agent not in agents:
        raise UnknownAgent(request.agent, agents)
    contents = _contents(request)
    clean_title(request.title), clean_metadata(request.metadata or {})
    thread_id = _thread_id(owner, request)
    head = await _find(runtime, owner, thread_id, request)
    if head is not None and not request.messages:
        return ImportOutcome(await view_of(runtime, head), is_new=False)
    new_head = None if head is not None else _new_head(runtime, owner, thread_id, request)
    if new_head is not None and request.offset:
        raise _out_of_place(request.offset, thread_id)
    return await _import(runtime, request, contents, head, new_head)


async def _import(
    runtime: Runtime,
    request: ThreadImport,
    contents: Sequence[tuple[TextPart, ...]],
    head: ThreadHead | None,
    new_head: ThreadHead | None,
) -> ImportOutcome:
    base = head or new_head
    assert base is not None
    # Elsewhere, the messages are stored already, or cannot be.
    adds = _is_next(base, request.offset) and not _has_runs(base)
    messages = _messages(runtime, base, request, contents, adds=adds)
    texts: Sequence[IndexedText] = ()
    if adds:
        agent, memory = runtime.agents()[request.agent], runtime.agent_memory
        embeds = await may_embed(runtime, base.owner)
        texts = await memory.texts_of_import(base.owner, agent, messages, embeds=embeds)
    if new_head is not None:
        # Before the database has anything that no head leads to.
        at = runtime.clock.now() + runtime.settings.sweep_patience
        await runtime.journal.dues.schedule(base.owner, "import", base.id, at)
    is_stored = await runtime.threads.import_messages(
        base, messages, request.offset, texts, adds=adds
    )
    if not is_stored:
        raise _refuse_place(base, request.offset)
    owner, thread_id = base.owner, base.id
    if new_head is not None:
        last = messages[-1] if messages else None
        update = {
            "leaf_id": last.id if last else None,
            "last_created_at": last.created_at if last else None,
        }
        await runtime.journal.heads.put(new_head.model_copy(update=update))
    elif adds:
        await _advance(runtime, base, messages[-1])
    await watch_thread(runtime, owner, thread_id)
    thread = await view_of(runtime, await head_of(runtime, owner, thread_id))
    return ImportOutcome(thread, is_new=new_head is not None)


async def _advance(runtime: Runtime, head: ThreadHead, last: Message) -> None:
    """Make stored messages the newest of their thread."""
    if await runtime.journal.heads.advance(head, last.id, last.created_at) is not None:
        return
    now = await head_of(runtime, head.owner, head.id)
    if now.leaf_id != last.id:
        raise ThreadBusy("the thread has gone on meanwhile", thread_id=head.id)


async def _find(
    runtime: Runtime, owner: str, thread_id: str, request: ThreadImport
) -> ThreadHead | None:
    """Return the head of a thread that is there already."""
    if not can_be_id(thread_id):
        raise _invalid(("external_id",), "there is no such thread")
    head = await runtime.journal.heads.get(owner, thread_id)
    if head is not None and head.deleted:
        raise Conflict("this conversation was deleted: import it under another `external_id`")
    if head is None:
        try:
            head = await head_of(runtime, owner, thread_id)
        except NotFound as error:
            if is_thread_id(request.external_id or ""):
                raise _invalid(("external_id",), "there is no such thread") from error
            return None
    if head.agent != request.agent:
        raise Conflict("this conversation is with another agent", thread_id=head.id)
    return head


def _new_head(runtime: Runtime, owner: str, thread_id: str, request: ThreadImport) -> ThreadHead:
    now = runtime.clock.now()
    return ThreadHead(
        id=thread_id,
        owner=owner,
        agent=request.agent,
        title=clean_title(request.title) or None,
        metadata=clean_metadata(request.metadata or {}),
        created_at=now,
        updated_at=now,
    )


def _thread_id(owner: str, request: ThreadImport) -> str:
    if request.external_id is not None:
        if not 0 < len(request.external_id) <= MAX_EXTERNAL_ID:
            raise _invalid(("external_id",), f"1 to {MAX_EXTERNAL_ID} characters")
        return thread_id_of(owner, request.external_id)
    facts = [request.agent, request.title, request.metadata, *map(_facts, request.messages)]
    return derive_id("thread", owner, sanitise(repr(facts)))


def _facts(message: ImportedMessage) -> list[object]:
    texts = (
        message.content if isinstance(message.content, str) else [p.text for p in message.content]
    )
    at = message.created_at
    return [message.role, texts, at.astimezone(UTC).isoformat() if at else None]


def _contents(request: ThreadImport) -> list[tuple[TextPart, ...]]:
    """Return what the messages say, cleaned. Raises InvalidRequest, TooLarge."""
    if len(request.messages) > MAX_MESSAGES:
        raise _invalid(("messages",), f"at most {MAX_MESSAGES} messages in a request")
    if not 0 <= request.offset <= MAX_OFFSET:
        raise _invalid(("offset",), f"a number from 0 to {MAX_OFFSET}")
    contents: list[tuple[TextPart, ...]] = []
    for place, message in enumerate(request.messages):
        texts = (
            [message.content]
            if isinstance(message.content, str)
            else [part.text for part in message.content]
        )
        parts = tuple(TextPart(text=text) for text in sanitise(texts) if text)
        if not parts:
            raise _invalid(("messages", place, "content"), "a message has a text")
        at = message.created_at
        if at is not None and at < EARLIEST:
            raise _invalid(("messages", place, "created_at"), "a time from 1970 until now")
        contents.append(parts)
    size = json_size([[part.text for part in parts] for parts in contents])
    if size > MAX_MESSAGES_BYTES:
        raise TooLarge(
            f"the messages are larger than {MAX_MESSAGES_BYTES} bytes of JSON: send the rest with an `offset`"
        )
    return contents


def _messages(
    runtime: Runtime,
    head: ThreadHead,
    request: ThreadImport,
    contents: Sequence[tuple[TextPart, ...]],
    *,
    adds: bool,
) -> list[Message]:
    """Return the messages with their ids and times. If they are not to be added, only their ids count."""
    now = runtime.clock.now()
    last = head.last_created_at if request.offset else None
    messages: list[Message] = []
    for place, (sent, parts) in enumerate(zip(request.messages, contents, strict=True)):
        at = sent.created_at.astimezone(UTC) if sent.created_at else None
        if at is not None and at > now + CLOCK_LEEWAY:
            raise _invalid(("messages", place, "created_at"), "a time from 1970 until now")
        if adds and at is not None and last is not None and at < last:
            raise _invalid(("messages", place, "created_at"), "earlier than the message before it")
        last = after(last, at or last or now)
        id = _message_id(head.id, request.offset + place, sent.role, parts, at)
        message = Message(
            id=id,
            thread_id=head.id,
            parent_id=messages[-1].id if messages else head.leaf_id,
            role=Role(sent.role),
            content=parts,
            created_at=last,
        )
        messages.append(with_token_count(message))
    return messages


def _message_id(
    thread_id: str, place: int, role: str, parts: Sequence[TextPart], at: datetime | None
) -> str:
    says = derive_id("", role, at and at.isoformat(), *(part.text for part in parts))
    return _place(thread_id, place) + says[1:13]


def _place(thread_id: str, place: int) -> str:
    return derive_id("msg", thread_id, place)[:_PLACE]


def _is_next(head: ThreadHead, offset: int) -> bool:
    """Return whether the thread's newest message is the imported one just before `offset`."""
    if offset == 0:
        return head.leaf_id is None
    return (head.leaf_id or "").startswith(_place(head.id, offset - 1))


def _has_runs(head: ThreadHead) -> bool:
    return bool(head.active_run or head.queue or head.waiting_runs or head.unsaved or head.unplaced)


def _refuse_place(head: ThreadHead, offset: int) -> Conflict:
    if _has_runs(head):
        return ThreadBusy(
            "a run of the thread is not over", thread_id=head.id, run_id=head.active_run
        )
    return _out_of_place(offset, head.id)


def _out_of_place(offset: int, thread_id: str) -> Conflict:
    return Conflict(
        f"message {offset} of the conversation cannot come here: messages before it are missing, others have "
        "its place, or the thread has gone on since the import",
        thread_id=thread_id,
    )


def _invalid(at: tuple[str | int, ...], message: str) -> InvalidRequest:
    error = {"loc": ["body", *at], "msg": message, "type": "import"}
    return InvalidRequest("this cannot be imported", [error])
