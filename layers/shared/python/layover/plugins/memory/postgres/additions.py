"""Statements of memory in the round trips of threads on Postgres."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from layover.adapters.store.postgres.additions import Read
from layover.adapters.store.postgres.database import Row
from layover.adapters.store.postgres.queries import Statement
from layover.plugins.memory.postgres.compaction import (
    compacted,
    compacted_of,
    find_deleted,
    gone_of,
    place_window,
)
from layover.plugins.memory.postgres.entries import entries_of, find_entries
from layover.plugins.memory.postgres.notes import notes_of, read_notes, read_state, state_of
from layover.plugins.memory.postgres.recall import index_messages, recall, recalled_of, was_cut
from layover.values.memory.context import IndexedText, TurnQuery


class MemoryAdditions:
    """`adapters.store.postgres.additions.Additions`."""

    def reads(self, query: TurnQuery) -> Sequence[Read]:
        """See `Additions`."""
        reads: list[Read] = []
        if query.notes:
            reads.append(_read(read_notes(query.notes), notes=notes_of))
        if query.thread_state:
            reads.append(_read(read_state(query.head.id), state=state_of))
        if query.recall is not None:
            statement = recall(query.recall, query)
            reads.append(_read(statement, recalled=recalled_of, recall_cut=was_cut))
        if query.entries is not None:
            reads.append(_read(find_entries(query.entries), entries=entries_of))
        if query.compaction is not None:
            reads.append(_read(compacted(query), compacted=compacted_of))
        if query.pinned:
            reads.append(_read(find_deleted(query.pinned), gone=gone_of))
        return reads

    def place_window(self, query: TurnQuery) -> Statement:
        """See `Additions`."""
        return place_window(query)

    def index(self, texts: Sequence[IndexedText]) -> Statement:
        """See `Additions`."""
        return index_messages(texts)


def _read(statement: Statement, **fields: Callable[[list[Row]], Any]) -> Read:
    def read(rows: list[Row]) -> Mapping[str, Any]:
        return {name: value_of(rows) for name, value_of in fields.items()}

    return Read(statement, read)
