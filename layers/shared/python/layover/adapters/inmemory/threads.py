"""Threads in memory, with the semantics of the Postgres store and nothing that outlives the process."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from layover.adapters.inmemory.compaction import Stage, compacted_for
from layover.adapters.inmemory.entries import StoredEntry, found_entries, free_superseded
from layover.adapters.inmemory.notes import Shelf
from layover.adapters.inmemory.recall import Kept, is_cut, recalled
from layover.adapters.store.cursor import decode_cursor, encode_cursor
from layover.values.compaction import Compacted
from layover.values.context import (
    Recalled,
    StepUsage,
    ThreadState,
    TurnContext,
    TurnQuery,
    TurnRecord,
)
from layover.values.memory_entry import FoundEntries
from layover.values.message import Message, Role
from layover.values.page import Page
from layover.values.thread import ThreadHead

_UNKNOWN = datetime.fromtimestamp(0, UTC)


@dataclass
class StoredThread:
    """A thread and what hangs on it. `parents`: message id -> the message that it was stored behind
    (None: it begins a root)."""

    head: ThreadHead
    messages: dict[str, Message] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    branches: dict[str, int] = field(default_factory=dict)
    """Message id -> branch: the first child of a message goes on its branch, the others begin one."""
    windows: dict[int, int] = field(default_factory=dict)
    """Branch -> depth at which the window of its newest turn begins."""
    texts: dict[str, Kept] = field(default_factory=dict)
    """Message id -> what recall finds."""
    entries: dict[str, StoredEntry] = field(default_factory=dict)
    """What the thread taught, by id."""
    stages: dict[int, Stage] = field(default_factory=dict)
    """Generations by number, oldest first."""

    def path(self, leaf_id: str) -> list[Message]:
        """From the root to this message."""
        path: list[Message] = []
        at: str | None = leaf_id
        while at is not None:
            path.append(self.messages[at])
            at = self.parents[at]
        return path[::-1]

    def add(self, chain: tuple[Message, ...]) -> None:
        """Each behind the one before; what is there stays. A missing parent begins a root."""
        before = chain[0].parent_id
        for message in chain:
            if message.id not in self.messages:
                self.messages[message.id] = message
                parent = before if before in self.messages else None
                self.branches[message.id] = self._branch_behind(parent)
                self.parents[message.id] = parent
            before = message.id

    def _branch_behind(self, parent: str | None) -> int:
        taken = {self.branches[m] for m, p in self.parents.items() if p == parent}
        if parent is None or self.branches[parent] in taken:
            return max(self.branches.values(), default=-1) + 1
        return self.branches[parent]

    def window(self, input_id: str, least: int) -> int:
        """Where the window before this input begins; it moves in steps (docs/behaviour.md#prompt-window)."""
        path, branch = self.path(input_id)[:-1], self.branches[input_id]
        start = self.windows.get(branch, 0)
        shown = len(path) - start
        if shown > least + least // 2 or (start > 0 and shown < least):
            fitting = path[: max(0, len(path) - least + 1)]
            users = [i for i, m in enumerate(fitting) if m.role is Role.USER]
            start = self.windows[branch] = users[-1] if users else 0
        return start

    def place_window(self, input_id: str, compacted: Compacted) -> int:
        """The window before this input begins behind what is compacted."""
        shown = compacted.generation
        start = self.windows[self.branches[input_id]] = shown.through_depth + 1 if shown else 0
        return start

    def leaf(self) -> Message | None:
        """The newest message."""
        return max(self.messages.values(), key=lambda m: (m.created_at, m.id), default=None)


class InMemoryThreads:
    """`ports.ThreadStore`."""

    def __init__(self) -> None:
        self._threads: dict[tuple[str, str], StoredThread] = {}
        self.spent: dict[tuple[str, str, str], tuple[str, StepUsage]] = {}
        """(owner, run_id, step) -> kind (run | background) and usage."""
        self.shelf = Shelf()
        """Notes and states, which `InMemoryMemory` writes."""

    def find(self, owner: str, thread_id: str) -> StoredThread | None:
        """What is stored of a thread that was not erased."""
        thread = self._threads.get((owner, thread_id))
        return None if thread is None or thread.head.deleted else thread

    def spend(self, owner: str, run_id: str, usage: Sequence[StepUsage], kind: str) -> None:
        """Keep what was spent, each row once."""
        for row in usage:
            self.spent.setdefault((owner, run_id, row.step), (kind, row))

    async def owners(self, after: str, limit: int) -> tuple[str, ...]:
        """`ports.entries.Owners`."""
        return tuple(sorted({o for o, _ in self._threads if o > after})[:limit])

    def of(self, owner: str) -> list[StoredThread]:
        """The threads of an owner that were not erased."""
        return [t for (o, _), t in self._threads.items() if o == owner and not t.head.deleted]

    async def open_turn(self, query: TurnQuery) -> TurnContext:
        """Write the thread and the input, read the history before it. Empty where the thread is gone."""
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
            history=tuple(path[start:]),
            window_depth=start,
            notes=tuple(self.shelf.note(owner, key) for key in query.notes),
            state=state,
            recalled=self._recalled(query, min(start, len(path))),
            recall_cut=query.recall is not None and is_cut(self, owner, query.recall),
            entries=found_entries(self, owner, query.entries) if query.entries else FoundEntries(),
            compacted=compacted,
            gone=tuple(id for id in query.pinned if not self._shows(owner, id)),
        )

    def _shows(self, owner: str, id: str) -> bool:
        return any(id in thread.messages or id in thread.entries for thread in self.of(owner))

    def _recalled(self, query: TurnQuery, start: int) -> tuple[Recalled, ...]:
        if query.recall is None:
            return ()
        start = -1 if query.recall.whole_path else start
        return recalled(self, query.head.owner, query.recall, query, start)

    async def save_turn(self, record: TurnRecord) -> None:
        """Write input, response, usage and tree of a run. Nothing where the thread is gone."""
        thread = self._upsert(record.head)
        if thread is None:
            return
        thread.add((record.input, *record.response))
        self.spend(record.head.owner, record.run.id, record.usage, "run")
        if record.snapshot is not None:
            thread.snapshots[record.run.id] = record.snapshot

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
            items=tuple(path[after + 1 : last + 1]),
            next_cursor=encode_cursor(last) if more else None,
        )

    async def message(self, owner: str, thread_id: str, message_id: str) -> Message | None:
        """One message of this thread."""
        thread = self.find(owner, thread_id)
        return thread.messages.get(message_id) if thread else None

    async def head(self, owner: str, thread_id: str) -> ThreadHead | None:
        """The thread's head, `deleted` where it was erased."""
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
        """All heads of an owner, newest first."""
        found = [await self.head(o, id) for o, id in list(self._threads) if o == owner]
        heads = [h for h in found if h is not None and not h.deleted]
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

    def drop(self, owner: str, until: datetime) -> None:
        """Delete the tombstones of threads that were made until then."""
        for (o, id), thread in list(self._threads.items()):
            if o == owner and thread.head.deleted and thread.head.created_at <= until:
                del self._threads[o, id]

    def set_title(self, owner: str, thread_id: str, title: str) -> None:
        """Name a thread that has no title yet."""
        thread = self.find(owner, thread_id)
        if thread is not None and thread.head.title is None:
            thread.head = thread.head.model_copy(update={"title": title})

    def _upsert(self, head: ThreadHead) -> StoredThread | None:
        if head.deleted:
            return None
        thread = self._threads.get((head.owner, head.id))
        if thread is None:
            thread = self._threads[head.owner, head.id] = StoredThread(_known(head))
        elif thread.head.deleted:
            return None
        elif head.updated_at >= thread.head.updated_at:
            title = thread.head.title if head.title is None else head.title
            thread.head = thread.head.model_copy(
                update={"title": title, "metadata": head.metadata, "updated_at": head.updated_at}
            )
        return thread


def _window(thread: StoredThread, query: TurnQuery, path: Sequence[Message]) -> int:
    """Where the window begins without a compaction mode, of these messages before the input. A token
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


def _known(head: ThreadHead) -> ThreadHead:
    """What the store keeps of a head: not who runs in it."""
    return ThreadHead(
        id=head.id,
        owner=head.owner,
        agent=head.agent,
        title=head.title,
        metadata=head.metadata,
        created_at=head.created_at,
        updated_at=head.updated_at,
    )
