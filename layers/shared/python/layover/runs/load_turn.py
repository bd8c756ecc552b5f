"""The reads of a turn before its run goes on: one round trip to the database."""

from collections.abc import Sequence

from layover.context.compaction import Limits, limits_of
from layover.context.fit import learned_windows
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
from layover.plugin import Turn
from layover.runs.aside import load_heard
from layover.runtime import Runtime
from layover.values.memory.compaction import Compacted, CompactionQuery
from layover.values.memory.context import TurnContext, TurnQuery
from layover.values.message import Message
from layover.values.runs.run import RunMeta, RunSnapshot
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
    learned = learned_windows(head, snapshot.steps) if snapshot.steps else head.windows
    bounds = limits_of(runtime, agent, learned)
    turn, memory = Turn(agent, snapshot.meta, as_of, pinned, learned), runtime.agent_memory
    query = _turn_query(runtime, turn, head, bounds)
    context = await memory.read(turn, query)
    # What its compaction left out comes first: it is older than all that is behind it.
    left_out = context.compacted.left_out if context.compacted else ()
    history_of = (*(m for m in left_out if not m.is_place), *context.history)
    context = context.model_copy(update={"history": tuple(for_models(history_of))})
    history: Sequence[Message] | None = await node_history(
        runtime, agent, snapshot.meta, context.history
    )
    if history is None:
        history = _history(agent, context, query)
    others = [run_id for run_id in head.waiting_runs if run_id != snapshot.meta.id]
    if others:
        history = with_waiting_results(history, others)
    heard = await load_heard(runtime, head, snapshot) if RunState(snapshot).hears else ()
    base = pinned or memory.pin(turn, context, history)
    if pinned is None:
        # The author's function is called only before the first step, since its text is pinned as well.
        about = run_context(agent, snapshot.meta, snapshot.meta.id, as_of, head.metadata)
        changes = {"instructions": await instructions_of(agent, about), "metadata": head.metadata}
        base = base.model_copy(update=changes)
    compacted = context.compacted or Compacted()
    return TurnInput(
        history=history,
        base=base,
        # What was deleted since the run pinned it is left out: it must reach no prompt any more.
        rendered=memory.render(base, context, snapshot.meta.input),
        memory_tools=memory.tools(agent, snapshot.meta, base),
        heard=heard,
        newest_at=head.last_created_at,
        windows=learned,
        compaction=CompactionState(bounds, head, compacted) if bounds else None,
    )


def _turn_query(runtime: Runtime, turn: Turn, head: ThreadHead, bounds: Limits | None) -> TurnQuery:
    """Return the query of a turn's history, without what memory adds to it. A generation that the run has
    pinned is shown to its end, even if the agent no longer compacts."""
    memory, pinned = turn.agent.memory, turn.pinned
    buffer, compaction = memory.token_buffer, None
    generation = (pinned.generation or 0) if pinned else None
    if bounds is not None or generation:
        kind = bounds.kind if bounds else "observations"
        compaction = CompactionQuery(kind=kind, pinned=generation)
    return TurnQuery(
        head=head,
        run_id=turn.run.id,
        input=with_token_count(turn.run.input),
        window=memory.window(runtime.settings),
        pinned_depth=pinned.window_depth if pinned else None,
        max_messages=buffer.max_messages if buffer else None,
        compaction=compaction,
    )


def _history(agent: Agent, context: TurnContext, query: TurnQuery) -> list[Message]:
    if agent.memory.history == "none":
        return []
    if query.compaction is not None:
        return list(context.history)
    if agent.memory.token_buffer is not None:
        return fit_buffer(context.history, agent.memory.token_buffer)
    return from_user(context.history)
