"""The reads of a turn before its run goes on: one round trip to the database."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime

from layover.context.assembly import RenderedMemory, model_of
from layover.context.compaction import Limits
from layover.context.tokens import with_token_count
from layover.context.transcript import own_steps
from layover.context.waiting import with_waiting_results
from layover.context.window import fit_buffer, from_user
from layover.context.withheld import for_models
from layover.declare.agent import Agent
from layover.engine.compaction import CompactionState
from layover.engine.frames.instructions import instructions_of, run_context
from layover.engine.frames.node_history import node_history
from layover.engine.frames.turn_input import TurnInput
from layover.engine.state import RunState, pinned_of
from layover.errors import DefinitionError, RunFailed
from layover.plugins.memory.compaction.blocks import compaction_block
from layover.plugins.memory.compaction.job import limits_of
from layover.plugins.memory.episodic.entries import (
    count_cut_entries,
    episodic_embedder,
    turn_entries,
)
from layover.plugins.memory.episodic.rules import memory_block
from layover.plugins.memory.injection import Injection, choose_injection, recall_budget
from layover.plugins.memory.profile.notes import (
    client_context_block,
    note_keys,
    system_blocks,
    volatile_blocks,
    without_deleted,
    working_key,
)
from layover.plugins.memory.semantic.recall import count_cut_scope, recall_query, select_recalled
from layover.plugins.memory.semantic.rendering import recalled_block
from layover.plugins.memory.tools import built_in_tools
from layover.plugins.memory.usage import meter
from layover.runs.aside import load_heard
from layover.runtime import Runtime
from layover.values.memory.compaction import Compacted, CompactionQuery
from layover.values.memory.context import TurnContext, TurnQuery
from layover.values.message import Message
from layover.values.runs.run import PinnedText, PromptSnapshot, RunMeta, RunSnapshot
from layover.values.span import MemoryRead
from layover.values.thread import ThreadHead


def agent_of(runtime: Runtime, meta: RunMeta) -> Agent:
    """Return the run's agent. Raises RunFailed, with the name, if the agents' module cannot be imported or
    the agent is gone."""
    try:
        agent = runtime.agents().get(meta.agent)
    except DefinitionError as error:
        raise RunFailed(error.message, type=type(error).__name__, run_id=meta.id) from error
    if agent is None:
        raise RunFailed(f"there is no agent {meta.agent!r}", type="UnknownAgent", run_id=meta.id)
    return agent


async def load_turn_input(
    runtime: Runtime, agent: Agent, head: ThreadHead, snapshot: RunSnapshot
) -> TurnInput:
    """Return the history and memory's additions. A run that has a step keeps the snapshot that it pinned
    then, minus what has been deleted since. Raises RunFailed if the agent's instructions do."""
    # The first journaled step pins it. Until then, each attempt builds a new prompt.
    pinned = pinned_of(own_steps(snapshot), snapshot.meta.agent)
    as_of = runtime.clock.now()
    bounds = limits_of(runtime, agent)
    query = turn_query(runtime, agent, head, snapshot, pinned=pinned, bounds=bounds)
    if pinned is None:
        context = await _search(runtime, agent, snapshot.meta, query, as_of)
    else:
        context = await runtime.threads.open_turn(query)
    context = context.model_copy(update={"history": tuple(for_models(context.history))})
    count_cut_entries(runtime, agent, context)
    count_cut_scope(runtime, agent, context)
    history: Sequence[Message] | None = await node_history(
        runtime, agent, snapshot.meta, context.history
    )
    if history is None:
        history = _history(agent, context, query)
    others = [run_id for run_id in head.waiting_runs if run_id != snapshot.meta.id]
    if others:
        history = with_waiting_results(history, others)
    heard = await load_heard(runtime, head, snapshot) if RunState(snapshot).hears else ()
    base = pinned or make_snapshot(
        agent, context, _injection(runtime, agent, snapshot.meta, context, history, as_of), as_of
    )
    if pinned is None:
        # The author's function is called only before the first step, since its text is pinned as well.
        about = run_context(agent, snapshot.meta, snapshot.meta.id, as_of, head.metadata)
        changes = {"instructions": await instructions_of(agent, about), "metadata": head.metadata}
        base = base.model_copy(update=changes)
    note_key = working_key(agent, head.id)
    tools = built_in_tools(
        agent,
        runtime.memory,
        snapshot.meta,
        runtime.clock,
        prompt_note=next((n for n in base.notes if n.key == note_key), None),
        embedder=meter(runtime, head.owner, episodic_embedder(runtime, agent, snapshot.meta)),
    )
    compacted = context.compacted or Compacted()
    return TurnInput(
        history=history,
        base=base,
        # What was deleted since the run pinned it is left out: it must reach no prompt any more.
        rendered=render_memory(base, context, snapshot.meta.input),
        memory_tools=tools,
        heard=heard,
        newest_at=head.last_created_at,
        compaction=CompactionState(bounds, head, compacted) if bounds else None,
    )


