"""Structured answers from providers that refuse, or ignore, the schema that they are sent."""

import json
from typing import Any

import pytest

from layover.errors import ModelError
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.prompt import OutputSpec, Prompt, ToolSpec
from support.providers.openai import FakeOpenAI, call, fail, say

SCHEMA = {"type": "object", "properties": {"room": {"type": "integer"}}, "required": ["room"]}
OUTPUT = OutputSpec(name="Offer", json_schema=SCHEMA, strict=True)
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object"})
PROMPT = Prompt(model="openai/m", system="You help.", output=OUTPUT)
GOOD = say('{"room": 12}')
REFUSALS = [
    "This response_format type is unavailable now",
    "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
    "Invalid value: 'json_schema'. Supported values are: 'text' and 'json_object'.",
    "response_format.type: Input should be 'text' or 'json_object'",
    "Structured outputs are not supported by this model",
    "Function calling with a response mime type: 'application/json' is unsupported",
    "json mode cannot be combined with tool/function calling",
    "Unsupported parameter: 'text.format'",
]


def format_of(body: Any) -> Any:
    """The format that a request of either API has."""
    return body.get("response_format") or body.get("text", {}).get("format")


def words_of(body: Any) -> str:
    """The system's text of a request of either API."""
    return str(body.get("instructions") or body["messages"][0]["content"])


def has_schema_in_words(body: Any) -> bool:
    return json.dumps(SCHEMA) in words_of(body) and words_of(body).startswith("You help.")


def refuse(*kinds: str) -> Any:
    """A provider that refuses formats of these types."""

    def answer(body: Any) -> Any:
        kind = (format_of(body) or {}).get("type")
        return fail(400, f"response_format: {kind} is not supported") if kind in kinds else GOOD

    return answer


@pytest.fixture(params=["chat", "responses"])
def prompt(request: pytest.FixtureRequest) -> Prompt:
    return PROMPT.model_copy(update={"api": request.param})


async def test_a_refusal_for_another_reason_is_the_callers(
    server: FakeOpenAI, chat: OpenAIChat, prompt: Prompt
) -> None:
    server.script([fail(400, "The image is too large"), GOOD])
    with pytest.raises(ModelError, match="too large"):
        await chat.complete(prompt)


async def test_a_provider_that_refuses_whatever_it_is_sent_is_told_after_three_requests(
    server: FakeOpenAI, chat: OpenAIChat, prompt: Prompt
) -> None:
    server.respond_with(lambda _: fail(400, "response_format is wrong"))
    with pytest.raises(ModelError, match="response_format is wrong"):
        await chat.complete(prompt)
    assert len(server.requests) == 3


async def test_a_format_of_the_authors_own_is_not_taken_for_the_outputs(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script([fail(400, "response_format is wrong"), GOOD])
    with pytest.raises(ModelError):
        await chat.complete(PROMPT.model_copy(update={"output": None}))


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_model_that_takes_no_schema_is_told_it_in_words_from_then_on(
    server: FakeOpenAI, chat: OpenAIChat, prompt: Prompt, refusal: str
) -> None:
    server.script([fail(400, refusal), GOOD, GOOD, GOOD])
    for _ in range(2):
        assert (await chat.complete(prompt)).text == '{"room": 12}'
    bodies = [r.body for r in server.requests]
    assert [format_of(b)["type"] for b in bodies] == ["json_schema", "json_object", "json_object"]
    assert [has_schema_in_words(b) for b in bodies] == [False, True, True]
    await chat.complete(prompt.model_copy(update={"model": "openai/other"}))
    assert format_of(server.requests[-1].body)["type"] == "json_schema"


async def test_a_model_that_takes_no_format_is_sent_none(
    server: FakeOpenAI, chat: OpenAIChat, prompt: Prompt
) -> None:
    server.respond_with(refuse("json_schema", "json_object"))
    for _ in range(2):
        assert (await chat.complete(prompt)).text == '{"room": 12}'
    bodies = [r.body for r in server.requests]
    assert [format_of(b) is None for b in bodies] == [False, False, True, True]
    assert has_schema_in_words(bodies[-1])


async def test_the_words_are_only_for_structured_answers(
    server: FakeOpenAI, chat: OpenAIChat, prompt: Prompt
) -> None:
    server.respond_with(refuse("json_schema"))
    await chat.complete(prompt)
    await chat.complete(prompt.model_copy(update={"output": None}))
    assert words_of(server.requests[-1].body) == "You help."


@pytest.mark.parametrize("text", ["Room 12.", '{"number": 12}', "[12]", "", '"room"'])
async def test_a_model_that_ignores_the_schema_is_told_it_in_words_too(
    server: FakeOpenAI, chat: OpenAIChat, prompt: Prompt, text: str
) -> None:
    server.script([say(text), GOOD, GOOD])
    for _ in range(3):
        await chat.complete(prompt)
    bodies = [r.body for r in server.requests]
    assert [has_schema_in_words(b) for b in bodies] == [False, True, True]
    assert {format_of(b)["type"] for b in bodies} == {"json_schema"}


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        say('```json\n{"room": 12}\n```'),
        say('Here: {"room": 12}, as you asked.'),
        call("look"),
    ],
)
async def test_a_model_that_keeps_to_the_schema_is_not_told_it_twice(
    server: FakeOpenAI, chat: OpenAIChat, prompt: Prompt, answer: Any
) -> None:
    server.script([answer, GOOD])
    asked = prompt.model_copy(update={"tools": (LOOK,)})
    for _ in range(2):
        await chat.complete(asked)
    assert not any(has_schema_in_words(r.body) for r in server.requests)


async def test_an_answer_that_was_cut_says_nothing_about_the_schema(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script([say('{"ro', finish_reason="length"), GOOD])
    for _ in range(2):
        await chat.complete(PROMPT)
    assert not any(has_schema_in_words(r.body) for r in server.requests)
