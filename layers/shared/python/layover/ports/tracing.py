"""Traces: where the spans of runs go."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from layover.values.runs.run import RunMeta
from layover.values.span import EmbeddingRequest, MemoryRead, Span


class Tracing(Protocol):
    """Takes the spans of runs. Most are recorded where the journal is written (`adapters.tracing`): the
    engine knows nothing of them."""

    def record(self, span: Span) -> None:
        """Take a span. Never waits, never raises."""
        ...

    def memory(self, run: RunMeta, task: str, agent: str) -> AbstractContextManager[None]:
        """Record what is done inside as work of memory for this run. `task`: as in `Prompt.task`; `agent`:
        the name of the one whose memory it is."""
        ...

    def search(
        self, run: RunMeta, agent: str, path: str = ""
    ) -> AbstractContextManager[MemoryRead]:
        """Record what is done inside as the search of an agent's memory. The caller fills in the result.
        `path`: of a sub-agent's keys."""
        ...

    def question(self, run: RunMeta, agent: str, path: str) -> AbstractContextManager[None]:
        """Record the request that is made inside as the question of a hook of this agent's."""
        ...

    def embedding(
        self, run: RunMeta, agent: str, model: str
    ) -> AbstractContextManager[EmbeddingRequest]:
        """Record what is done inside as a request to an embedder, in whatever is recorded around it. The
        caller fills in the answer."""
        ...

    async def finish(self) -> None:
        """Send what was recorded, before this process may be frozen. Returns soon, and raises nothing."""
        ...


class NoTracing:
    """`Tracing` that is off."""

    def record(self, span: Span) -> None:
        """Do nothing."""

    def memory(self, run: RunMeta, task: str, agent: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def search(
        self, run: RunMeta, agent: str, path: str = ""
    ) -> AbstractContextManager[MemoryRead]:
        """Do nothing."""
        return nullcontext(MemoryRead())

    def question(self, run: RunMeta, agent: str, path: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def embedding(
        self, run: RunMeta, agent: str, model: str
    ) -> AbstractContextManager[EmbeddingRequest]:
        """Do nothing."""
        return nullcontext(EmbeddingRequest())

    async def finish(self) -> None:
        """Do nothing."""
