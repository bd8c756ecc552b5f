"""Structured answers as models write them: in fences, among words, behind a byte order mark."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from layover import Agent


class Offer(BaseModel):
    """An offer."""

    room: int
    note: str = ""


class Refusal(BaseModel):
    """No offer."""

    why: str


def agent(output: Any) -> Agent:
    return Agent("clerk", model="m", output=output)


class Offers(BaseModel):
    """Some offers."""

    offers: list[Offer]
    note: str = ""


JSON = '{"room": 12, "note": "a {b} ```c```"}'


@pytest.mark.parametrize(
    "text",
    ["", "Room 12.", "```json\n```", "{room: 12}", '{"room"', "Here: {} and {1}", "12", "```"],
)
def test_an_answer_without_the_json_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        agent(Offer).parse_output(text)


def test_the_problem_is_that_of_the_json_and_not_of_the_words_around_it() -> None:
    with pytest.raises(ValidationError) as refused:
        agent(Offer).parse_output('Here it is:\n```json\n{"room": "twelve"}\n```')
    assert [p["loc"] for p in refused.value.errors()] == [("room",)]


def test_a_reference_among_words_is_not_a_list() -> None:
    with pytest.raises(ValidationError):
        agent(list[int]).parse_output("As the manual says [1].")


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        f"\ufeff{JSON}",
        f" \ufeff\n{JSON}\n",
        f"```json\n{JSON}\n```",
        f"```\n{JSON}\n```\n",
        f"```JSON \n{JSON}",
        f"Here it is:\n\n```json\n{JSON}\n```\nAnything else?",
        f"Here it is: {JSON}. Anything else?",
        f'I first thought of {{"rooms": []}}, but: {JSON}',
        f'```json\n{{"example": 1}}\n```\nThe answer:\n```json\n{JSON}\n```',
        f"A set {{1}} of words. {JSON}",
        f'{{"rooms": 1}} has a 5" screen.\n{{\n{JSON[1:]}',
    ],
)
def test_the_json_in_an_answer_is_the_output(text: str) -> None:
    offer = agent(Offer).parse_output(text)
    assert (offer.room, offer.note) == (12, "a {b} ```c```")
    assert agent(Offer | Refusal).parse_output(text) == offer


@pytest.mark.parametrize(
    "text", ["[1, 2]", "\ufeff[1, 2]", "```json\n[1, 2]\n```", '{"value": [1, 2]}']
)
def test_a_list_may_stand_in_a_fence(text: str) -> None:
    assert agent(list[int]).parse_output(text) == [1, 2]


@pytest.mark.parametrize("before", ["", "\ufeff", "```json\n", "Here it is:\n\n```json\n"])
def test_a_partial_output_begins_with_the_json(before: str) -> None:
    clerk = agent(Offer)
    assert clerk.partial_output(before[:5]) is None
    assert clerk.partial_output(before + '{"room": 12, "no') == {"room": 12}
    assert clerk.partial_output(before + JSON + "\n```\n") == {"room": 12, "note": "a {b} ```c```"}


@pytest.mark.parametrize("offers", ["two", "[", "[1]", '{"room": 12}'])
def test_a_text_that_is_not_the_list_is_refused_as_it_was_written(offers: str) -> None:
    with pytest.raises(ValidationError) as refused:
        agent(Offers).parse_output(json.dumps({"offers": offers}))
    assert [p["loc"] for p in refused.value.errors()] == [("offers",)]


@pytest.mark.parametrize("offers", ['[{"room": 12}]', ['{"room": 12}'], '["{\\"room\\": 12}"]'])
@pytest.mark.parametrize("output", [Offers, Offers | Refusal])
def test_a_list_may_come_as_the_text_of_its_json(output: Any, offers: Any) -> None:
    text = json.dumps({"offers": offers, "note": "[1]"})
    for answer in (text, f"```json\n{text}\n```", json.dumps(text)):
        assert agent(output).parse_output(answer) == Offers(offers=[Offer(room=12)], note="[1]")


def test_a_list_of_its_own_may_come_as_a_text() -> None:
    assert agent(list[int]).parse_output('{"value": "[1, 2]"}') == [1, 2]


@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "As \\(x\\) says: {}. \\alpha"])
def test_lone_backslashes_of_an_output_are_its_own(around: str) -> None:
    answer = around.replace("{}", r'{"room": 12, "note": "\(x\) {1}"}')
    assert agent(Offer).parse_output(answer).note == r"\(x\) {1}"
