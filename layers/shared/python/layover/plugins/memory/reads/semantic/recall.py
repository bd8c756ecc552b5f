"""Semantic recall around a turn: its query, and the texts that the next turn can find
(docs/behaviour.md#semantic-recall)."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from layover.context.hooked import embedded_text, hooked_embedder
from layover.context.transcript import response_messages
from layover.context.withheld import input_of
from layover.declare.agent import Agent
from layover.declare.memory import NodeMemory
from layover.errors import LayoverError
from layover.plugins.memory import ranking
from layover.plugins.memory.reads.semantic import query as recall
from layover.plugins.memory.reads.semantic.cosines import min_cosine
from layover.plugins.memory.reads.semantic.embedding import Vectors, embed
from layover.plugins.memory.text.courtesies import is_courtesy
from layover.plugins.memory.text.index_words import alternatives, index_words
from layover.plugins.memory.usage import embedding_usage, meter, trace_requests
from layover.ports import Embedder
from layover.runtime import Runtime
from layover.values.deployment.settings import Settings
from layover.values.memory.context import (
    IndexedText,
    Recalled,
    RecallQuery,
    StepUsage,
    TurnContext,
)
from layover.values.message import Message
from layover.values.metrics import Metric
from layover.values.runs.run import RunMeta, RunSnapshot

QUERY_TIMEOUT = timedelta(seconds=2)
"""The time limit for a query's vector; after that only words are searched."""
IMPORT_TIMEOUT = timedelta(seconds=12)
"""The time limit for the vectors of imported messages, within a request; then they have none yet."""
MAX_IN_PROMPT = 100
"""Matches requested beyond the wanted number, since some may be in the prompt already."""
_FLOW = range(-len(ranking.NEXT_WEIGHTS), len(ranking.PREVIOUS_WEIGHTS) + 1)
"""Steps from a message to those that it finds as their neighbour."""
_warned_agents: set[str] = set()
logger = logging.getLogger("layover")


async def recall_query(
    runtime: Runtime, agent: Agent, meta: RunMeta, as_of: datetime
) -> tuple[RecallQuery | None, tuple[StepUsage, ...]]:
    """Return the search for the run's input (None if the agent recalls nothing) and its vector's cost."""
    settings, text = agent.memory.semantic_recall, meta.input.text.strip()
    embedder = _embedder(runtime, agent, meta)
    if settings is None or embedder is None or not text or is_courtesy(text):
        return None, ()
    thread_id = meta.thread_id if settings.scope == "thread" else None
    if thread_id is not None and meta.input.parent_id is None:
        return (
            None,
            (),
        )  # nothing was said before, so neither the embedder nor the database is asked
    in_prompt = _max_in_prompt(runtime.settings, agent)
    embedding = await _query_vector(runtime, agent, embedder, meta, thread_id, text)
    query = RecallQuery(
        agent=agent.name,
        text=text,
        vector=recall.joint_vector(embedding.vectors) if embedding else None,
        model=embedder.model,
        top_k=settings.matches(runtime.settings) + in_prompt,
        before=settings.before,
        after=settings.after,
        thread_id=thread_id,
        now=as_of,
        whole_path=in_prompt > 0,
    )
    return query, embedding_usage(runtime, meta, "recall", embedding.answer) if embedding else ()


def select_recalled(
    agent: Agent,
    settings: Settings,
    embedder: str | None,
    query: str,
    recalled: Sequence[Recalled],
    history: Sequence[Message],
) -> list[Recalled]:
    """Return the best matches of a query with their neighbours, minus the messages that the prompt's history
    shows and those that have nothing to do with the query. `embedder`: the label of the one that compared
    vectors."""
    options = agent.memory.semantic_recall
    if options is None or not recalled:
        return []
    history_ids = {m.id for m in history} if _max_in_prompt(settings, agent) else set()
    others = [r for r in recalled if r.message.id not in history_ids]
    near_places = _relevant_places(agent, embedder, query, recalled)
    matches = [r for r in others if r.match and _place(r) in near_places]
    matches.sort(key=lambda r: (r.score or 0.0, r.message.created_at), reverse=True)
    best = matches[: options.matches(settings)]
    nearby = range(-options.before, options.after + 1)
    places = {_place(r, n) for r in best for n in nearby}
    best_ids = {r.message.id for r in best}
    return [
        r.model_copy(update={"match": r.message.id in best_ids})
        for r in others
        if _place(r) in places
    ]


def _relevant_places(
    agent: Agent, embedder: str | None, query: str, recalled: Sequence[Recalled]
) -> set[tuple[str, int]]:
    """Return the places of messages that share a topic with the query, or are near to it by their vector, and
    the places of those that they find. Ranks are relative: the best of a scope may be far."""
    topics = alternatives(recall.topic_words(query))
    least = min_cosine(embedder)
    names = agent.memory.role_prefix or {}
    places: set[tuple[str, int]] = set()
    for each in recalled:
        row = recall.row_of(each.message, agent.name, names.get(each.message.role.value))
        is_near = each.vector_score is not None and each.vector_score >= least
        if is_near or (row is not None and not topics.isdisjoint(index_words(row.text))):
            places |= {_place(each, step) for step in _FLOW}
    return places


def _place(recalled: Recalled, step: int = 0) -> tuple[str, int]:
    return recalled.message.thread_id, recalled.place + step


def count_cut_scope(runtime: Runtime, agent: Agent, context: TurnContext) -> None:
    """Count a search that left out the oldest texts of a scope."""
    if context.recall_cut:
        runtime.metrics.count(Metric.RECALL_SCOPE_CUT, agent=agent.name)


