"""`Agent`: instructions, a model, tools and memory."""

import logging
import math
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from layover.declare.context import RunContext
from layover.declare.delegate import (
    check_sub_agents,
    delegate_tool,
    handoff_tool,
    sub_agents,
)
from layover.declare.driver import Driver
from layover.declare.limits import Limits
from layover.declare.memory import Memory
from layover.declare.override import Override
from layover.declare.result import AgentState, Input, Result
from layover.declare.schemas import checks
from layover.declare.schemas.output import OutputType
from layover.declare.tool import AnyTool, Tool
from layover.errors import DefinitionError
from layover.values.prompt import OutputSpec
from layover.values.runs.model_settings import OVERRIDABLE, ModelSettings, Overridable
from layover.values.runs.run import MAX_WINDOW

if TYPE_CHECKING:
    from layover.ports.platform import ChatModel, Clock, Embedder
    from layover.values.runs.event import Event

logger = logging.getLogger("layover")

M = TypeVar("M", bound="ChatModel")

EVENT_NAMES = frozenset(
    {
        "agent-start",
        "definition-changed",
        "handoff",
        "turn-start",
        "model-fallback",
        "text-delta",
        "reasoning-delta",
        "tool-call-delta",
        "message",
        "tool-execution-start",
        "tool-execution-end",
        "data",
        "tool-call-suspended",
        "tool-call-approval",
        "tool-call-decided",
        "turn-end",
        "finish",
        "error",
        "agent-end",
    }
)
"""The types of events (docs/reference/http-api.md#events)."""

_MAX_NAME = 128
_UNHEARD = (
    "agent %r: handlers of `on` hear runs of this process alone (`generate`, `stream`), and no run that "
    "is served: follow those at GET /runs/{id}/events"
)
ALL = "*"
"""No agent's name: what all of a user's agents share is kept under it."""


Instructions = Callable[[RunContext], "str | Awaitable[str]"]
"""Instructions that depend on the run: plain or async, asked once, before its first step."""


