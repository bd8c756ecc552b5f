"""The sizes beyond which OpenAI refuses a strict schema, and the switch that does without strict mode."""

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, WithJsonSchema, create_model

from layover import Agent, DefinitionError, tool, tool_from_schema
from layover.declare.schemas import json_schema
from layover.declare.tools.tool import AnyTool
from support.examples import share
from unit.declare.test_tool_schemas import assert_accepted_in_strict_mode, taking


def words(count: int, length: int = 5, start: str = "") -> Any:
    return Literal[tuple(f"{start}{n:0{length - len(start)}}" for n in range(count))]


def model_of(name: str, **fields: Any) -> Any:
    return create_model(name, **fields)


def levels(count: int) -> Any:
    """A model of this many objects, each in the next."""
    deepest = model_of("Level1", value=(str, ...))
    for n in range(2, count + 1):
        deepest = model_of(f"Level{n}", child=(deepest, ...))
    return deepest


def fields(count: int, length: int = 5) -> Any:
    each: Any = {f"f{n:0{length - 1}}": (int, ...) for n in range(count)}
    return create_model("Wide", **each)


def lists(count: int) -> Any:
    hint: Any = str
    for _ in range(count):
        hint = list[hint]
    return hint


def model(**hints: Any) -> Any:
    """A model of these fields; equal ones have one definition."""
    each: Any = {name: (hint, ...) for name, hint in hints.items()}
    return create_model("Both", **each)


Colors = Enum("Colors", {f"C{n}": f"color {n}" for n in range(600)})  # type: ignore[misc]

PROPERTIES = json_schema._MAX_PROPERTIES // share(4)
"""In `make test` OpenAI takes a quarter of them."""


@pytest.fixture(autouse=True)
def properties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "_MAX_PROPERTIES", PROPERTIES)


# Made by the test that takes them: in the modules of all workers, they take seconds.
WITHIN: dict[str, Callable[[], Any]] = {
    "1,000 values": lambda: words(1000),
    "1,000 values in two enums": lambda: model(a=words(500), b=words(500, start="b")),
    "an enum that is used twice": lambda: model(a=Colors, b=Colors),
    "15,000 characters": lambda: words(300, 50),
    "10 levels": lambda: levels(9),
    "10 levels of lists": lambda: lists(9),
    "4,999 properties": lambda: fields(PROPERTIES - 2),
}
BEYOND: dict[str, Callable[[], Any]] = {
    "1,001 values": lambda: words(1001),
    "1,200 values in two enums": lambda: model(a=words(600), b=words(600, start="b")),
    "1,001 values with a const": lambda: model(a=words(1000), b=Literal["b"]),
    "values of an enum that descriptions copy": lambda: model(
        a=Annotated[Colors, Field(description="a")], b=Annotated[Colors, Field(description="b")]
    ),
    "15,050 characters": lambda: words(301, 50),
    "15,050 characters in two enums": lambda: model(a=words(150, 50), b=words(151, 50, "b")),
    "11 levels": lambda: levels(10),
    "11 levels of lists": lambda: lists(10),
    "11 levels below a choice": lambda: levels(10) | None,
    "5,001 properties": lambda: fields(PROPERTIES),
    "120,000 characters of names": lambda: fields(1200, 100),
}


@pytest.mark.parametrize("size", WITHIN)
def test_a_schema_of_the_size_that_openai_takes_is_strict(size: str) -> None:
    made = taking(WITHIN[size]())
    assert made.spec.strict
    assert_accepted_in_strict_mode(made.spec.parameters)


@pytest.mark.parametrize("size", BEYOND)
def test_a_schema_beyond_what_openai_takes_is_not_strict(size: str) -> None:
    hint = BEYOND[size]()
    made = taking(hint)
    assert not made.spec.strict
    spec = Agent("a", output=model(value=hint)).output_spec
    assert spec is not None
    assert not spec.strict
    parameters = made.signature.schema
    assert not tool_from_schema("t", "d", parameters, lambda value: "").spec.strict


class One(BaseModel):
    two: "Two | None"


class Two(BaseModel):
    ones: list[One]


def test_a_recursive_schema_counts_each_definition_once() -> None:
    assert taking(One).spec.strict
    assert taking(levels(7) | One).spec.strict


def test_a_schema_of_many_choices_is_measured_in_no_time() -> None:
    # Each level refers to all of the level below: as many ways as atoms in a mug.
    below: list[Any] = [create_model(f"L0x{n}", v=(int, ...)) for n in range(12)]
    for level in range(1, 9):
        each: Any = {f"c{n}": (m, ...) for n, m in enumerate(below)}
        below = [create_model(f"L{level}x{n}", **each) for n in range(12)]
    assert taking(below[0]).spec.strict


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["object", "null"]},
        {"type": ["array", "null"]},
        {"type": "string", "enum": []},
    ],
)
def test_a_type_that_openai_refuses_is_not_strict(schema: dict[str, Any]) -> None:
    assert not taking(Annotated[Any, WithJsonSchema(schema)]).spec.strict


def test_a_choice_at_the_root_is_not_strict() -> None:
    schema = {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
        "anyOf": [{"type": "null"}],
    }
    assert not tool_from_schema("t", "d", schema, lambda: "").spec.strict


# The switch


@pytest.mark.parametrize("value", [None, 0, "no"])
def test_the_switch_is_true_or_false(value: Any) -> None:
    with pytest.raises(DefinitionError, match="tool 'look': strict must be True or False"):

        @tool(strict=value)
        def look() -> str:
            return ""


def test_a_tool_may_do_without_strict_mode() -> None:
    @tool(strict=False)
    def look(city: str, days: int = 3) -> str:
        return ""

    assert not look.strict
    assert not look.spec.strict
    assert look.parameters["required"] == ["city"]
    assert look.parameters["properties"]["days"] == {"type": "integer", "default": 3}
    assert look.validate({"city": "x"}).kwargs == {"city": "x", "days": 3}


def test_a_tool_of_a_schema_may_do_without_strict_mode() -> None:
    def made(**options: Any) -> AnyTool:
        schema = {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
            "additionalProperties": False,
        }
        return tool_from_schema("t", "d", schema, lambda a: a, **options)

    assert made().spec.strict
    assert made(strict=True).spec.strict
    assert not made(strict=False).spec.strict
    assert made(strict=False).parameters == made().parameters
