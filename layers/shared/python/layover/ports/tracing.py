"""Traces: where the spans of runs go."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from layover.values.runs.run import RunMeta
from layover.values.span import MemoryRead, Span


class Tracing(Protocol):
    """Takes the spans of runs. Most are recorded where the journal is written (`adapters.tracing`): the
    engine knows nothing of them."""

    def record(self, span: Span) -> None:
        """Take a span. Never waits, never raises."""
        ...

    def memory(self, run: RunMeta, task: str) -> AbstractContextManager[None]:
        """Record what is done inside as work of memory for this run. `task`: as in `Prompt.task`."""
        ...

    def search(self, run: RunMeta) -> AbstractContextManager[MemoryRead]:
        """Record what is done inside as the search of this run's memory. The caller fills in the result."""
        ...

    async def finish(self) -> None:
        """Send what was recorded, before this process may be frozen. Returns soon, and raises nothing."""
        ...


class NoTracing:
    """`Tracing` that is off."""

    def record(self, span: Span) -> None:
        """Do nothing."""

    def memory(self, run: RunMeta, task: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def search(self, run: RunMeta) -> AbstractContextManager[MemoryRead]:
        """Do nothing."""
        return nullcontext(MemoryRead())

    async def finish(self) -> None:
        """Do nothing."""
