"""Memory of a sub-agent that has it (`as_tool(..., memory=True)`): its earlier calls in the thread, its
notes, and the tools of its Memory."""

from copy import copy

from layover.context.assembly import RenderedMemory
from layover.declare.agent import Agent
from layover.declare.memory import Memory
from layover.engine.frames.turn_input import TurnInput
from layover.engine.state import RunState
from layover.memory.node.history import own_history
from layover.memory.profile.notes import note_keys, system_blocks, without_deleted, working_key
from layover.memory.tools import built_in_tools
from layover.ports import Runtime
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import PromptSnapshot


def as_sub_agent(agent: Agent, *, memory: bool) -> Agent:
    """The same agent as one that answers its caller: a conversation is no sub-agent's to give, and without
    memory it sees its briefing alone."""
    plain = copy(agent)
    plain.tools = [tool for tool in agent.tools if tool.handoff is None]
    if not memory:
        plain.memory = Memory()
    return plain


def nothing_given(state: RunState, settings: ModelSettings) -> TurnInput:
    """A sub-agent without memory sees its briefing alone."""
    base = PromptSnapshot(as_of=state.meta.input.created_at)
    return TurnInput((), base, RenderedMemory(), model_settings=settings)


async def given_to(
    runtime: Runtime, agent: Agent, state: RunState, settings: ModelSettings
) -> TurnInput:
    """As a run's own turn, but for what belongs to the thread as such: its messages, what they are condensed
    to, session and plan. What it pinned at its first step, less what was deleted meanwhile, it keeps."""
    meta = state.meta
    keys = note_keys(agent, meta.thread_id)
    notes = await runtime.memory.read_notes(meta.owner, keys) if keys else ()
    base = state.base or PromptSnapshot(as_of=meta.input.created_at, notes=notes)
    working = working_key(agent, meta.thread_id)
    return TurnInput(
        await own_history(runtime, agent, meta),
        base,
        RenderedMemory(system=system_blocks(without_deleted(n, notes) for n in base.notes)),
        built_in_tools(
            agent,
            runtime.memory,
            meta,
            runtime.clock,
            next((n for n in base.notes if n.key == working), None),
        ),
        model_settings=settings,
    )
