"""Memory of a sub-agent that has it (`as_tool(..., memory=True)`): its earlier calls in the thread, its
notes, and the tools of its Memory."""

from copy import copy

from layover.context.assembly import RenderedMemory
from layover.declare.agent import Agent
from layover.declare.hooks.base import inherited_hooks
from layover.declare.memory import Memory
from layover.engine.frames.turn_input import TurnInput
from layover.engine.state import RunState
from layover.memory.node.history import own_history
from layover.memory.profile.notes import note_keys, system_blocks, without_deleted, working_key
from layover.memory.tools import built_in_tools
from layover.ports import Runtime
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import PromptSnapshot


def as_sub_agent(agent: Agent, caller: Agent, *, memory: bool) -> Agent:
    """Return the same agent as one that answers its caller. A sub-agent cannot hand the conversation over,
    and without memory it sees its briefing alone. Hooks of its caller that are `everywhere` are its own,
    too."""
    plain, forced = copy(agent), agent.model_settings.tool_choice
    plain.hooks = inherited_hooks(caller.hooks, agent.hooks)
    if any(tool.name == forced and tool.handoff is not None for tool in agent.tools):
        plain.model_settings = agent.model_settings.for_sub_agent()
    plain.handoffs = ()
    if not memory:
        plain.memory = Memory()
    plain.model_settings = _without_missing(plain)
    return plain


def _without_missing(agent: Agent) -> ModelSettings:
    """Return the agent's settings, without a `tool_choice` whose tool it does not have here."""
    choice = agent.model_settings.tool_choice
    names = {tool.name for tool in agent.tools} | agent.built_in_tools
    if choice in (None, "auto", "none", "required") or choice in names:
        return agent.model_settings
    return agent.model_settings.model_copy(update={"tool_choice": None})


def empty_input(state: RunState, settings: ModelSettings) -> TurnInput:
    """Return the input of a sub-agent without memory: it sees its briefing alone."""
    base = PromptSnapshot(as_of=state.meta.input.created_at)
    return TurnInput((), base, RenderedMemory(), model_settings=settings)


async def sub_agent_input(
    runtime: Runtime, agent: Agent, state: RunState, settings: ModelSettings
) -> TurnInput:
    """Return a sub-agent's input as for a run's own turn, without the parts that belong to the thread as
    such: its messages and their compaction, session and plan. The sub-agent keeps the snapshot of its first
    step, less what was deleted meanwhile."""
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
