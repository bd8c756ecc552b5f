"""Schemas: strict where OpenAI accepts it, and never more than the function takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from layover import ToolContext, tool
from layover.declare.tools.tool import Tool


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Item(BaseModel):
    sku: str
    title: str = Field(description="what it says", min_length=1)
    color: Color = Field(default=Color.RED, description="its colour")
    quantity: int = 1


class Node(BaseModel):
    value: int
    children: list["Node"] = []


class Left(BaseModel):
    right: "Right | None" = None


class Right(BaseModel):
    left: "Left" = Field(default=None, description="back")  # type: ignore[assignment]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Empty(BaseModel):
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Point(TypedDict):
    x: float
    y: float


@dataclass
class Size:
    width: int
    height: int = 1


def taking(hint: Any, default: Any = ...) -> Tool:
    """A tool with one parameter, `value`."""

    def fn(value: Any) -> str:
        return ""

    fn.__annotations__["value"] = hint
    if default is not ...:
        fn.__defaults__ = (default,)
    return tool(fn)


ALLOWED = {
    "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "$ref",
    "$defs", "description", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
}  # fmt: skip


def nested(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for key in ("properties", "$defs"):
        for inner in schema.get(key, {}).values():
            yield from nested(inner)
    for inner in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        yield from nested(inner)


def assert_accepted_in_strict_mode(schema: dict[str, Any]) -> None:
    """OpenAI's rules, written down independently of the code that follows them."""
    assert schema["type"] == "object"
    for each in nested(schema):
        assert set(each) <= ALLOWED, each
        assert "$ref" in each or "type" in each or "anyOf" in each, each
        if "$ref" in each:
            assert set(each) == {"$ref"}
            assert each["$ref"].removeprefix("#/$defs/") in schema["$defs"]
        if each.get("type") == "object":
            assert each["additionalProperties"] is False
            assert each["required"] == list(each["properties"])
        if each.get("type") == "array":
            assert "items" in each


STRICT = [
    str, int, float, bool, date, datetime, timedelta, UUID, Decimal, bytes, Color, Level, Item,
    Node, Left, Empty, Point, Size, list[str], list[Item], list[list[int]], set[int],
    tuple[int, ...], int | None, Item | None, int | str, int | str | None,
    Optional[Item], Union[int, str],  # noqa: UP007, UP045
    Literal["a", "b"], Literal[1, "a", None], Cat | Dog, list[Cat | Dog],
    Annotated[Cat | Dog, Field(discriminator="kind")],
    Annotated[str, Field(description="d", min_length=2, max_length=5, pattern="^[a-z]+$")],
    Annotated[int, Field(ge=0, le=9)], Annotated[list[int], Field(min_length=1, max_length=3)],
    Annotated[Item, Field(description="an item")], Annotated[Node, Field(description="a node")],
    Annotated[Color, Field(description="a colour")],
]  # fmt: skip


@pytest.mark.parametrize("hint", STRICT, ids=str)
def test_types_that_strict_mode_knows_are_strict(hint: Any) -> None:
    made = taking(hint)
    assert made.spec.strict
    assert_accepted_in_strict_mode(made.spec.parameters)


LOOSE = [dict[str, int], dict, Any, list[Any], tuple[int, str], Open, list, dict[Color, int] | None]


@pytest.mark.parametrize("hint", LOOSE, ids=str)
def test_types_that_strict_mode_does_not_know_are_not_strict(hint: Any) -> None:
    made = taking(hint)
    assert not made.spec.strict
    assert made.spec.parameters["required"] == ["value"]


DEFAULTS = [
    (str, "c"), (int, 0), (Color, Color.RED), (Level, Level.LOW), (date, date(2026, 1, 1)),
    (list[str], []), (int | None, None), (int | None, 5), (Literal["x", "y"], "x"),
    (Annotated[str, Field(description="unit", max_length=1)], "c"), (Item | None, None),
    (Item, Item(sku="a", title="b")), (set[int], frozenset()), (bool, False),
    (str | int, "c"), (float, float("inf")),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "default"), DEFAULTS, ids=str)
def test_a_default_is_strict_as_null_and_means_the_default(hint: Any, default: Any) -> None:
    made = taking(hint, default)
    assert made.spec.strict
    assert_accepted_in_strict_mode(made.spec.parameters)
    assert made.validate({}).kwargs == {"value": default}
    takes_null = hint in (int | None, Item | None)
    assert made.validate({"value": None}).kwargs == {"value": None if takes_null else default}


def test_the_default_is_told_in_words() -> None:
    made = taking(Annotated[str, Field(description="the unit")], "celsius")
    assert made.parameters["properties"]["value"]["description"] == 'the unit (default: "celsius")'


def test_a_default_in_a_loose_schema_stays_a_default() -> None:
    @tool
    def search(filters: dict[str, str], limit: int = 10) -> str:
        return ""

    assert not search.strict
    assert search.parameters["required"] == ["filters"]
    assert search.parameters["properties"]["limit"]["default"] == 10


def test_no_arguments_are_an_empty_closed_object() -> None:
    @tool
    def now() -> str:
        return ""

    assert now.spec.strict
    assert now.parameters == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_the_context_is_no_part_of_the_schema() -> None:
    @tool
    def one(ctx: ToolContext, a: int) -> str:
        return ""

    @tool
    def two(a: int, anything: ToolContext | None = None) -> str:
        return ""

    @tool
    def three(a: int, ctx: Annotated[ToolContext | None, "injected"] = None) -> str:
        return ""

    @tool
    def four(a: int, ctx: "ToolContext") -> str:
        return ""

    for made in (one, two, three, four):
        assert list(made.parameters["properties"]) == ["a"]


def test_parameters_may_have_any_name() -> None:
    @tool
    def odd(schema: str, copy: int, model_config: str, _private: int, self: str) -> str:
        return ""

    names = ["schema", "copy", "model_config", "_private", "self"]
    assert list(odd.parameters["properties"]) == names
    args = dict(zip(names, ["a", 1, "b", 2, "c"], strict=True))
    assert odd.validate(args).kwargs == args
    assert odd.validate(args).as_dict() == args


def test_titles_are_left_out_but_a_property_called_title_stays() -> None:
    item = taking(Item).parameters["$defs"]["Item"]
    assert "title" not in item
    assert item["properties"]["title"]["description"] == "what it says (minLength: 1)"


def test_a_reference_beside_a_description_is_copied_in_unless_it_is_recursive() -> None:
    color = taking(Annotated[Color, Field(description="a colour")]).parameters["properties"]
    node = taking(Annotated[Node, Field(description="a node")]).parameters["properties"]
    assert color["value"] == {"enum": ["red", "blue"], "type": "string", "description": "a colour"}
    assert node["value"] == {"$ref": "#/$defs/Node"}


def test_an_argument_that_the_function_does_not_take_is_refused() -> None:
    with pytest.raises(ValidationError):
        taking(int).validate({"value": 1, "vallue": 2})


def test_a_field_default_given_as_field_is_honoured() -> None:
    @tool
    def pay(amount: float = Field(default=5, gt=0, description="euros")) -> str:
        return ""

    assert pay.validate({}).kwargs == {"amount": 5}
    with pytest.raises(ValidationError):
        pay.validate({"amount": -1})


def test_a_default_that_json_cannot_say_is_kept_for_the_function() -> None:
    made = taking(float, float("inf"))
    assert made.validate({}).kwargs == {"value": float("inf")}
