"""`Hook`, and the arguments and results of its methods."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field

from layover.declare.context import NO_THREAD, NodeHistory, RunContext
from layover.declare.generics import Deps
from layover.declare.result import Result
from layover.declare.schemas import checks
from layover.errors import ConfigurationError, nearest
from layover.values.base import Json, Value
from layover.values.decision import DecisionNote
from layover.values.message import Message
from layover.values.prompt import ToolSpec
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.usage import Usage

REFUSED_REPLY = "I cannot answer this message."
"""The reply of a refused request, unless its hook gives one."""
MODEL_POINTS = ("before_model", "after_model")
POINTS = (*MODEL_POINTS, "before_tool", "after_tool", "at_end")
StreamKind: TypeAlias = Literal["text", "reasoning", "args"]
"""Of a reply that is streamed: its text, its reasoning, or the JSON of one call's arguments."""
StreamText: TypeAlias = Callable[[str, bool], str]
"""Gets the next piece, and whether it is the last one, which may be empty. Returns what is shown now; what it
keeps back it has to return with a later piece."""


@dataclass(frozen=True)
class ModelQuestion:
    """A question of a hook to a model: see `HookContext.ask_model`."""

    text: str
    model: str | None
    system: str | None
    schema: dict[str, Any] | None
    max_tokens: int


AskModel: TypeAlias = Callable[[ModelQuestion], Awaitable[str]]
"""Returns a model's answer."""


@dataclass(frozen=True)
class HookContext(RunContext[Deps], Generic[Deps]):
    """A run as its hooks see it: the first argument of each method of a `Hook`.

    Around memory's requests in the background (`Hook.everywhere`), `metadata` is empty, `deps` is None, and
    there are no nodes.

    Attributes:
        run_id: The run's id; in a sub-agent the sub-agent's own, as in `children` of the run.
        thread_id: The thread's id; None if the run was started without one.
        resource_id: The thread's owner: the `sub` of the verified token.
        agent_name: The name of the agent that the hook belongs to; in a sub-agent the sub-agent's.
        metadata: The thread's metadata, as the run pinned it at its first step.
        now: The time at which the hooks are asked, in UTC.
        deps: The value that the agent's `deps` made; None if it has none.
        groups: The groups of the caller who started the run, from the verified token.
        scopes: The scopes of that token.
        kept: Values that `before_model` leaves for `after_model` of the same request. They are not stored.
        nodes: Opens the history of a node by its id; None where there is none. Call `node_memory` instead.
        models: Asks a model; None where that is not possible. Call `ask_model` instead.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, ModelRequest, ModelResponse
        from layover.testing import ScriptedModel, say


        class Signed(Hook):
            def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
                ctx.kept["asked"] = request.messages[-1].text

            def after_model(self, ctx: HookContext, response: ModelResponse) -> ModelResponse:
                text = f"{ctx.agent_name}, asked {ctx.kept['asked']!r}: {response.text}"
                return response.model_copy(update={"text": text})


        shop = Agent("shop", hooks=[Signed()])
        with shop.override(model=ScriptedModel([say("Yes.")])):
            result = asyncio.run(shop.generate("Is it open?"))
        assert result.text == "shop, asked 'Is it open?': Yes."
        ```
    """

    kept: dict[str, Any] = field(default_factory=dict, compare=False)
    nodes: Callable[[str], NodeHistory] | None = field(default=None, repr=False, compare=False)
    models: AskModel | None = field(default=None, repr=False, compare=False)

    def node_memory(self, node_id: str) -> NodeHistory:
        """Return the history of a named step of a workflow, inside the run's thread.

        Args:
            node_id: The step's name: a text of at most 300 bytes, percent-encoded.

        Raises:
            ConfigurationError: If the run is in no thread, or the request is one of memory's own.
        """
        if not self.thread_id:
            raise ConfigurationError(NO_THREAD)
        if self.nodes is None:
            raise ConfigurationError(
                "ctx.node_memory is not available here: around memory's own requests, a hook has no nodes"
            )
        return self.nodes(node_id)

    async def ask_model(
        self,
        text: str,
        *,
        model: str | None = None,
        system: str | None = None,
        schema: dict[str, Any] | None = None,
        max_tokens: int = 500,
    ) -> str:
        """Return a model's answer to a text, in `before_model` and `after_model` of a run's own requests.
        What it costs counts as the run's, also towards its limits and its user's day. Hooks that are
        `everywhere` change the request: `RedactPII` does.

        Args:
            text: What the model reads, as one user's message.
            model: The model's full name; None: the run's own.
            system: The system message; None: none.
            schema: A JSON schema (an object) that the provider is to hold the answer to. Parse the answer
                even so: not every model does. None: the answer is any text.
            max_tokens: The most tokens of the answer. A model that may think gets 4,000 on top.

        Raises:
            ModelError: If the model does not answer.
            ConfigurationError: At another point, or around a request of memory.
        """
        if self.models is None:
            raise ConfigurationError(
                "ctx.ask_model is available in before_model and after_model of a run's own requests only"
            )
        return await self.models(ModelQuestion(text, model, system, schema, max_tokens))