class Agent:
    """What a run follows.

    `instructions`: a text, or a function of the run's context (`RunContext`) that gives one.

    `model`: None is the deployment's (`LAYOVER_MODEL`); of a list, each is asked where the one before it
    stays down or refuses (event `model-fallback`). `model_settings`: how it is asked. `overridable`: what
    a run may choose instead (`POST /threads/{id}/runs`). `output`: a pydantic model, a list or a union of
    them, for structured output. `output_validator(output, ctx)`: returns the output, as it is or another
    one; `Retry` asks the model again, twice at most. `tool_concurrency`: calls of a step that run together;
    `math.inf`, like
    anything above 40, means 40. `runtime`: the stores and the model that the in-process methods use from
    then on; None: in memory, with the model of the environment. Another one may be set at any time: runs
    that began before stay where they are, and this agent no longer knows of them.

    Raises DefinitionError where it could not work as declared."""

    def __init__(
        self,
        name: str,
        *,
        model: str | Sequence[str] | None = None,
        instructions: "str | Instructions" = "",
        tools: Sequence[AnyTool] = (),
        memory: Memory | None = None,
        output: Any = None,
        output_validator: Callable[[Any, RunContext], Any] | None = None,
        max_iterations: int = 20,
        tool_concurrency: float = 1,
        limits: Limits | None = None,
        model_settings: ModelSettings | None = None,
        overridable: Sequence[Overridable] = (),
        handoffs: Sequence["Agent"] = (),
        runtime: Any = None,
    ) -> None:
        self.name = _name(name)
        self.model, self.fallbacks = checks.models(f"{self._what}model", model)
        self.instructions = instructions
        self._tools = _tools(self._what, tools)
        self._handoffs: tuple[Agent, ...] = ()
        self.memory = Memory() if memory is None else memory
        self.output = output
        self.output_validator = output_validator
        self.max_iterations = max_iterations
        self.tool_concurrency = _concurrency(self._what, tool_concurrency)
        self.limits = limits
        self.model_settings = ModelSettings() if model_settings is None else model_settings
        self.overridable = _overridable(self._what, overridable)
        self.runtime = runtime
        self._replaced: list[Any] = []
        self._handlers: list[tuple[str, Callable[[Any], Any]]] = []
        self._served = False
        self._check()
        self.handoffs = handoffs

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

    @property
    def runtime(self) -> Any:
        """What the in-process methods use."""
        return self._runtime

    @runtime.setter
    def runtime(self, runtime: Any) -> None:
        self._runtime = runtime
        self.__dict__.pop("_driver", None)

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """What its model may call, sub-agents among them. Raises DefinitionError where that is set to what
        could not work."""
        return self._tools

    @tools.setter
    def tools(self, tools: Sequence[AnyTool]) -> None:
        former, self._tools = self._tools, _tools(self._what, tools)
        try:
            self._check_tools()
        except DefinitionError:
            self._tools = former
            raise

    @property
    def handoffs(self) -> tuple["Agent", ...]:
        """Agents that it may give the conversation to, each by a tool `transfer_to_NAME`. Two agents may name
        each other: set it on the first when both are there."""
        return self._handoffs

    @handoffs.setter
    def handoffs(self, agents: Sequence["Agent"]) -> None:
        if not all(isinstance(a, Agent) and a.name != self.name for a in agents):
            raise checks.fail(f"{self._what}handoffs", "a list of other agents", agents)
        own = [tool for tool in self._tools if tool.handoff is None]
        self.tools = (*own, *(handoff_tool(a.name) for a in agents))
        self._handoffs = tuple(agents)

    @property
    def _what(self) -> str:
        return f"agent {self.name!r}: "

    def _check(self) -> None:
        _check_instructions(self._what, self.instructions)
        checks.whole(f"{self._what}max_iterations", self.max_iterations)
        if not isinstance(self.memory, Memory):
            raise checks.fail(f"{self._what}memory", "Memory(...)", self.memory)
        if self.limits is not None and not isinstance(self.limits, Limits):
            raise checks.fail(f"{self._what}limits", "Limits(...)", self.limits)
        if not isinstance(self.model_settings, ModelSettings):
            raise checks.fail(
                f"{self._what}model_settings", "ModelSettings(...)", self.model_settings
            )
        self._check_tools()
        _ = self._output_type
        if self.output_validator is not None and (
            self.output is None or not callable(self.output_validator)
        ):
            expected = "a function of (output, ctx), beside output="
            raise checks.fail(f"{self._what}output_validator", expected, self.output_validator)

    def _check_tools(self) -> None:
        taken = self.built_in_tools
        names = set(taken)
        for each in self.tools:
            if not isinstance(each, Tool):
                raise checks.fail(f"{self._what}a tool", "made by @tool", each)
            if each.name in names:
                whose = "memory's own tool" if each.name in taken else "another tool"
                raise DefinitionError(f"{self._what}{whose} is called {each.name!r}, too")
            names.add(each.name)
        forced = self.model_settings.tool_choice
        if forced is not None and forced not in names | {"auto", "none", "required"}:
            raise DefinitionError(f"{self._what}tool_choice names no tool of it: {forced!r}")
        check_sub_agents(self.name, self._tools)

    @property
    def built_in_tools(self) -> frozenset[str]:
        """Names of the tools that its memory adds."""
        parts = {
            "update_working_memory": self.memory.working_memory,
            "recall_memory": self.memory.episodic,
            "plan": self.memory.plan,
        }
        return frozenset(name for name, part in parts.items() if part)

    def tool(self, name: str) -> AnyTool | None:
        """The tool of this name, None if it has none."""
        return next((t for t in self.tools if t.name == name), None)

    def at(self, path: Sequence[str]) -> "Agent | None":
        """The agent at the end of a path of names that begins with this agent's own; an empty path is the
        agent itself. None: no sub-agent is called so (any more)."""
        agent: Agent | None = self
        for name in path[1:]:
            below = sub_agents(agent.tools) if agent else []
            agent = next((a for a in below if a.name == name), None)
        return agent

    @cached_property
    def _output_type(self) -> OutputType | None:
        return None if self.output is None else OutputType(self._what, self.output)

    @cached_property
    def output_spec(self) -> OutputSpec | None:
        """The structured output that the model is asked for."""
        return None if self._output_type is None else self._output_type.spec

    def parse_output(self, text: str) -> Any:
        """The reply as an instance of `output`. Raises `pydantic.ValidationError`."""
        assert self._output_type is not None
        return self._output_type.parse(text)

    def as_tool(self, description: str, *, memory: bool = False) -> AnyTool:
        """This agent as a tool of another, named after it: `{input, context?}` in, `{result}` out.

        It runs inside the call, in the journal of the run that made the call: its approvals are pending
        calls of that run, its usage counts in it. It sees its briefing alone, and none of its own
        `Memory` settings apply unless `memory=True`. Called directly it runs in this process.

        Raises DefinitionError."""
        return delegate_tool(self, description, memory=memory)

    @cached_property
    def _driver(self) -> Driver:
        driver = self._new_driver()
        for event, handler in self._handlers:
            driver.on(event, handler)
        return driver

    def _new_driver(self) -> Driver:
        driver: Driver = _wiring().in_process(self)
        return driver

    def override(
        self,
        *,
        model: M,
        embedder: "Embedder | None" = None,
        clock: "Clock | None" = None,
    ) -> Override[M]:
        """Run this agent with this model and with empty stores in memory while a `with` lasts, for tests:
        `with shop.override(model=ScriptedModel([say("hi")])) as model:`.

        What was before is there again afterwards: `runtime`, its runs, the handlers of `on`. Overrides
        nest. At the end a model that has a `verify` is asked whether all went as it had to: what that
        raises (ScriptExhausted) fails the test, and what failed in consequence is its cause.

        Raises RuntimeError where two overrides of an agent do not end in reverse order."""

        def replace() -> Callable[[], None]:
            stores = _wiring().in_memory_runtime
            return self._replace(stores(self, model=model, embedder=embedder, clock=clock))

        return Override(model, replace)

    def _replace(self, runtime: Any) -> Callable[[], None]:
        former = (self._runtime, self.__dict__.get("_driver"), list(self._handlers))
        self.runtime = runtime
        self._replaced.append(runtime)

        def restore() -> None:
            if self._replaced[-1] is not runtime:
                raise RuntimeError(
                    f"{self._what}overrides have to end in reverse order, and another one has begun "
                    "since: one test at a time may override it"
                )
            self._replaced.pop()
            self.runtime, driver, self._handlers = former
            if driver is not None:
                self.__dict__["_driver"] = driver

        return restore

    async def generate(
        self,
        input: Input,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        max_iterations: int | None = None,
    ) -> Result:
        """Run in this process, until the end or a suspension. A failed run is a Result, too.

        What memory learns from the run (a title, facts, what is condensed) comes after it and nobody
        waits for it: see `wait_for_memory`.

        Without `thread_id` it is in no thread: its tools' contexts name none, and it has no node memory
        (ConfigurationError)."""
        return await self._driver.generate(
            input, thread_id=thread_id, resource_id=resource_id, max_iterations=max_iterations
        )

    def stream(
        self,
        input: Input,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        max_iterations: int | None = None,
    ) -> "AsyncIterator[Event]":
        """The same as events, deltas included: `async for event in agent.stream("hi")`."""
        return self._driver.stream(
            input, thread_id=thread_id, resource_id=resource_id, max_iterations=max_iterations
        )

    async def resume(self, run_id: str, tool_call_id: str, data: Any) -> Result:
        """Go on with a call that suspended itself. Raises DecisionError; nothing changed then."""
        return await self._driver.resume(run_id, tool_call_id, data)

    async def approve(
        self,
        run_id: str,
        tool_call_id: str,
        args: dict[str, Any] | None = None,
        *,
        reason: str | None = None,
    ) -> Result:
        """Let a call run, with other arguments if given. Whoever runs the agent in their own process counts
        as all of an `Approval`'s approvers. Raises DecisionError."""
        return await self._driver.approve(run_id, tool_call_id, args, reason)

    async def deny(self, run_id: str, tool_call_id: str, reason: str | None = None) -> Result:
        """Do not let a call run; the model is told. Raises DecisionError."""
        return await self._driver.deny(run_id, tool_call_id, reason)

    def on(self, event: str, handler: "Callable[[Any], Any]") -> None:
        """Call `handler` with each event of this type, of every run that `generate` and `stream` began
        here. Runs of a served agent go on in functions and call none; a warning says so."""
        checks.one_of("the event", event, EVENT_NAMES)
        if not callable(handler):
            raise checks.fail("the handler", "a function of the event", handler)
        self._handlers.append((event, handler))
        if "_driver" in self.__dict__:
            self._driver.on(event, handler)
        if self._served:
            logger.warning(_UNHEARD, self.name)

    def mark_served(self) -> None:
        """From here on functions run it: warn of handlers that hear nothing of that."""
        if self._handlers and not self._served:
            logger.warning(_UNHEARD, self.name)
        self._served = True

    def abort(self) -> None:
        """Cancel what this agent is running in this process."""
        self._driver.abort()

    async def wait_for_memory(self) -> None:
        """Wait until memory has learned from the runs of this process that are over: for tests, and for
        a script whose next run has to know of the last one. `asyncio.run` does not return before
        that either; a second Ctrl-C leaves it undone."""
        await self._driver.wait_for_memory()

    async def remembered(self) -> None:
        """Deprecated: the former name of `wait_for_memory`."""
        warnings.warn(
            "Agent.remembered is called wait_for_memory", DeprecationWarning, stacklevel=2
        )
        await self.wait_for_memory()

    def state(self) -> AgentState:
        """The newest run of this process; `idle` and empty before the first."""
        return self._driver.state()


