"""Lists and objects that a model writes as the text of their JSON, and empty texts for nothing."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from layover import tool
from layover.declare.tools.tool import AnyTool, tool_from_schema


class Guest(BaseModel):
    """A guest."""

    name: str
    tags: list[str] = []


@tool
def book(
    guests: list[Guest],
    main: Guest | None = None,
    rooms: dict[str, int] | None = None,
    note: str = "",
    either: str | list[int] = "",
) -> str:
    """Book rooms."""
    return "booked"


SCHEMA = {
    "type": "object",
    "properties": {
        "guests": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        "note": {"type": "string"},
    },
    "required": ["guests"],
    "additionalProperties": False,
}
GIVEN = tool_from_schema("book", "Book rooms.", SCHEMA, lambda **args: "booked")
ADA = {"name": "Ada", "tags": ["vip"]}


def read(tool: AnyTool, args: Any) -> dict[str, Any]:
    return tool.validate(args).as_dict()


@pytest.mark.parametrize(
    "guests",
    ["Ada", "[", "[1, 2]", '{"name": "Ada"}', '"[]', "[{}]", 3, '["{\\"tags\\": []}"]'],
)
@pytest.mark.parametrize("made", [book, GIVEN], ids=["hints", "schema"])
def test_a_text_that_is_not_the_list_is_refused_as_it_was_written(made: Any, guests: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        made.validate({"guests": guests})
    assert [p["loc"][0] for p in refused.value.errors()] == ["guests"]
    assert "list" in str(refused.value) or "array" in str(refused.value)


@pytest.mark.parametrize("made", [book, GIVEN], ids=["hints", "schema"])
def test_a_text_that_may_be_a_text_stays_one(made: Any) -> None:
    assert read(made, {"guests": [ADA], "note": "[1]"})["note"] == "[1]"
    assert read(book, {"guests": [], "either": "[1]"})["either"] == "[1]"


@pytest.mark.parametrize(
    "guests", [[ADA], json.dumps([ADA]), [json.dumps(ADA)], json.dumps([json.dumps(ADA)])]
)
@pytest.mark.parametrize("made", [book, GIVEN], ids=["hints", "schema"])
def test_a_list_may_come_as_the_text_of_its_json(made: Any, guests: Any) -> None:
    assert read(made, {"guests": guests})["guests"] == [ADA]


@pytest.mark.parametrize("args", [{"guests": json.dumps([ADA])}, {"guests": [ADA]}])
def test_all_arguments_may_come_as_one_text_of_json(args: Any) -> None:
    assert read(book, json.dumps(json.dumps(args)))["guests"] == [ADA]


def test_objects_of_optional_arguments_may_come_as_texts() -> None:
    texts = {"main": json.dumps({**ADA, "tags": '["x"]'}), "rooms": '{"12": 2}'}
    args = read(book, {"guests": "[]", **texts})
    assert (args["main"], args["rooms"]) == ({"name": "Ada", "tags": ["x"]}, {"12": 2})


def test_only_texts_that_do_not_fit_are_decoded() -> None:
    args = read(book, {"guests": json.dumps([{"name": "[1]"}]), "note": '{"a": 1}'})
    assert (args["guests"][0]["name"], args["note"]) == ("[1]", '{"a": 1}')


def test_text_of_a_list_may_have_line_breaks_as_they_are() -> None:
    assert read(book, {"guests": '[{"name": "Ada\nB.", "tags": ["vip"]}]'})["guests"] == [
        {"name": "Ada\nB.", "tags": ["vip"]}
    ]


@tool
def move(
    room: int,
    floor: int | None = None,
    view: Literal["sea", "garden"] = "sea",
    key: Annotated[str, Field(min_length=1)] = "none",
    note: str = "as before",
    guest: Guest | None = None,
) -> str:
    """Move a guest."""
    return "moved"


MOVE_SCHEMA = {
    "type": "object",
    "properties": {
        "room": {"type": "integer"},
        "floor": {"type": "integer"},
        "view": {"enum": ["sea", "garden"]},
        "note": {"type": "string"},
        "guests": {"type": "array", "items": {"type": "string", "minLength": 1}},
    },
    "required": ["room"],
    "additionalProperties": False,
}
GIVEN_MOVE = tool_from_schema("move", "Move a guest.", MOVE_SCHEMA, lambda **args: "moved")


@pytest.mark.parametrize("args", [{"room": ""}, {"room": None}, {"room": "", "floor": ""}, {}])
@pytest.mark.parametrize("made", [move, GIVEN_MOVE], ids=["hints", "schema"])
def test_an_empty_text_for_what_is_required_is_refused(made: Any, args: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        made.validate(args)
    assert "room" in str(refused.value)


def test_an_empty_text_in_a_list_is_refused() -> None:
    with pytest.raises(ValidationError):
        GIVEN_MOVE.validate({"room": 1, "guests": [""]})


@pytest.mark.parametrize("empty", ["", " ", None])
def test_an_empty_text_for_an_optional_argument_leaves_it_out(empty: Any) -> None:
    args = read(move, {"room": 1, "floor": empty, "view": empty, "key": ""})
    assert (args["floor"], args["view"], args["key"]) == (None, "sea", "none")
    assert read(GIVEN_MOVE, {"room": 1, "floor": empty, "view": empty}) == {"room": 1}


def test_an_empty_text_in_an_object_leaves_out_its_field() -> None:
    args = read(move, {"room": 1, "guest": {"name": "Ada", "tags": ""}})
    assert args["guest"] == {"name": "Ada", "tags": []}
    assert read(move, {"room": 1, "guest": {"name": "Ada", "tags": None}})["guest"]["tags"] == []


@pytest.mark.parametrize("made", [move, GIVEN_MOVE], ids=["hints", "schema"])
def test_an_empty_text_that_may_be_one_stays(made: Any) -> None:
    assert read(made, {"room": 1, "note": "", "floor": ""})["note"] == ""