async def index(
    runtime: Runtime, agent: Agent | None, snapshot: RunSnapshot, *, embeds: bool = True
) -> None:
    """Store the run's texts for later turns, if the agent recalls. If the embedder fails or is not asked, the
    words are stored without vectors, and `layover reembed` adds those later. Raises RetryableError (the
    database)."""
    embedder = hooked_embedder(agent, _embedder(runtime, agent, snapshot.meta)) if agent else None
    if agent is None or embedder is None:
        return
    with runtime.tracing.memory(snapshot.meta, "index", agent.name):
        await _index(runtime, agent, snapshot, embedder, embeds=embeds)


async def _index(
    runtime: Runtime, agent: Agent, snapshot: RunSnapshot, embedder: Embedder, *, embeds: bool
) -> None:
    rows, texts = _rows(agent, [input_of(snapshot), *response_messages(snapshot)])
    embedding = await _embed(embedder, snapshot.meta, texts) if embeds else None
    usage: tuple[StepUsage, ...] = ()
    if embedding is not None:
        rows = _with_vectors(rows, embedding, embedder)
        usage = embedding_usage(runtime, snapshot.meta, "embedding", embedding.answer)
    await runtime.memory.index_messages(
        snapshot.meta.owner, rows, run_id=snapshot.meta.id, usage=usage
    )


async def texts_of_import(
    runtime: Runtime, owner: str, agent: Agent, messages: Sequence[Message], *, embeds: bool
) -> tuple[IndexedText, ...]:
    """Return imported messages as later turns will find them; none if the agent does not recall. If the
    embedder fails, takes too long or may not be asked (`embeds`), they have no vectors, and `layover reembed`
    adds those later."""
    own = runtime.embedder if agent.memory.semantic_recall else None
    embedder = hooked_embedder(agent, meter(runtime, owner, own))
    if embedder is None:
        return ()
    rows, texts = _rows(agent, messages)
    if not texts or not embeds:
        return tuple(rows)
    try:
        async with asyncio.timeout(IMPORT_TIMEOUT.total_seconds()):
            embedding = await embed(embedder, texts)
    except Exception as error:
        logger.warning("texts imported without vectors", extra={"cause": type(error).__name__})
        return tuple(rows)
    return tuple(_with_vectors(rows, embedding, embedder))


def _rows(agent: Agent, messages: Sequence[Message]) -> tuple[list[IndexedText], list[str]]:
    """Return the texts of messages as they are found, and the parts of them to embed."""
    names = agent.memory.role_prefix or {}
    pairs = [
        (m, recall.row_of(m, agent.name, names.get(m.role.value)))
        for m in messages
        if not m.refused
    ]
    rows = [row for _, row in pairs if row is not None]
    return rows, [recall.text_to_embed(m.text) for m, row in pairs if row is not None]


def _with_vectors(
    rows: Sequence[IndexedText], embedding: Vectors, embedder: Embedder
) -> list[IndexedText]:
    return [
        row.model_copy(update={"vector": vector, "model": embedder.model})
        for row, vector in zip(rows, embedding.vectors, strict=True)
    ]


def _max_in_prompt(settings: Settings, agent: Agent) -> int:
    """Return the number of matches that the prompt may show already, if the store cannot know: a token buffer
    is filled later, and a node has its own history."""
    memory = agent.memory
    if memory.token_buffer is not None:
        return min(memory.token_buffer.max_messages, MAX_IN_PROMPT)
    if isinstance(memory.history, NodeMemory):
        return min(2 * memory.window(settings), MAX_IN_PROMPT)
    return 0


def _embedder(runtime: Runtime, agent: Agent, run: RunMeta) -> Embedder | None:
    """Return the embedder of an agent that recalls. Without a configured one, recall is off, and one warning
    is logged."""
    if agent.memory.semantic_recall is None:
        return None
    if runtime.embedder is None and agent.name not in _warned_agents:
        _warned_agents.add(agent.name)
        logger.warning(
            "semantic recall is off: no embedder is set (LAYOVER_EMBEDDER_MODEL)",
            extra={"agent": agent.name},
        )
    return trace_requests(runtime, run, agent.name, runtime.embedder)


async def _query_vector(
    runtime: Runtime,
    agent: Agent,
    embedder: Embedder,
    meta: RunMeta,
    thread_id: str | None,
    text: str,
) -> Vectors | None:
    try:
        async with asyncio.timeout(QUERY_TIMEOUT.total_seconds()):
            common = await _common_words(runtime, meta, thread_id, text)
            # Hooks see the whole text, once, because they would not recognise a part of a name.
            whole = await embedded_text(agent, text)
            return await embed(embedder, recall.vector_texts(whole, common))
    except Exception as error:
        logger.warning(
            "recall by words only", extra={"run_id": meta.id, "cause": type(error).__name__}
        )
        return None


async def _common_words(
    runtime: Runtime, meta: RunMeta, thread_id: str | None, text: str
) -> frozenset[str]:
    """Return the common words; an empty list if the database sleeps, since the turn waits for it later, and
    only once."""
    candidates = recall.query_words(text)
    try:
        async with asyncio.timeout(QUERY_TIMEOUT.total_seconds() / 2):
            return await runtime.memory.common_words(meta.owner, meta.agent, thread_id, candidates)
    except (LayoverError, TimeoutError):
        return frozenset()


async def _embed(embedder: Embedder, meta: RunMeta, texts: Sequence[str]) -> Vectors | None:
    try:
        return await embed(embedder, texts) if texts else None
    except Exception as error:
        logger.warning(
            "texts kept without vectors", extra={"run_id": meta.id, "cause": type(error).__name__}
        )
        return None
