"""Tools that are a function of the run, and those of servers. Each process that goes on with the run calls
the function with the facts that the run pinned at its first step, and keeps to the names that the tools had
then. Servers are asked for their tools once, before that step: the run pins what they say."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace

from layover.declare.agent import Agent
from layover.declare.agents.options import tools_of as split_tools
from layover.declare.blocking import call_author
from layover.declare.context import RunContext
from layover.declare.tools.delegate import sub_agents
from layover.declare.tools.server import ToolServer
from layover.declare.tools.tool import AnyTool, Tool
from layover.engine.dependencies import with_deps
from layover.engine.frames.instructions import run_context
from layover.engine.frames.turn_input import TurnInput
from layover.engine.isolation import isolate
from layover.engine.state import RunState
from layover.errors import DefinitionError, RunFailed
from layover.runtime import Runtime
from layover.values.runs.run import PromptSnapshot
from layover.values.runs.served import ServedTools


@dataclass(frozen=True)
class RunTools:
    """The tools that a run has. `names`: of those that the agent's function gave; None: it has a list."""

    tools: tuple[AnyTool, ...]
    names: tuple[str, ...] | None
    served: tuple[ServedTools, ...] | None


async def tools_of(
    runtime: Runtime,
    agent: Agent,
    ctx: RunContext,
    pinned: PromptSnapshot | None,
    *,
    asks: bool = True,
) -> RunTools | None:
    """Return the tools of this run; None: those of the agent's list. `pinned`: the context of its first step.
    `asks`: servers are asked that waited for an account of the run's user, who has connected it since.
    Raises RunFailed if the function raises, or returns tools that no agent could have, or a server cannot be
    asked."""
    if agent.has_all_tools:
        return None
    own, servers = agent.tools, agent.servers
    names: tuple[str, ...] | None = None
    if agent.make_tools is not None:
        own, servers = await _make(agent, ctx, pinned.tools if pinned else None)
        names = tuple(tool.name for tool in own)
    # What an earlier release pinned has no servers, and a run that has a step gets none.
    served = None if pinned is None else (pinned.served or ())
    others = (*(tool.name for tool in (*own, *agent.tools)), *agent.built_in_tools)
    if not servers:
        return RunTools(own, names, None)
    # Imported only where an agent has servers: it would be part of every cold start.
    from layover.engine.tools.served import server_tools

    theirs = await server_tools(
        runtime, agent, servers, ctx=ctx, pinned=served, others=others, asks=asks
    )
    return RunTools((*own, *theirs.tools), names, theirs.pinned)


async def _make(
    agent: Agent, ctx: RunContext, pinned: Sequence[str] | None
) -> tuple[tuple[AnyTool, ...], tuple[ToolServer, ...]]:
    """Return the tools and the servers that the agent's function gives. Raises RunFailed."""
    assert agent.make_tools is not None
    try:
        tools = await isolate(call_author(agent.make_tools, ctx))
    except Exception as error:
        message = f"the tools of agent {agent.name!r} failed: {error}"
        kind = type(error).__name__
        raise RunFailed(message, type=kind, is_internal=True, run_id=ctx.run_id) from error
    if not isinstance(tools, Sequence | ToolServer) or not all(
        isinstance(tool, Tool | ToolServer) for tool in tools
    ):
        message = (
            f"the function that gives agent {agent.name!r} its tools did not return a list of tools"
        )
        raise RunFailed(message, type="DefinitionError", run_id=ctx.run_id)
    with _failing_the_run():
        own, servers = split_tools(f"agent {agent.name!r}: ", tools)
    tools_by_name = {tool.name: tool for tool in own}
    # A removed tool is not found when it is called. A tool that was added later is for the next run.
    if pinned is None:
        return own, servers
    return tuple(tools_by_name[name] for name in pinned if name in tools_by_name), servers


async def with_run_tools(
    runtime: Runtime, agent: Agent, state: RunState, turn_input: TurnInput
) -> TurnInput:
    """Return a frame's input with the tools that the agent's function and its servers give, if it has any,
    and with what the run pins of them. Raises RunFailed."""
    if agent.has_all_tools:
        return turn_input
    base = turn_input.base
    about = run_context(agent, state.meta, state.run_id, base.as_of, base.metadata)
    pinned = base if _is_pinned(state, base) else None
    run_tools = await tools_of(runtime, agent, about, pinned)
    assert run_tools is not None
    # Tools that the agent cannot have fail the run here, before it begins.
    complete = with_tools(agent, run_tools.tools)
    if pinned is None:
        with _failing_the_run():
            complete.check_tool_choice()
        base = base.model_copy(update={"tools": run_tools.names, "served": run_tools.served})
        return replace(turn_input, tools=run_tools.tools, base=base)
    changed = run_tools.served is not None and run_tools.served != (pinned.served or ())
    served = run_tools.served if changed else None
    return replace(turn_input, tools=run_tools.tools, base=base, served=served)


def _is_pinned(state: RunState, base: PromptSnapshot) -> bool:
    """Return whether the run has a step that pinned this context."""
    return state.base is not None or base.tools is not None or base.served is not None


def with_tools(agent: Agent, tools: Sequence[AnyTool] | None) -> Agent:
    """Return the same agent with these tools in addition to its hand-offs. Raises RunFailed if it cannot have
    them."""
    if tools is None:
        return agent
    complete = copy(agent)
    with _failing_the_run():
        complete.tools = tools
    complete.servers = agent.servers
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
    run_tools = await tools_of(runtime, agent, about, base, asks=False)
    return with_tools(agent, run_tools.tools if run_tools else None)
