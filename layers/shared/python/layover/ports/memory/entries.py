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
    """The entries of an owner, under row security. Each belongs to one agent and is never found by
    another. They are written by `MemoryStore.record_extraction`, with all else that a run teaches."""

    async def find_entries(self, owner: str, query: EntryQuery) -> FoundEntries:
        """The best ones: by words, by vector, or both, with a small bonus for what is new. One with
        neither signal is not there. A turn asks with `TurnQuery.entries` instead, in its one round
        trip."""
        ...

    async def similar_entries(
        self,
        owner: str,
        agent: str,
        vectors: Sequence[Sequence[float]],
        model: str,
        least: float,
    ) -> SimilarEntries:
        """For each vector the stored entries of the same model with at least this cosine, nearest
        first."""
        ...

    async def list_entries(
        self, owner: str, agent: str, limit: int, after: EntryPlace | None
    ) -> tuple[FoundEntry, ...]:
        """Newest first, from behind that place; none that is superseded."""
        ...

    async def correct_entry(self, owner: str, correction: EntryCorrection) -> FoundEntry | None:
        """Give an entry that is retrieved other words, without a vector. None: there is no such entry.
        Raises Conflict where the agent remembers the same already."""
        ...

    async def delete_entry(self, owner: str, id: str) -> bool:
        """Forget an entry, and those that it superseded. False: there is no such entry."""
        ...


class ReembeddingStore(Protocol):
    """Texts with vectors of another embedder, or with none, under row security; page by page, so
    that it may be stopped and begun again. `dimensions` of the model's vectors: one of another length is
    not of this model as it is now (None: every length is)."""

    async def stale_entries(
        self,
        owner: str,
        agent: str,
        model: str,
        dimensions: int | None,
        after_id: str,
        limit: int,
    ) -> tuple[StaleEntry, ...]:
        """Entries of an agent without a vector of this model, by id, from behind one ("" first).
        Superseded ones are not searched and stay as they are."""
        ...

    async def put_entry_vectors(
        self, owner: str, model: str, vectors: Sequence[tuple[str, tuple[float, ...]]]
    ) -> None:
        """Keep these vectors, each with an entry's id. An entry that is gone is left out."""
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
        """Messages that recall searches without a vector of this model, by id, from behind one;
        `RecallStore.index_messages` keeps the new ones."""
        ...


class Owners(Protocol):
    """Lists the owners of stored data. For operators alone: the functions have no such right."""

    async def owners(self, after: str, limit: int) -> tuple[str, ...]:
        """Owners by name, from behind one ("" first)."""
        ...
