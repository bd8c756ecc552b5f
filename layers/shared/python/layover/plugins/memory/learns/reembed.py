"""`layover reembed`: after a change of embedder, it makes the new one's vectors for stored texts.

It works in small batches, each for one owner, under row security, and in its own transaction. If it is
stopped at any point, it goes on from there when it is started again."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from layover.context.hooked import HookedEmbedder
from layover.declare.agent import Agent
from layover.errors import ConfigurationError, unknown_agent
from layover.plugins.memory.reads.episodic.around_turns import episodic_embedder
from layover.plugins.memory.reads.semantic import query as recall
from layover.plugins.memory.reads.semantic.embedding import embed
from layover.ports import Embedder
from layover.ports.memory.entries import Owners
from layover.runtime import Runtime
from layover.values.message import Message

BATCH = 64
"""Texts that are read, embedded and stored together."""
_PROBE = "text"
_OWNERS = 1_000


@dataclass
class ReembeddingCounts:
    """Counts of the work. `without_vector`: texts for which the embedder has no usable vector; `refusals`:
    those among them that it refused; `last_refusal`: its message about the last one."""

    owners: int = 0
    entries: int = 0
    messages: int = 0
    without_vector: int = 0
    refusals: int = 0
    last_refusal: str = ""


@dataclass(frozen=True)
class _New:
    """An embedder, and the length of its vectors (None: unknown)."""

    embedder: Embedder
    dimensions: int | None


async def reembed(
    runtime: Runtime, owners: Owners, agent: str | None = None, batch: int = BATCH
) -> ReembeddingCounts:
    """Give every entry and every recalled message of the agents (None: of all) a vector of the current
    embedder. Raises ConfigurationError, ModelError, RetryableError; finished batches stay."""
    agents = _agents(runtime, agent)
    messages = await _probe(runtime.embedder)
    entries = [await _probe(episodic_embedder(runtime, a), messages) for a in agents]
    counts = ReembeddingCounts()
    async for owner in _all(owners):
        counts.owners += 1
        for each, own in zip(agents, entries, strict=True):
            work = _Work(runtime, owner, each, batch, counts)
            await work.entries(own)
            await work.messages(messages)
    return counts


class _Work:
    """The texts of one owner with one agent."""

    def __init__(
        self, runtime: Runtime, owner: str, agent: Agent, batch: int, counts: ReembeddingCounts
    ) -> None:
        self._memory = runtime.memory
        self._owner = owner
        self._agent = agent
        self._batch = batch
        self._counts = counts

    async def entries(self, new: _New | None) -> None:
        after: str = ""
        while new is not None:
            model, dimensions = new.embedder.model, new.dimensions
            stale = await self._memory.stale_entries(
                self._owner, self._agent.name, model, dimensions, after, self._batch
            )
            if not stale:
                return
            vectors = await self._vectors(new.embedder, [e.content for e in stale])
            rows = [(e.id, v) for e, v in zip(stale, vectors, strict=True) if v is not None]
            await self._memory.put_entry_vectors(self._owner, model, rows)
            self._counts.entries += len(rows)
            after = stale[-1].id

    async def messages(self, new: _New | None) -> None:
        after: str = ""
        while new is not None:
            model, dimensions = new.embedder.model, new.dimensions
            stale = await self._memory.stale_messages(
                self._owner, self._agent.name, model, dimensions, after, self._batch
            )
            if not stale:
                return
            await self._index(HookedEmbedder(new.embedder, self._agent), stale)
            after = stale[-1].id

    async def _index(self, embedder: Embedder, stale: Sequence[Message]) -> None:
        names = self._agent.memory.role_prefix or {}
        pairs = [(m, recall.row_of(m, self._agent.name, names.get(m.role.value))) for m in stale]
        indexable = [(m, row) for m, row in pairs if row is not None]
        vectors = await self._vectors(
            embedder, [recall.text_to_embed(m.text) for m, _ in indexable]
        )
        rows = [
            row.model_copy(update={"vector": vector, "model": embedder.model})
            for (_, row), vector in zip(indexable, vectors, strict=True)
            if vector is not None
        ]
        await self._memory.index_messages(self._owner, rows)
        self._counts.messages += len(rows)

    async def _vectors(
        self, embedder: Embedder, texts: Sequence[str]
    ) -> list[tuple[float, ...] | None]:
        if not texts:
            return []
        result = await embed(embedder, texts)
        self._counts.without_vector += sum(v is None for v in result.vectors)
        if result.refusals:
            self._counts.refusals += len(result.refusals)
            self._counts.last_refusal = result.refusals[-1].message
        return list(result.vectors)


async def _probe(embedder: Embedder | None, previous: _New | None = None) -> _New | None:
    """Return the embedder, after a first request to it. Raises ModelError if it refuses even that, and
    ConfigurationError if its vectors are too long: no stored text is sent to it then."""
    if embedder is None:
        return None
    if previous is not None and previous.embedder is embedder:
        return previous
    result = await embed(embedder, [_PROBE])
    if result.refusals:
        raise result.refusals[0]
    if (problem := result.too_long) is not None:
        raise ConfigurationError(f"{embedder.model}: {problem}")
    (vector,) = result.vectors
    return _New(embedder, len(vector) if vector else None)


def _agents(runtime: Runtime, name: str | None) -> list[Agent]:
    agents = runtime.agents()
    if name is not None and name not in agents:
        raise ConfigurationError(unknown_agent(name, agents))
    selection = [agents[name]] if name is not None else list(agents.values())
    if runtime.embedder is None and not any(_has_own(a) for a in selection):
        raise ConfigurationError("no embedder is set (LAYOVER_EMBEDDER_MODEL)")
    return selection


def _has_own(agent: Agent) -> bool:
    settings = agent.memory.episodic
    return settings is not None and bool(settings.embedder or settings.embedding_model)


async def _all(owners: Owners) -> AsyncIterator[str]:
    after = ""
    while page := await owners.owners(after, _OWNERS):
        for owner in page:
            yield owner
        after = page[-1]
