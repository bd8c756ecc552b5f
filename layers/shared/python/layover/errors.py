"""Errors by who must act.

LayoverError
├── DefinitionError        the author of the agent: a tool or an agent that cannot work as declared
│   ├── ConfigurationError     ... or is used where its settings do not allow it
│   └── AgentsNotLoaded        ... or their module cannot be loaded: no agent can be used
├── RequestError           the caller: what was asked for cannot be done as asked
│   ├── InvalidRequest         422, with the fields that are wrong
│   │   └── UnknownAgent           ... an agent that is not served
│   ├── NotFound               404, also for what belongs to somebody else
│   ├── Conflict               409, something else came first
│   │   └── ThreadBusy             another run holds the thread
│   ├── TooLarge               413
│   └── DecisionError          a decision that was refused; the call waits as before
│       ├── DecisionAlreadyMade    409
│       ├── NotAnApprover          403
│       └── DecisionInvalid        422
├── LimitReached           429, wait or ask for more
│   └── DayUsedUp              ... until tomorrow
├── RetryableError         nobody: the same thing may work in a moment
│   ├── StoppedByOperator      503, the operator lets nothing run for now
│   └── DatabaseWaking         503, the wake has begun
├── Fenced                 nobody: another attempt holds the run, this one has to stop
└── RunFailed              the run ended `failed`; `type` and the message say why
    ├── ModelError             the provider refused or stayed down
    └── AttemptsUsedUp         five attempts made no step
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

_MAX_NAMES = 20
_MAX_CHOICES = 12
_MAX_SHOWN = 80
_MAX_COMPARED = 128
"""Characters of a name that is compared with others: no agent has a longer one."""


def shown_names(names: Iterable[str]) -> str:
    """`a, b and 3 more`."""
    all_names = list(names)
    more = [f"and {len(all_names) - _MAX_NAMES} more"] if len(all_names) > _MAX_NAMES else []
    return " ".join([", ".join(all_names[:_MAX_NAMES]), *more])


def nearest(name: object, choices: Iterable[str]) -> str | None:
    """Return the known name that is most like this one, whatever its case; None if none is like it."""
    # An import at the top would be part of every cold start, for errors that are rare.
    from difflib import get_close_matches

    if not isinstance(name, str) or len(name) > _MAX_COMPARED:
        return None
    names_by_folded = {each.casefold(): each for each in sorted(choices, reverse=True)}
    near = get_close_matches(name.casefold(), names_by_folded, n=1)
    return names_by_folded[near[0]] if near else None


def unknown_name(kind: str, name: object, choices: Iterable[str]) -> str:
    """Return `no option 'timout': did you mean 'timeout'?`. If no known name is near, the known ones are
    listed, up to twelve of them."""
    names = sorted(set(choices))
    unknown = f"no {kind} {_brief(name)}"
    near = nearest(name, names)
    if near is not None:
        return f"{unknown}: did you mean {near!r}?"
    if not 0 < len(names) <= _MAX_CHOICES:
        return unknown
    return f"{unknown}: choose from {', '.join(map(repr, names))}"


def _brief(name: object) -> str:
    text = repr(name)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def unknown_agent(name: str, served: Iterable[str]) -> str:
    """Return `no agent 'shpo': did you mean 'shop'? Served are shop, support`."""
    return f"no agent {_brief(name)}{_served(name, served)}"


def _served(name: str, served: Iterable[str]) -> str:
    names = list(served)
    near = nearest(name, names)
    begin = "; served" if near is None else f": did you mean {near!r}? Served"
    return f"{begin} are {shown_names(names) or 'none'}"


def no_attribute(
    package: str, path: Iterable[str], name: str, choices: Iterable[str]
) -> AttributeError:
    """Return the error of a package (`__name__` and `__path__`) that has no such name. `from package import
    module` asks for the name before it imports the module: that costs no comparison."""
    from importlib.machinery import PathFinder

    message = f"module {package!r} has no attribute {name!r}"
    if name.startswith("_") or PathFinder.find_spec(f"{package}.{name}", list(path)):
        return AttributeError(message)
    near = nearest(name, choices)
    if near is None:
        return AttributeError(message)
    # With an object that is not the package, Python does not add the same suggestion.
    return AttributeError(f"{message}: did you mean {near!r}?", name=name, obj=None)


INVALID_RESPONSE = "InvalidResponse"
"""`type` of the `ModelError` of a provider whose answer breaks the protocol."""


class LayoverError(Exception):
    """The root of Layover's errors. Its families say who must act: the author (`DefinitionError`), the caller
    (`RequestError`), whoever sets the limits (`LimitReached`), nobody (`RetryableError`), or whoever reads a
    run's end (`RunFailed`).

    Args:
        message: The text: what was given, who must act and what to do. It has no user's text and no secret.
            `str(error)` has the ids, too.
        **ids: The things that it is about (`run_id="..."`), to be read as `ids`; those that are None are left
            out.

    Example:
        ```python
        import asyncio

        from layover import Agent, LayoverError
        from layover.testing import ScriptedModel

        shop = Agent("shop")


        async def main() -> None:
            with shop.override(model=ScriptedModel([])):
                try:
                    await shop.approve("run_1", "call_1")
                except LayoverError as error:
                    assert error.ids == {"run_id": "run_1", "tool_call_id": "call_1"}
                    assert str(error) == "this agent has no such run (run_id=run_1, tool_call_id=call_1)"


        asyncio.run(main())
        ```
    """

    def __init__(self, message: str, **ids: str | None) -> None:
        self.message = message
        self.ids: Mapping[str, str] = {k: v for k, v in ids.items() if v is not None}
        super().__init__(message)

    def __str__(self) -> str:
        if not self.ids:
            return self.message
        return f"{self.message} ({', '.join(f'{k}={v}' for k, v in self.ids.items())})"


class DefinitionError(LayoverError):
    """A tool, an agent or an option is declared in a way that cannot work. It is raised when the thing is
    made, mostly at import: the author of the agent must change the declaration.

    Example:
        ```python
        from layover import Agent, DefinitionError, Memory

        try:
            Agent("shop", memory=Memory(last_messages=0))
        except DefinitionError as error:
            problem = str(error)
        assert problem.startswith("Memory.last_messages must be")
        ```
    """


class ConfigurationError(DefinitionError):
    """A feature is used where the settings do not allow it. The author must use it elsewhere or set what it
    needs, for example run an agent with node memory in a thread. A run that lacks a key or a region of its
    provider fails with this `error.type`.

    Example:
        ```python
        import asyncio

        from layover import Agent, ConfigurationError, Memory, NodeMemory
        from layover.testing import ScriptedModel, say

        triage = Agent("triage", memory=Memory(history=NodeMemory("triage")))
        with triage.override(model=ScriptedModel([say("Hello.")])):
            try:
                asyncio.run(triage.generate("Hi"))  # without a thread_id
            except ConfigurationError as error:
                problem = error.message
        assert problem == "node memory belongs to a thread: give generate a thread_id"
        ```
    """


class AgentsNotLoaded(DefinitionError):
    """The module of the agents fails, or has none: the author must mend it.

    Args:
        message: The text, with that of the author's code.
        detail: The message for callers, without the text of the author's code; None: the same message.

    Attributes:
        told: The message for callers.
    """

    def __init__(self, message: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.told = detail or message


class RequestError(LayoverError):
    """The caller asked for something that cannot be done as asked, and must ask differently. No data was
    changed. Over HTTP it is a 4xx status.

    Example:
        ```python
        import asyncio

        from layover import Agent, RequestError
        from layover.testing import ScriptedModel, say

        shop = Agent("shop")


        async def answer(text: str) -> str:
            try:
                return (await shop.generate(text)).text
            except RequestError as error:
                return f"Sorry: {error.message}."


        with shop.override(model=ScriptedModel([say("Hello.")])):
            assert asyncio.run(answer("Hi")) == "Hello."
            assert asyncio.run(answer("")) == "Sorry: the input has neither text nor a file."
        ```
    """


class InvalidRequest(RequestError):
    """The request does not have the right shape (422): the caller must correct the fields that `errors`
    names.

    Args:
        message: The text.
        errors: The fields that are wrong: `{"loc": ["body", "input"], "msg": "...", "type": "..."}` each.
        **ids: The things that it is about.

    Example:
        ```python
        import asyncio

        from layover import Agent, InvalidRequest
        from layover.testing import ScriptedModel, say

        shop = Agent("shop")
        with shop.override(model=ScriptedModel([say("Hello.")])):
            try:
                asyncio.run(shop.generate(""))
            except InvalidRequest as error:
                wrong = [each["loc"] for each in error.errors]
        assert wrong == [["body", "input"]]
        ```
    """

    def __init__(
        self, message: str, errors: Sequence[Mapping[str, Any]] = (), **ids: str | None
    ) -> None:
        super().__init__(message, **ids)
        self.errors = list(errors)


class UnknownAgent(InvalidRequest):
    """No agent of this name is served. The message says which are, and which one is nearest; the caller must
    name one of them. It does not repeat the name, in which a caller may have sent anything.

    Args:
        name: The name that was asked for.
        served: The names of the agents that are served.
        named_in: The part of the request that had the name.
    """

    def __init__(
        self, name: str, served: Iterable[str], named_in: Literal["body", "query"] = "body"
    ) -> None:
        error = {"loc": [named_in, "agent"], "msg": "no such agent", "type": "unknown_agent"}
        super().__init__(f"there is no such agent{_served(name, served)}", [error])


class NotFound(RequestError):
    """There is no such thing for this caller (404): it does not exist, is deleted, or belongs to somebody
    else. The caller must check the ids.

    Example:
        ```python
        import asyncio

        from layover import Agent, NotFound
        from layover.testing import ScriptedModel

        shop = Agent("shop")
        with shop.override(model=ScriptedModel([])):
            try:
                asyncio.run(shop.deny("run_1", "call_1"))
            except NotFound as error:
                missing = error.ids["run_id"]
        assert missing == "run_1"
        ```
    """


class Conflict(RequestError):
    '''Another request came first (409). The caller must look at the present state before it asks again; the
    same request would be refused again.

    Example:
        ```python
        import asyncio

        from layover import Agent, Conflict, tool
        from layover.testing import ScriptedModel, call, say


        @tool(needs_approval=True)
        def refund(amount: float) -> str:
            """Pay money back."""
            return "paid"


        shop = Agent("shop", tools=[refund], on_waiting="refuse")


        async def main() -> None:
            with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
                waiting = await shop.generate("5 euros back, please.")
                decided = (waiting.run_id, waiting.pending[0].tool_call_id)
                await shop.approve(*decided)
                try:
                    await shop.deny(*decided)
                except Conflict as error:
                    assert error.message == "the run is over"
                assert shop.state().status == "success"


        asyncio.run(main())
        ```
    '''


class ThreadBusy(Conflict):
    '''A run of the thread is at work, or waits for a decision and its agent refuses messages meanwhile:
    `ids["run_id"]` (409). The caller must wait until it is over, decide what it waits for, or cancel it. Over
    HTTP `on_busy` queues the new run or interrupts the active one instead.

    Example:
        ```python
        import asyncio

        from layover import Agent, ThreadBusy, tool
        from layover.testing import ScriptedModel, call, say


        @tool(needs_approval=True)
        def refund(amount: float) -> str:
            """Pay money back."""
            return "paid"


        shop = Agent("shop", tools=[refund])


        async def main() -> None:
            with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
                waiting = await shop.generate("5 euros back, please.", thread_id="t1")
                try:
                    await shop.generate("Are you there?", thread_id="t1")
                except ThreadBusy as error:
                    assert error.ids == {"run_id": waiting.run_id}


        asyncio.run(main())
        ```
    '''


class ConsentRefused(Conflict):
    """A service has not taken the consent that its user came back with: another has to be asked for."""


SEND_LESS = (
    "of a chat, send only the message that is read (`prepareSendMessagesRequest` for useChat, `requestInit` "
    "for AG-UI), and upload large files before (POST /files)"
)
"""Words for who sent a body that is larger than any request may be."""


class TooLarge(RequestError):
    """The request is larger than what is accepted (413): the caller must send less."""


class DecisionError(RequestError):
    '''A decision was refused, and the call is as it was before. The caller must send another decision, or
    none: the kinds are `DecisionAlreadyMade`, `NotAnApprover` and `DecisionInvalid`.

    Example:
        ```python
        import asyncio
        from datetime import timedelta

        from layover import Agent, DecisionError, tool
        from layover.testing import ManualClock, ScriptedModel, call, say


        @tool(needs_approval=True, expires_after=timedelta(days=2))
        def reserve(item: str) -> str:
            """Reserve an item."""
            return f"{item} is reserved"


        desk = Agent("desk", tools=[reserve])


        async def main() -> None:
            clock = ManualClock()
            script = [call("reserve", item="lamp"), say("Nobody approved it.")]
            with desk.override(model=ScriptedModel(script), clock=clock):
                waiting = await desk.generate("Keep the lamp for me.")
                clock.advance(timedelta(days=3))
                try:
                    await desk.approve(waiting.run_id, waiting.pending[0].tool_call_id)
                except DecisionError as error:
                    assert "expired" in error.message
                assert desk.state().messages[-1].text == "Nobody approved it."


        asyncio.run(main())
        ```
    '''


class DecisionAlreadyMade(DecisionError, Conflict):
    '''Another decision of this call came first, or the call does not wait (any more) (409). The caller must
    read the run: the first decision stands.

    Example:
        ```python
        import asyncio

        from layover import Agent, DecisionAlreadyMade, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool(needs_approval=True)
        def refund(amount: float) -> str:
            """Pay money back."""
            return "paid"


        shop = Agent("shop", tools=[refund])


        async def main() -> None:
            with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
                waiting = await shop.generate("5 euros back, please.")
                call_id = waiting.pending[0].tool_call_id
                result = await shop.approve(waiting.run_id, call_id)
                try:
                    await shop.approve(waiting.run_id, call_id)
                except DecisionAlreadyMade as error:
                    assert error.ids["run_id"] == waiting.run_id
                assert tool_results(result) == ["paid"]  # once


        asyncio.run(main())
        ```
    '''


class NotAnApprover(DecisionError):
    """The call waits for other people (403): a member of one of the groups in `by` must decide
    (`Approval(by=...)`). A process that runs the agent itself counts as every approver, so only a deployment
    raises it.

    Args:
        message: The text.
        by: The groups whose members decide.
        **ids: The things that it is about: `run_id`, `tool_call_id`.

    Example:
        ```python
        from layover import DecisionError, NotAnApprover


        def decide(groups: set[str]) -> str:
            if "finance" not in groups:
                raise NotAnApprover("the call waits for an approver", ["finance"], run_id="run_1")
            return "approved"


        try:
            decide({"support"})
        except DecisionError as error:
            assert isinstance(error, NotAnApprover)
            assert error.by == ("finance",)
            assert error.ids == {"run_id": "run_1"}
        ```
    """

    def __init__(self, message: str, by: Sequence[str], **ids: str | None) -> None:
        super().__init__(message, **ids)
        self.by = tuple(by)


class DecisionInvalid(DecisionError, InvalidRequest):
    '''The decision does not fit what the call waits for (422): its kind, its data or its arguments are wrong,
    or a reason is missing. The caller must correct what `errors` names; the call still waits.

    Example:
        ```python
        import asyncio

        from layover import Agent, DecisionInvalid, tool
        from layover.testing import ScriptedModel, call, say


        @tool(needs_approval=True)
        def refund(amount: float) -> str:
            """Pay money back."""
            return f"paid {amount}"


        shop = Agent("shop", tools=[refund])


        async def main() -> None:
            with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
                waiting = await shop.generate("5 euros back, please.")
                call_id = waiting.pending[0].tool_call_id
                try:
                    await shop.approve(waiting.run_id, call_id, {"amount": "a lot"})
                except DecisionInvalid as error:
                    assert error.errors[0]["loc"] == ["body", "args", "amount"]
                result = await shop.approve(waiting.run_id, call_id, {"amount": 4})
                assert result.status == "success"


        asyncio.run(main())
        ```
    '''


class LimitReached(LayoverError):
    """A limit was reached (429): the caller must try later, or the operator must allow more. A run that
    exceeds its own `Limits` is not refused: it waits, or fails with this `error.type`.

    Args:
        message: The text: the limit, and what reached it.
        retry_after: The time until it may work; None: waiting does not help, or nobody knows how long.
        **ids: The things that it is about.

    Example:
        ```python
        from collections.abc import Callable
        from datetime import timedelta

        from layover import LimitReached


        def begin() -> str:  # as `generate` does with LAYOVER_RUNS_PER_MINUTE=5
            raise LimitReached("a user may begin 5 runs a minute", timedelta(seconds=20))


        def try_once(begin: Callable[[], str]) -> str:
            try:
                return begin()
            except LimitReached as limit:
                assert limit.retry_after is not None
                return f"Please try again in {limit.retry_after.total_seconds():.0f} s."


        assert try_once(begin) == "Please try again in 20 s."
        ```
    """

    def __init__(
        self, message: str, retry_after: timedelta | None = None, **ids: str | None
    ) -> None:
        super().__init__(message, **ids)
        self.retry_after = retry_after


class DayUsedUp(LimitReached):
    """The user has used up the day. `retry_after` is the time until the next day (UTC) begins."""


class RetryableError(LayoverError):
    """A passing fault: the same call may work in a moment, and nobody must act. The state machine retries it,
    and each retry costs the run one of its five attempts. A hook around the model, or at the end, raises it
    to be asked again.

    Example:
        ```python
        import asyncio

        from layover import Agent, Hook, HookContext, ModelRequest, RetryableError
        from layover.testing import ScriptedModel, say


        class Words(Hook):
            loads = 0

            def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
                self.loads += 1
                if self.loads == 1:
                    raise RetryableError("the list of words is not there yet")


        words = Words()
        shop = Agent("shop", hooks=[words])
        with shop.override(model=ScriptedModel([say("Hello.")])):
            result = asyncio.run(shop.generate("Hi"))
        assert result.text == "Hello." and words.loads == 2
        ```
    """


class StoppedByOperator(RetryableError):
    """The operator has stopped the system: nothing begins until the operator starts it again."""


class DatabaseWaking(RetryableError):
    """The database is asleep and was just woken."""


class ProviderAway(RetryableError):
    """A model's provider is away, and the same request may succeed later: the state machine asks again."""