def _wiring() -> Any:
    """The engine with its stores, imported when the first agent runs in this process: what users write
    does not depend on it."""
    return import_module("layover.wiring")


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise checks.fail("the name of an agent", "a text that is not empty", name)
    if len(name) > _MAX_NAME:
        raise checks.fail("the name of an agent", f"at most {_MAX_NAME} characters", name)
    if name == ALL:
        raise checks.fail(
            "the name of an agent", f"another one than {ALL!r}, which means all", name
        )
    return name


def _check_instructions(what: str, given: Any) -> None:
    if not isinstance(given, str) and not callable(given):
        expected = "a text or a function of the run's context"
        raise checks.fail(f"{what}instructions", expected, given)


def _tools(what: str, tools: Any) -> tuple[AnyTool, ...]:
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise checks.fail(f"{what}tools", "a list of tools", tools)
    return tuple(tools)


def _overridable(what: str, names: Any) -> frozenset[Overridable]:
    given: set[Any] = {names} if isinstance(names, str) else set(names)
    if unknown := sorted(given - set(OVERRIDABLE), key=str):
        checks.one_of(f"{what}overridable", unknown[0], OVERRIDABLE)
    return frozenset(given)


def _concurrency(what: str, value: Any) -> int:
    if value == math.inf:
        return MAX_WINDOW
    checks.whole(f"{what}tool_concurrency", value)
    return min(int(value), MAX_WINDOW)
