"""The part of `ports.MemoryStore` that is about episodic memory."""

from collections.abc import Sequence
from typing import Protocol

from layover.values.memory.entry import (
    EntryCorrection,
    EntryPlace,
    EntryQuery,
    FoundEntries,
    FoundEntry,
    SimilarEntries,
    StaleEntry,
)
from layover.values.message import Message


class EntryStore(Protocol):
    """The entries of an owner, under row security. Each belongs to one agent and is never found by another.
    `MemoryStore.record_extraction` writes them, with all else that a run teaches."""

    async def find_entries(self, owner: str, query: EntryQuery) -> FoundEntries:
        """Return the best entries: by words, by vector, or both, with a small bonus for new ones. An
        entry with neither signal is left out. A turn asks with `TurnQuery.entries` instead, in its one
        round trip."""
        ...

    async def similar_entries(
        self,
        owner: str,
        agent: str,
        vectors: Sequence[Sequence[float]],
        model: str,
        least: float,
    ) -> SimilarEntries:
        """Return, for each vector, the stored entries of the same model with at least this cosine, nearest
        first."""
        ...

    async def list_entries(
        self, owner: str, agent: str, limit: int, after: EntryPlace | None
    ) -> tuple[FoundEntry, ...]:
        """Return entries newest first, from behind that place; none that is superseded."""
        ...

    async def correct_entry(self, owner: str, correction: EntryCorrection) -> FoundEntry | None:
        """Give an entry that is retrieved other words, without a vector. Return None if there is no such
        entry. Raises Conflict if the agent remembers the same already."""
        ...

    async def delete_entry(self, owner: str, id: str) -> bool:
        """Forget an entry, and those that it superseded. Return False if there is no such entry."""
        ...


class ReembeddingStore(Protocol):
    """Texts with vectors of another embedder, or with none, under row security; page by page, so that the
    work may be stopped and begun again. `dimensions`: the length of the model's vectors. A vector of another
    length is not of this model as it is now (None: every length is)."""

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
        Superseded ones are not searched and stay as they are."""
        ...

    async def put_entry_vectors(
        self, owner: str, model: str, vectors: Sequence[tuple[str, tuple[float, ...]]]
    ) -> None:
        """Store these vectors, each with an entry's id. An entry that is gone is left out."""
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
