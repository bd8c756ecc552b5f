"""Values that a schema accepts, to be filled in by a person."""

from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from layover.approvals.schema_errors import schema_errors
from layover.desk.local.terminal.skeletons import skeleton


class Colour(Enum):
    """A field with a few values."""

    RED = "red"


class Part(BaseModel):
    """A model in a model."""

    name: Annotated[str, Field(min_length=5, max_length=6)]
    colour: Colour


class Tree(BaseModel):
    """A model of itself."""

    label: str
    parent: "Tree | None"
    children: "list[Tree]"


class Form(BaseModel):
    """A form of which some fields may be left out."""

    part: Part
    kind: Literal["a", "b"]
    spare: Part | None
    note: str = "none"


PART = {"name": ".....", "colour": "red"}


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        (str, "..."),
        (Annotated[str, Field(max_length=2)], ".."),
        (Annotated[str, Field(examples=["A-1"])], "A-1"),
        (int, 0),
        (Annotated[int, Field(ge=1, le=12)], 1),
        (Annotated[int, Field(gt=-9, lt=-7)], -8),
        (Annotated[float, Field(gt=0, lt=0.5)], 0.25),
        (Annotated[int, Field(multiple_of=7, ge=3)], 7),
        (bool, True),
        (None, None),
        (int | None, 0),
        (list[int], [0]),
        (Annotated[list[int], Field(min_length=2)], [0, 0]),
        (tuple[int, str], [0, "..."]),
        (dict[str, int], {}),
        (Any, "..."),
        (Form, {"part": PART, "kind": "a", "spare": PART}),
        (Tree, {"label": "...", "parent": None, "children": []}),
    ],
    ids=str,
)
def test_a_skeleton_has_what_is_required(type: Any, expected: Any) -> None:
    filled = skeleton(TypeAdapter(type).json_schema())
    assert filled == expected
    TypeAdapter(type).validate_python(filled)


@pytest.mark.parametrize("type", [date, datetime, time, UUID, Decimal], ids=str)
def test_a_skeleton_of_a_format_is_valid(type: Any) -> None:
    schema = TypeAdapter(type).json_schema()
    filled = skeleton(schema)
    assert schema_errors(schema, filled) == []
    TypeAdapter(type).validate_json(f'"{filled}"')


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["null", "string"]}, "..."),
        (
            {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": True}}]},
            {"a": "..."},
        ),
        ({"const": 3}, 3),
        ({"$ref": "#/nowhere"}, "..."),
        ({"$ref": "#"}, None),
        (
            {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
            {"a": {"a": None}},
        ),
        ({"type": "array"}, []),
        ({"items": True}, ["..."]),
    ],
    ids=str,
)
def test_a_schema_that_was_written_by_hand_has_a_skeleton(
    schema: dict[str, Any], expected: Any
) -> None:
    assert skeleton(schema) == expected
