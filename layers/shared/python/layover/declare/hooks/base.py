"""`Hook`, and the arguments and results of its methods."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from pydantic import Field

from layover.declare.context import NodeHistory, RunContext
from layover.declare.generics import Deps
from layover.declare.result import Result
from layover.declare.schemas import checks
from layover.errors import ConfigurationError
from layover.values.base import Json, Value
from layover.values.decision import DecisionNote
from layover.values.message import Message
from layover.values.prompt import ToolSpec
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.usage import Usage

MODEL_POINTS = ("before_model", "after_model")
POINTS = (*MODEL_POINTS, "before_tool", "after_tool", "at_end")


@dataclass(frozen=True)
class HookContext(RunContext[Deps], Generic[Deps]):
    """A run as its hooks see it."""

    kept: dict[str, Any] = field(default_factory=dict, compare=False)
    """Values that `before_model` leaves for `after_model` of the same request. They are not stored."""
    nodes: Callable[[str], NodeHistory] | None = field(default=None, repr=False, compare=False)

    def node_memory(self, node_id: str) -> NodeHistory:
        """Return the history of a named step of a workflow. Raises ConfigurationError outside a thread."""
        if not self.thread_id:
            raise ConfigurationError("node memory belongs to a thread, and this run has none")
        if self.nodes is None:
            raise ConfigurationError("node memory is not available here")
        return self.nodes(node_id)


class ModelRequest(Value):
    """A step's request. A hook may change all of it except the model, which is the first one called."""

    model: str
    system: str | None = None
    messages: tuple[Message, ...] = ()
    """The messages as the model is to see them: of a tool's message it reads `model_output`."""
    tools: tuple[ToolSpec, ...] = ()
    settings: ModelSettings = ModelSettings()


class ModelCall(Value):
    """A call that the model asks for. `args`: the decoded object, or the raw text if it is no JSON."""

    id: str = ""
    name: str
    args: Json = Field(default_factory=dict)
    state: dict[str, Any] = Field(default_factory=dict, repr=False)
    """The provider's own data; it goes back with the call."""


class ModelResponse(Value):
    """The model's reply. A hook may change `text`, `reasoning` and `calls`."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ModelCall, ...] = ()
    finish_reason: str = "stop"
    model: str = ""
    usage: Usage = Usage()


class ToolCall(Value):
    """A call of a tool. `args`: validated, as JSON."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    attempt: int = 0
    """The number of its suspensions so far."""
    decision: DecisionNote | None = None
    """A person's decision about it, in `after_tool`."""
    needs_approval: bool = False
    """True if its tool always, or sometimes, needs an approval."""
    trusted: bool = False
    """True if its tool is `trusted=True`, or memory's own."""


class ToolResult(Value):
    """The outcome of a tool. `model_output`: the text that the model reads. If a hook changes `value` alone,
    it becomes that value's text."""

    value: Json = None
    model_output: str = ""
    is_error: bool = False


class HookAnswer(Value):
    """An answer of `before_tool`, beside None and a changed copy of the call."""


class Allow(HookAnswer):
    """The call runs without an approval, with these arguments if given."""

    args: dict[str, Any] | None = None
    reason: str | None = None

    def __init__(self, args: dict[str, Any] | None = None, reason: str | None = None) -> None:
        super().__init__(args=args, reason=reason)


class Answer(HookAnswer):
    """The call is settled with this value; its tool does not run."""

    value: Json = None

    def __init__(self, value: Any = None) -> None:
        super().__init__(value=value)


class Refuse(HookAnswer):
    """The call is declined; the model reads why."""

    reason: str | None = None

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason=reason)


class Suspend(HookAnswer):
    """The call waits for a person, as an approval."""

    reason: str | None = None

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason=reason)


T = TypeVar("T")
Maybe: TypeAlias = T | Awaitable[T | None] | None
BeforeTool = HookAnswer | ToolCall


class Hook:
    """An optional base for hooks: each method that a subclass defines is called (docs/hooks.md).

    `idempotent`: `before_model` gives the same answer for the same request. It is then called again after
    a crash, and costs no write.

    `everywhere`: `before_model` and `after_model` are also called around what memory asks a model in the
    background, and in sub-agents that have no hook of the same class; and `before_embedding` is called.
    Around memory's requests the context has no `metadata`, `deps` and nodes, and there is no `Retry`: a hook
    that raises costs that request."""

    idempotent: ClassVar[bool] = False
    everywhere: ClassVar[bool] = False

    def before_model(self, ctx: HookContext, request: ModelRequest) -> Maybe[ModelRequest]:
        """Called before a step's request is sent. Return a changed copy, or None."""

    def after_model(self, ctx: HookContext, response: ModelResponse) -> Maybe[ModelResponse]:
        """Called when a reply is complete. Return a changed copy, or None. `Retry` asks the model again."""

    def before_embedding(self, text: str) -> Maybe[str]:
        """Called with each text that an embedder is to read, if the hook is `everywhere`. Return another
        text, or None. The text is stored as it is."""

    def before_tool(self, ctx: HookContext, call: ToolCall) -> Maybe[BeforeTool]:
        """Called before a call. Return `Allow`, `Answer`, `Refuse`, `Suspend`, a copy with other arguments,
        or None."""

    def after_tool(self, ctx: HookContext, call: ToolCall, result: ToolResult) -> Maybe[ToolResult]:
        """Called when a tool has run. Return a changed copy of its result, or None."""

    def at_end(self, ctx: HookContext, result: Result) -> Maybe[Result]:
        """Called once, when the run ends. Return a copy with another `output`, or None. A cancelled run has
        none."""


def defines(hook: Any, point: str) -> bool:
    """Return whether the hook is asked at this point."""
    method = getattr(hook, point, None)
    return callable(method) and getattr(type(hook), point, None) is not getattr(Hook, point)


def is_everywhere(hook: Any) -> bool:
    """Return whether the hook is asked around all requests that are made for its agent."""
    return bool(getattr(hook, "everywhere", False))


def inherited_hooks(above: Sequence[Any], own: Sequence[Any]) -> tuple[Any, ...]:
    """Return those hooks of a caller that are asked around a sub-agent's model, too: `everywhere`, and of no
    class of which the sub-agent has one itself."""
    classes = {type(hook) for hook in own}
    return tuple(h for h in above if is_everywhere(h) and type(h) not in classes)


def name_of(hook: Any) -> str:
    """Return the hook's name in records and events: its class's."""
    return type(hook).__name__


def hooks_of(what: str, value: Any) -> tuple[Any, ...]:
    """Return the hooks, as they were given. Raises DefinitionError for a hook that is asked at no point."""
    if isinstance(value, str | Hook) or not hasattr(value, "__iter__"):
        raise checks.fail(f"{what}hooks", "a list of hooks", value)
    hooks = tuple(value)
    for hook in hooks:
        points = (*POINTS, "before_embedding") if is_everywhere(hook) else POINTS
        if isinstance(hook, type) or not any(defines(hook, point) for point in points):
            expected = f"an object with one of {', '.join(points)}"
            raise checks.fail(f"{what}a hook", expected, hook)
    return hooks
