"""`@tool`: a function that a model may call."""

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property, partial, update_wrapper
from typing import Any, Generic, overload

from pydantic import TypeAdapter
from typing_extensions import ParamSpec, TypeVar

from layover.declare.blocking import call_author
from layover.declare.context import ToolContext
from layover.declare.schemas import checks, references
from layover.declare.schemas import json_schema as schema
from layover.declare.schemas.render import Parts, as_text, json_text, jsonable
from layover.declare.tools.approval import AfterDenial, Approval, Predicate, lets_wait
from layover.declare.tools.iterators import walk, walk_async
from layover.declare.tools.json_schema_signature import json_schema_signature
from layover.declare.tools.options import (
    Delegate,
    Options,
    Rating,
    Summary,
    ToMessage,
    options_of,
    takes,
)
from layover.declare.tools.signature import Signature, ToolArgs, caller_scope, read
from layover.errors import ConfigurationError, DefinitionError
from layover.values.decision import ApprovalRule, Risk
from layover.values.message import FilePart
from layover.values.prompt import ToolSpec

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)
_NAMES_FILE = re.compile(r'"file"|file_|://')
"""The text of a result with a file has one of these."""


class Tool(Generic[P, R]):
    '''A declared tool. Calling it calls the function itself, as in the author's unit tests.

    `@tool`, `tool_from_schema` and `Agent.as_tool` make it. Its arguments are its attributes.

    Args:
        fn: The author's function.
        name: The name by which the model calls it: 1 to 64 letters, digits, `_` or `-`.
        description: What the model reads about it.
        signature: The schema of its arguments, and how they are validated.
        options: The options of `@tool`.

    Raises:
        DefinitionError: If the type of `suspend` or `resume` has no JSON schema.

    Example:
        ```python
        from layover import tool


        @tool(needs_approval=True)
        def refund(order_id: str, euros: int = 10) -> str:
            """Pay money back."""
            return f"paid {euros} euros back for {order_id}"


        assert refund("o1", euros=5) == "paid 5 euros back for o1"
        assert refund.name == "refund"
        assert refund.description == "Pay money back."
        assert set(refund.parameters["properties"]) == {"order_id", "euros"}
        assert refund.needs_approval is True
        ```
    '''

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str,
        description: str,
        signature: Signature,
        options: Options,
    ) -> None:
        update_wrapper(self, fn)
        self.fn = fn
        self.name = name
        self.description = description
        self.signature = signature
        self.options = options
        self.server: str | None = None
        """The name of the server that lists it; None: the deployed code has it."""
        self._suspend = _adapter(name, "suspend", options.suspend)
        self._resume = _adapter(name, "resume", options.resume)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    @property
    def strict(self) -> bool:
        """True if the model is held to the schema, as OpenAI's strict mode accepts it and the tool does not
        refuse it (docs/behaviour.md#tool-schemas)."""
        return self.options.strict and self.signature.strict_schema is not None

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments, as the model sees it."""
        strict = self.signature.strict_schema if self.options.strict else None
        return strict or self.signature.schema

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as the model sees it."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            strict=self.strict,
        )

    @property
    def needs_approval(self) -> bool | Predicate | Approval:
        """False, True, the predicate that decides for each call, or the rule of its approvers."""
        return self.options.needs_approval

    @property
    def approvers(self) -> ApprovalRule | None:
        """The rule that says who may let a call run; None: the run's owner."""
        needs = self.options.needs_approval
        return needs.rule if isinstance(needs, Approval) else None

    @property
    def after_denial(self) -> AfterDenial:
        """`refuse`: no call is asked for in a run in which a person has denied one (see `Approval`)."""
        needs = self.options.needs_approval
        return needs.after_denial if isinstance(needs, Approval) else "ask"

    @property
    def suspends(self) -> bool:
        """True if the tool may return `ctx.suspend(...)`."""
        return self._suspend is not None

    @property
    def expires_after(self) -> timedelta | None:
        """The time that a call waits for its decision; None: for ever (docs/behaviour.md#expiry)."""
        return self.options.expires_after

    @property
    def idempotent(self) -> bool:
        """True if a call that was found half-done may run again (docs/behaviour.md#calls-in-doubt)."""
        return self.options.idempotent

    @property
    def trusted(self) -> bool:
        """True if conclusions that the assistant draws after this tool count as verified
        (docs/behaviour.md#evidence)."""
        return self.options.trusted

    @property
    def timeout(self) -> timedelta | None:
        """The time that a call may run."""
        return self.options.timeout

    @property
    def handoff(self) -> str | None:
        """The agent that the conversation is handed to (`Agent(handoffs=[...])`); None: it stays."""
        return self.options.handoff

    @property
    def delegate(self) -> Delegate | None:
        """The sub-agent that it stands for (`Agent.as_tool`); None: an author's function."""
        return self.options.delegate

    def validate(self, args: Any) -> ToolArgs:
        """Return the arguments as the function takes them, from a decoded object or a model's raw text.
        Raises `pydantic.ValidationError`; `invalid_input` puts it into words for a model."""
        return self.signature.validate(args)

    async def requires_approval(self, args: ToolArgs, ctx: ToolContext) -> bool:
        """Return whether this call waits for a person first. A predicate's own error is raised as it is: the
        call must not run."""
        needs = self.options.needs_approval
        if isinstance(needs, bool):
            return needs
        if isinstance(needs, Approval):
            return await needs.applies(args, ctx)
        return await lets_wait(needs, args, ctx)

    @property
    def describes(self) -> bool:
        """True if it says anything about a call that waits (`summary`, `risk`)."""
        return self.options.summary is not None or self.options.risk is not None

    async def summary(self, args: ToolArgs, ctx: ToolContext) -> str | None:
        """Return what the call would do in the author's words; None: the tool has none. Raises what the
        function raises, and TypeError if it returns no text."""
        if self.options.summary is None:
            return None
        text = await call_author(self.options.summary, args.for_predicate(), ctx)
        if not isinstance(text, str):
            raise TypeError(f"summary of {self.name} must return a text, not {type(text).__name__}")
        return text

    async def risk(self, args: ToolArgs, ctx: ToolContext) -> Risk | None:
        """Return the call's risk; None: the tool does not say. Raises what the function raises, and
        ValueError if it returns no risk."""
        rating = self.options.risk
        if callable(rating):
            rating = await call_author(rating, args.for_predicate(), ctx)
            return Risk(rating)
        return None if rating is None else Risk(rating)

    async def invoke(self, args: ToolArgs, ctx: ToolContext) -> Any:
        """Run the function: on the loop if it is async, else in its own thread. Return its result, which
        may be a `SuspendRequest`. An iterator is walked, once and where the function ran: the journal, the
        model and `to_message` read the same list. Raises what the function raises, but never SystemExit,
        which would end the process that the run lives in."""
        kwargs = dict(args.kwargs)
        if self.signature.context is not None:
            kwargs[self.signature.context] = ctx
        try:
            is_async = inspect.iscoroutinefunction(self.fn)
            fn = self.fn if is_async else partial(_call_and_walk, self.fn)
            return await walk_async(await call_author(fn, **kwargs))
        except SystemExit as exit:
            raise RuntimeError(f"the tool tried to exit ({exit.code})") from exit

    @cached_property
    def resume_schema(self) -> dict[str, Any]:
        """The JSON schema of the data that resumes a suspended call."""
        return _waiting_schema(self._need(self._resume), self.name, "resume")

    def suspension_payload(self, payload: Any) -> Any:
        """Return the payload that a person is shown, as JSON. Raises ValidationError if it is not of the
        declared type, ConfigurationError if the tool declared none."""
        adapter = self._need(self._suspend)
        return jsonable(adapter.dump_python(adapter.validate_python(payload), mode="json"))

    def parse_resume(self, data: Any) -> Any:
        """Return the value of `ctx.resume` for this data. Raises ValidationError if it does not fit."""
        return self._need(self._resume).validate_json(json_text(data))

    def jsonable(self, result: Any) -> Any:
        """Return the raw result as events, lists and the journal keep it."""
        return jsonable(result.raw if isinstance(result, Parts) else result)

    def show(self, value: Any, result: Any = None) -> tuple[str, tuple[FilePart, ...]]:
        """Return the text that the model reads, by `to_model_output` if there is one, and the files that it
        may show. `value`: the function's; `result`: its JSON, if it is made."""
        shape = self.options.to_model_output
        shaped = value if shape is None else shape(value)
        plain = result if shape is None and result is not None else shaped
        text = "" if isinstance(plain, Parts) else as_text(plain)
        if not isinstance(value, Parts) and not _NAMES_FILE.search(text):
            return text, ()
        from layover.declare.tools.parts import as_words, files_in

        files = (*files_in(value), *(() if shape is None else files_in(shaped)))
        return as_words(shaped, plain), files

    async def message(self, args: ToolArgs, result: Any) -> dict[str, Any] | None:
        """Return `{"name", "data"}` of a custom message, if `to_message` makes one of this call."""
        if self.options.to_message is None:
            return None
        message = await call_author(self.options.to_message, *self._message_args(args, result))
        if message is None:
            return None
        if not isinstance(message, Mapping) or not isinstance(message.get("name"), str):
            raise TypeError(f'to_message of {self.name} must return {{"name", "data"}} or None')
        return {"name": message["name"], "data": jsonable(message.get("data"))}

    def _message_args(self, args: ToolArgs, result: Any) -> tuple[Any, ...]:
        """Return the arguments of `to_message`: the result, or the arguments (a dict) and the result."""
        assert self.options.to_message is not None
        takes_both = takes(self.options.to_message, 2)
        return (args.for_predicate(), result) if takes_both else (result,)

    def _need(self, adapter: TypeAdapter[Any] | None) -> TypeAdapter[Any]:
        if adapter is None:
            raise ConfigurationError(
                f"tool {self.name!r} suspends, but does not declare suspend= and resume="
            )
        return adapter


