"""Arguments are shown by the names by which their tool takes them: an approver may send them back."""

from dataclasses import field
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, Json, RootModel, computed_field
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from layover import tool
from layover.declare.tools.tool import AnyTool


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    amount: int = Field(alias="amountEuros")
    of: str = Field(default="shoes", validation_alias="class")
    count: int = Field(default=1, serialization_alias="outgoing")
    place: str = Field(default="x", validation_alias=AliasChoices("placeA", "placeB"))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return self.count * self.amount


@dataclass(config=ConfigDict(extra="forbid"))
class Parcel:
    weight: int = Field(alias="weightKg")
    lines: list[Line] = field(default_factory=list)


class Place(TypedDict):
    street: Annotated[str, Field(alias="streetName")]


class Lines(RootModel[dict[str, Line]]):
    pass


GIVEN = {"amountEuros": 5, "class": "hats", "count": 2, "placeA": "y"}


@tool
def one(line: Line) -> str:
    """Take one."""
    return str((line.amount, line.of, line.count, line.place))


@tool
def many(lines: list[Line], more: dict[str, tuple[Line, ...]], maybe: Line | None = None) -> str:
    """Take many."""
    return "taken"


@tool
def parcel(parcel: Parcel, to: Place) -> str:
    """Send."""
    return "sent"


@tool
def rooted(lines: Lines) -> str:
    """Take."""
    return "taken"


@tool
def named(amount: Annotated[int, Field(alias="amountEuros")], note: Json[Any] = None) -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize(
    ("taker", "args"),
    [
        (one, {"line": GIVEN}),
        (many, {"lines": [GIVEN], "more": {"a": [GIVEN, GIVEN]}, "maybe": GIVEN}),
        (parcel, {"parcel": {"weightKg": 3, "lines": [GIVEN]}, "to": {"streetName": "High"}}),
        (rooted, {"lines": {"a": GIVEN, "b": GIVEN}}),
        (named, {"amountEuros": 5, "note": '{"a":1}'}),
    ],
)
def test_arguments_are_shown_by_the_names_of_the_schema_and_taken_back(
    taker: AnyTool, args: dict[str, Any]
) -> None:
    shown = taker.validate(args).as_dict()
    assert shown == args
    assert taker.validate(shown).as_dict() == shown


def test_defaults_are_shown_by_the_names_of_the_schema() -> None:
    shown = one.validate({"line": {"amountEuros": 5}}).as_dict()
    assert shown["line"].keys() == one.parameters["$defs"]["Line"]["properties"].keys()


def test_author_still_reads_the_names_of_the_code() -> None:
    assert one.validate({"line": GIVEN}).for_predicate()["line"]["amount"] == 5
