"""Checks of the options of an agent."""

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from layover.declare.schemas import checks
from layover.declare.tools.options import takes
from layover.declare.tools.server import ToolServer
from layover.declare.tools.tool import AnyTool
from layover.errors import DefinitionError
from layover.values.runs.model_settings import OVERRIDABLE, Overridable
from layover.values.runs.run import MAX_WINDOW, OnWaiting


def name_of(name: Any) -> str:
    """Return the name of an agent, as URLs, requests and the tools that stand for it take it. Raises
    DefinitionError."""
    return checks.name("the name of an agent", name)


def on_waiting_of(what: str, value: Any) -> OnWaiting:
    """Return what the agent does with a message that comes while a run waits. Raises DefinitionError."""
    try:
        return OnWaiting(value)
    except ValueError:
        names = ", ".join(repr(each.value) for each in OnWaiting)
        raise checks.fail(f"{what}on_waiting", f"one of {names}", value) from None


def check_instructions(what: str, value: Any) -> None:
    """Raise DefinitionError for instructions that are neither a text nor a function of one argument."""
    if not isinstance(value, str) and not (callable(value) and takes(value, 1)):
        expected = "a text or a function of the run's context"
        raise checks.fail(f"{what}instructions", expected, value)


def check_tools_function(what: str, function: Any) -> None:
    """Raise DefinitionError for a function of tools that does not take only the context."""
    if function is not None and not takes(function, 1):
        raise checks.fail(
            f"{what}tools", "a list of tools, or a function of the run's context", function
        )


def check_validator(what: str, output: Any, validator: Any) -> None:
    """Raise DefinitionError for a validator that no output could be given to."""
    if validator is None:
        return
    if not callable(validator) or not takes(validator, 2):
        raise checks.fail(f"{what}output_validator", "a function of (output, ctx)", validator)
    if output is None:
        raise DefinitionError(f"{what}output_validator needs output=, the type that it validates")


def tools_of(what: str, tools: Any) -> tuple[tuple[AnyTool, ...], tuple[ToolServer, ...]]:
    """Return the tools of a list, as they were given, and the servers in it. Raises DefinitionError."""
    # A server is its own only item: a list of it may be meant, and is given.
    if isinstance(tools, str) or not isinstance(tools, Sequence | ToolServer):
        raise checks.fail(f"{what}tools", "a list of tools", tools)
    servers = tuple(each for each in tools if isinstance(each, ToolServer))
    names = [server.name for server in servers]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(
                f"{what}two servers of tools are called {name!r}: give one another name (mcp(name=...))"
            )
    return tuple(each for each in tools if not isinstance(each, ToolServer)), servers


def overridable_of(what: str, names: Any) -> frozenset[Overridable]:
    """Return the settings that a run may choose. Raises DefinitionError."""
    if not isinstance(names, Iterable):
        raise checks.fail(f"{what}overridable", "a list of settings", names)
    requested_names: list[Any] = [names] if isinstance(names, str) else list(names)
    for name in requested_names:
        checks.one_of(f"{what}overridable", name, OVERRIDABLE)
    return frozenset(requested_names)


def factory_of(what: str, value: Any) -> Callable[..., Any] | None:
    """Return the function that makes a value, or None. Raises DefinitionError."""
    if value is None:
        return None
    if not callable(value) or not _can_make(value):
        raise checks.fail(what, "a function of the settings, or of nothing", value)
    return cast("Callable[..., Any]", value)


def _can_make(make: Callable[..., Any]) -> bool:
    args, kwargs = settings_for(make, None)
    try:
        inspect.signature(make).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def settings_for(make: Callable[..., Any], settings: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a factory: the settings for a parameter of that name, else for the first
    positional one without a default, else nothing."""
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return (), {}
    parameter = parameters.get("settings")
    if parameter is not None and parameter.kind in (
        parameter.POSITIONAL_OR_KEYWORD,
        parameter.KEYWORD_ONLY,
    ):
        return (), {"settings": settings}
    first = next(iter(parameters.values()), None)
    positional = first is not None and first.kind in (
        first.POSITIONAL_ONLY,
        first.POSITIONAL_OR_KEYWORD,
    )
    return ((settings,), {}) if positional and first and first.default is first.empty else ((), {})


def concurrency_of(what: str, value: Any) -> int:
    """Return the number of a step's calls that run together. Raises DefinitionError."""
    if value == math.inf:
        return MAX_WINDOW
    checks.whole(f"{what}tool_concurrency", value)
    return min(int(value), MAX_WINDOW)