async def _search(
    runtime: Runtime, agent: Agent, meta: RunMeta, query: TurnQuery, as_of: datetime
) -> TurnContext:
    """Return the history, and what memory has for the run's input. The embedder is asked only for what gets
    pinned, and before the database, which then searches by the vector in the round trip that reads the
    history."""
    memory = agent.memory
    searches = memory.semantic_recall or (memory.episodic and memory.episodic.inject)
    has_memory = searches or query.notes or query.thread_state or query.compaction
    with (
        runtime.tracing.search(meta, agent.name)
        if has_memory
        else nullcontext(MemoryRead()) as read
    ):
        recall, usage = await recall_query(runtime, agent, meta, as_of)
        entries, spent = await turn_entries(runtime, agent, meta, as_of, recall)
        recall_fields = {"recall": recall, "entries": entries, "usage": usage + spent}
        context = await runtime.threads.open_turn(query.model_copy(update=recall_fields))
        _count(read, context)
    return context


def _count(read: MemoryRead, context: TurnContext) -> None:
    """Note what memory has given."""
    notes = [note for note in context.notes if note.version]
    compacted = context.compacted or Compacted()
    messages = [each.message.text for each in context.recalled]
    observations = [each.text for each in compacted.observations]
    observations += [compacted.summary] if compacted.summary else []
    read.notes, read.messages = len(notes), len(messages)
    read.entries, read.observations = len(context.entries.items), len(observations)
    entries = [each.content for each in context.entries.items]
    state = [each for each in (context.state.session, context.state.plan) if each]
    read.texts = (*(note.value for note in notes), *state, *messages, *entries, *observations)


def turn_query(
    runtime: Runtime,
    agent: Agent,
    head: ThreadHead,
    snapshot: RunSnapshot,
    *,
    pinned: PromptSnapshot | None,
    bounds: Limits | None,
) -> TurnQuery:
    """Return the query of a turn. For pinned items it only checks that they still exist."""
    memory = agent.memory
    buffer = memory.token_buffer
    return TurnQuery(
        head=head,
        run_id=snapshot.meta.id,
        input=with_token_count(snapshot.meta.input),
        window=memory.window(runtime.settings),
        pinned_depth=pinned.window_depth if pinned else None,
        max_messages=buffer.max_messages if buffer else None,
        notes=note_keys(agent, head.id),
        thread_state=pinned is None and (memory.session or memory.plan),
        compaction=_compaction(pinned, bounds),
        pinned=tuple(p.id for p in (*pinned.recalled, *pinned.entries)) if pinned else (),
    )


def _compaction(pinned: PromptSnapshot | None, bounds: Limits | None) -> CompactionQuery | None:
    """Return the query for the compaction. A generation that the run has pinned is shown to its end, even if
    the agent no longer compacts."""
    pinned_generation = (pinned.generation or 0) if pinned else None
    if bounds is None and not pinned_generation:
        return None
    return CompactionQuery(kind=bounds.kind if bounds else "observations", pinned=pinned_generation)


def _injection(
    runtime: Runtime,
    agent: Agent,
    meta: RunMeta,
    context: TurnContext,
    history: Sequence[Message],
    as_of: datetime,
) -> Injection:
    """Return the part of what memory's searches found that the run's prompts show."""
    query = meta.input.text
    model = model_of(agent, runtime.settings, meta)
    window = runtime.window_of(model, meta.choice.apply(agent.model_settings))
    return choose_injection(
        select_recalled(
            agent,
            runtime.settings,
            runtime.embedder.model if runtime.embedder else None,
            query,
            context.recalled,
            history,
        ),
        context.entries.items,
        query,
        recall_budget(agent.memory, window),
        as_of,
        agent.memory.role_prefix,
    )


def make_snapshot(
    agent: Agent, context: TurnContext, injection: Injection, as_of: datetime
) -> PromptSnapshot:
    """Return the context that a run pins at its first step: every later rendering is the same."""
    generation = context.compacted.generation if context.compacted else None
    return PromptSnapshot(
        as_of=as_of,
        window_depth=context.window_depth,
        generation=generation.number if generation else None,
        through=generation.through_message_id if generation else None,
        notes=context.notes,
        volatile=volatile_blocks(context.state) or None,
        recalled=_pinned(injection.recalled),
        entries=_pinned(injection.entries),
    )


def render_memory(
    base: PromptSnapshot, context: TurnContext, input_message: Message
) -> RenderedMemory:
    """Return the pinned context as text, less all that is deleted by now, and the client's."""
    deleted_ids = set(context.gone)
    recalled = (
        recalled_block([p.text for p in base.recalled if p.id not in deleted_ids]),
        memory_block([p.text for p in base.entries if p.id not in deleted_ids]),
    )
    client_context = client_context_block(input_message)
    return RenderedMemory(
        system=system_blocks(without_deleted(n, context.notes) for n in base.notes),
        block=compaction_block(context.compacted),
        through=base.through,
        volatile=_joined(base.volatile, *recalled, client_context),
        instructions=base.instructions,
        volatile_without_recall=_joined(base.volatile, client_context) if any(recalled) else None,
    )


def _joined(*blocks: str | None) -> str:
    return "\n\n".join(filter(None, blocks))


def _pinned(texts: dict[str, str]) -> tuple[PinnedText, ...]:
    return tuple(PinnedText(id=id, text=text) for id, text in texts.items())


def _history(agent: Agent, context: TurnContext, query: TurnQuery) -> list[Message]:
    if agent.memory.history == "none":
        return []
    if query.compaction is not None:
        return list(context.history)
    if agent.memory.token_buffer is not None:
        return fit_buffer(context.history, agent.memory.token_buffer)
    return from_user(context.history)
