"""The context that a tool gets besides its arguments."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from layover.declare.generics import Deps, Resumed
from layover.declare.schemas.render import jsonable
from layover.errors import ConfigurationError, unknown_name
from layover.values.message import FilePart

Returned = TypeVar("Returned")
_NONE: Any = None
NO_THREAD = (
    "ctx.node_memory belongs to a thread, and this run has none: start the run with a thread_id"
)


class Retry(Exception):
    '''The exception by which a tool or an `output_validator` makes the model try again.

    Its text is the call's result, as an error (docs/behaviour.md#retries): it tells the model what to do
    better. `@tool(retries=...)` limits how often a tool may raise it in a run.

    Example:
        ```python
        import asyncio

        from layover import Agent, Retry, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool
        def weather(airport: str) -> str:
            """Weather at an airport."""
            if airport != "BER":
                raise Retry("no such airport; use the IATA code")
            return "rain"


        pilot = Agent("pilot", tools=[weather])


        async def main() -> None:
            script = [call("weather", airport="Berlin"), call("weather", airport="BER"), say("Rain.")]
            with pilot.override(model=ScriptedModel(script)):
                result = await pilot.generate("How is the weather in Berlin?")
            first, second = tool_results(result)
            assert "use the IATA code" in first
            assert second == "rain"


        asyncio.run(main())
        ```
    '''


@dataclass(frozen=True)
class RunContext(Generic[Deps]):
    """A run as the author's functions see it: the argument of `instructions`, `tools` and `output_validator`.

    Attributes:
        run_id: The run's id; in a sub-agent the sub-agent's own, as in `children` of the run.
        thread_id: The conversation's id; None if the run was started without one.
        resource_id: The thread's owner: the `sub` of the verified token.
        agent_name: The name of the agent whose function is called.
        metadata: The thread's metadata, as callers wrote it.
        now: A time in UTC, equal for every attempt of the run's first step.
        deps: The value that the agent's `deps` made; None if it has none.
        groups: The groups of the caller who started the run, from the verified token. They stay those of
            the start, whoever decides or resumes a call later.
        scopes: The scopes of that token; `metadata` is what callers write, and proves nothing.

    Example:
        ```python
        import asyncio

        from layover import Agent, RunContext
        from layover.testing import ScriptedModel, say


        def instructions(ctx: RunContext) -> str:
            plan = "premium" if "premium" in ctx.groups else "free"
            return f"You serve {ctx.resource_id} on the plan {plan}."


        planner = Agent("planner", instructions=instructions)


        async def main() -> None:
            with planner.override(model=ScriptedModel([say("Hello, Ada.")])) as model:
                await planner.generate("Hello!", resource_id="ada", groups=["premium"])
            assert "You serve ada on the plan premium." in str(model.turns[0].system)


        asyncio.run(main())
        ```
    """

    run_id: str
    thread_id: str | None
    resource_id: str
    agent_name: str
    metadata: Mapping[str, Any]
    now: datetime
    deps: Deps = _NONE
    groups: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SuspendRequest:
    """The value that `ctx.suspend(...)` makes and the tool returns. No `except` can swallow a value."""

    payload: Any


@dataclass(frozen=True)
class FormRequest(SuspendRequest):
    """A request for data of a type that only the call knows: `schema` is its JSON schema. `memo` is journaled
    with the call, and nobody is shown it."""

    schema: dict[str, Any]
    memo: Any


@dataclass(frozen=True)
class Resumption:
    """`ctx.resume` of a call that a `FormRequest` suspended: the person's `data`, and its `memo`."""

    data: Any
    memo: Any


