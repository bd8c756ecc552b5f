"""`Agent`: instructions, a model, tools and memory."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace as change
from functools import cached_property
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

from layover.declare.agents.driven import Driven
from layover.declare.agents.driver import Driver
from layover.declare.agents.engine import Stores, engine
from layover.declare.agents.options import (
    check_instructions,
    check_tools_function,
    check_validator,
    concurrency_of,
    factory_of,
    name_of,
    on_waiting_of,
    overridable_of,
    tools_of,
)
from layover.declare.agents.provider_tools import wire_of
from layover.declare.connection import Connection, check_servers, connections_of
from layover.declare.context import RunContext
from layover.declare.generics import Deps, Output
from layover.declare.hooks.base import hooks_of
from layover.declare.hooks.raw_texts import warn_of_embedded, warn_of_handoffs
from layover.declare.hooks.shapes import HookLike
from layover.declare.limits import Limits
from layover.declare.memory import Memory
from layover.declare.option_names import named_options
from layover.declare.override import Override
from layover.declare.schemas import checks
from layover.declare.schemas.output import OutputType
from layover.declare.tools.delegate import (
    check_sub_agents,
    delegate_tool,
    handoff_tool,
    sub_agents,
)
from layover.declare.tools.server import ToolServer
from layover.declare.tools.tool import AnyTool, Tool
from layover.errors import DefinitionError, unknown_name
from layover.values.deployment.settings import Settings
from layover.values.prompt import Api, OutputSpec, ProviderTool
from layover.values.runs.model_settings import ModelSettings, Overridable
from layover.values.runs.run import MESSAGES_TOOL, RESULT_TOOL, SEARCH_TOOL

if TYPE_CHECKING:
    from layover.ports.platform import ChatModel, Clock, Embedder, Model

M = TypeVar("M", bound="ChatModel")

Instructions: TypeAlias = Callable[[RunContext[Deps]], str | Awaitable[str]]
"""Instructions that depend on the run: plain or async, called once, before its first step."""
Tools: TypeAlias = Callable[
    [RunContext[Deps]],
    Sequence[AnyTool | ToolServer] | Awaitable[Sequence[AnyTool | ToolServer]],
]
"""Tools that depend on the run: plain or async."""
Made: TypeAlias = AbstractAsyncContextManager[Deps] | Awaitable[Deps] | Deps
Factory: TypeAlias = Callable[[Settings], Made[Deps]] | Callable[[], Made[Deps]]
"""Makes an agent's dependencies."""
_KEPT: Any = object()
"""The agent's own factory makes its `deps`."""


def _shown_name(_: Any, name: object = None, *__: object, **___: object) -> str:
    """Return an agent's name for an error in its options; it may have been given none."""
    return "Agent" if name is None else f"agent {name!r}"