class ModelRequest(Value):
    """A step's request to the model. `before_model` gets it, and may return a copy with any field changed
    except `model` and `unanswered`.

    Attributes:
        model: The model that is called first, by its full name.
        system: The system message; None if there is none.
        messages: The messages as the model is to see them, oldest first. Of a tool's message it reads
            `model_output`.
        tools: The tools that the model may call: name, description and parameters (a JSON schema).
        settings: The settings of the request, with those that the run chose.
        unanswered: The users' messages that no model has answered, oldest first, as they were sent: without
            what memory adds, and as no hook has changed them. Empty at a step that only follows calls.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, ModelRequest
        from layover.testing import ScriptedModel, say


        class Brief(Hook):
            idempotent = True

            def before_model(self, ctx: HookContext, request: ModelRequest) -> ModelRequest:
                return request.model_copy(update={"system": f"{request.system} Use one sentence."})


        shop = Agent("shop", instructions="You sell furniture.", hooks=[Brief()])
        with shop.override(model=ScriptedModel([say("Hello.")])) as model:
            asyncio.run(shop.generate("Hi"))
        assert model.turns[0].system == "You sell furniture. Use one sentence."
        ```
    """

    model: str
    system: str | None = None
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    settings: ModelSettings = ModelSettings()
    unanswered: tuple[Message, ...] = ()


class ModelCall(Value):
    '''A call that the model asks for, in a `ModelResponse`.

    Attributes:
        id: The provider's id of the call; empty for a call that a hook adds, which gets one.
        name: The tool's name.
        args: The decoded arguments (an object), or the raw text if it is not JSON.
        state: The provider's own data; it goes back with the call.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, ModelResponse, tool
        from layover.testing import ScriptedModel, call, calls, say, tool_results


        @tool
        def look_up(city: str) -> str:
            """Look a city up."""
            return city.upper()


        class OneCall(Hook):
            def after_model(self, ctx: HookContext, response: ModelResponse) -> ModelResponse:
                return response.model_copy(update={"calls": response.calls[:1]})


        guide = Agent("guide", tools=[look_up], hooks=[OneCall()])
        script = [calls(call("look_up", city="Bonn"), call("look_up", city="Rome")), say("Bonn it is.")]
        with guide.override(model=ScriptedModel(script)):
            result = asyncio.run(guide.generate("Where to?"))
        assert tool_results(result) == ["BONN"]
        ```
    '''

    id: str = ""
    name: str
    args: Json = Field(default_factory=dict)
    state: dict[str, Any] = Field(default_factory=dict, repr=False)


