"""Stores of data that outlives a run: threads, messages, memory (docs/database.md)."""

from collections.abc import Sequence
from typing import Protocol

from layover.ports.memory.compaction import CompactionStore
from layover.ports.memory.entries import EntryStore, ReembeddingStore
from layover.ports.memory.notes import NoteStore
from layover.ports.memory.personal import PersonalStore
from layover.ports.memory.recall import RecallStore
from layover.values.memory.context import (
    Extraction,
    IndexedText,
    PastRun,
    TurnContext,
    TurnQuery,
    TurnRecord,
)
from layover.values.message import Message
from layover.values.page import Page
from layover.values.thread import ThreadHead


class ThreadStore(Protocol):
    """Threads and messages in Postgres, under row security. Each message is stored behind its own parent,
    which is there or comes before it in the same write. A parent that is unknown is an error of ours
    (`UnknownParent`), and nothing is written. Only a message without a parent begins a root."""

    async def open_turn(self, query: TurnQuery) -> TurnContext:
        """Write the input, and read the context, in one round trip."""
        ...

    async def save_turn(self, record: TurnRecord) -> None:
        """Write the run's messages and usage in one round trip. Nothing is written if the thread is gone."""
        ...

    async def save_messages(self, head: ThreadHead, messages: Sequence[Message]) -> None:
        """Write the messages of a run that waits, oldest first, with places (`Message.is_place`) for results
        to come: later messages follow these. The result itself takes the place, by this method or
        `save_turn`."""
        ...

    async def import_messages(
        self,
        head: ThreadHead,
        messages: Sequence[Message],
        offset: int,
        texts: Sequence[IndexedText] = (),
        *,
        adds: bool = True,
    ) -> bool:
        """Write the thread, a chain of messages that begins at this depth, and their texts for recall, in one
        transaction. Return whether all of the messages are stored now. None of them is written if the thread
        is gone, if the parent of the first is not stored just before that depth, or if the thread has other
        messages at that depth or behind it; or not `adds`, which only looks."""
        ...

    async def messages(
        self, owner: str, thread_id: str, leaf_id: str, limit: int, cursor: str | None
    ) -> Page[Message] | None:
        """Return the branch that ends in `leaf_id`, oldest first; None if there is no such message."""
        ...

    async def newest_messages(
        self, owner: str, thread_id: str, leaf_id: str, limit: int
    ) -> Sequence[Message]:
        """Return the last messages of the branch that ends in `leaf_id`, oldest first; none if there is no
        such message."""
        ...

    async def message(self, owner: str, thread_id: str, message_id: str) -> Message | None:
        """Return one message of this thread."""
        ...

    async def past_run(self, owner: str, run_id: str) -> PastRun | None:
        """Return the tree of a run that is over, with its messages; None if there is none, or its thread is
        gone. It outlives the journal's records."""
        ...

    async def head(self, owner: str, thread_id: str) -> ThreadHead | None:
        """Return the head of a thread as far as the database knows it (a restored table, a restarted
        runner)."""
        ...

    async def heads(self, owner: str) -> Sequence[ThreadHead]:
        """Return all heads of an owner as far as the database knows them."""
        ...

    async def erase(self, owner: str, thread_id: str) -> None:
        """Delete the thread and everything that belongs to it."""
        ...


class MemoryStore(
    NoteStore,
    RecallStore,
    CompactionStore,
    EntryStore,
    ReembeddingStore,
    PersonalStore,
    Protocol,
):
    """Memory beyond messages."""

    async def is_extracted(self, owner: str, run_id: str) -> bool:
        """Return whether `record_extraction` was done for this run."""
        ...

    async def record_extraction(self, owner: str, extraction: Extraction) -> bool:
        """Store the results of a run's extraction in one transaction. Return False if it was done before.
        Raises StaleState, and stores nothing, if `session` was made from another version."""
        ...
