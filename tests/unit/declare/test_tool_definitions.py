"""Tools that cannot work are refused when they are made, and the error says why."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from layover import DefinitionError, ToolContext, tool


class Offer(BaseModel):
    slots: list[str]


class Choice(BaseModel):
    slot: str


def waits(ctx: ToolContext) -> str:
    """Waits."""
    return ctx.suspend(Offer(slots=[]))


def plain(city: str) -> str:
    """Plain."""
    return city


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"suspend": Offer}, "needs resume="),
        ({"resume": Choice}, "needs suspend="),
        ({"suspend": Offer, "resume": Choice, "needs_approval": True}, "exclude each other"),
        ({"suspend": Offer, "resume": Choice, "needs_approval": lambda a, c: True}, "exclude"),
        ({"suspend": Offer, "resume": object()}, "resume= has no schema"),
        ({"expires_after": timedelta(days=1)}, "never waits"),
        ({"needs_approval": True, "expires_after": timedelta(0)}, "above zero"),
        ({"needs_approval": True, "expires_after": timedelta(days=400)}, "at most 365 days"),
        ({"needs_approval": "always"}, "needs_approval"),
        ({"needs_approval": lambda args: True}, "needs_approval"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": timedelta(seconds=-1)}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"idempotent": "yes"}, "idempotent"),
        ({"name": "two words"}, "1 to 64"),
        ({"name": ""}, "1 to 64"),
        ({"name": "x" * 65}, "1 to 64"),
        ({"to_model_output": "text"}, "to_model_output"),
        ({"to_message": lambda: None}, "to_message"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        tool(**options)(waits)


def test_a_tool_that_suspends_without_a_context_is_refused() -> None:
    with pytest.raises(DefinitionError, match="needs a ToolContext"):
        tool(suspend=Offer, resume=Choice)(plain)


def test_an_async_to_model_output_is_refused() -> None:
    async def shape(result: Any) -> str:
        return str(result)

    with pytest.raises(DefinitionError, match="plain function"):
        tool(to_model_output=shape)(plain)


def unannotated(city) -> str:  # type: ignore[no-untyped-def]
    return str(city)


def stars(*cities: str) -> str:
    return ""


def double_stars(**cities: str) -> str:
    return ""


def positional(city: str, /) -> str:
    return city


def two_contexts(one: ToolContext, two: ToolContext | None = None) -> str:
    return ""


def unknown_hint(city: "Citty") -> str:  # type: ignore[name-defined] # noqa: F821
    return ""


def no_schema(city: Callable[[], str]) -> str:
    return ""


def not_a_type(city: 5) -> str:  # type: ignore[valid-type]
    return ""


def generator(city: str) -> Any:
    yield city


async def async_generator(city: str) -> Any:
    yield city


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (unannotated, "'city' has no type hint"),
        (stars, "no schema"),
        (double_stars, "no schema"),
        (positional, "positional-only"),
        (two_contexts, "both 'one' and 'two'"),
        (unknown_hint, "Citty"),
        (no_schema, "no schema for its arguments"),
        (not_a_type, "no_a_type|not_a_type"),
        (generator, "generator"),
        (async_generator, "generator"),
        (str, "must be a function, not "),
        (Offer, "must be a function, not "),
        (5, "must be a function, not "),
        (tool(plain), "must be a function, not "),
    ],
)
def test_functions_that_a_model_could_not_call_are_refused(fn: Any, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        tool(fn)


def test_the_error_names_the_tool() -> None:
    with pytest.raises(DefinitionError, match="tool 'pay'"):
        tool(name="pay", timeout=0)(plain)


def test_name_and_description_come_from_the_function() -> None:
    @tool
    def weather(city: str) -> str:
        """Current weather.

        In one sentence."""
        return city

    assert weather.spec.name == "weather"
    assert weather.spec.description == "Current weather.\n\nIn one sentence."


def test_name_and_description_may_be_given() -> None:
    made = tool(name="get-weather", description="Sunny?")(plain)
    assert (made.name, made.description) == ("get-weather", "Sunny?")


def test_seconds_become_a_timedelta() -> None:
    assert tool(timeout=1.5)(plain).timeout == timedelta(seconds=1.5)
    assert tool(timeout=timedelta(minutes=2))(plain).timeout == timedelta(minutes=2)


def test_defaults_are_the_careful_ones() -> None:
    made = tool(plain)
    assert (made.needs_approval, made.idempotent, made.trusted, made.suspends) == (False,) * 4
    assert (made.timeout, made.expires_after) == (None, None)


def test_a_tool_is_still_its_function() -> None:
    made = tool(plain)
    assert made("Rome") == "Rome"
    assert repr(made) == "<Tool plain>"
    assert made.__doc__ == "Plain."


async def test_an_async_tool_is_still_its_function() -> None:
    @tool(idempotent=True)
    async def later(city: str) -> str:
        return city

    assert await later("Rome") == "Rome"


def test_a_bound_method_may_be_a_tool() -> None:
    class Shop:
        def price(self, item: str) -> float:
            return 1.0

    assert list(tool(Shop().price).parameters["properties"]) == ["item"]
