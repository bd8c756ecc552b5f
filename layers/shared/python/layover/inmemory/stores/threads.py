"""Threads in memory, with the semantics of the Postgres store and nothing that outlives the process."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from layover.adapters.store.cursor import decode_cursor, encode_cursor
from layover.inmemory.stores.compaction import compacted_for
from layover.inmemory.stores.entries import found_entries, free_superseded
from layover.inmemory.stores.recall import index_texts, is_cut, recall_in
from layover.inmemory.stores.tables import StoredThread, Tables
from layover.values.memory.context import (
    IndexedText,
    PastRun,
    Recalled,
    ThreadState,
    TurnContext,
    TurnQuery,
    TurnRecord,
)
from layover.values.memory.entry import FoundEntries
from layover.values.message import Message, Role
from layover.values.page import Page
from layover.values.thread import ThreadFacts, ThreadHead

_FACTS = tuple(ThreadFacts.model_fields)
_UNKNOWN = datetime.fromtimestamp(0, UTC)


class InMemoryThreads(Tables):
    """`ports.ThreadStore`."""

    async def owners(self, after: str, limit: int) -> tuple[str, ...]:
        """`ports.memory.entries.Owners`."""
        return tuple(sorted({o for o, _ in self._threads if o > after})[:limit])

    async def open_turn(self, query: TurnQuery) -> TurnContext:
        """Write the thread and the input, read the history before it. Empty if the thread is gone."""
        thread = self._upsert(query.head)
        if thread is None:
            return TurnContext()
        thread.add((query.input,))
        self.spend(query.head.owner, query.run_id, query.usage, "background")
        path = thread.path(query.input.id)[:-1]
        compacted = compacted_for(thread, query, query.compaction) if query.compaction else None
        if compacted is not None:
            start = thread.place_window(query.input.id, compacted)
        else:
            start = _window(thread, query, path)
        owner, state = query.head.owner, ThreadState()
        if query.thread_state:
            state = self.shelf.state(owner, query.head.id)
        return TurnContext(
            history=_visible(path[start:]),
            window_depth=start,
            notes=tuple(self.shelf.note(owner, key) for key in query.notes),
            state=state,
            recalled=self._recall(query, min(start, len(path))),
            recall_cut=query.recall is not None and is_cut(self, owner, query.recall),
            entries=found_entries(self, owner, query.entries) if query.entries else FoundEntries(),
            compacted=compacted,
            gone=tuple(id for id in query.pinned if not self._shows(owner, id)),
        )

    def _shows(self, owner: str, id: str) -> bool:
        threads = self.places_of_entries(owner)
        stored = (thread.messages[id] for thread in threads if id in thread.messages)
        return any(not message.refused for message in stored) or any(
            id in thread.entries for thread in threads
        )

    def _recall(self, query: TurnQuery, start: int) -> tuple[Recalled, ...]:
        if query.recall is None:
            return ()
        start = -1 if query.recall.whole_path else start
        return recall_in(self, query.head.owner, query.recall, query, start)

    async def save_turn(self, record: TurnRecord) -> None:
        """Write input, response, usage and tree of a run. Nothing where the thread is gone."""
        thread = self._upsert(record.head)
        if thread is None:
            return
        thread.add((record.input, *record.response))
        thread.refuse(record.refused)
        self.spend(record.head.owner, record.run.id, record.usage, "run")
        if record.snapshot is not None:
            thread.snapshots[record.run.id] = record.snapshot

    async def save_messages(self, head: ThreadHead, messages: Sequence[Message]) -> None:
        """Write messages of a run that waits. Nothing where the thread is gone."""
        thread = self._upsert(head)
        if thread is None:
            return
        thread.add(messages)
        thread.refuse([message.id for message in messages if message.refused])

    async def import_messages(
        self,
        head: ThreadHead,
        messages: Sequence[Message],
        offset: int,
        texts: Sequence[IndexedText] = (),
        *,
        adds: bool = True,
    ) -> bool:
        """Write a chain of messages with their texts for recall. Return whether all of them are stored."""
        thread = self._upsert(head) if adds else self.find(head.owner, head.id)
        if thread is None:
            return False
        ids = [message.id for message in messages]
        if adds and messages and _takes(thread, ids, messages[0].parent_id, offset):
            thread.add(messages)
        if adds:
            index_texts(self, head.owner, texts)
        return all(id in thread.messages for id in ids)

    async def messages(
        self, owner: str, thread_id: str, leaf_id: str, limit: int, cursor: str | None
    ) -> Page[Message] | None:
        """A page of the branch that ends in `leaf_id`, oldest first; None: there is no such message."""
        after = decode_cursor(cursor)
        thread = self.find(owner, thread_id)
        if thread is None or leaf_id not in thread.messages:
            return None
        path, last = thread.path(leaf_id), after + limit
        more = last < len(path) - 1
        return Page[Message](
            items=_visible(path[after + 1 : last + 1]),
            next_cursor=encode_cursor(last) if more else None,
        )

    async def newest_messages(
        self, owner: str, thread_id: str, leaf_id: str, limit: int
    ) -> Sequence[Message]:
        """The last messages of the branch that ends in `leaf_id`, oldest first."""
        thread = self.find(owner, thread_id)
        if thread is None or leaf_id not in thread.messages:
            return ()
        return _visible(thread.path(leaf_id)[-limit:])

    async def message(self, owner: str, thread_id: str, message_id: str) -> Message | None:
        """Return one message of this thread."""
        thread = self.find(owner, thread_id)
        message = thread.messages.get(message_id) if thread else None
        return None if message is None or message.is_place else message

    async def past_run(self, owner: str, run_id: str) -> PastRun | None:
        """Return the tree of a run that is over, with its messages."""
        thread = next((t for t in self.of(owner) if run_id in t.snapshots), None)
        if thread is None:
            return None
        tree = thread.snapshots[run_id]
        messages = tuple(_messages_of(thread, tree))
        return PastRun(thread_id=thread.head.id, tree=tree, messages=messages)

    async def head(self, owner: str, thread_id: str) -> ThreadHead | None:
        """Return the thread's head; `deleted` is set if it was erased."""
        thread = self._threads.get((owner, thread_id))
        if thread is None:
            return None
        leaf = thread.leaf()
        if leaf is None:
            return thread.head
        return thread.head.model_copy(
            update={
                "leaf_id": leaf.id,
                "last_created_at": leaf.created_at,
                "updated_at": max(thread.head.updated_at, leaf.created_at),
            }
        )

    async def heads(self, owner: str) -> tuple[ThreadHead, ...]:
        """Return all heads of an owner, newest first."""
        heads_or_none = [await self.head(o, id) for o, id in list(self._threads) if o == owner]
        heads = [h for h in heads_or_none if h is not None and not h.deleted]
        return tuple(sorted(heads, key=lambda h: h.updated_at, reverse=True))

    async def erase(self, owner: str, thread_id: str) -> None:
        """Leave a tombstone and nothing else."""
        thread = self._threads.get((owner, thread_id))
        agent = "" if thread is None else thread.head.agent
        at = _UNKNOWN if thread is None else thread.head.created_at
        tombstone = ThreadHead(
            id=thread_id, owner=owner, agent=agent, created_at=at, updated_at=at, deleted=True
        )
        self._threads[owner, thread_id] = StoredThread(tombstone)
        free_superseded(self, owner, thread.entries if thread else {})
        self.shelf.erase(owner, thread_id)

    def _upsert(self, head: ThreadHead) -> StoredThread | None:
        if head.deleted:
            return None
        thread = self._threads.get((head.owner, head.id))
        if thread is None:
            thread = self._threads[head.owner, head.id] = StoredThread(_stored_fields(head))
        elif thread.head.deleted:
            return None
        elif head.updated_at >= thread.head.updated_at:
            title = thread.head.title if head.title is None else head.title
            fixed = {"title": title, "created_at": thread.head.created_at}
            thread.head = _stored_fields(head).model_copy(update=fixed)
        return thread


