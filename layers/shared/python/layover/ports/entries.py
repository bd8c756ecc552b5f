"""The part of `ports.MemoryStore` that is about episodic memory."""

from collections.abc import Sequence
from typing import Protocol

from layover.values.memory_entry import (
    EntryPlace,
    EntryQuery,
    FoundEntries,
    FoundEntry,
    SimilarEntry,
)


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
    ) -> tuple[SimilarEntry, ...]:
        """For each vector the stored entries of the same model with at least this cosine, nearest
        first."""
        ...

    async def list_entries(
        self, owner: str, agent: str, limit: int, after: EntryPlace | None
    ) -> tuple[FoundEntry, ...]:
        """Newest first, from behind that place; none that is superseded."""
        ...

    async def delete_entry(self, owner: str, id: str) -> bool:
        """Forget an entry, and those that it superseded. False: there is no such entry."""
        ...
