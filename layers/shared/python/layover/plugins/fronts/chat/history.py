"""A chat as a page loads it: its newest messages, and what waits for a person."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from layover.context.transcript import own_steps
from layover.errors import NotFound
from layover.plugins.fronts.chat.pieces import starts_of, steps_before
from layover.plugins.fronts.chat.threads import find_thread
from layover.plugins.fronts.protocols.ui_history import (
    StoredUiMessage,
    running_answers,
    stored_answer,
    user_message,
)
from layover.records.runs import all_events
from layover.records.threads import is_thread_id, live_branch
from layover.runtime import Runtime
from layover.threads.messages import newest_messages
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.message import Message, Role
from layover.values.page import Page
from layover.values.runs.event import TurnStart
from layover.values.thread import ThreadHead

_CURSOR = "chat"
_READ = 100
"""Messages of a read. A run has several; a longer one is read in more."""


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
        _, tip = await live_branch(runtime, head)
    if tip is None:
        return Page(items=())
    turns = list(_turns(await _whole_runs(runtime, head, tip, limit)))
    page = (await _entries(runtime, head, turns, is_newest=cursor is None))[-limit:]
    return Page(
        items=tuple(entry.shown for entry in page if entry.shown.parts),
        next_cursor=encode_cursor(_CURSOR, page[0].behind if page else None),
    )


@dataclass(frozen=True)
class _Entry:
    """A message of the page. `behind`: the id of the message before it."""

    shown: StoredUiMessage
    behind: str | None


async def _entries(
    runtime: Runtime, head: ThreadHead, turns: Sequence[Sequence[Message]], *, is_newest: bool
) -> list[_Entry]:
    """Return what the turns show, and what runs that are not over have said and asked since."""
    in_page = {turn[0].run_id for turn in turns}
    running = {
        run_id: await _running(runtime, head, run_id)
        for run_id in (*head.waiting_runs, head.active_run)
        if run_id is not None and run_id in in_page
    }
    steps: dict[str, int] = {}
    entries: list[_Entry] = []
    for turn in turns:
        first = turn[0]
        run_id = first.run_id or first.id
        if first.role is Role.USER:
            steps.setdefault(run_id, 0)
            entries.append(_Entry(user_message(first), first.parent_id))
        else:
            if run_id not in steps:
                steps[run_id] = await _steps_before(runtime, head, turn)
            step = steps[run_id] + 1
            steps[run_id] += sum(message.role is Role.ASSISTANT for message in turn)
            answer = running.get(run_id, {}).pop(step, None) or stored_answer(turn, step)
            entries.append(_Entry(answer, first.parent_id))
    at = _last_read(turns, head)
    if is_newest and at >= 0 and turns[at][0].run_id == head.active_run:
        run_id = str(head.active_run)
        # Parts whose first message is still being written.
        rest_of = running.get(run_id, {})
        new = sorted(step for step in rest_of if step > steps[run_id])
        entries[at + 1 : at + 1] = [_Entry(rest_of[step], turns[at][-1].id) for step in new]
    return entries


def _last_read(turns: Sequence[Sequence[Message]], head: ThreadHead) -> int:
    """Return the number of the last turn before what runs were sent that wait, and have not read yet; -1:
    there is none."""
    at = len(turns) - 1
    while at >= 0 and turns[at][0].role is Role.USER and turns[at][0].run_id in head.waiting_runs:
        at -= 1
    return at


async def _steps_before(runtime: Runtime, head: ThreadHead, turn: Sequence[Message]) -> int:
    is_first = turn[0].parent_id is None or turn[0].run_id is None
    return 0 if is_first else await steps_before(runtime, head.owner, turn)


async def _running(runtime: Runtime, head: ThreadHead, run_id: str) -> dict[int, StoredUiMessage]:
    """Return the parts of the answer of a run that is not over, by the steps with which they begin."""
    snapshot = await runtime.journal.runs.snapshot(head.owner, run_id)
    if snapshot is None or snapshot.meta.status.over:
        return {}
    events = await all_events(runtime.journal.events, head.owner, run_id)
    coming = len(own_steps(snapshot)) + 1
    times = (
        e.at for e in events if isinstance(e, TurnStart) and not e.agent_path and e.step == coming
    )
    starts = starts_of(snapshot, head, next(times, None))
    return running_answers(run_id, head.id, events, starts)


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
    for (_, is_user), group in keyed:
        if is_user:
            # A run may be sent several.
            yield from ([message] for message in group)
        else:
            yield list(group)
