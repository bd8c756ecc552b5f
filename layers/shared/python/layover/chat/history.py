"""A chat as a page loads it: its newest messages, and what waits for a person."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from layover.chat.threads import find_thread, is_thread_id
from layover.errors import NotFound
from layover.protocols.ui_history import (
    StoredUiMessage,
    running_answer,
    stored_answer,
    user_message,
)
from layover.records.threads import live_messages, tip_of
from layover.runtime import Runtime
from layover.threads.messages import newest_messages
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.message import Message, Role
from layover.values.page import Page
from layover.values.runs.event import LoggedEvent
from layover.values.thread import ThreadHead

_CURSOR = "chat"
_READ = 100
"""Messages of a read. A run has several; a longer one is read in more."""
_EVENTS = 500


async def chat_messages(
    runtime: Runtime, owner: str, agent: str, chat_id: str, limit: int, cursor: str | None
) -> Page[StoredUiMessage]:
    """Return the newest messages of the chat's branch, oldest first; the cursor leads to those before them.
    An id under which nothing was said has none. Raises NotFound (a thread's id that is none of the caller's),
    UnknownAgent, Conflict (the chat is with another agent)."""
    head = await find_thread(runtime, owner, agent, chat_id)
    if head is None:
        if is_thread_id(chat_id):
            raise NotFound("there is no such chat", thread_id=chat_id)
        return Page(items=())
    tip = decode_cursor_field(_CURSOR, cursor)
    if cursor is None:
        tip = tip_of(head, await live_messages(runtime, head))
    if tip is None:
        return Page(items=())
    turns = list(_turns(await _whole_runs(runtime, head, tip, limit)))
    run_id = turns[-1][0].run_id if turns and cursor is None else None
    is_active = run_id is not None and run_id == head.active_run
    if is_active and turns[-1][0].role is not Role.USER:
        turns.pop()
    page = turns[-limit:]
    items = [_show(turn) for turn in page]
    if is_active:
        items.append(
            running_answer(str(run_id), head.id, await _events(runtime, owner, str(run_id)))
        )
    return Page(
        items=tuple(item for item in items if item.parts)[-limit:],
        next_cursor=encode_cursor(_CURSOR, page[0][0].parent_id if page else None),
    )


async def _whole_runs(
    runtime: Runtime, head: ThreadHead, tip: str, limit: int
) -> Sequence[Message]:
    """Return the end of a branch with more turns than `limit`, or all of it. Only the first may be cut."""
    count = _READ
    while True:
        messages = await newest_messages(runtime, head, tip, count)
        if len(messages) < count or messages[0].parent_id is None:
            return messages
        # The first one may be a part of a turn.
        whole = list(_turns(messages))[1:]
        if len(whole) >= limit:
            return [message for turn in whole for message in turn]
        count *= 2


def _turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield users' messages, and runs' answers, each as one."""
    keyed = groupby(messages, key=lambda m: (m.run_id or m.id, m.role is Role.USER))
    for _, group in keyed:
        yield list(group)


def _show(turn: Sequence[Message]) -> StoredUiMessage:
    first = turn[0]
    return user_message(first) if first.role is Role.USER else stored_answer(turn)


async def _events(runtime: Runtime, owner: str, run_id: str) -> Sequence[LoggedEvent]:
    """Return all events of a run so far."""
    events: list[LoggedEvent] = []
    while True:
        page = await runtime.journal.events.page(owner, run_id, len(events), _EVENTS)
        events += page.items
        if not page.items or page.done:
            return events
