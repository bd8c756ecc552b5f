"""The part of `ports.MemoryStore` that is about episodic memory."""

from collections.abc import Sequence
from typing import Protocol

from layover.values.memory.entry import (
    EntryCorrection,
    EntryPlace,
    EntryQuery,
    FoundEntries,
    FoundEntry,
    KnownEntries,
    NewEntry,
    StaleEntry,
)
from layover.values.message import Message


class EntryStore(Protocol):
    """The entries of an owner, under row security. Each belongs to one agent and is never found by another.
    `MemoryStore.record_extraction` writes them, with everything else that is learned from a run."""

    async def find_entries(self, owner: str, query: EntryQuery) -> FoundEntries:
        """Return the best entries: by words, by vector, or both, with a small bonus for new ones. An
        entry with neither signal is left out. A turn asks with `TurnQuery.entries` instead, in its one
        round trip."""
        ...

    async def known_entries(self, owner: str, agent: str, ids: Sequence[str]) -> KnownEntries:
        """Return those of these entries that are retrieved, as they stand by now, by id. Others are left
        out."""
        ...

    async def list_entries(
        self,
        owner: str,
        agent: str,
        limit: int,
        after: EntryPlace | None,
        *,
        superseded: bool = False,
    ) -> tuple[FoundEntry, ...]:
        """Return entries after that place, newest first. `superseded`: also those that another one
        superseded, which say by which one."""
        ...

    async def import_entry(self, owner: str, entry: NewEntry) -> tuple[FoundEntry, bool]:
        """Store an entry that no thread taught. Return the stored entry with these words, and whether this
        call has stored it: one that is remembered already stays, as with `record_extraction`."""
        ...

    async def correct_entry(self, owner: str, correction: EntryCorrection) -> FoundEntry | None:
        """Replace the words of an entry that is retrieved, and remove its vector. Return None if there is no
        such entry. Raises Conflict if the agent already remembers the same."""
        ...

    async def restore_entry(self, owner: str, id: str) -> FoundEntry | None:
        """Let a superseded entry stand again, with the one that took its place, and return it; one that
        stands is returned as it is. Return None if there is no such entry."""
        ...

    async def delete_entry(self, owner: str, id: str) -> bool:
        """Forget an entry, and those that it superseded. Return False if there is no such entry."""
        ...


class ReembeddingStore(Protocol):
    """Texts without a vector of the current embedder, under row security. They come page by page, so that the
    work may be stopped and resumed. `dimensions`: the length of the model's vectors. A vector of another
    length does not count as the model's present one (None: every length does)."""

    async def stale_entries(
        self,
        owner: str,
        agent: str,
        model: str,
        dimensions: int | None,
        after_id: str,
        limit: int,
    ) -> tuple[StaleEntry, ...]:
        """Return entries of an agent without a vector of this model, by id, from behind one ("" first).
        Superseded entries are not searched and stay unchanged."""
        ...

    async def put_entry_vectors(
        self, owner: str, model: str, vectors: Sequence[tuple[str, tuple[float, ...]]]
    ) -> None:
        """Store these vectors, each with an entry's id. Entries that no longer exist are skipped."""
        ...

    async def stale_messages(
        self,
        owner: str,
        agent: str,
        model: str,
        dimensions: int | None,
        after_id: str,
        limit: int,
    ) -> tuple[Message, ...]:
        """Return messages that recall searches without a vector of this model, by id, from behind one.
        `RecallStore.index_messages` stores the new ones."""
        ...


class Owners(Protocol):
    """The owners of stored data. Only for operators: the functions have no such right."""

    async def owners(self, after: str, limit: int) -> tuple[str, ...]:
        """Return owners by name, from behind one ("" first)."""
        ...
