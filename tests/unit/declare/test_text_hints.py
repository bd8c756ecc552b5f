"""Hints that are text: `from __future__ import annotations`, local types, types for the checker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import layover
from layover import tool

if TYPE_CHECKING:
    from pydantic import BaseModel

    from layover import ToolContext
else:
    from pydantic import BaseModel


class City(BaseModel):
    name: str


@tool
def weather(city: City, ctx: layover.ToolContext) -> Weather:  # type: ignore[name-defined] # noqa: F821
    """The hint of the result is not read."""
    return city.name


def test_text_hints_are_read() -> None:
    assert list(weather.parameters["properties"]) == ["city"]
    assert weather.validate({"city": {"name": "Rome"}}).kwargs == {"city": City(name="Rome")}


def test_types_of_the_function_around_are_found() -> None:
    class Local(BaseModel):
        x: int

    @tool
    def bare(value: Local) -> str:
        return ""

    @tool(idempotent=True)
    def with_options(value: Local) -> str:
        return ""

    for made in (bare, with_options):
        assert made.validate({"value": {"x": 1}}).kwargs == {"value": Local(x=1)}


def test_a_context_imported_for_the_type_checker_alone_is_known() -> None:
    @tool
    def one(ctx: ToolContext | None, a: int) -> str:
        return ""

    assert one.signature.context == "ctx"
    assert list(one.parameters["properties"]) == ["a"]
