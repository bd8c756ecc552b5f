"""Agents whose tools are answered by stubs: a tool that has one never runs."""

import inspect
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from layover.declare.agent import Agent
from layover.declare.context import RunContext, ToolContext
from layover.declare.tools.server import ToolServer
from layover.declare.tools.signature import ToolArgs
from layover.declare.tools.tool import AnyTool, Tool
from layover.desk.evals.cases import Stub
from layover.desk.evals.compare import is_part
from layover.desk.failures import CommandFailed
from layover.errors import unknown_name


class StubsInvalid(CommandFailed):
    """A stub answers no tool that there is. The message says which one, and what to do."""


class Stubs:
    """The stubs of one run. `only`: tools without a stub do not run either."""

    def __init__(self, stubs: Sequence[Stub], *, only: bool = False) -> None:
        self._stubs = stubs
        self._only = only
        self._used: set[int] = set()
        self.misses: list[str] = []
        """Names of the tools whose calls no stub fits, in order."""

    def stands_for(self, tool: AnyTool) -> bool:
        """Return whether the tool must not run. A hand-off does nothing outside, and always may."""
        is_named = any(stub.tool == tool.name for stub in self._stubs)
        return tool.handoff is None and (is_named or (self._only and tool.delegate is None))

    def answer(self, tool: str, args: dict[str, Any]) -> Any:
        """Return the stub's result. Raises StubError for the error that it answers, or if none fits."""
        fitting = [
            number
            for number, stub in enumerate(self._stubs)
            if stub.tool == tool and is_part(stub.args, args)
        ]
        if not fitting:
            self.misses.append(tool)
            raise StubError("no stub fits this call, and the tool did not run")
        number = next((n for n in fitting if n not in self._used), fitting[-1])
        self._used.add(number)
        stub = self._stubs[number]
        if stub.error is not None:
            raise StubError(stub.error)
        return stub.result


class StubError(Exception):
    """The error that a stub answers."""


class StubTool(Tool[..., Any]):
    """A tool that stubs answer. Its arguments, approval and hooks are those of the tool."""

    def __init__(self, tool: AnyTool, stubs: Stubs) -> None:
        super().__init__(
            tool.fn,
            name=tool.name,
            description=tool.description,
            signature=tool.signature,
            options=replace(tool.options, delegate=None, to_model_output=None, to_message=None),
        )
        self.server = tool.server
        self._stubs = stubs

    async def invoke(self, args: ToolArgs, ctx: ToolContext) -> Any:
        """Return what a stub answers. Raises the error that it answers."""
        return self._stubs.answer(self.name, args.as_dict())


def with_stubs(agent: Agent, stubs: Stubs) -> Agent:
    """Return a copy of the agent, its sub-agents and hand-offs, whose tools the stubs answer."""
    return _Copies(stubs).of(agent)


class _Copies:
    def __init__(self, stubs: Stubs) -> None:
        self._stubs = stubs
        self._by_id: dict[int, Agent] = {}

    def of(self, agent: Agent) -> Agent:
        if id(agent) in self._by_id:
            return self._by_id[id(agent)]
        fresh = self._by_id[id(agent)] = copy(agent)
        fresh.__dict__.pop("_driver", None)
        fresh._handlers = []
        fresh._runtime = None
        fresh._replaced = []
        if agent.make_tools is not None:
            fresh.make_tools = self._maker(agent.make_tools)
        fresh._tools = self._tools(agent.tools)
        fresh.servers = tuple(map(self._server, agent.servers))
        # Two agents may name each other: both copies exist before either gets its hand-offs.
        fresh._handoffs = tuple(map(self.of, agent.handoffs))
        return fresh

    def _tools(self, tools: Sequence[AnyTool]) -> tuple[AnyTool, ...]:
        return tuple(map(self._tool, tools))

    def _tool(self, tool: AnyTool) -> AnyTool:
        if self._stubs.stands_for(tool):
            return StubTool(tool, self._stubs)
        if tool.delegate is None:
            return tool
        fresh = copy(tool)
        delegate = replace(tool.delegate, agent=self.of(tool.delegate.agent))
        fresh.options = replace(tool.options, delegate=delegate)
        return fresh

    def _maker(self, make: Any) -> Any:
        async def make_tools(ctx: RunContext[Any]) -> Any:
            tools = make(ctx)
            if inspect.isawaitable(tools):
                tools = await tools
            if isinstance(tools, ToolServer):
                return self._server(tools)
            if not isinstance(tools, list | tuple):
                return tools
            return [
                self._server(each) if isinstance(each, ToolServer) else self._tool(each)
                for each in tools
            ]

        return make_tools

    def _server(self, server: ToolServer) -> ToolServer:
        """Return the same server, whose tools the stubs answer: they are known when a run has asked for
        them."""
        return replace(server, change=self._tool)


@dataclass(frozen=True)
class ToolNames(Collection[str]):
    """The names that stubs may have: those of tools, and all that begin with the name of a server, which
    lists its tools to a run only."""

    tools: frozenset[str]
    servers: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name in self.tools or str(name).partition("_")[0] in self.servers

    def __iter__(self) -> Iterator[str]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


def check_stubs(agent: Agent, stubs: Sequence[Stub]) -> None:
    """Raise StubsInvalid for a stub of a tool that neither the agent nor one below it has: the tool that was
    meant would run."""
    names = tools_for_stubs(agent)
    for stub in stubs:
        if names is not None and stub.tool not in names:
            raise StubsInvalid(f"stubs: {unknown_name('tool', stub.tool, names)}")


def tools_for_stubs(agent: Agent) -> ToolNames | None:
    """Return the names of the tools of an agent and of those below it. None: a function may give it any."""
    names: set[str] = set()
    servers: set[str] = set()
    if _gather(agent, names, servers, set()):
        return None
    return ToolNames(frozenset(names), frozenset(servers))


def _gather(agent: Agent, names: set[str], servers: set[str], gathered: set[int]) -> bool:
    """Add the names of an agent's tools, and of its servers. Return whether a function gives some."""
    if id(agent) in gathered:
        return False
    gathered.add(id(agent))
    names |= {tool.name for tool in agent.tools if tool.handoff is None}
    servers |= {server.name for server in agent.servers}
    below = [tool.delegate.agent for tool in agent.tools if tool.delegate is not None]
    makes = [_gather(each, names, servers, gathered) for each in (*below, *agent.handoffs)]
    return agent.make_tools is not None or any(makes)