class NewerFormat(RetryableError):
    """A newer release wrote the record, or has changed the database's schema: this one cannot work with it,
    and changes nothing. The run goes on once the newer release runs. Waiting for it costs no attempt."""


class JournalRefused(LayoverError):
    """The journal will never take this request: an item is too large, or the request makes no sense to it.
    Another attempt fails alike. The message has the journal's reason; whoever maintains Layover must act."""


def check_version(what: str, version: object, newest: int) -> None:
    """Raise NewerFormat if the record has a version above the one that this release knows."""
    if not isinstance(version, int) or version > newest:
        raise NewerFormat(
            f"{what} have version {version!r}, and this release reads up to version {newest}: deploy the "
            "release that wrote it"
        )


class Fenced(LayoverError):
    """Another attempt took over the run. This one stops and writes nothing more."""


class RunFailed(LayoverError):
    '''Ends the run as `failed`. `generate` and `stream` do not raise it: callers read its type and its
    message as `error` of the run, which say who must act.

    Args:
        message: The text.
        type: The name that callers see as `error.type`; None: the name of the class.
        is_internal: True if the text is for operators only, since it may quote a provider or an exception:
            the run's owner reads a sentence of Layover's (docs/behaviour.md#failures).
        **ids: The things that it is about.

    Example:
        ```python
        import asyncio

        from layover import Agent, Limits, RunFailed, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return 42.0


        shop = Agent("shop", tools=[price], limits=Limits(tokens=1, on_reached="fail"))
        script = [call("price", item="lamp"), say("42 euros.")]
        with shop.override(model=ScriptedModel(script)):
            result = asyncio.run(shop.generate("What is the lamp?"))
        assert result.status == "failed"
        assert result.error is not None and result.error.type == "LimitReached"

        try:
            raise RunFailed("the answer names no item", type="OutputInvalid", run_id=result.run_id)
        except RunFailed as failure:
            assert failure.type == "OutputInvalid"
        ```
    '''

    def __init__(
        self,
        message: str,
        *,
        type: str | None = None,
        is_internal: bool = False,
        **ids: str | None,
    ) -> None:
        super().__init__(message, **ids)
        self.type = type or self.__class__.__name__
        self.is_internal = is_internal
        self.detail: object = None
        """The `ErrorDetail` that an earlier attempt journaled; None: `message` has what there is."""


