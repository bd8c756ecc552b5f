"""Usage of background work (docs/behaviour.md#background-usage): rows of `usage` next to those of a
run's steps, stored with the outcome that they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass

from layover.ports import Embedder
from layover.runtime import Runtime
from layover.values.memory.context import StepUsage
from layover.values.prompt import Embedded, Reply
from layover.values.runs.run import RunMeta
from layover.values.runs.usage import Usage


def usage_row(
    runtime: Runtime, meta: RunMeta, task: str, first: Reply | Embedded, *others: Reply | Embedded
) -> StepUsage:
    """Return one row for all requests of a task of this run to one model. `task` names the row within the
    run: a task with several outcomes names each of them (`observer/2`)."""
    usage = Usage.total([_price(runtime, reply) for reply in (first, *others)])
    runtime.allowance.note(meta.owner, usage)
    return StepUsage(
        step=task,
        agent=meta.agent,
        model=first.model,
        usage=usage,
        at=runtime.clock.now(),
    )


def embedding_usage(
    runtime: Runtime, meta: RunMeta, task: str, embedding: Embedded
) -> tuple[StepUsage, ...]:
    """Return the row of an embedder's work; an empty tuple if it costs nothing."""
    return () if embedding.usage is None else (usage_row(runtime, meta, task, embedding),)


@dataclass(frozen=True)
class MeteredEmbedder:
    """`ports.Embedder` that counts its cost towards its user's day. It is for work whose results cannot carry
    a row of usage."""

    runtime: Runtime
    owner: str
    embedder: Embedder

    @property
    def model(self) -> str:
        """See `ports.Embedder`."""
        return self.embedder.model

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """See `ports.Embedder`."""
        answer = await self.embedder.embed(texts)
        if isinstance(answer, Embedded) and answer.usage is not None:
            self.runtime.allowance.note(self.owner, _price(self.runtime, answer))
        return answer


def meter(runtime: Runtime, owner: str, embedder: Embedder | None) -> Embedder | None:
    """Return the embedder with counting."""
    return None if embedder is None else MeteredEmbedder(runtime, owner, embedder)


@dataclass(frozen=True)
class TracedEmbedder:
    """`ports.Embedder` whose requests are in the trace of a run. `agent`: the name of the one that asks."""

    runtime: Runtime
    run: RunMeta
    agent: str
    embedder: Embedder

    @property
    def model(self) -> str:
        """See `ports.Embedder`."""
        return self.embedder.model

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """See `ports.Embedder`."""
        with self.runtime.tracing.embedding(self.run, self.agent, self.model) as request:
            answer = await self.embedder.embed(texts)
            if isinstance(answer, Embedded):
                request.model, request.usage = answer.model, answer.usage
        return answer


def trace_requests(
    runtime: Runtime, run: RunMeta, agent: str, embedder: Embedder | None
) -> Embedder | None:
    """Return the embedder with traces."""
    return None if embedder is None else TracedEmbedder(runtime, run, agent, embedder)


def _price(runtime: Runtime, reply: Reply | Embedded) -> Usage:
    usage = reply.usage or Usage()
    if runtime.price is None or usage.cost_usd is not None:
        return usage
    return usage.model_copy(update={"cost_usd": runtime.price(reply.model, usage)})
