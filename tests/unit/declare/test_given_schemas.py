"""Tools that are described by a JSON schema."""

from typing import Any

import pytest

from layover import Agent, DefinitionError, ToolContext, tool_from_schema
from layover.inmemory.model import call, say
from layover.values.runs.run import Status
from support.worlds.runs import Bench, seen

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 2}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}


async def told(handler: Any, args: dict[str, Any], **options: Any) -> str:
    made = tool_from_schema("weather", "Weather of a city.", SCHEMA, handler, **options)
    bench = Bench(Agent("a", model="m", tools=[made]), [call("weather", **args), say("done")])
    assert (await bench.go()).status is Status.SUCCESS
    return seen(bench.model.prompts[1])[0]


def by_name(city: str, days: int = 1) -> str:
    return f"{city}: {days}"


async def by_stars(ctx: ToolContext, **args: Any) -> str:
    return f"{sorted(args)} for {ctx.resource_id}"


def whole(args: dict[str, Any]) -> str:
    return f"{sorted(args)}"


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (by_name, "Munich: 2"),
        (by_stars, "['city', 'days'] for ann"),
        (whole, "['city', 'days']"),
        (lambda **args: str(len(args)), "2"),
    ],
)
async def test_a_handler_gets_its_arguments_as_it_takes_them(handler: Any, says: str) -> None:
    assert await told(handler, {"city": "Munich", "days": 2}) == says


@pytest.mark.parametrize("args", [{}, {"city": "x"}, {"city": 5}, {"city": "Munich", "other": 1}])
async def test_arguments_that_do_not_fit_never_reach_the_handler(args: dict[str, Any]) -> None:
    def never(**_: Any) -> str:
        raise AssertionError

    assert (await told(never, args)).startswith("Invalid tool input: ")


async def test_what_may_be_left_out_is_left_out() -> None:
    assert await told(by_name, {"city": "Munich"}) == "Munich: 1"


async def test_it_has_the_options_of_every_tool() -> None:
    made = tool_from_schema("pay", "Pay.", SCHEMA, whole, needs_approval=True, timeout=3)
    assert made.needs_approval is True
    assert made.parameters == SCHEMA
    assert made.description == "Pay."
    bench = Bench(Agent("a", model="m", tools=[made]), [call("pay", city="Munich"), say("done")])
    run = await bench.go()
    assert run.pending[0].args == {"city": "Munich"}


@pytest.mark.parametrize(
    ("schema", "handler", "options"),
    [
        ({"type": "string"}, whole, {}),
        ({"type": "object", "properties": {"a": {"type": 5}}}, whole, {}),
        ("{}", whole, {}),
        (SCHEMA, "no function", {}),
        (SCHEMA, lambda city, other, third: "", {}),
        (SCHEMA, whole, {"colour": "red"}),
    ],
)
def test_what_could_not_work_is_a_definition_error(
    schema: Any, handler: Any, options: dict[str, Any]
) -> None:
    with pytest.raises(DefinitionError):
        tool_from_schema("weather", "Weather.", schema, handler, **options)
