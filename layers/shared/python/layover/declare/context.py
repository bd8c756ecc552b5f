"""The context that a tool gets beside its arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from layover.declare.generics import Deps, Resumed
from layover.declare.schemas.render import jsonable
from layover.errors import ConfigurationError
from layover.values.message import FilePart

Returned = TypeVar("Returned")
_NONE: Any = None


class Retry(Exception):
    """Raised by a tool that wants the model to try again: `raise Retry("no such city; use the IATA code")`.
    The text is the call's result, as an error (docs/behaviour.md#retries)."""


@dataclass(frozen=True)
class RunContext(Generic[Deps]):
    """A run as the author's functions see it: the argument of `instructions`."""

    run_id: str
    """In a sub-agent: the sub-agent's own id, as in `children` of the run."""
    thread_id: str | None
    """None if the run was started without one."""
    resource_id: str
    """The thread's owner: the `sub` of the verified token."""
    agent_name: str
    metadata: Mapping[str, Any]
    """The thread's metadata."""
    now: datetime
    """UTC; equal for every attempt of the run's first step."""
    deps: Deps = _NONE
    """The value that the agent's `deps` made; None if it has none."""


@dataclass(frozen=True)
class SuspendRequest:
    """The value that `ctx.suspend(...)` makes and the tool returns. No `except` can swallow a value."""

    payload: Any


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


class ToolHooks(Protocol):
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
    """Hooks that record a tool's effects, for an author's own unit tests."""

    is_cancelled: bool = False
    emitted: list[Any] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    nodes: dict[str, NodeHistory] = field(default_factory=dict)

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

    async def log_attempt(self, attempt: Attempt) -> None:
        """Record the attempt in `attempts`."""
        self.attempts.append(attempt)

    def node_memory(self, node_id: str) -> NodeHistory:
        """Return the node that the test put into `nodes`."""
        if node_id not in self.nodes:
            raise ConfigurationError(f"this test gave the tool no node memory {node_id!r}")
        return self.nodes[node_id]


class ToolContext(Generic[Deps, Resumed]):
    """A call as its tool sees it. A parameter annotated `ToolContext` gets it."""

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
        hooks: ToolHooks | None = None,
        metadata: Mapping[str, Any] = MappingProxyType({}),
        now: datetime | None = None,
        deps: Deps = _NONE,
    ) -> None:
        self.run_id = run_id
        """The run's id, in tools of sub-agents, too: approvals and files are found by it."""
        self.thread_id = thread_id
        """None if the run was started without one (`agent.generate("hi")`)."""
        self.resource_id = resource_id
        """The thread's owner: the `sub` of the verified token."""
        self.agent_name = agent_name
        self.tool_call_id = tool_call_id
        self.idempotency_key = idempotency_key
        """Equal for every attempt of one call: pass it to services that accept such keys."""
        self.resume = resume
        """The data that the call was resumed with, validated; None before."""
        self.metadata = metadata
        """The thread's metadata, as it was when the run began."""
        self.now = now or datetime.now(UTC)
        """The time at which this attempt of the call began, in UTC."""
        self.deps = deps
        """The value that the agent's `deps` made; None if it has none."""
        self._hooks = hooks

    @classmethod
    def for_test(cls, **overrides: Any) -> Self:
        """Return a context for a unit test of a tool: `await book(ToolContext.for_test(), day=...)`.

        `overrides`: any argument of the constructor. With `hooks=RecordedHooks()` the test can look
        at what the tool emitted, saved and logged."""
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
        """Make this call wait for a person: `return ctx.suspend(SlotOffer(...))`. The payload is validated
        against the tool's `suspend`. When the call is resumed the tool runs again, with `ctx.resume` set;
        everything before the suspension happens twice. Returns a `SuspendRequest`, typed as the tool's
        declared return type."""
        return cast(Returned, SuspendRequest(payload))

    def emit(self, data: Any) -> None:
        """Send a `data` event to the followers of the run."""
        self._need("emit").emit(jsonable(data))

    async def save_file(self, name: str, mime_type: str, data: bytes) -> FilePart:
        """Store a file. The returned part may be a tool's result or part of a message."""
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
        """Record an attempt, for the next one at the same task (docs/behaviour.md#iteration-log)."""
        attempt = Attempt(task, action, result, error, diagnosis, fix_applied)
        await self._need("log_attempt").log_attempt(attempt)

    def node_memory(self, node_id: str) -> NodeHistory:
        """Return the history of a named step of a workflow. Raises ConfigurationError outside a thread."""
        if not self.thread_id:
            raise ConfigurationError("node memory belongs to a thread, and this run has none")
        return self._need("node_memory").node_memory(node_id)

    def _need(self, what: str) -> ToolHooks:
        if self._hooks is None:
            raise ConfigurationError(f"ctx.{what} is not available here: the context has no hooks")
        return self._hooks