def _call_and_walk(fn: Callable[..., Any], **kwargs: Any) -> Any:
    return walk(fn(**kwargs))


def _adapter(name: str, what: str, type_: Any) -> TypeAdapter[Any] | None:
    if type_ is None:
        return None
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(type_)
        _waiting_schema(adapter, name, what)
    except checks.NO_SCHEMA as error:
        raise DefinitionError(
            f"tool {name!r}: {what}= has no schema: {checks.no_schema(error)}"
        ) from error
    return adapter


def _waiting_schema(adapter: TypeAdapter[Any], name: str, what: str) -> dict[str, Any]:
    """The schema of what a waiting call shows, or is resumed with."""
    whole = references.self_contained(adapter.json_schema(), f"tool {name!r}: {what}=: ")
    return schema.tidy(whole)


AnyTool = Tool[..., Any]


@overload
def tool(fn: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: bool | Predicate | Approval = False,
    suspend: Any = None,
    resume: Any = None,
    expires_after: timedelta | None = None,
    idempotent: bool = False,
    trusted: bool = False,
    to_model_output: Callable[[Any], Any] | None = None,
    to_message: ToMessage | None = None,
    timeout: float | timedelta | None = None,
    retries: int | None = None,
    max_calls: int | None = None,
    strict: bool = True,
    polling: bool = False,
    summary: Summary | None = None,
    risk: Rating | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    '''Make a function a tool: `@tool` or `@tool(needs_approval=True, ...)`.

    The model reads the docstring. Arguments come from the type hints, through pydantic; a parameter
    annotated `ToolContext` is injected. A plain function runs in its own thread, an async one on the
    event loop.

    Args:
        fn: The function, where the decorator has no options.

    Keyword Args:
        name (str | None): The name by which the model calls it; None: the function's.
        description (str | None): What the model reads about it; None: the function's docstring.
        needs_approval (bool | Predicate | Approval): True, or a predicate of the validated arguments (a
            dict) and the context, plain or async: the call waits for the run's owner before it runs, unless
            the predicate returns False. An `Approval` names other approvers. False (default): it runs at
            once.
        suspend (Any): The type of the payload of `ctx.suspend(...)`, which has a JSON schema. It needs
            `resume`, and excludes `needs_approval`. None: the tool does not suspend.
        resume (Any): The type of the data that resumes the call (`ctx.resume`), which has a JSON schema. It
            needs `suspend`. None: the tool does not suspend.
        expires_after (timedelta | None): A year at most; a wait that is longer counts as denied. None: the
            call waits for ever.
        idempotent (bool): True: a call found half-done after a crash may run again. False (default): the
            model reads that it may or may not have taken effect.
        trusted (bool): True: the assistant's conclusions after it are remembered as verified, if all tools
            of the run are trusted. Results themselves are never evidence. Default: False.
        to_model_output (Callable[[Any], Any] | None): A plain function of the result, which returns the
            text that the model reads instead of it; None: the result, a string as it is and the rest as
            JSON.
        to_message (ToMessage | None): A function of the result, or of the arguments and the result, plain
            or async, which returns `{"name", "data"}` for the thread, or None; None: no message.
        timeout (float | timedelta | None): Seconds or a timedelta that a call may take; a longer one is a
            tool error. None: no limit.
        retries (int | None): How often it may `raise Retry(...)` in a run, at least 0; None: no limit.
        max_calls (int | None): How often it may be called in a run, at least 1; None: no limit.
        strict (bool): True (default): a provider with a strict mode holds the model to the schema, if its
            rules allow it. False: the model gets the plain schema, where an argument with a default may be
            left out. Arguments that do not fit are a tool error either way.
        polling (bool): True: the same call with the same result is news, because the tool looks at what
            changes by itself. False (default): steps that only repeat such calls end the run
            (`Limits.stale_steps`).
        summary (Summary | None): A function of the validated arguments (a dict) and the context, plain or
            async, which says in a sentence what the call would do: whoever decides a waiting call reads it
            first, at most 500 characters of it. None: there is none.
        risk (Rating | None): `low`, `medium` or `high`, or a function of the same that returns one of them:
            shown wherever the waiting call is, and kept in the audit. None: not said.

    Raises:
        DefinitionError: If the tool could not work as declared.

    Example:
        ```python
        import asyncio
        from typing import Annotated

        from pydantic import Field

        from layover import Agent, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool(timeout=30, to_model_output=lambda result: f"code {result['code']}")
        async def reserve(room: int, nights: Annotated[int, Field(ge=1, le=30)]) -> dict:
            """Reserve a room for some nights."""
            return {"room": room, "nights": nights, "code": "K7"}


        hotel = Agent("hotel", tools=[reserve])


        async def main() -> None:
            script = [call("reserve", room=12, nights=2), say("Your code is K7.")]
            with hotel.override(model=ScriptedModel(script)) as model:
                result = await hotel.generate("Room 12 for two nights, please.")
            assert tool_results(result, "reserve") == [{"room": 12, "nights": 2, "code": "K7"}]
            assert model.turns[1].messages[-1].model_output == "code K7"


        asyncio.run(main())
        ```
    '''
    if fn is not None:
        return _make(fn, caller_scope(1), {})
    return lambda declared: _make(declared, caller_scope(1), options)


def tool_from_schema(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    handler: Callable[..., Any],
    **options: Any,
) -> AnyTool:
    """Return a tool whose arguments a JSON schema describes: one that is only known at run time, or comes
    from another system.

    Args:
        name: The name by which the model calls it: 1 to 64 letters, digits, `_` or `-`.
        description: What the model reads about it.
        schema: The JSON schema of an object with the arguments as its properties.
        handler: A function, plain or async. It gets the validated arguments by name (`**kwargs`, or a
            parameter for each property) or, with a single other parameter, as a dict; a `ToolContext`
            parameter is injected.
        **options: Options of `@tool`, except `name` and `description`.

    Raises:
        DefinitionError: If the tool could not work as declared.

    Example:
        ```python
        import asyncio

        from layover import Agent, tool_from_schema
        from layover.testing import ScriptedModel, call, say, tool_results

        SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


        def forecast(**arguments: str) -> str:
            return f"rain in {arguments['city']}"


        weather = tool_from_schema("weather", "Weather of a city.", SCHEMA, forecast, max_calls=5)
        pilot = Agent("pilot", tools=[weather])


        async def main() -> None:
            with pilot.override(model=ScriptedModel([call("weather", city="Berlin"), say("Rain.")])):
                result = await pilot.generate("How is the weather in Berlin?")
            assert tool_results(result) == ["rain in Berlin"]


        asyncio.run(main())
        ```
    """
    if not callable(handler):
        raise checks.fail(f"tool {name!r}: handler", "a function", handler)
    signature = json_schema_signature(handler, checks.name("the name of a tool", name), schema)
    return Tool(
        handler,
        name=name,
        description=description,
        signature=signature,
        options=options_of(name, signature, dict(options)),
    )


def _make(fn: Callable[P, R], scope: Mapping[str, Any], options: dict[str, Any]) -> Tool[P, R]:
    if isinstance(fn, Tool) or not (inspect.isfunction(fn) or inspect.ismethod(fn)):
        raise checks.fail("the thing that @tool decorates", "a function", fn)
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise DefinitionError(
            f"tool {fn.__name__!r}: it is a generator, and a call has one result: return it, and send what "
            "comes before it by ctx.emit"
        )
    options = dict(options)
    name = options.pop("name", None)
    name = checks.name("the name of a tool", fn.__name__ if name is None else name)
    description = options.pop("description", None)
    signature = read(fn, name, scope)
    return Tool(
        fn,
        name=name,
        description=inspect.cleandoc(fn.__doc__ or "") if description is None else description,
        signature=signature,
        options=options_of(name, signature, options),
    )
