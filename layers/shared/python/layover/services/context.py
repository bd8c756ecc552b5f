"""What a turn reads before its run goes on: one round trip to the database (DESIGN 3)."""

from datetime import datetime

from layover.context.window import buffered, from_user
from layover.declare.agent import Agent
from layover.engine.loop import Given
from layover.memory.builtin import built_in_tools
from layover.memory.notes import note_keys, system_blocks, volatile_blocks
from layover.memory.recalled import recalled_block
from layover.ports import Runtime
from layover.services.node_history import node_history
from layover.services.recall import recall_query
from layover.values.context import Recalled, TurnContext, TurnQuery
from layover.values.message import Message
from layover.values.run import ContextBase, RunSnapshot
from layover.values.thread import ThreadHead


async def given_for(
    runtime: Runtime, agent: Agent, head: ThreadHead, snapshot: RunSnapshot
) -> Given:
    """The history and what memory adds. A run that has a step keeps what it pinned then."""
    pinned = snapshot.steps[0].base if snapshot.steps else None
    # Before the reading: what somebody writes after it was not seen (`built_in_tools`).
    as_of = runtime.clock.now()
    query = turn_query(runtime, agent, head, snapshot, pinned)
    if pinned is None:
        wanted = await recall_query(runtime, agent, snapshot.meta, as_of)
        query = query.model_copy(update={"recall": wanted})
    context = await runtime.threads.open_turn(query)
    base = pinned or base_of(agent, context, as_of)
    tools = built_in_tools(agent, runtime.memory, snapshot.meta, runtime.clock, base.as_of)
    history = await node_history(runtime, agent, snapshot.meta, context.history)
    if history is None:
        history = _history(agent, context)
    return Given(history=history, base=base, memory_tools=tools)


def turn_query(
    runtime: Runtime,
    agent: Agent,
    head: ThreadHead,
    snapshot: RunSnapshot,
    pinned: ContextBase | None,
) -> TurnQuery:
    """What to read. What is pinned already is not read again."""
    memory = agent.memory
    buffer = memory.token_buffer
    return TurnQuery(
        head=head,
        run_id=snapshot.meta.id,
        input=snapshot.meta.input,
        window=memory.window(runtime.settings),
        pinned_depth=pinned.window_depth if pinned else None,
        max_messages=buffer.max_messages if buffer else None,
        notes=() if pinned else note_keys(agent, head.id),
        thread_state=pinned is None and (memory.session or memory.plan),
    )


def base_of(agent: Agent, context: TurnContext, as_of: datetime) -> ContextBase:
    """What a run pins at its first step: whoever renders it later, it reads the same."""
    recalled = _not_shown(agent, context)
    parts = (
        volatile_blocks(context.state),
        recalled_block(recalled, agent.memory.role_prefix),
    )
    return ContextBase(
        as_of=as_of,
        window_depth=context.window_depth,
        system=system_blocks(context.notes) or None,
        volatile="\n\n".join(filter(None, parts)) or None,
        recalled=tuple(r.message.id for r in recalled),
    )


def _not_shown(agent: Agent, context: TurnContext) -> list[Recalled]:
    """Recalled messages without what a token buffer shows: the store does not know how much fits."""
    if agent.memory.token_buffer is None:
        return list(context.recalled)
    shown = {m.id for m in _history(agent, context)}
    return [r for r in context.recalled if r.message.id not in shown]


def _history(agent: Agent, context: TurnContext) -> list[Message]:
    if agent.memory.token_buffer is not None:
        return buffered(context.history, agent.memory.token_buffer)
    return from_user(context.history)