class ModelError(RunFailed):
    """The model's provider refused the request or stayed down, retries included. The operator must look at
    the provider, the key or the name of the model. A model of one's own (`layover.models.Model`) raises it.

    Args:
        message: The text, often the provider's own. Operators read it, and the run's owner does not.
        status: The HTTP status of its answer; None if there was none.
        type: The name that callers see as `error.type`; None: the name of the class.
        retry_after: Seconds after which a model of one's own is to be asked again; None: Layover chooses.

    Example:
        ```python
        import asyncio

        from layover import Agent, ModelError
        from layover.testing import ScriptedModel, fail

        refusal = fail("Incorrect API key provided", status=401)
        assert isinstance(refusal, ModelError) and refusal.status == 401

        shop = Agent("shop")
        with shop.override(model=ScriptedModel([refusal])):
            result = asyncio.run(shop.generate("Hi"))
        assert result.status == "failed"
        assert result.error is not None and result.error.type == "AuthenticationError"
        assert "API key" not in result.error.message
        assert result.error_detail.message == "Incorrect API key provided"
        ```
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        type: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, type=type, is_internal=True)
        self.status = status
        self.retry_after = retry_after
        self.passes = False
        """True if the same request may succeed later: the provider is away, or has no room now."""
        self.requests = 1
        """The requests that failed, repeats included."""
        self.code = ""
        """The provider's own name of the problem."""
        self.place = ""
        """The place in the request that the provider refuses, such as `tools[3].function.parameters`."""
        self.provider: str | None = None
        """The name of the provider, such as `openai`."""
        self.model: str | None = None
        """The model that was asked."""
        self.request_id: str | None = None
        """The provider's id of the request."""


class ContextLengthExceeded(ModelError):
    """The provider said that the prompt is longer than the model's window. The run shortens it and asks
    again.

    Example:
        ```python
        from layover import ModelError
        from layover.models import ContextLengthExceeded

        error = ContextLengthExceeded("9000 tokens are too many", status=400)
        assert isinstance(error, ModelError) and error.status == 400
        ```
    """


class ContentFiltered(ModelError):
    """A filter of the provider's refused the request because of what the messages say. The run ends with
    `finish_reason` `content-filter`.

    Example:
        ```python
        from layover import ModelError
        from layover.models import ContentFiltered

        error = ContentFiltered("blocked", status=400)
        assert isinstance(error, ModelError) and error.message == "blocked"
        ```
    """


class AttemptsUsedUp(RunFailed):
    """The run was attempted five times since its last journaled step and made none."""
