"""Schemas of values: what the API's document and models read of a docstring."""

import inspect
from typing import Any

import pytest
from pydantic import TypeAdapter

from layover.values.base import Described, Value
from layover.values.message import Message, Role
from layover.values.runs.run import FinishReason, Status
from layover.values.runs.views import Run

PYTHONS = ("Args:", "Attributes:", "Raises:", "Example:", "```")


class Parcel(Value):
    """A parcel.

    It has a weight: in kilograms.

    Attributes:
        kilograms: Its weight.

    Example:
        ```python
        Parcel(kilograms=2)
        ```
    """

    kilograms: int


class Bare(Value):
    kilograms: int


def descriptions(schema: Any) -> list[str]:
    """Every description in a schema, that of its definitions included."""
    if isinstance(schema, list):
        return [text for each in schema for text in descriptions(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema["description"]] if isinstance(schema.get("description"), str) else []
    return own + [text for each in schema.values() for text in descriptions(each)]


def test_a_schema_is_described_by_the_prose_and_not_by_lists_and_examples() -> None:
    schema = Parcel.model_json_schema()
    assert schema["description"] == "A parcel.\n\nIt has a weight: in kilograms."


def test_a_class_without_a_docstring_has_no_description() -> None:
    assert "description" not in Bare.model_json_schema()


@pytest.mark.parametrize("mode", ["validation", "serialization"])
@pytest.mark.parametrize("kind", [Run, Message, list[Parcel], Role, Status, FinishReason])
def test_no_schema_shows_python(kind: Any, mode: Any) -> None:
    told = descriptions(TypeAdapter(kind).json_schema(mode=mode))
    assert told
    assert [text for text in told if any(word in text for word in PYTHONS)] == []


@pytest.mark.parametrize("kind", [Role, Status, FinishReason])
def test_an_enumeration_is_described_by_the_prose_of_its_docstring(kind: type[Described]) -> None:
    prose = inspect.cleandoc(kind.__doc__ or "").partition("\n\nAttributes:")[0]
    assert TypeAdapter(kind).json_schema()["description"] == prose