def _takes(thread: StoredThread, ids: Sequence[str], parent_id: str | None, offset: int) -> bool:
    """Return whether a chain with these ids may begin at a depth."""
    depths = {id: len(thread.path(id)) - 1 for id in thread.messages}
    if any(depth >= offset and id not in ids for id, depth in depths.items()):
        return False
    if parent_id is None:
        return offset == 0
    return depths.get(parent_id) == offset - 1


def _visible(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Leave out the places of results to come."""
    return tuple(message for message in messages if not message.is_place)


def _messages_of(thread: StoredThread, tree: Mapping[str, Any]) -> Sequence[Message]:
    """Return the messages of a run, as its tree names them."""
    if "messages" in tree:
        leaf_id, count = tree["messages"]
        return thread.path(leaf_id)[-count:] if leaf_id in thread.messages else ()
    return [thread.messages[id] for id in tree.get("message_ids", ()) if id in thread.messages]


def _window(thread: StoredThread, query: TurnQuery, path: Sequence[Message]) -> int:
    """Return the start of the window without a compaction mode, of these messages before the input. A token
    buffer has the newest turn whole."""
    if query.pinned_depth is not None:
        start = query.pinned_depth
    elif query.max_messages is not None:
        start = 0
    else:
        start = thread.window(query.input.id, query.window)
    if query.max_messages is None:
        return start
    users = [depth for depth, m in enumerate(path) if m.role is Role.USER]
    return min(max(start, len(path) - query.max_messages), *users[-1:], len(path))


def _stored_fields(head: ThreadHead) -> ThreadHead:
    """Return the part of a head that the store keeps: what its owner sees, and not what the journal does."""
    return ThreadHead(owner=head.owner, **{name: getattr(head, name) for name in _FACTS})