class ModelResponse(Value):
    """The model's complete reply. `after_model` gets it, and may return a copy with another `text`,
    `reasoning` or `calls`; changes of the other fields have no effect.

    Attributes:
        text: The answer in words; empty if there is none.
        reasoning: The model's thoughts, as far as it shows them.
        calls: The calls that it asks for, in order.
        finish_reason: `stop`, `length` (cut off at the limit of tokens), `tool-calls` or `content-filter`.
        model: The model that answered, by its provider's name for it.
        usage: The tokens of the request and their cost.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, ModelResponse, Retry
        from layover.testing import ScriptedModel, say


        class NoDiscounts(Hook):
            def after_model(self, ctx: HookContext, response: ModelResponse) -> None:
                if "discount" in response.text:
                    raise Retry("Promise no discount.")


        shop = Agent("shop", hooks=[NoDiscounts()])
        with shop.override(model=ScriptedModel([say("You get a discount!"), say("It costs 42 euros.")])):
            result = asyncio.run(shop.generate("Can it be cheaper?"))
        assert result.text == "It costs 42 euros."
        ```
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[ModelCall, ...] = ()
    finish_reason: str = "stop"
    model: str = ""
    usage: Usage = Usage()


class ToolCall(Value):
    '''A call of a tool, as the hooks around it see it. A copy with other `args`, returned by `before_tool`,
    changes the arguments only: the tool's own `needs_approval` still applies.

    Attributes:
        tool_call_id: The call's id, unique in the run.
        tool_name: The tool's name.
        args: The validated arguments, as JSON.
        attempt: The number of its suspensions so far.
        decision: A person's decision about it, in `after_tool`; None if nobody had to decide.
        needs_approval: True if its tool always, or sometimes, needs an approval.
        quorum: The number of persons who have to approve it, if it needs an approval.
        trusted: True if its tool is `trusted=True`, or memory's own.
        definition: The hash of the definition of its tool, if that needs an approval: its description, schema
            and rules, not its code. Once a person has decided, the one that the request was about.
        server: The name of the server that lists its tool; None: the deployed code has it.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, ToolCall, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool
        def search(query: str, limit: int = 10) -> str:
            """Search the catalogue."""
            return f"{limit} hits for {query}"


        class AtMostFive(Hook):
            def before_tool(self, ctx: HookContext, call: ToolCall) -> ToolCall:
                return call.model_copy(update={"args": {**call.args, "limit": min(call.args["limit"], 5)}})


        shop = Agent("shop", tools=[search], hooks=[AtMostFive()])
        with shop.override(model=ScriptedModel([call("search", query="lamp", limit=500), say("Here.")])):
            result = asyncio.run(shop.generate("All lamps!"))
        assert tool_results(result) == ["5 hits for lamp"]
        ```
    '''

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    attempt: int = 0
    decision: DecisionNote | None = None
    needs_approval: bool = False
    quorum: int = 1
    trusted: bool = False
    definition: str = ""
    server: str | None = None


class ToolResult(Value):
    '''The outcome of a tool. `after_tool` gets it, and may return a changed copy. If the copy has another
    `value` and the same `model_output`, the model reads the text of the new value.

    Attributes:
        value: The raw result, as JSON: events and the thread show it.
        model_output: The text that the model reads.
        is_error: True if the tool failed.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, ToolCall, ToolResult, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool
        def customer(name: str) -> dict[str, str]:
            """Look a customer up."""
            return {"name": name, "password": "hunter2"}


        class NoPasswords(Hook):
            def after_tool(self, ctx: HookContext, call: ToolCall, result: ToolResult) -> ToolResult | None:
                if not isinstance(result.value, dict):
                    return None
                shown = {key: value for key, value in result.value.items() if key != "password"}
                return result.model_copy(update={"value": shown})


        shop = Agent("shop", tools=[customer], hooks=[NoPasswords()])
        with shop.override(model=ScriptedModel([call("customer", name="Ada"), say("Found.")])) as model:
            result = asyncio.run(shop.generate("Who is Ada?"))
        assert tool_results(result) == [{"name": "Ada"}]
        assert "hunter2" not in str(model.turns[1].messages)
        ```
    '''

    value: Json = None
    model_output: str = ""
    is_error: bool = False


class HookAnswer(Value):
    """An answer of `before_tool`, next to None and a changed copy of the call. `Answer` and `Refuse` are
    answers of `before_model`, too."""


class Allow(HookAnswer):
    '''An answer of `before_tool`: the call runs without an approval. Later hooks are asked, too.

    Args:
        args: The arguments that the tool gets, in place of the call's; they are validated like the model's.
            None: they stay as they are.
        reason: The recorded reason, in the event `hook-decision` and in the audit; None: none is recorded.

    Example:
        ```python
        import asyncio

        from layover import Agent, Allow, Hook, HookContext, ToolCall, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool(needs_approval=True)
        def refund(amount: float) -> str:
            """Pay money back."""
            return f"paid {amount:.2f} euros"


        class SmallAmounts(Hook):
            def before_tool(self, ctx: HookContext, call: ToolCall) -> Allow | None:
                return Allow(reason="below 20 euros") if call.args["amount"] < 20 else None


        shop = Agent("shop", tools=[refund], hooks=[SmallAmounts()])
        with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
            result = asyncio.run(shop.generate("5 euros back, please."))
        assert tool_results(result) == ["paid 5.00 euros"]
        ```
    '''

    args: dict[str, Any] | None = None
    reason: str | None = None

    def __init__(self, args: dict[str, Any] | None = None, reason: str | None = None) -> None:
        super().__init__(args=args, reason=reason)


class Answer(HookAnswer):
    '''An answer of `before_tool`: the call is settled with this value, and its tool does not run. Of
    `before_model`: the value is the reply, and no model is asked. Later hooks are not asked.

    Args:
        value: The call's result, or the reply: any value that becomes JSON, a dataclass or a pydantic model
            included. As a reply, a text stays as it is; an agent with `output` takes a value that fits it.

    Example:
        ```python
        import asyncio

        from layover import Agent, Answer, Hook, HookContext, ToolCall, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool
        def weather(city: str) -> str:
            """Ask the weather service, which costs money."""
            raise AssertionError("not asked: the answer is known")


        class Known(Hook):
            def before_tool(self, ctx: HookContext, call: ToolCall) -> Answer | None:
                return Answer("sunny") if call.args["city"] == "Bonn" else None


        guide = Agent("guide", tools=[weather], hooks=[Known()])
        with guide.override(model=ScriptedModel([call("weather", city="Bonn"), say("It is sunny.")])):
            result = asyncio.run(guide.generate("How is Bonn?"))
        assert tool_results(result) == ["sunny"]
        ```
    '''

    value: Json = None

    def __init__(self, value: Any = None) -> None:
        super().__init__(value=value)


class Refuse(HookAnswer):
    '''An answer of `before_tool`: the call is declined, and the model reads why. Its tool does not run. Of
    `before_model`: the run ends with the finish reason `refused`, no model is asked, and none is ever shown
    the refused messages (docs/hooks.md#refused). Later hooks are not asked.

    Args:
        reason: Of a call, the text that the model reads, and that the event `hook-decision` has; None: it
            reads only that the call was not approved. Of a request, the text of the event `hook-reply`, which
            no model reads.
        reply: Of a request: the text that the user reads as the agent's reply. None: "I cannot answer this
            message." Of a call it has no effect.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, Refuse, ToolCall, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool
        def delete(path: str) -> str:
            """Delete a file."""
            return f"{path} is deleted"


        class OnlyDrafts(Hook):
            def before_tool(self, ctx: HookContext, call: ToolCall) -> Refuse | None:
                return None if call.args["path"].startswith("drafts/") else Refuse("only drafts may go")


        clerk = Agent("clerk", tools=[delete], hooks=[OnlyDrafts()])
        with clerk.override(model=ScriptedModel([call("delete", path="contract.pdf"), say("I may not.")])):
            result = asyncio.run(clerk.generate("Delete the contract."))
        declined = tool_results(result)[0]
        assert declined["declined"] and declined["reason"] == "only drafts may go"
        ```
    '''

    reason: str | None = None
    reply: str | None = None

    def __init__(self, reason: str | None = None, reply: str | None = None) -> None:
        super().__init__(reason=reason, reply=reply)


class Suspend(HookAnswer):
    '''An answer of `before_tool`: the call waits for a person, as an approval, whether its tool needs one or
    not. Later hooks are not asked.

    Args:
        reason: The text that the approver sees, as `payload["reason"]` of the waiting call; None: none.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, Suspend, ToolCall, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def order(item: str, count: int) -> str:
            """Order goods."""
            return f"{count} x {item} ordered"


        class LargeOrders(Hook):
            def before_tool(self, ctx: HookContext, call: ToolCall) -> Suspend | None:
                return Suspend("a large order") if call.args["count"] > 10 else None


        buyer = Agent("buyer", tools=[order], hooks=[LargeOrders()])


        async def main() -> None:
            script = [call("order", item="lamp", count=50), say("50 lamps are ordered.")]
            with buyer.override(model=ScriptedModel(script)):
                waiting = await buyer.generate("Order 50 lamps.")
                pending = waiting.pending[0]
                assert pending.payload["reason"] == "a large order"
                result = await buyer.approve(waiting.run_id, pending.tool_call_id)
            assert result.text == "50 lamps are ordered."


        asyncio.run(main())
        ```
    '''

    reason: str | None = None

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason=reason)


T = TypeVar("T")
Maybe: TypeAlias = T | Awaitable[T | None] | None
BeforeTool = HookAnswer | ToolCall
BeforeModel = ModelRequest | Answer | Refuse


class Hook:
    '''An optional base for hooks: an author's code around an agent's model, tools and end (docs/hooks.md).

    An agent gets hooks by `Agent(hooks=[...])` and asks them in the order of the list. Each method that a
    subclass defines is called, plain or async; None as an answer changes nothing. An object with one of the
    methods is a hook without this base, too.

    Attributes:
        idempotent: True: `before_model` gives the same answer for the same request. It is then called again
            after a crash, and costs no write. Default: False, and its answer is stored before the request is
            sent.
        once_per_input: True: `before_model` judges what users have sent. It is asked once for each new input
            (`ModelRequest.unanswered`) and not at the steps that follow, it returns `Answer`, `Refuse` or
            None, and its answer is stored for the input. Default: False.
        everywhere: True: `before_model` and `after_model` are also called around what memory asks a model in
            the background, and in sub-agents that have no hook of the same class; and `before_embedding` is
            called. Around memory's requests the context has no `metadata`, `deps` and nodes, and there is no
            `Retry`: a hook that raises costs that request. Default: False.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, Result, ToolCall, ToolResult, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return 42.0


        class Notes(Hook):
            def __init__(self) -> None:
                self.lines: list[str] = []

            def after_tool(self, ctx: HookContext, call: ToolCall, result: ToolResult) -> None:
                self.lines.append(f"{call.tool_name} -> {result.value}")

            async def at_end(self, ctx: HookContext, result: Result) -> None:
                self.lines.append(f"ended: {result.status}")


        notes = Notes()
        shop = Agent("shop", tools=[price], hooks=[notes])
        with shop.override(model=ScriptedModel([call("price", item="lamp"), say("42 euros.")])):
            asyncio.run(shop.generate("What is the lamp?"))
        assert notes.lines == ["price -> 42.0", "ended: success"]
        ```
    '''

    idempotent: ClassVar[bool] = False
    everywhere: ClassVar[bool] = False
    once_per_input: ClassVar[bool] = False

    def before_model(self, ctx: HookContext, request: ModelRequest) -> Maybe[BeforeModel]:
        """Change a step's request before it is sent: return a changed copy, or None. `Answer` replies in the
        model's place, and `Refuse` ends the run. An exception fails the run; `RetryableError` costs it an
        attempt.

        Args:
            ctx: The run.
            request: The request, as the hooks before this one left it.
        """

    def after_model(self, ctx: HookContext, response: ModelResponse) -> Maybe[ModelResponse]:
        """Change or reject a complete reply: return a changed copy, or None. `Retry` asks the model again,
        twice in a row at most. Any other exception fails the run; `RetryableError` costs it an attempt.

        Args:
            ctx: The run, with what `before_model` left in `kept`.
            response: The reply, as the hooks before this one left it.
        """

    def stream_text(self, ctx: HookContext, kind: StreamKind) -> StreamText | None:
        """Return a function that changes the pieces of a reply while it is streamed, as `after_model` will
        change the whole; None: they stay as they are. With a hook that has `after_model` and not this method,
        a streamed reply is held back until it is whole. The method is plain, not async. If what was shown
        differs from the reply that is stored, or the function raises, the reply is shown again, whole.

        Args:
            ctx: The run, with what `before_model` left in `kept`.
            kind: The part of the reply: `text`, `reasoning`, or `args`, the JSON of one call's arguments.
        """

    def before_embedding(self, text: str) -> Maybe[str]:
        """Change a text before an embedder reads it: return another text, or None. Only hooks that are
        `everywhere` are asked. The text is stored as it is. If the method raises, there is no vector, and the
        text is found only by words.

        Args:
            text: One text: a message, an entry of memory, or a query.
        """

    def before_tool(self, ctx: HookContext, call: ToolCall) -> Maybe[BeforeTool]:
        """Decide about a valid call before it begins: return `Allow`, `Answer`, `Refuse`, `Suspend`, a copy
        with other arguments, or None. An exception makes the call a tool error.

        Args:
            ctx: The run.
            call: The call, with the arguments that the hooks before this one gave it.
        """

    def after_tool(self, ctx: HookContext, call: ToolCall, result: ToolResult) -> Maybe[ToolResult]:
        """Change the result of a tool or a sub-agent that has run, even if it failed: return a changed copy,
        or None. If the method raises, no model reads the result, and the run fails.

        Args:
            ctx: The run.
            call: The call, with the decision about it, if a person made one.
            result: Its outcome, as the hooks before this one left it.
        """

    def at_end(self, ctx: HookContext, result: Result) -> Maybe[Result]:
        """Change the output of a run that ends, whatever its status: return a copy with another `output`, or
        None. It is called once. A cancelled run has no output.

        Args:
            ctx: The run.
            result: The run at its end, as the hooks before this one left it.
        """


def defines(hook: Any, point: str) -> bool:
    """Return whether the hook is asked at this point."""
    method = getattr(hook, point, None)
    return callable(method) and getattr(type(hook), point, None) is not getattr(Hook, point)


def is_any_asked(hooks: Iterable[Any], point: str) -> bool:
    """Return whether any of the hooks is asked at this point."""
    return any(defines(hook, point) for hook in hooks)


def is_everywhere(hook: Any) -> bool:
    """Return whether the hook is asked around all requests that are made for its agent."""
    return bool(getattr(hook, "everywhere", False))


def is_once_per_input(hook: Any) -> bool:
    """Return whether the hook is asked once for each new input."""
    return bool(getattr(hook, "once_per_input", False))


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
            raise checks.fail(f"{what}a hook", expected, hook, _mistyped(hook, points))
    return hooks


def _mistyped(hook: Any, points: Sequence[str]) -> str:
    """Return which of a hook's methods has nearly the name of a point; empty if none has."""
    for name in dir(hook):
        near = nearest(name, points) if not name.startswith("_") else None
        if near is not None and name != near and callable(getattr(hook, name)):
            return f". {name_of(hook)} has {name!r}: did you mean {near!r}?"
    return ""
