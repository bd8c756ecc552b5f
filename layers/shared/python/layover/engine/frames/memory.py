"""Memory of a sub-agent that has it (`as_tool(..., memory=True)`): its earlier calls in the thread, its
notes, and the tools of its Memory."""

from contextlib import nullcontext
from copy import copy

from layover.declare.agent import Agent
from layover.declare.hooks.base import inherited_hooks
from layover.declare.memory import Memory
from layover.engine.frames.node_history import own_history
from layover.engine.frames.turn_input import TurnInput
from layover.engine.state import RunState
from layover.runtime import Runtime
from layover.values.memory.context import TurnContext
from layover.values.memory.rendered import RenderedMemory
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import PromptSnapshot
from layover.values.span import MemoryRead


def as_sub_agent(agent: Agent, caller: Agent, *, memory: bool) -> Agent:
    """Return the same agent as one that answers its caller. A sub-agent cannot hand the conversation over,
    and without memory it sees only its briefing. It is not forced to call a tool that it lacks as a
    sub-agent."""
    plain = copy(agent)
    plain.hooks_above = inherited_hooks((*caller.hooks, *caller.hooks_above), agent.hooks)
    if not memory:
        plain.memory = Memory()
    lacks = agent.built_in_tools - plain.built_in_tools
    lacks |= {tool.name for tool in agent.tools if tool.handoff is not None}
    if agent.model_settings.tool_choice in lacks:
        plain.model_settings = agent.model_settings.model_copy(update={"tool_choice": None})
    plain.handoffs = ()
    return plain


def empty_input(state: RunState, settings: ModelSettings) -> TurnInput:
    """Return the input of a sub-agent without memory: it sees only its briefing."""
    base = PromptSnapshot(as_of=state.meta.input.created_at)
    return TurnInput((), base, RenderedMemory(), model_settings=settings)


async def sub_agent_input(
    runtime: Runtime, agent: Agent, state: RunState, settings: ModelSettings
) -> TurnInput:
    """Return a sub-agent's input like that of a run's own turn, without the parts that belong to the thread:
    its messages and their compaction, its session memory and its plan. The sub-agent keeps the snapshot of
    its first step, minus what has been deleted since."""
    meta, memory = state.meta, runtime.agent_memory
    # One that goes on keeps what was found.
    searches = (
        nullcontext(MemoryRead())
        if state.base
        else runtime.tracing.search(meta, agent.name, state.path)
    )
    with searches as read:
        notes = tuple(await memory.read_notes(agent, meta))
        history = await own_history(runtime, agent, meta)
        present = [note for note in notes if note.version]
        read.notes, read.messages = len(present), len(history)
        read.texts = (*(note.value for note in present), *(m.text for m in history))
    base = state.base or PromptSnapshot(as_of=meta.input.created_at, notes=notes)
    return TurnInput(
        history,
        base,
        memory.render(base, TurnContext(notes=notes), meta.input),
        memory.tools(agent, meta, base, embeds=False),
        model_settings=settings,
    )
