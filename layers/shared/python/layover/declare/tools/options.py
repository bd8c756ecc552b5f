"""The options of `@tool`, and their checks."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from layover.declare.context import ToolContext
from layover.declare.option_names import unknown_options
from layover.declare.schemas import checks
from layover.declare.tools.approval import Approval, Predicate
from layover.declare.tools.signature import Signature
from layover.errors import DefinitionError
from layover.values.decision import MAX_WAIT, Risk

ToMessage = Callable[..., Any]
Summary = Callable[[dict[str, Any], ToolContext], str | Awaitable[str]]
"""Says what a call would do: of the validated arguments and the context, plain or async."""
RateRisk = Callable[[dict[str, Any], ToolContext], str | Awaitable[str]]
Rating = Literal["low", "medium", "high"] | RateRisk


@dataclass(frozen=True)
class Delegate:
    """The agent that a tool stands for. `memory`: its own Memory settings apply to it; `background`: its
    caller does not wait for it."""

    agent: Any
    """An `Agent`; its module imports this one."""
    memory: bool = False
    background: bool = False


@dataclass(frozen=True)
class Options:
    """The options given to `@tool(...)`."""

    needs_approval: bool | Predicate | Approval = False
    suspend: Any = None
    resume: Any = None
    expires_after: timedelta | None = None
    idempotent: bool = False
    trusted: bool = False
    to_model_output: Callable[..., Any] | None = None
    to_message: ToMessage | None = None
    timeout: timedelta | None = None
    retries: int | None = None
    max_calls: int | None = None
    polling: bool = False
    summary: Summary | None = None
    risk: Rating | None = None
    strict: bool = True
    delegate: Delegate | None = None
    handoff: str | None = None


_DECLARED = frozenset(Options.__dataclass_fields__) - {"delegate", "handoff"}
"""The options that authors give."""


def options_of(name: str, signature: Signature, raw_options: dict[str, Any]) -> Options:
    """Return the options as they were given, once they are checked. Raises DefinitionError."""
    what = f"tool {name!r}: "
    if unknown := raw_options.keys() - _DECLARED:
        raise unknown_options(f"tool {name!r}", unknown, _DECLARED | {"name", "description"})
    raw_options["timeout"] = checks.duration(f"{what}timeout", raw_options.get("timeout"))
    raw_options["expires_after"] = checks.duration(
        f"{what}expires_after", raw_options.get("expires_after"), most=MAX_WAIT
    )
    options = Options(**raw_options)
    checks.whole_or_none(f"{what}retries", options.retries, least=0)
    checks.whole_or_none(f"{what}max_calls", options.max_calls)
    checks.flag(f"{what}idempotent", options.idempotent)
    checks.flag(f"{what}trusted", options.trusted)
    checks.flag(f"{what}strict", options.strict)
    checks.flag(f"{what}polling", options.polling)
    _check_waits(what, signature, options)
    _check_callables(what, options)
    return options


def _check_waits(what: str, signature: Signature, options: Options) -> None:
    if options.suspend is not None and options.resume is None:
        raise DefinitionError(f"{what}suspend= needs resume=, what the call is resumed with")
    if options.resume is not None and options.suspend is None:
        raise DefinitionError(f"{what}resume= needs suspend=, what a person is shown")
    if options.suspend is not None and options.needs_approval is not False:
        raise DefinitionError(
            f"{what}needs_approval= and suspend= exclude each other: remove one of them"
        )
    if options.suspend is not None and signature.context is None:
        raise DefinitionError(
            f"{what}suspend= needs a ToolContext parameter, by which the function suspends the call"
        )
    if options.expires_after and options.suspend is None and options.needs_approval is False:
        raise DefinitionError(
            f"{what}expires_after= on a tool that never waits: give it needs_approval= or suspend=, too"
        )


def _check_callables(what: str, options: Options) -> None:
    _check_needs(what, options.needs_approval)
    if options.summary is not None and not (
        callable(options.summary) and takes(options.summary, 2)
    ):
        raise checks.fail(f"{what}summary", "a function of (args, ctx)", options.summary)
    if not _is_risk(options.risk):
        expected = "'low', 'medium', 'high' or a function of (args, ctx)"
        raise checks.fail(f"{what}risk", expected, options.risk)
    shape = options.to_model_output
    if shape is not None:
        if not callable(shape) or not takes(shape, 1):
            raise checks.fail(f"{what}to_model_output", "a function of (result)", shape)
        if inspect.iscoroutinefunction(shape):
            raise checks.fail(f"{what}to_model_output", "a plain function (not async)", shape)
    send = options.to_message
    if send is not None and not (callable(send) and (takes(send, 1) or takes(send, 2))):
        raise checks.fail(f"{what}to_message", "a function of (result) or (args, result)", send)


def _check_needs(what: str, needs: Any) -> None:
    predicate = needs.when if isinstance(needs, Approval) else needs
    is_one = callable(predicate) and takes(predicate, 2)
    if not (isinstance(needs, bool) or is_one or (predicate is None and needs is not None)):
        expected = "a bool, a function of (args, ctx) or an Approval"
        raise checks.fail(f"{what}needs_approval", expected, predicate)


def _is_risk(risk: Any) -> bool:
    return risk is None or risk in tuple(Risk) or (callable(risk) and takes(risk, 2))


def takes(fn: Callable[..., Any], count: int) -> bool:
    """Return whether the function can be called with this many positional arguments."""
    try:
        inspect.signature(fn).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True
