"""Tools that are a function of the run. Each process that goes on with the run calls the function with the
facts that the run pinned at its first step, and keeps to the names that the tools had then."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace

from layover.declare.agent import Agent
from layover.declare.blocking import call_author
from layover.declare.context import RunContext
from layover.declare.tools.delegate import sub_agents
from layover.declare.tools.tool import AnyTool, Tool
from layover.engine.dependencies import with_deps
from layover.engine.frames.instructions import run_context
from layover.engine.frames.turn_input import TurnInput
from layover.engine.isolation import isolate
from layover.engine.state import RunState
from layover.errors import DefinitionError, RunFailed
from layover.runtime import Runtime
from layover.values.runs.run import PromptSnapshot


async def tools_of(
    agent: Agent, ctx: RunContext, pinned: Sequence[str] | None
) -> tuple[AnyTool, ...] | None:
    """Return the tools of this run; None: those of the agent's list. `pinned`: the names at its first step.
    Raises RunFailed if the function raises, or returns tools that no agent could have."""
    if agent.make_tools is None:
        return None
    try:
        tools = await isolate(call_author(agent.make_tools, ctx))
    except Exception as error:
        message = f"the tools of agent {agent.name!r} failed: {error}"
        raise RunFailed(message, type=type(error).__name__, run_id=ctx.run_id) from error
    if not isinstance(tools, Sequence) or not all(isinstance(tool, Tool) for tool in tools):
        message = (
            f"the function that gives agent {agent.name!r} its tools did not return a list of tools"
        )
        raise RunFailed(message, type="DefinitionError", run_id=ctx.run_id)
    tools_by_name = {tool.name: tool for tool in tools}
    # A removed tool is not found when it is called. A tool that was added later is for the next run.
    if pinned is None:
        return tuple(tools)
    return tuple(tools_by_name[name] for name in pinned if name in tools_by_name)


async def with_run_tools(agent: Agent, state: RunState, turn_input: TurnInput) -> TurnInput:
    """Return a frame's input with the tools that the agent's function gives, if it has one, and their names
    pinned. Raises RunFailed."""
    if agent.make_tools is None:
        return turn_input
    base = turn_input.base
    about = run_context(agent, state.meta, state.run_id, base.as_of, base.metadata)
    tools = await tools_of(agent, about, base.tools)
    # Tools that the agent cannot have fail the run here, before it begins.
    complete = with_tools(agent, tools)
    if base.tools is None and tools is not None:
        with _failing_the_run():
            complete.check_tool_choice()
        base = base.model_copy(update={"tools": tuple(tool.name for tool in tools)})
    return replace(turn_input, tools=tools, base=base)


def with_tools(agent: Agent, tools: Sequence[AnyTool] | None) -> Agent:
    """Return the same agent with these tools in addition to its hand-offs. Raises RunFailed if it cannot have
    them."""
    if tools is None:
        return agent
    complete = copy(agent)
    with _failing_the_run():
        complete.tools = tools
    return complete


@contextmanager
def _failing_the_run() -> Iterator[None]:
    """Raise RunFailed for what the author's function made of the agent's definition."""
    try:
        yield
    except DefinitionError as error:
        raise RunFailed(error.message, type="DefinitionError") from error


async def agent_at(runtime: Runtime, top: Agent, state: RunState, path: str) -> Agent | None:
    """Return the agent at a path of the run, as it was at its newest step; None: it is gone. Raises
    RunFailed."""
    agent = top
    while True:
        agent = await _complete(runtime, agent, state, state.base)
        if state.path == path:
            return agent
        within, _, _ = path.removeprefix(state.path).partition("/")
        call = state.calls[state.path + within]
        name = call.child.agent if call.child else ""
        below = next((a for a in sub_agents(agent.tools) if a.name == name), None)
        if below is None:
            return None
        agent, state = below, state.child(call)


async def _complete(
    runtime: Runtime, agent: Agent, state: RunState, base: PromptSnapshot | None
) -> Agent:
    agent = await with_deps(agent, runtime.settings)
    if base is None:
        return agent
    about = run_context(agent, state.meta, state.run_id, base.as_of, base.metadata)
    return with_tools(agent, await tools_of(agent, about, base.tools))
