"""Model settings on the wire: as the provider calls them, without what a model refuses."""

import logging
from typing import Any

import pytest

from layover import ModelSettings
from layover.errors import DefinitionError, ModelError
from layover.plugins.models import wire
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.prompt import Prompt, ToolSpec
from support.providers.openai import FakeOpenAI, document, fail, say

TOOL = ToolSpec(name="look", description="Look.", parameters={"type": "object"})
PLAIN = Prompt(model="openai/m", tools=(TOOL,), cache_key="k")
ALL = ModelSettings(
    max_tokens=50,
    temperature=0.2,
    top_p=0.9,
    reasoning="low",
    verbosity="high",
    tool_choice="look",
    parallel_tool_calls=False,
    seed=7,
    stop=("END", "STOP"),
    cache="off",
    extra={"service_tier": "flex"},
)


def asked(settings: ModelSettings, **more: Any) -> Prompt:
    return PLAIN.model_copy(update={"settings": settings, **more})


def refusal(name: str, status: int = 400, text: str = "Unsupported parameter") -> Any:
    error = {"message": f"{text}: '{name}' is not supported with this model.", "param": name}
    return document({"error": error}, status=status)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"temperature": -1},
        {"top_p": 0},
        {"reasoning": "huge"},
        {"timeout": 0},
        {"extra": {"messages": []}},
        {"extra": {"n": float("nan")}},
        {"temprature": 1},
    ],
)
def test_setting_that_cannot_be_is_a_definition_error(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(DefinitionError, match=rf"ModelSettings(\.|: no option '){name}"):
        ModelSettings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_tokens": "many"}, "ModelSettings.max_tokens must be a valid integer, not 'many'"),
        ({"inputs": ["smell"]}, "ModelSettings.inputs must be 'audio', .* or 'text', not 'smell'"),
        ({"tool_choice": ""}, "ModelSettings.tool_choice: .* at least 1 character, not ''"),
        ({"extra": {"model": "x", "key": "k-1"}}, "ModelSettings.extra: model cannot be set here$"),
    ],
)
def test_setting_that_cannot_be_is_named_with_what_is_expected(wrong: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        ModelSettings(**wrong)


def test_what_is_not_set_is_not_sent() -> None:
    assert wire.body(PLAIN).keys() == {"model", "messages", "tools", "prompt_cache_key"}


def test_settings_have_the_providers_names() -> None:
    sent = wire.body(asked(ALL))
    for known in ("model", "messages", "tools"):
        del sent[known]
    assert sent == {
        "max_completion_tokens": 50,
        "max_tokens": 50,
        "temperature": 0.2,
        "top_p": 0.9,
        "reasoning_effort": "low",
        "verbosity": "high",
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "seed": 7,
        "stop": ["END", "STOP"],
        "service_tier": "flex",
    }


def test_choice_of_tools_is_not_sent_where_there_are_none() -> None:
    sent = wire.body(asked(ALL, tools=()))
    assert sent.keys() & {"tool_choice", "parallel_tool_calls"} == set()


def test_settings_say_what_they_say_over_others() -> None:
    base = ModelSettings(max_tokens=5, seed=1, cache="off")
    assert ModelSettings(max_tokens=9).over(base) == ModelSettings(
        max_tokens=9, seed=1, cache="off"
    )


@pytest.mark.parametrize("status", [400, 422])
async def test_refused_setting_is_dropped_once_and_remembered_for_that_model(
    server: FakeOpenAI, chat: OpenAIChat, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    def answer(body: Any) -> Any:
        is_refused = body["model"] == "m" and "temperature" in body
        return refusal("temperature", status) if is_refused else say("x")

    server.respond_with(answer)
    with caplog.at_level(logging.WARNING, "layover"):
        for _ in range(2):
            assert (await chat.complete(asked(ALL))).text == "x"
    assert (await chat.complete(asked(ALL, model="openai/other"))).text == "x"
    assert ["temperature" in r.body for r in server.requests] == [True, False, False, True]
    assert all(r.body["seed"] == 7 for r in server.requests)
    (said,) = (r.getMessage() for r in caplog.records)
    assert "temperature" in said


@pytest.mark.parametrize(
    "host",
    ["api.openai.com", "eu.api.openai.com", "ours.openai.azure.com", "x.services.ai.azure.com"],
)
def test_openai_and_azure_get_the_newer_name_of_max_tokens_alone(host: str) -> None:
    prompt = asked(ModelSettings(max_tokens=5))
    assert limits(wire.body(prompt, provider=host)) == {"max_completion_tokens": 5}
    left_out = frozenset({"max_completion_tokens"})
    assert limits(wire.body(prompt, left_out, host)) == {"max_tokens": 5}


@pytest.mark.parametrize("host", ["", "openrouter.ai", "notopenai.com", "openai.com.example"])
def test_others_get_both_names_of_max_tokens(host: str) -> None:
    prompt = asked(ModelSettings(max_tokens=5))
    assert limits(wire.body(prompt, provider=host)) == dict.fromkeys(wire.MAX_TOKENS, 5)
    assert limits(wire.body(asked(ModelSettings()), provider=host)) == {}


def limits(body: Any) -> dict[str, Any]:
    return {k: v for k, v in body.items() if k in wire.MAX_TOKENS}


@pytest.mark.parametrize(
    ("message", "stays"),
    [
        ("Unsupported parameter: 'max_completion_tokens'", "max_tokens"),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "max_completion_tokens",
        ),
        (
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "max_completion_tokens",
        ),
    ],
)
async def test_name_of_max_tokens_that_is_refused_is_not_sent_again(
    server: FakeOpenAI, chat: OpenAIChat, message: str, stays: str
) -> None:
    server.script([fail(400, message), say("x"), say("y")])
    for _ in range(2):
        await chat.complete(asked(ModelSettings(max_tokens=5)))
    both = dict.fromkeys(wire.MAX_TOKENS, 5)
    assert [limits(r.body) for r in server.requests] == [both, {stays: 5}, {stays: 5}]


async def test_model_that_refuses_one_setting_after_the_other_is_sent_neither(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    refused = ["temperature", "top_p", "service_tier"]

    def answer(body: Any) -> Any:
        wrong = next((name for name in refused if name in body), None)
        return refusal(wrong, text="Unknown parameter") if wrong else say("x")

    server.respond_with(answer)
    assert (await chat.complete(asked(ALL))).text == "x"
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "message",
    [
        "max_completion_tokens is too large: 50",
        "Invalid value for 'tool_choice': no such tool",
        "messages: unexpected role",
    ],
)
async def test_setting_that_is_only_wrong_is_an_error_that_names_it(
    server: FakeOpenAI, chat: OpenAIChat, message: str
) -> None:
    server.script([fail(400, message)])
    with pytest.raises(ModelError, match=message.split(":")[0]):
        await chat.complete(asked(ALL))
    assert len(server.requests) == 1


async def test_reply_of_a_model_that_refuses_to_be_forced_says_so(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    forced = asked(ModelSettings(tool_choice="look"))
    server.script([say("a"), fail(400, "tool_choice is not supported"), say("b"), say("c")])
    replies = [await chat.complete(forced) for _ in range(3)]
    assert [reply.chooses_freely for reply in replies] == [False, True, True]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_reply_that_takes_longer_than_the_timeout_is_asked_for_again(
    server: FakeOpenAI, chat: OpenAIChat, stream: bool
) -> None:
    # Only what is too late for certain is: a busy machine may make an answer or two late as well.
    server.script([say("late", delay_s=60), *[say("in time")] * 3])
    quick = asked(ModelSettings(timeout=1.5), stream=stream)
    assert (await chat.complete(quick)).text == "in time"