class NodeHistory(Protocol):
    """The history of one named step of a workflow inside a thread (docs/behaviour.md#node-memory)."""

    async def add(self, messages: Sequence[Any]) -> None:
        """Append messages; missing ids are made."""
        ...

    async def history(
        self, parent_id: str | None = None, max_tokens: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the branch that ends in `parent_id` (default: the newest), oldest first: the newest messages
        that fit."""
        ...

    async def flush(self) -> None:
        """Write the added messages."""
        ...

    async def clear(self) -> None:
        """Forget the whole history."""
        ...


class ToolServices(Protocol):
    """The services that the engine gives a context. `cancelled` and `emit` are called from a tool's own
    thread."""

    def cancelled(self) -> bool:
        """Return whether a cancellation of the run was requested."""
        ...

    def emit(self, data: Any) -> None:
        """Add a `data` event; `data` is any JSON value."""
        ...

    async def save_file(self, name: str, mime_type: str, data: bytes) -> FilePart:
        """Store a file of the run's owner."""
        ...

    async def token(self, connection: str, rejected: str | None) -> str:
        """Return a token of a connection. Raises ConsentNeeded, which makes the call wait."""
        ...

    async def log_attempt(self, attempt: "Attempt") -> None:
        """Add a line to the thread's iteration log."""
        ...

    def node_memory(self, node_id: str) -> NodeHistory:
        """Return the history of a node. Raises ConfigurationError outside a thread."""
        ...


@dataclass(frozen=True)
class Attempt:
    """One line of the iteration log (docs/behaviour.md#iteration-log)."""

    task: str
    action: str
    result: str | None = None
    error: str | None = None
    diagnosis: str | None = None
    fix_applied: str | None = None


@dataclass
class RecordedHooks:
    '''Hooks that record a tool's effects, for an author's own unit tests (`ToolContext.for_test`).

    Attributes:
        is_cancelled: What `ctx.cancelled` says; a test sets it.
        emitted: The data of each `ctx.emit`, in order, as JSON.
        files: The bytes of each file that `ctx.save_file` stored, by name.
        attempts: What each `ctx.log_attempt` recorded, in order, with its arguments as attributes.
        nodes: The histories that `ctx.node_memory` gives, by the node's id; a test puts them there.
        tokens: The tokens that `ctx.token` gives, by the connection's name; a test puts them there.

    Example:
        ```python
        from layover import RecordedHooks, ToolContext, tool


        @tool
        def pack(item: str, ctx: ToolContext) -> str:
            """Pack an item."""
            if ctx.cancelled:
                return "nothing is packed"
            ctx.emit({"packed": item})
            return f"{item} is packed"


        hooks = RecordedHooks()
        assert pack("lamp", ToolContext.for_test(hooks=hooks)) == "lamp is packed"
        assert hooks.emitted == [{"packed": "lamp"}]
        hooks.is_cancelled = True
        assert pack("lamp", ToolContext.for_test(hooks=hooks)) == "nothing is packed"
        ```
    '''

    is_cancelled: bool = False
    emitted: list[Any] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    nodes: dict[str, NodeHistory] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    def cancelled(self) -> bool:
        """Return the flag as the test set it."""
        return self.is_cancelled

    def emit(self, data: Any) -> None:
        """Record the data in `emitted`."""
        self.emitted.append(data)

    async def save_file(self, name: str, mime_type: str, data: bytes) -> FilePart:
        """Record the file in `files`."""
        self.files[name] = data
        return FilePart(file_id=f"file_{len(self.files)}", name=name, mime_type=mime_type)

    async def token(self, connection: str, rejected: str | None) -> str:
        """Return the token that the test put into `tokens`."""
        if connection not in self.tokens:
            unknown = unknown_name("connection", connection, self.tokens)
            raise ConfigurationError(f"RecordedHooks.tokens: {unknown}")
        return self.tokens[connection]

    async def log_attempt(self, attempt: Attempt) -> None:
        """Record the attempt in `attempts`."""
        self.attempts.append(attempt)

    def node_memory(self, node_id: str) -> NodeHistory:
        """Return the node that the test put into `nodes`."""
        if node_id not in self.nodes:
            unknown = unknown_name("node memory", node_id, self.nodes)
            raise ConfigurationError(f"RecordedHooks.nodes: {unknown}")
        return self.nodes[node_id]


class ToolContext(Generic[Deps, Resumed]):
    '''A call as its tool sees it. A parameter annotated `ToolContext` gets it.

    Layover makes it; a unit test makes one with `for_test`. Its arguments are its attributes, except
    `hooks`.

    Args:
        run_id: The run's id, in tools of sub-agents, too: approvals and files are found by it.
        thread_id: The conversation's id; None if the run was started without one
            (`agent.generate("hi")`).
        resource_id: The thread's owner: the `sub` of the verified token.
        agent_name: The name of the agent that the call belongs to.
        tool_call_id: The call's id, by which a person decides it.
        idempotency_key: A text that is equal for every attempt of one call: pass it to services that
            accept such keys.
        resume: The data that the call was resumed with, validated as the tool's type `resume`; None
            before.
        hooks: The services behind the methods; None: there are none, and a method that needs one raises
            ConfigurationError.
        metadata: The thread's metadata, as callers wrote it and as it was when the run began. Do not
            authorise by it: use `groups` and `scopes`.
        now: The time at which this attempt of the call began, in UTC; None: the time of day.
        deps: The value that the agent's `deps` made; None if it has none.
        groups: The groups of the caller who started the run, from the verified token. They stay those of
            the start, whoever decides or resumes the call.
        scopes: The scopes of that token.

    Example:
        ```python
        from layover import ToolContext, tool


        @tool
        def pay(euros: int, ctx: ToolContext) -> str:
            """Pay money."""
            if "finance" not in ctx.groups:
                return "only finance pays"
            return f"{ctx.resource_id} paid {euros} euros with key {ctx.idempotency_key}"


        ctx = ToolContext.for_test(resource_id="ada", idempotency_key="k1", groups={"finance"})
        assert pay(5, ctx) == "ada paid 5 euros with key k1"
        assert pay(5, ToolContext.for_test(resource_id="ada")) == "only finance pays"
        ```
    '''

    def __init__(
        self,
        *,
        run_id: str,
        thread_id: str | None,
        resource_id: str | None,
        agent_name: str,
        tool_call_id: str,
        idempotency_key: str,
        resume: Resumed | None = None,
        hooks: ToolServices | None = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
        now: datetime | None = None,
        deps: Deps = _NONE,
        groups: Collection[str] = frozenset(),
        scopes: Collection[str] = frozenset(),
    ) -> None:
        self.run_id = run_id
        self.thread_id = thread_id
        self.resource_id = resource_id
        self.agent_name = agent_name
        self.tool_call_id = tool_call_id
        self.idempotency_key = idempotency_key
        self.resume = resume
        self.metadata = metadata
        self.now = now or datetime.now(UTC)
        self.deps = deps
        self.groups = frozenset(groups)
        self.scopes = frozenset(scopes)
        self._hooks = hooks

    @classmethod
    def for_test(cls, **overrides: Any) -> Self:
        """Return a context for a unit test of a tool: `await book(ToolContext.for_test(), day=...)`.

        Args:
            **overrides: Arguments of the constructor that the test sets itself. With
                `hooks=RecordedHooks()` it can look at what the tool emitted, saved and logged.
        """
        fields: dict[str, Any] = {
            "run_id": "run_test",
            "thread_id": "thread_test",
            "resource_id": "user_test",
            "agent_name": "agent_test",
            "tool_call_id": "call_test",
            "idempotency_key": "key_test",
            "hooks": RecordedHooks(),
        }
        return cls(**{**fields, **overrides})

    @property
    def cancelled(self) -> bool:
        """True if a cancellation of the run was requested; a long tool looks here from time to time."""
        return self._hooks is not None and self._hooks.cancelled()

    def suspend(self, payload: Any) -> Returned:  # type: ignore[type-var]
        """Make this call wait for a person: `return ctx.suspend(SlotOffer(...))`.

        When the call is resumed the tool runs again, with `ctx.resume` set; everything before the
        suspension happens twice. If the person declines to answer, the call is denied, and the tool does not
        run again. Returns a `SuspendRequest`, typed as the tool's declared return type.

        Args:
            payload: What the person is shown. It is validated against the tool's type `suspend`; one that
                does not fit is the call's error.
        """
        return cast(Returned, SuspendRequest(payload))

    def emit(self, data: Any) -> None:
        """Send a `data` event to the followers of the run.

        Args:
            data: Any value that has a JSON form.

        Raises:
            ConfigurationError: If the context has no hooks.
        """
        self._need("emit").emit(jsonable(data))

    async def token(self, connection: str, *, rejected: str | None = None) -> str:
        """Return a token of one of the agent's connections. Where its service says how long it is valid, it
        is so for a minute, or a tenth of its life. If the user has not connected the account, or the service
        takes it no more, the call waits, and the tool runs again from its beginning once the user has
        consented. No `except Exception` swallows that.

        Args:
            connection: The name of a `Connection` of the agent.
            rejected: A token that the service has just refused, for example with status 401: another one is
                asked for. None: the token that there is.

        Raises:
            ConfigurationError: If the agent has no such connection, or its registration is wrong.
            RetryableError: If the service does not answer.
        """
        return await self._need("token").token(connection, rejected)

    async def save_file(self, name: str, mime_type: str, data: bytes) -> FilePart:
        """Store a file of the run's owner. The returned part may be a tool's result, or in one: the model is
        shown it (docs/behaviour.md#files-of-results).

        Args:
            name: The file's name, as the owner sees it.
            mime_type: Its media type (`text/csv`).
            data: Its bytes.

        Raises:
            ConfigurationError: If the context has no hooks.
        """
        return await self._need("save_file").save_file(name, mime_type, data)

    async def log_attempt(
        self,
        task: str,
        action: str,
        result: str | None = None,
        error: str | None = None,
        diagnosis: str | None = None,
        fix_applied: str | None = None,
    ) -> None:
        """Record an attempt, for the next one at the same task (docs/behaviour.md#iteration-log).

        Args:
            task: The name of the task, equal for all attempts at it.
            action: What was tried.
            result: What came out, cut at 200 characters in prompts; None: nothing to say.
            error: What went wrong, never cut; None: nothing did.
            diagnosis: Why it went wrong; None: unknown.
            fix_applied: What was changed because of it; None: nothing.

        Raises:
            ConfigurationError: If the context has no hooks.
        """
        attempt = Attempt(
            task, action, result, error=error, diagnosis=diagnosis, fix_applied=fix_applied
        )
        await self._need("log_attempt").log_attempt(attempt)

    def node_memory(self, node_id: str) -> NodeHistory:
        """Return the history of a named step of a workflow.

        Args:
            node_id: The step's name in the thread.

        Raises:
            ConfigurationError: If the run is in no thread, or the context has no hooks.
        """
        if not self.thread_id:
            raise ConfigurationError(NO_THREAD)
        return self._need("node_memory").node_memory(node_id)

    def _need(self, what: str) -> ToolServices:
        if self._hooks is None:
            raise ConfigurationError(
                f"ctx.{what} is not available here: the context has no hooks. A test makes one that has them "
                "by ToolContext.for_test()"
            )
        return self._hooks
