"""Episodic memory in a turn: the search for its input (docs/behaviour.md#episodic-prompt)."""

import logging
from datetime import datetime

from layover.context.hooked import hooked_embedder
from layover.declare.agent import Agent
from layover.plugins.memory.reads.episodic import search as entry_search
from layover.plugins.memory.text.courtesies import is_courtesy
from layover.plugins.memory.usage import embedding_usage, trace_requests
from layover.ports import Embedder
from layover.runtime import Runtime
from layover.values.memory.context import RecallQuery, StepUsage, TurnContext
from layover.values.memory.entry import EntryQuery
from layover.values.metrics import Metric
from layover.values.runs.run import RunMeta

_warned_agents: set[str] = set()
logger = logging.getLogger("layover")


def episodic_embedder(
    runtime: Runtime, agent: Agent, run: RunMeta | None = None
) -> Embedder | None:
    """Return the embedder of the agent's entries: its own, that of the model it names, or the deployment's.
    None: search by words only, with one warning. `run`: whose trace has its requests."""
    settings = agent.memory.episodic
    if settings is None:
        return None
    embedder: Embedder | None = settings.embedder or runtime.embedder
    if settings.embedder is None and settings.embedding_model and runtime.embedder_named:
        embedder = runtime.embedder_named(settings.embedding_model)
    if embedder is None and agent.name not in _warned_agents:
        _warned_agents.add(agent.name)
        logger.warning(
            "episodic memory searches by words only: no embedder is set (LAYOVER_EMBEDDER_MODEL)",
            extra={"agent": agent.name},
        )
    if run is not None:
        embedder = trace_requests(runtime, run, agent.name, embedder)
    return hooked_embedder(agent, embedder)


async def turn_entries(
    runtime: Runtime,
    agent: Agent,
    meta: RunMeta,
    as_of: datetime,
    recall_query: RecallQuery | None = None,
) -> tuple[EntryQuery | None, tuple[StepUsage, ...]]:
    """Return the search for the run's input (None if nothing is injected) and the cost of its vector.
    `recall_query`: semantic recall's query; the vector of the same embedder is used for both."""
    settings, text = agent.memory.episodic, meta.input.text.strip()
    if settings is None or not settings.inject or not text or is_courtesy(text):
        return None, ()
    embedder = episodic_embedder(runtime, agent, meta)
    is_same_model = embedder and recall_query and recall_query.model == embedder.model
    vector_source = recall_query if is_same_model else None
    query = entry_search.entry_query(
        agent.name,
        settings,
        text,
        as_of,
        top_k=settings.inject,
        not_thread=meta.thread_id,
        vector=vector_source.vector if vector_source else None,
        model=vector_source.model if vector_source else None,
    )
    if vector_source is not None:
        return query, ()
    search = await entry_search.embed_query(query, embedder)
    usage = embedding_usage(runtime, meta, "memory", search.embedding) if search.embedding else ()
    return search.query, usage


def count_cut_entries(runtime: Runtime, agent: Agent, context: TurnContext) -> None:
    """Count a search that left out the oldest entries of a scope."""
    if context.entries.cut:
        runtime.metrics.count(Metric.ENTRY_SCOPE_CUT, agent=agent.name)
