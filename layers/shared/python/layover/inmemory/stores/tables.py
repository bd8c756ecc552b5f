"""The tables that the stores in memory share: threads with all that belongs to them, usage, and notes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from layover.adapters.store.chains import UnknownParent
from layover.inmemory.stores.notes import NoteTable
from layover.values.memory.compaction import Compacted, Generation
from layover.values.memory.context import IndexedText, StepUsage
from layover.values.memory.entry import NewEntry
from layover.values.message import Message, Role
from layover.values.thread import ThreadHead

_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class IndexedRow:
    """A text with its words."""

    text: IndexedText
    words: frozenset[str]
    speaker: frozenset[str]


@dataclass
class StoredEntry:
    """An entry with its words."""

    entry: NewEntry
    words: frozenset[str]
    superseded_by: str | None = None


@dataclass
class GenerationRow:
    """A generation, and the numbers of those whose observations a prompt shows with it."""

    generation: Generation
    chain: tuple[int, ...] = ()

    def ends_on(self, path: Sequence[Message]) -> bool:
        """True if its last message is on this path."""
        depth = self.generation.through_depth
        return depth < len(path) and path[depth].id == self.generation.through_message_id


@dataclass
class StoredThread:
    """A thread and the data that belongs to it. `parents`: message id -> the message that it was stored
    behind (None: it begins a root)."""

    head: ThreadHead
    messages: dict[str, Message] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    snapshots: dict[str, dict[str, Any]] = field(default_factory=dict)
    branches: dict[str, int] = field(default_factory=dict)
    """Message id -> branch: the first child of a message goes on its branch, the others begin one."""
    windows: dict[int, int] = field(default_factory=dict)
    """Branch -> depth at which the window of its newest turn begins."""
    texts: dict[str, IndexedRow] = field(default_factory=dict)
    """Message id -> the text that recall finds."""
    entries: dict[str, StoredEntry] = field(default_factory=dict)
    """Entries that the thread taught, by id."""
    stages: dict[int, GenerationRow] = field(default_factory=dict)
    """Generations by number, oldest first."""

    def path(self, leaf_id: str) -> list[Message]:
        """From the root to this message."""
        path: list[Message] = []
        at: str | None = leaf_id
        while at is not None:
            path.append(self.messages[at])
            at = self.parents[at]
        return path[::-1]

    def add(self, messages: Sequence[Message]) -> None:
        """Add messages, each behind its parent; existing ones stay. Raises UnknownParent."""
        ids: set[str | None] = {None, *self.messages}
        for message in messages:
            if message.id not in ids and message.parent_id not in ids:
                raise UnknownParent
            ids.add(message.id)
        for message in messages:
            if message.id in self.messages and self.messages[message.id].is_place:
                self.messages[message.id] = message
            if message.id not in self.messages:
                self.messages[message.id] = message
                self.branches[message.id] = self._branch_behind(message.parent_id)
                self.parents[message.id] = message.parent_id

    def refuse(self, ids: Iterable[str]) -> None:
        """Mark messages as refused. Recall finds them no more."""
        for id in ids:
            if id in self.messages:
                self.messages[id] = self.messages[id].model_copy(update={"refused": True})
                self.texts.pop(id, None)

    def _branch_behind(self, parent: str | None) -> int:
        branches = {self.branches[m] for m, p in self.parents.items() if p == parent}
        if parent is None or self.branches[parent] in branches:
            return max(self.branches.values(), default=-1) + 1
        return self.branches[parent]

    def window(self, input_id: str, least: int) -> int:
        """Return the start of this input's window; it moves in steps (docs/behaviour.md#prompt-window)."""
        path, branch = self.path(input_id)[:-1], self.branches[input_id]
        start = self.windows.get(branch, 0)
        length = len(path) - start
        if length > least + least // 2 or (start > 0 and length < least):
            candidates = path[: max(0, len(path) - least + 1)]
            users = [i for i, m in enumerate(candidates) if m.role is Role.USER]
            start = self.windows[branch] = users[-1] if users else 0
        return start

    def place_window(self, input_id: str, compacted: Compacted) -> int:
        """Let the window before this input begin behind the compacted messages."""
        generation = compacted.generation
        start = self.windows[self.branches[input_id]] = (
            generation.through_depth + 1 if generation else 0
        )
        return start

    def leaf(self) -> Message | None:
        """The newest message."""
        return max(self.messages.values(), key=lambda m: (m.created_at, m.id), default=None)


class Tables:
    """One set of tables, which `InMemoryThreads` and `InMemoryMemory` read and write."""

    def __init__(self) -> None:
        self._threads: dict[tuple[str, str], StoredThread] = {}
        self._imported: dict[str, StoredThread] = {}
        """Owner -> the place of entries that no thread taught."""
        self.usage_rows: dict[tuple[str, str, str], tuple[str, StepUsage]] = {}
        """(owner, run_id, step) -> kind (run | background) and usage."""
        self.shelf = NoteTable()
        """Notes and states, which `InMemoryMemory` writes."""

    def find(self, owner: str, thread_id: str) -> StoredThread | None:
        """Return the data of a thread that was not erased."""
        thread = self._threads.get((owner, thread_id))
        return None if thread is None or thread.head.deleted else thread

    def of(self, owner: str) -> list[StoredThread]:
        """The threads of an owner that were not erased."""
        return [t for (o, _), t in self._threads.items() if o == owner and not t.head.deleted]

    def places_of_entries(self, owner: str) -> list[StoredThread]:
        """Return the threads of an owner, and the place of what was imported."""
        return [*self.of(owner), *([self._imported[owner]] if owner in self._imported else [])]

    def place_of_entry(self, owner: str, thread_id: str | None) -> StoredThread | None:
        """Return the place of an entry; None: its thread is gone."""
        if thread_id is not None:
            return self.find(owner, thread_id)
        if owner not in self._imported:
            nowhere = ThreadHead(id="", owner=owner, agent="", created_at=_NEVER, updated_at=_NEVER)
            self._imported[owner] = StoredThread(nowhere)
        return self._imported[owner]

    def spend(self, owner: str, run_id: str, usage: Sequence[StepUsage], kind: str) -> None:
        """Store usage, each row once; a row of a run that went on since takes the place of the older one."""
        for row in usage:
            key = (owner, run_id, row.step)
            _, stored = self.usage_rows.setdefault(key, (kind, row))
            if kind == "run" and stored.at < row.at:
                self.usage_rows[key] = (kind, row)

    def set_title(self, owner: str, thread_id: str, title: str) -> None:
        """Name a thread that has no title yet."""
        thread = self.find(owner, thread_id)
        if thread is not None and thread.head.title is None:
            thread.head = thread.head.model_copy(update={"title": title})

    def drop(self, owner: str, until: datetime) -> None:
        """Delete the tombstones of threads that were made until then."""
        for (o, id), thread in list(self._threads.items()):
            if o == owner and thread.head.deleted and thread.head.created_at <= until:
                del self._threads[o, id]