class Agent(Driven[Output], Generic[Deps, Output]):
    '''The definition that a run follows: instructions, a model, tools and memory.

    Args:
        name: 1 to 64 letters, digits, `_` or `-`, unique among the agents that are served.
        model: The model's name with its provider (`openai/gpt-5-mini`), or a model of one's own
            (`layover.models.Model`); None: the deployment's (`LAYOVER_MODEL`). Of a list, each is called if
            the one before it stays down or refuses (event `model-fallback`).
        instructions: The system message: a text, or a function of the run's context (`RunContext`) that
            returns one, plain or async. Empty: no system message from the agent.
        tools: Tools that its model may call: a list, or a function of the run's context that returns one,
            plain or async. Servers of tools (`mcp`) may be among them. A run keeps the names that its first
            step had, and the tools that its servers had then.
        memory: What it remembers, and how much of a thread a prompt shows; None: `Memory()`, with the
            recent window and titles only.
        output: The type of its structured output: a pydantic model, a list or a union of them; None: the
            output is text.
        output_validator: A function `(output, ctx)`, plain or async, that returns the output, unchanged or
            another one. `Retry` asks the model again, twice at most. It needs `output`; None: no check
            except that of the type.
        max_iterations: Model calls of a run, at least 1. At the limit the run ends as a success, with
            `finish_reason` `max-iterations`.
        tool_concurrency: Calls of a step that run together, at least 1; `math.inf`, like anything above
            40, means 40.
        limits: What a run may use in tokens, US dollars and tool calls; None: no limits.
        model_settings: Settings of its model requests; None: the provider's defaults.
        api: One of OpenAI's two: `chat` (Chat Completions) or `responses`.
        provider_tools: Tools that the provider runs itself (`web_search()`); they need `api="responses"`.
        overridable: Settings that a run may choose instead (`POST /threads/{id}/runs`): `model`,
            `reasoning`, `max_tokens`. Empty: none.
        handoffs: Other agents that it may give the conversation to, each by a tool `transfer_to_NAME`.
        hooks: Objects that are asked around the model, the tools and the end, in this order, and may
            change what happens (docs/hooks.md).
        deps: A function that makes what tools, instructions and hooks work with: plain, async or an async
            context manager. It is called once in a process and closed at its end; every context has its
            value as `ctx.deps`. Its parameter `settings`, or else the first positional one that has no
            default, gets the deployment's settings. None: `ctx.deps` is None.
        connections: Accounts at other services that its tools may use (`Connection`): `ctx.token(NAME)`
            answers a token, or the call waits until the user has connected the account. Empty: none.
        tool_search: True: above 30 tools, the model finds them by words instead of reading them all.
        description: What it is for, in words for its callers: `GET /agents` shows it, and so do MCP clients,
            to which it is a tool. Its own model does not read it. None: callers learn its name only.
        on_waiting: What becomes of a message that comes while the thread's run only waits for a decision.
            `answer`: another run answers it at once. `steer`: the waiting run reads it when it goes on.
            `withdraw`: nobody is asked any more, and the run goes on with the message. `refuse`: it is
            refused. A request may choose another one.
        runtime: The stores and the model that the in-process methods use; None: in memory, with the model
            of the environment. Another one may be set at any time: runs that began before stay in their
            stores, and this agent no longer knows of them.

    Raises:
        DefinitionError: If it could not work as declared.

    Example:
        ```python
        import asyncio

        from layover import Agent, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return {"lamp": 42.0, "shelf": 249.5}[item]


        shop = Agent("shop", instructions="You sell furniture.", tools=[price])


        async def main() -> None:
            script = [call("price", item="lamp"), say("The lamp is 42 euros.")]
            with shop.override(model=ScriptedModel(script)):
                result = await shop.generate("What does the lamp cost?")
            assert result.text == "The lamp is 42 euros."


        asyncio.run(main())
        ```
    '''

    made_deps: Any = None
    """The value that `deps` made in this process, on the copy that a run goes on with."""
    hooks_above: tuple[Any, ...] = ()
    """Hooks of its callers that are asked around its model, on the copy that works as a sub-agent."""

    @named_options(_shown_name)
    def __init__(
        self,
        name: str,
        *,
        model: "str | Model | Sequence[str | Model] | None" = None,
        instructions: "str | Instructions[Deps]" = "",
        tools: "Sequence[AnyTool | ToolServer] | Tools[Deps]" = (),
        memory: Memory | None = None,
        output: "type[Output] | UnionType | None" = None,
        output_validator: "Callable[[Any, RunContext[Deps]], Any] | None" = None,
        max_iterations: int = 20,
        tool_concurrency: float = 1,
        limits: Limits | None = None,
        model_settings: ModelSettings | None = None,
        api: Api = "chat",
        provider_tools: Sequence[ProviderTool] = (),
        overridable: Sequence[Overridable] = (),
        handoffs: "Sequence[Agent[Any, Any]]" = (),
        hooks: Sequence[HookLike] = (),
        deps: "Factory[Deps] | None" = None,
        connections: Sequence[Connection] = (),
        tool_search: bool = False,
        description: str | None = None,
        on_waiting: Literal["answer", "steer", "withdraw", "refuse"] = "answer",
        runtime: "Stores | None" = None,
    ) -> None:
        self.name = name_of(name)
        self.model: str | None
        """The name of its model; None: the deployment's."""
        self.own_models: Mapping[str, Model]
        """The models that its author has brought, by their names."""
        self.model, self.fallbacks, self.own_models = checks.models(f"{self._what}model", model)
        self.instructions = instructions
        makes = callable(tools) and not isinstance(tools, Tool)
        self.make_tools: Tools | None = cast("Tools", tools) if makes else None
        """The function that gives a run its tools; None: they are the same for all runs."""
        self._tools: tuple[AnyTool, ...] = ()
        self.servers: tuple[ToolServer, ...] = ()
        """The servers whose tools it has in addition: a run asks them before its first step."""
        if not makes:
            self._tools, self.servers = tools_of(self._what, tools)
        self._handoffs: tuple[Agent, ...] = ()
        self.memory = Memory() if memory is None else memory
        self.output = output
        self.output_validator = output_validator
        self.max_iterations = max_iterations
        self.tool_concurrency = concurrency_of(self._what, tool_concurrency)
        self.limits = limits
        self.model_settings = ModelSettings() if model_settings is None else model_settings
        self.api, self.provider_tools = wire_of(self._what, api, provider_tools)
        self.overridable = overridable_of(self._what, overridable)
        self.hooks = hooks_of(self._what, hooks)
        self.deps = factory_of(f"{self._what}deps", deps)
        self.connections = connections_of(self._what, connections)
        self.tool_search = tool_search
        self.description = description
        self.on_waiting = on_waiting_of(self._what, on_waiting)
        self.runtime = runtime
        self._replaced: list[Any] = []
        self._handlers = []
        self._check()
        check_servers(self._what, self.servers, self.connections)
        self.handoffs = handoffs  # which checks the tools: all of them are there now

    def __repr__(self) -> str:
        return f"<Agent {self.name}>"

    @property
    def runtime(self) -> Any:
        """The stores and the model that the in-process methods use."""
        return self._runtime

    @runtime.setter
    def runtime(self, runtime: "Stores | None") -> None:
        self._runtime = runtime
        self.__dict__.pop("_driver", None)

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools that its model may call, sub-agents and hand-offs among them. Setting it leaves the
        hand-offs as they are, and raises DefinitionError for tools that could not work."""
        return self._tools

    @tools.setter
    def tools(self, tools: Sequence[AnyTool | ToolServer]) -> None:
        own, servers = tools_of(self._what, tools)
        own_tools = [tool for tool in own if not _hands_over(tool)]
        self._replace_tools((*own_tools, *filter(_hands_over, self._tools)))
        self.servers = servers

    def _replace_tools(self, tools: Sequence[AnyTool]) -> None:
        former, self._tools = self._tools, tuple(tools)
        try:
            self._check_tools()
        except DefinitionError:
            self._tools = former
            raise

    @property
    def handoffs(self) -> tuple["Agent", ...]:
        """Agents that it may hand the conversation to, each by a tool `transfer_to_NAME`. Two agents may name
        each other: set it on the first when both exist."""
        return self._handoffs

    @handoffs.setter
    def handoffs(self, agents: Sequence["Agent"]) -> None:
        if not isinstance(agents, Iterable) or not all(
            isinstance(a, Agent) and a.name != self.name for a in agents
        ):
            raise checks.fail(f"{self._what}handoffs", "a list of other agents", agents)
        own = [tool for tool in self._tools if not _hands_over(tool)]
        self._replace_tools((*own, *(handoff_tool(a.name) for a in agents)))
        self._handoffs = tuple(agents)
        warn_of_handoffs(self.name, self.hooks, agents)

    @property
    def _what(self) -> str:
        return f"agent {self.name!r}: "

    def _check(self) -> None:
        check_instructions(self._what, self.instructions)
        check_tools_function(self._what, self.make_tools)
        checks.flag(f"{self._what}tool_search", self.tool_search)
        checks.text_or_none(f"{self._what}description", self.description)
        checks.whole(f"{self._what}max_iterations", self.max_iterations)
        if not isinstance(self.memory, Memory):
            raise checks.fail(f"{self._what}memory", "Memory(...)", self.memory)
        if self.limits is not None and not isinstance(self.limits, Limits):
            raise checks.fail(f"{self._what}limits", "Limits(...)", self.limits)
        if not isinstance(self.model_settings, ModelSettings):
            raise checks.fail(
                f"{self._what}model_settings", "ModelSettings(...)", self.model_settings
            )
        warn_of_embedded(self.name, self.hooks, self.memory)
        _ = self._output_type
        check_validator(self._what, self.output, self.output_validator)

    def _check_tools(self) -> None:
        reserved_names = self.built_in_tools
        names = set(reserved_names)
        for each in self.tools:
            if not isinstance(each, Tool):
                raise checks.fail(f"{self._what}a tool", "made by @tool", each)
            if each.name in names:
                whose = "memory's own tool" if each.name in reserved_names else "another tool"
                raise DefinitionError(
                    f"{self._what}{whose} is called {each.name!r}, too: give one another name"
                )
            names.add(each.name)
        if self.has_all_tools:  # else a run's tools are known when it begins
            self.check_tool_choice()
        check_sub_agents(self.name, self._tools)

    @property
    def has_all_tools(self) -> bool:
        """True if all of its tools are known before a run: no function and no server gives it any."""
        return self.make_tools is None and not self.servers

    def check_tool_choice(self) -> None:
        """Raise DefinitionError if the model has to call a tool that this agent does not have."""
        names = {"auto", "none", "required", *self.built_in_tools, *(t.name for t in self.tools)}
        forced = self.model_settings.tool_choice
        if forced is not None and forced not in names:
            unknown = unknown_name("tool", forced, names)
            raise DefinitionError(f"{self._what}tool_choice: {unknown}")

    @property
    def built_in_tools(self) -> frozenset[str]:
        """Names of the tools that its memory and `tool_search` add."""
        parts = {
            "update_working_memory": self.memory.working_memory,
            "recall_memory": self.memory.episodic,
            "plan": self.memory.plan,
            MESSAGES_TOOL: self.memory.compaction,
            SEARCH_TOOL: self.tool_search,
            RESULT_TOOL: self.memory.has_previews
            and (self._tools or self.make_tools or self.servers),
        }
        return frozenset(name for name, part in parts.items() if part)

    def tool(self, name: str) -> AnyTool | None:
        """Return the tool of this name; None if there is none."""
        return next((t for t in self.tools if t.name == name), None)

    def at(self, path: Sequence[str]) -> "Agent | None":
        """Return the agent at the end of a path of names that begins with this agent's own; an empty path is
        the agent itself. None: no sub-agent has this name (any more)."""
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
        """Return the reply as an instance of `output`. Raises `pydantic.ValidationError`."""
        assert self._output_type is not None
        return self._output_type.parse(text)

    def partial_output(self, text: str) -> Any:
        """Return the output as JSON, as far as this beginning of a reply goes; None if there is nothing
        yet."""
        assert self._output_type is not None
        return self._output_type.partial(text)

    @named_options(lambda self, *_, **__: f"as_tool of agent {self.name!r}")
    def as_tool(
        self, description: str, *, memory: bool = False, background: bool = False
    ) -> AnyTool:
        """Return this agent as a tool of another, named after it: `{input, context?}` in, `{result}` out.

        It runs inside the call, in the journal of the run that made the call: its approvals are pending
        calls of that run, its usage counts in it. It sees its briefing only. Called directly, it runs in
        this process.

        Args:
            description: What the other agent's model reads: what this agent is for. It must not be empty.
            memory: True: its own `Memory` settings apply, with its earlier calls in the thread. False: none
                of them.
            background: True: the call is answered as soon as it has begun, with `{started}`, and the run
                goes on. Its model is told the result before a later step, and before the run ends.

        Raises:
            DefinitionError: If the description is empty, or an option is neither True nor False. The agent
                that gets the tool refuses one that leads back to it.

        Example:
            ```python
            import asyncio

            from layover import Agent
            from layover.testing import ScriptedModel, call, say, tool_results

            billing = Agent("billing", instructions="You answer questions about invoices.")
            support = Agent("support", tools=[billing.as_tool("Answers questions about invoices.")])


            async def main() -> None:
                script = [
                    call("billing", input="Is invoice 7 paid?"),  # support asks
                    say("Invoice 7 was paid on Monday."),  # billing answers
                    say("Yes, on Monday."),  # support answers
                ]
                with support.override(model=ScriptedModel(script)):
                    result = await support.generate("Did my money arrive?")
                assert tool_results(result) == [{"result": "Invoice 7 was paid on Monday."}]
                assert result.text == "Yes, on Monday."


            asyncio.run(main())
            ```
        """
        return delegate_tool(self, description, memory=memory, background=background)

    def _new_driver(self) -> Driver:
        return engine().in_process(self)

    def override(
        self,
        *,
        model: M,
        embedder: "Embedder | None" = None,
        clock: "Clock | None" = None,
        deps: Any = _KEPT,
        tokens: Mapping[str, str] | None = None,
    ) -> Override[M]:
        '''Run this agent with this model and with empty stores in memory while a `with` lasts, for tests.

        Afterwards the agent has its `runtime`, its runs and the handlers of `on` again. Overrides nest. At
        the end, the model's `verify` is called, if it has one: its error (ScriptExhausted) fails the test,
        and a failure that followed from it is its cause.

        Args:
            model: The model of its runs, which the `with` gives back: `layover.testing.ScriptedModel`.
            embedder: The embedder of its memory (`layover.testing.HashingEmbedder`); None: the
                environment's.
            clock: The clock of its runs (`layover.testing.ManualClock`); None: the time of day.
            deps: A value in place of that of the agent's own factory; None, too, is one. Left out: the
                factory makes it.
            tokens: What `ctx.token` answers for connections, by their names, also in sub-agents; None: calls
                wait for an account.

        Raises:
            RuntimeError: If two overrides of an agent do not end in reverse order.

        Example:
            ```python
            import asyncio

            from layover import Agent, ToolContext, tool
            from layover.testing import ScriptedModel, call, say, tool_results


            @tool
            def rate(kind: str, ctx: ToolContext[dict[str, float]]) -> float:
                """The price of a kind of room, in euros."""
                return ctx.deps[kind]


            hotel = Agent("hotel", tools=[rate], deps=lambda: {"single": 90.0})


            async def main() -> None:
                script = [call("rate", kind="single"), say("75 euros.")]
                with hotel.override(model=ScriptedModel(script), deps={"single": 75.0}) as model:
                    result = await hotel.generate("What is a single room?")
                assert tool_results(result, "rate") == [75.0]
                assert [spec.name for spec in model.turns[0].tools] == ["rate"]


            asyncio.run(main())
            ```
        '''

        def replace() -> Callable[[], None]:
            stores = engine().in_memory_runtime(self, model=model, embedder=embedder, clock=clock)
            if tokens is not None:
                stores = change(stores, connections=change(stores.connections, fixed=dict(tokens)))
            restore = self._replace(stores)
            former = self.deps
            if deps is not _KEPT:
                self.deps = lambda: deps

            def undo() -> None:
                restore()
                self.deps = former

            return undo

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


def _hands_over(tool: Any) -> bool:
    return isinstance(tool, Tool) and tool.handoff is not None
