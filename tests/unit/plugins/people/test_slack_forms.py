"""Forms in Slack: what a person puts in becomes what a schema asks for, or an error at its input."""

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from layover.approvals.decide import Verdict
from layover.clock import ManualClock
from layover.errors import DecisionInvalid
from layover.plugins.people.channels.slack.block_kit import CallRef
from layover.plugins.people.channels.slack.forms import (
    FormErrors,
    Kind,
    errors_by_block,
    fields_of,
    form_view,
    read_answer,
    text_view,
)
from layover.plugins.people.channels.slack.twin_rules import check_view
from layover.values.runs.run import SuspensionKind
from support.slack import make_notice, texts

REF = CallRef("run_1", "c1", 1)


class Booking(BaseModel):
    """As authors write it."""

    name: str = Field(description="Who comes.", max_length=50)
    size: int = Field(ge=1, le=12)
    price: float = 9.5
    room: Literal["blue", "green"]
    extras: list[Literal["tea", "cake"]] = []
    is_private: bool
    note: str | None = None
    table: dict[str, int] = {}


SCHEMA = Booking.model_json_schema()


def state(**inputs: Any) -> dict[str, Any]:
    """`view.state.values`: a text, the number of an option, or a list of these."""
    values = {}
    for name, value in inputs.items():
        if isinstance(value, list):
            inner: Any = {"selected_options": [{"value": str(n)} for n in value]}
        elif isinstance(value, int):
            inner = {"selected_option": {"value": str(value)}}
        else:
            inner = {"value": value}
        values[f"data.{name}" if name != "data" else name] = {"value": inner}
    return values


GOOD = state(name="Bea", size="4", room=1, is_private=0, extras=[0, 1], price="9.25")


@pytest.mark.parametrize(
    ("inputs", "wrong"),
    [
        ({"size": "4.5"}, "data.size"),
        ({"size": "four"}, "data.size"),
        ({"size": "9" * 5_000}, "data.size"),
        ({"price": "1e999"}, "data.price"),
        ({"price": "nan"}, "data.price"),
        ({"room": 2}, "data.room"),
        ({"room": -1}, "data.room"),
        ({"extras": [0, 7]}, "data.extras"),
        ({"name": ""}, "data.name"),
        ({"name": None}, "data.name"),
        ({"table": "{"}, "data.table"),
        ({"table": "NaN"}, "data.table"),
        ({"table": "[" * 100_000}, "data.table"),
    ],
)
def test_what_is_wrong_is_said_at_its_input(inputs: dict[str, Any], wrong: str) -> None:
    with pytest.raises(FormErrors) as errors:
        read_answer(SCHEMA, {**GOOD, **state(**inputs)})
    assert errors.value.errors.keys() == {wrong}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"data.name": None},
        {"data.name": {"value": 7}},
        {"data.room": {"value": {"selected_option": 1}}},
    ],
)
def test_a_form_without_its_inputs_is_wrong_at_each_that_is_needed(values: Any) -> None:
    with pytest.raises(FormErrors) as errors:
        read_answer(SCHEMA, values)
    assert errors.value.errors.keys() == {"data.name", "data.size", "data.room", "data.is_private"}


def test_what_a_person_puts_in_becomes_the_answer() -> None:
    answer = read_answer(SCHEMA, {**GOOD, **state(table='{"a": 1}')})
    assert answer == {
        "name": "Bea",
        "size": 4,
        "room": "green",
        "is_private": True,
        "extras": ["tea", "cake"],
        "price": 9.25,
        "table": {"a": 1},
    }
    Booking.model_validate(answer)


def test_no_choice_is_an_answer_where_a_list_is_needed() -> None:
    """Slack takes none from an input that is not optional."""
    schema = {
        "type": "object",
        "properties": {"extras": {"type": "array", "items": {"enum": ["tea"]}}},
        "required": ["extras"],
    }
    notice = make_notice(ManualClock(), resume_schema=schema)
    view = form_view(notice, REF, Verdict.RESUME)
    [block] = [block for block in view["blocks"] if block.get("block_id") == "data.extras"]
    assert block["optional"] is True
    assert read_answer(schema, state(extras=[])) == {"extras": []}


@pytest.mark.parametrize("names", [["Apple", "Fig"], ["Apple"], "Apple", None])
def test_choices_are_shown_by_their_names_and_answered_by_their_values(names: Any) -> None:
    choice = {"enum": ["sku-1", "sku-2"], **({} if names is None else {"enumNames": names})}
    several = {"type": "array", "items": choice}
    schema = {"type": "object", "properties": {"one": choice, "more": several}}
    view = form_view(make_notice(ManualClock(), resume_schema=schema), REF, Verdict.RESUME)
    inputs = [block["element"] for block in view["blocks"] if block["type"] == "input"]
    choosers = [each for each in inputs if "options" in each]
    expected = names if isinstance(names, list) and len(names) == 2 else choice["enum"]
    found = [[option["text"]["text"] for option in each["options"]] for each in choosers]
    assert found == [expected, expected]
    check_view(view)
    answer = read_answer(schema, state(one=1, more=[0, 1]))
    assert answer == {"one": "sku-2", "more": ["sku-1", "sku-2"]}


