"""Semantic recall around a turn: what it looks for, and what the next one can find (BEHAVIOUR 8)."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from layover.context.transcript import response_messages
from layover.declare.agent import Agent
from layover.errors import LayoverError
from layover.memory import recall
from layover.ports import Embedder, Runtime
from layover.services.spending import embedding_spent
from layover.values.context import RecallQuery, StepUsage, TurnContext
from layover.values.metrics import Metric
from layover.values.prompt import Embedded
from layover.values.run import RunMeta, RunSnapshot

PATIENCE = timedelta(seconds=2)
"""For the vector of a query; then words alone are searched."""
_warned: set[str] = set()
logger = logging.getLogger("layover")


async def recall_query(
    runtime: Runtime, agent: Agent, meta: RunMeta, as_of: datetime
) -> tuple[RecallQuery | None, tuple[StepUsage, ...]]:
    """What the run's input looks for (None where the agent recalls nothing), and what its vector cost."""
    settings, text = agent.memory.semantic_recall, meta.input.text.strip()
    embedder = _embedder(runtime, agent)
    if settings is None or embedder is None or not text:
        return None, ()
    thread_id = meta.thread_id if settings.scope == "thread" else None
    if thread_id is not None and meta.input.parent_id is None:
        return None, ()  # nothing was said before: neither the embedder nor the database is asked
    embedded = await _query_vector(runtime, embedder, meta, thread_id, text)
    query = RecallQuery(
        agent=agent.name,
        text=text[: recall.MOST_CHARACTERS],
        vector=recall.usable(embedded.vectors[0]) if embedded else None,
        model=embedder.model,
        top_k=settings.matches(runtime.settings),
        before=settings.before,
        after=settings.after,
        thread_id=thread_id,
        now=as_of,
    )
    return query, embedding_spent(runtime, meta, "recall", embedded) if embedded else ()


def note_scope(runtime: Runtime, agent: Agent, context: TurnContext) -> None:
    """Count where the oldest texts of a scope were not searched."""
    if context.recall_cut:
        runtime.metrics.count(Metric.RECALL_SCOPE_CUT, agent=agent.name)


async def index(
    runtime: Runtime, agent: Agent | None, snapshot: RunSnapshot, *, embeds: bool = True
) -> None:
    """Keep the run's texts for later turns, where the agent recalls. An embedder that fails or is not
    asked costs the vectors: the words are kept all the same, and `layover reembed` makes up for it.
    Raises RetryableError (the database)."""
    embedder = _embedder(runtime, agent) if agent else None
    if agent is None or embedder is None:
        return
    names = agent.memory.role_prefix or {}
    messages = [snapshot.meta.input, *response_messages(snapshot)]
    pairs = [(m, recall.indexed(m, agent.name, names.get(m.role.value))) for m in messages]
    rows = [row for _, row in pairs if row is not None]
    spoken = [recall.spoken(m.text) for m, row in pairs if row is not None]
    embedded = await _embedded(embedder, snapshot.meta, spoken) if embeds else None
    usage: tuple[StepUsage, ...] = ()
    if embedded is not None:
        rows = [
            row.model_copy(update={"vector": recall.usable(vector), "model": embedder.model})
            for row, vector in zip(rows, embedded.vectors, strict=True)
        ]
        usage = embedding_spent(runtime, snapshot.meta, "embedding", embedded)
    await runtime.memory.index_messages(
        snapshot.meta.owner, rows, run_id=snapshot.meta.id, usage=usage
    )


def _embedder(runtime: Runtime, agent: Agent) -> Embedder | None:
    """The embedder of an agent that recalls. One that names recall where no embedder is set: off, and
    one warning."""
    if agent.memory.semantic_recall is None:
        return None
    if runtime.embedder is None and agent.name not in _warned:
        _warned.add(agent.name)
        logger.warning(
            "semantic recall is off: no embedder is set (LAYOVER_EMBEDDER_MODEL)",
            extra={"agent": agent.name},
        )
    return runtime.embedder


async def _query_vector(
    runtime: Runtime, embedder: Embedder, meta: RunMeta, thread_id: str | None, text: str
) -> Embedded | None:
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            common = await _common_words(runtime, meta, thread_id, text)
            return await embedder.embed([recall.vector_text(text, common)])
    except Exception as error:
        logger.warning(
            "recall by words alone", extra={"run_id": meta.id, "cause": type(error).__name__}
        )
        return None


async def _common_words(
    runtime: Runtime, meta: RunMeta, thread_id: str | None, text: str
) -> frozenset[str]:
    """None of them where the database sleeps: the turn waits for it later, and only once."""
    words = recall.query_words(text[: recall.MOST_CHARACTERS])
    try:
        async with asyncio.timeout(PATIENCE.total_seconds() / 2):
            return await runtime.memory.common_words(meta.owner, meta.agent, thread_id, words)
    except (LayoverError, TimeoutError):
        return frozenset()


async def _embedded(embedder: Embedder, meta: RunMeta, spoken: Sequence[str]) -> Embedded | None:
    try:
        return await embedder.embed(spoken) if spoken else None
    except Exception as error:
        logger.warning(
            "texts kept without vectors", extra={"run_id": meta.id, "cause": type(error).__name__}
        )
        return None
