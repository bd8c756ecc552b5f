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
    """Generations of a thread, under row security. They are immutable; what moves is which are active,
    by compare-and-set. Every write is one transaction under the thread's lock, or nothing."""

    async def compacted(
        self, owner: str, thread_id: str, leaf_id: str, kind: CompactionKind
    ) -> Compacted:
        """The deepest active generation whose last message is on the path that ends in `leaf_id`, with
        the slices behind it. Empty where the thread or the message is gone."""
        ...

    async def span(
        self, owner: str, thread_id: str, after_id: str | None, through_id: str
    ) -> Span | None:
        """The messages of the path to `through_id` that come after `after_id` (None: from the root).
        None where one of them is not there or not on that path."""
        ...

    async def add_slice(
        self,
        owner: str,
        thread_id: str,
        slice: NewGeneration,
        run_id: str,
        usage: Sequence[StepUsage] = (),
    ) -> Generation | None:
        """Keep observations that were made ahead, not active. None, and nothing is kept, where the
        start is behind the path's cursor by now, where the path has a slice with this start already,
        or where the thread or a message is gone. Raises nothing for these."""
        ...

    async def activate(
        self,
        owner: str,
        thread_id: str,
        numbers: Sequence[int],
        expected: int | None,
    ) -> bool:
        """Let these slices (a chain, in order) take effect behind generation `expected` (None: there
        is none on their path). False, and nothing happens, where another one is there by now."""
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
        """Store a reflection or a summary, active at once, in the place of generation `expected`; the
        observations that it does not have any more are kept as superseded. None, and nothing
        happens, where the path has another one by now or the thread is gone."""
        ...

    async def spend(
        self, owner: str, thread_id: str, run_id: str, usage: Sequence[StepUsage]
    ) -> None:
        """Keep what background work of a run cost that stored nothing. Each row once; nothing happens
        where the thread is gone."""
        ...

    async def observations(
        self, owner: str, thread_id: str, leaf_id: str
    ) -> Sequence[tuple[Generation, bool]]:
        """All generations of the thread whose last message is on the path, oldest first, each with
        whether a prompt shows its observations (for `GET /threads/{id}/memory`)."""
        ...