def test_each_field_has_the_input_of_its_kind() -> None:
    kinds = {each.name: each.kind for each in fields_of(SCHEMA)}
    assert kinds == {
        "name": Kind.TEXT,
        "size": Kind.NUMBER,
        "price": Kind.NUMBER,
        "room": Kind.CHOICE,
        "extras": Kind.CHOICES,
        "is_private": Kind.CHOICE,
        "note": Kind.TEXT,
        "table": Kind.JSON,
    }


@pytest.mark.parametrize(
    ("schema", "kind", "inputs", "answer"),
    [
        ({"type": "string"}, Kind.TEXT, "yes", "yes"),
        ({"type": "integer"}, Kind.NUMBER, "7", 7),
        ({"type": "number"}, Kind.NUMBER, "7", 7),
        ({"type": "boolean"}, Kind.CHOICE, 1, False),
        ({"enum": ["a", 1, None]}, Kind.CHOICE, 2, None),
        ({"const": "go"}, Kind.CHOICE, 0, "go"),
        ({"type": ["string", "null"]}, Kind.TEXT, "", None),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, Kind.CHOICES, [1], ["b"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, Kind.CHOICES, [], []),
        ({"type": "array", "items": {"type": "string"}}, Kind.JSON, '["a"]', ["a"]),
        ({"enum": list(range(101))}, Kind.JSON, "100", 100),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"enum": ["x"]}}}, Kind.CHOICE, 0, "x"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, Kind.JSON, "1", 1),
        ({"$ref": "https://evil.example.com/schema"}, Kind.JSON, "1", 1),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, Kind.JSON, '"a"', "a"),
        ({"type": "object"}, Kind.JSON, '{"a": 1}', {"a": 1}),
        ({}, Kind.JSON, "true", True),
        ({"type": "object", "properties": {"x" * 300: {}}}, Kind.JSON, "{}", {}),
        ({"type": "object", "properties": {f"p{n}": {} for n in range(51)}}, Kind.JSON, "{}", {}),
    ],
)
def test_an_answer_that_is_one_value(schema: Any, kind: Kind, inputs: Any, answer: Any) -> None:
    [field] = fields_of(schema)
    assert (field.kind, field.block_id) == (kind, "data")
    assert read_answer(schema, state(data=inputs)) == answer


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        {},
        {"enum": ["<!channel>" * 50, "a" * 500, "", " ", {"a": ["b"]}, None]},
        {
            "type": "object",
            "properties": {
                f"<!here> {n}": {
                    "title": "<@U1>" * 900,
                    "description": "<http://evil.example.com|x>" * 900,
                    "type": "string",
                    "maxLength": n * 1_000,
                    "default": "d" * 5_000,
                }
                for n in range(50)
            },
        },
        {"type": "number", "minimum": -1e300, "maximum": 1e-300, "default": 3},
        {"type": "integer", "minimum": True, "maximum": "x"},
        {"type": "string", "title": 7, "description": [], "maxLength": -1},
    ],
)
def test_every_form_is_one_that_slack_takes(schema: Any, verdict: Verdict) -> None:
    notice = make_notice(
        ManualClock(), resume_schema=schema, payload={"question": "<!channel> & <b>" * 9}
    )
    call = notice.call.model_copy(update={"kind": SuspensionKind.INPUT})
    view = form_view(notice.model_copy(update={"call": call}), REF, verdict)
    assert check_view(json.loads(json.dumps(view))) == []
    assert not [text for text in texts(view) if "<" in text or ">" in text]
    assert CallRef.decode(view["private_metadata"]) == (REF, {"verdict": verdict.value})


def test_a_text_alone_is_a_view_that_slack_takes() -> None:
    assert check_view(text_view("<!channel> " * 900)) == []


def test_errors_of_a_decision_go_to_the_inputs_that_the_form_has() -> None:
    def error(*loc: Any) -> DecisionInvalid:
        return DecisionInvalid("wrong", [{"loc": list(loc), "msg": "m" * 900, "type": "t"}])

    form: dict[str, Any] = {"data.size": {}, "data.room": {}, "reason": {}}
    for loc, block in (
        (("body", "data", "room"), "data.room"),
        (("body", "data", "room", 0, "x"), "data.room"),
        (("body", "reason"), "reason"),
        (("body", "data"), "data.size"),
        (("body", "data", "gone"), "data.size"),
        ((), "data.size"),
    ):
        errors = errors_by_block(error(*loc), form)
        assert errors.keys() == {block}, loc
        assert len(errors[block]) <= 300
    assert errors_by_block(error("body", "data"), {"data": {}}).keys() == {"data"}
    assert errors_by_block(error("body", "data"), {}) == {}


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("args", [{"memo": "&" * 601}, {"memo": "x" * 1_001}, {"n" * 65: 1}])
def test_form_without_every_argument_decides_nothing(args: Any, verdict: Verdict) -> None:
    view = form_view(make_notice(ManualClock(), args={**args, "amount": 80}), REF, verdict)
    assert "submit" not in view
    assert "decide there" in "".join(texts(view))


def test_form_shows_the_arguments_that_it_decides_about() -> None:
    view = form_view(make_notice(ManualClock(), args={"amount": 80}), REF, Verdict.APPROVE)
    assert "amount: 80" in "".join(texts(view))
    assert "submit" in view
