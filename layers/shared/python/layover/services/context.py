"""What a turn reads before its run goes on: one round trip to the database (DESIGN 3)."""

from collections.abc import Sequence

from layover.context.window import buffered, from_user
from layover.declare.agent import Agent
from layover.engine.loop import Given
from layover.ports import Runtime
from layover.values.context import TurnContext, TurnQuery
from layover.values.message import Message
from layover.values.run import ContextBase, RunSnapshot
from layover.values.thread import ThreadHead


async def given_for(
    runtime: Runtime, agent: Agent, head: ThreadHead, snapshot: RunSnapshot
) -> Given:
    """The history and what memory adds. A run that has a step keeps what it pinned then."""
    pinned = snapshot.steps[0].base if snapshot.steps else None
    context = await runtime.threads.open_turn(turn_query(runtime, agent, head, snapshot, pinned))
    base = pinned or ContextBase(as_of=runtime.clock.now(), window_depth=context.window_depth)
    return Given(history=_history(agent, context), base=base)


def turn_query(
    runtime: Runtime,
    agent: Agent,
    head: ThreadHead,
    snapshot: RunSnapshot,
    pinned: ContextBase | None,
) -> TurnQuery:
    """What to read. What is pinned already is not read again."""
    buffer = agent.memory.token_buffer
    return TurnQuery(
        head=head,
        run_id=snapshot.meta.id,
        input=snapshot.meta.input,
        window=agent.memory.window(runtime.settings),
        pinned_depth=pinned.window_depth if pinned else None,
        max_messages=buffer.max_messages if buffer else None,
    )


def _history(agent: Agent, context: TurnContext) -> Sequence[Message]:
    if agent.memory.token_buffer is not None:
        return buffered(context.history, agent.memory.token_buffer)
    return from_user(context.history)
