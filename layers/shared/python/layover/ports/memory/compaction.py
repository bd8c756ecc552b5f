"""The part of `ports.MemoryStore` that is about compaction (docs/behaviour.md#generations)."""

from collections.abc import Sequence
from typing import Protocol

from layover.values.memory.compaction import (
    Compacted,
    CompactionKind,
    Generation,
    NewGeneration,
    Span,
)
from layover.values.memory.context import StepUsage


class CompactionStore(Protocol):
    """Generations of a thread, under row security. They are immutable; only the set of active ones changes,
    by compare-and-set. Every write is one transaction under the thread's lock, or nothing."""

    async def compacted(
        self, owner: str, thread_id: str, leaf_id: str, kind: CompactionKind
    ) -> Compacted:
        """Return the deepest active generation whose last message is on the path that ends in `leaf_id`, with
        the slices behind it. Empty if the thread or the message is gone."""
        ...

    async def span(
        self, owner: str, thread_id: str, after_id: str | None, through_id: str
    ) -> Span | None:
        """Return the messages of the path to `through_id` that come after `after_id` (None: from the root).
        None if one of them does not exist or is not on that path."""
        ...

    async def add_slice(
        self,
        owner: str,
        thread_id: str,
        slice: NewGeneration,
        run_id: str,
        usage: Sequence[StepUsage] = (),
    ) -> Generation | None:
        """Store observations that were made ahead, not active. Return None, and store nothing, if the start
        is no longer beyond the path's cursor, if the path already has a slice with this start, or if the
        thread or a message is gone. It does not raise in these cases."""
        ...

    async def activate(
        self,
        owner: str,
        thread_id: str,
        numbers: Sequence[int],
        expected: int | None,
    ) -> bool:
        """Let these slices (a chain, in order) take effect behind generation `expected` (None: there is none
        on their path). Return False, and change nothing, if another generation exists by now."""
        ...

    async def replace(
        self,
        owner: str,
        thread_id: str,
        generation: NewGeneration,
        expected: int | None,
        run_id: str,
        usage: Sequence[StepUsage] = (),
    ) -> Generation | None:
        """Store a reflection or a summary, active at once, in the place of generation `expected`.
        Observations that it no longer has are kept as superseded. Return None, and store nothing, if the path
        has another generation by now or the thread is gone."""
        ...

    async def spend(
        self, owner: str, thread_id: str, run_id: str, usage: Sequence[StepUsage]
    ) -> None:
        """Store the usage of a run's background work that stored nothing else. Each row is stored once;
        nothing happens if the thread is gone."""
        ...

    async def observations(
        self, owner: str, thread_id: str, leaf_id: str
    ) -> Sequence[tuple[Generation, bool]]:
        """Return all generations of the thread whose last message is on the path, oldest first, each with
        whether a prompt shows its observations (for `GET /threads/{id}/memory`)."""
        ...
