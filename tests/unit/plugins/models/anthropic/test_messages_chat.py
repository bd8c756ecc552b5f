"""The Messages API behind the port: errors, retries, pauses, keys."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from layover.errors import ConfigurationError, ContentFiltered, ContextLengthExceeded, ModelError
from layover.plugins.models.anthropic.chat import AnthropicChat
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.providers import Providers, make_model
from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import ProviderAddress
from layover.values.message import Message, ProviderState, Role, TextPart
from layover.values.prompt import Delta, OutputSpec, Prompt
from layover.values.runs.model_settings import ModelSettings
from support.providers import messages
from support.providers.answers import document
from support.providers.openai import FakeOpenAI, Raw, say

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
HELLO = (
    Message(
        id="m",
        thread_id="t",
        role=Role.USER,
        content=(TextPart(text="hi"),),
        created_at="2026-01-01T00:00:00Z",
    ),
)
PROMPT = Prompt(model="anthropic/claude-opus-4-6", messages=HELLO)


@pytest.fixture
async def claude(server: FakeOpenAI) -> AsyncIterator[AnthropicChat]:
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    waits: list[float] = []
    chat = AnthropicChat("sk-ant", f"{server.base_url}", sleep=sleep)
    chat.waits = waits  # type: ignore[attr-defined]
    yield chat
    await chat.aclose()


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def test_request_has_key_version_and_features_in_their_trial(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    server.script([say("Hello")])
    settings = ModelSettings(extra={"anthropic_beta": "files-api-2025-04-14"})
    await claude.complete(PROMPT.model_copy(update={"settings": settings}))
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == "sk-ant"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["anthropic-beta"] == "files-api-2025-04-14"
    assert "authorization" not in request.headers
    assert request.body["model"] == "claude-opus-4-6"


@pytest.mark.parametrize(
    ("status", "kind", "times"),
    [(529, "overloaded_error", 2), (429, "rate_limit_error", 2), (500, "api_error", 2)],
)
async def test_passing_fault_is_asked_again_after_the_time_it_names(
    server: FakeOpenAI, claude: AnthropicChat, status: int, kind: str, times: int
) -> None:
    server.script([messages.refuse(status, kind, "busy", retry_after="7"), say("Hello")])
    assert (await claude.complete(PROMPT)).text == "Hello"
    assert len(server.requests) == times
    assert claude.waits == [7.0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("status", "kind", "text", "error"),
    [
        (401, "authentication_error", "invalid x-api-key", ModelError),
        (404, "not_found_error", "model: claude-x", ModelError),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 208310 tokens > 200000 maximum",
            ContextLengthExceeded,
        ),
        (413, "request_too_large", "Request exceeds the maximum size", ModelError),
        (
            400,
            "invalid_request_error",
            "Output blocked by content filtering policy",
            ContentFiltered,
        ),
    ],
)
async def test_lasting_fault_is_told_at_once(
    server: FakeOpenAI,
    claude: AnthropicChat,
    status: int,
    kind: str,
    text: str,
    error: type[ModelError],
) -> None:
    server.script([messages.refuse(status, kind, text)])
    with pytest.raises(error, match=text[:20]) as caught:
        await claude.complete(PROMPT)
    assert caught.value.status == status
    assert len(server.requests) == 1


async def test_error_in_a_stream_begins_the_answer_anew(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    broken = messages.events(said("Good day"))[:4]
    server.script([messages.stream(*broken, messages.event("error", error=error)), say("Hello")])
    deltas: list[Delta] = []
    reply = await claude.complete(PROMPT.model_copy(update={"stream": True}), deltas.append)
    assert reply.text == "Hello"
    assert "restart" in [delta.kind for delta in deltas]


async def test_stream_that_breaks_off_is_no_answer(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    server.script([messages.stream(*messages.events(said("Good day"))[:-2]), say("Hello")])
    reply = await claude.complete(PROMPT.model_copy(update={"stream": True}))
    assert reply.text == "Hello"


async def test_level_that_the_model_does_not_know_is_left_out(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    text = "This model does not support effort level 'high'. Supported levels: low."
    server.script([messages.refuse(400, "invalid_request_error", text), say("Hello")])
    settings = ModelSettings(reasoning="high")
    assert (await claude.complete(PROMPT.model_copy(update={"settings": settings}))).text == "Hello"
    assert "effort" in server.requests[0].body["output_config"]
    assert "output_config" not in server.requests[1].body


async def test_model_without_formats_is_told_the_schema_in_words(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    text = "output_config.format: this model does not support structured outputs"
    schema = {"type": "object", "additionalProperties": False}
    output = OutputSpec(name="Ticket", json_schema=schema, strict=True)
    server.script([messages.refuse(400, "invalid_request_error", text), say("{}")])
    assert (await claude.complete(PROMPT.model_copy(update={"output": output}))).text == "{}"
    assert "JSON schema" in server.requests[1].body["system"][0]["text"]


@pytest.mark.parametrize("stream", [False, True])
async def test_paused_answer_is_sent_back_as_it_is_and_goes_on(
    server: FakeOpenAI, claude: AnthropicChat, stream: bool
) -> None:
    first, rest = [said("I look. "), SEARCH, FOUND], [said("Found.")]
    server.script([_answer(first, "pause_turn", stream), _answer(rest, "end_turn", stream)])
    deltas: list[Delta] = []
    reply = await claude.complete(PROMPT.model_copy(update={"stream": stream}), deltas.append)
    assert server.requests[1].body["messages"][-1] == {"role": "assistant", "content": first}
    assert (reply.text, reply.finish_reason) == ("I look. Found.", "stop")
    assert reply.usage.output_tokens == 10
    assert [part.data["tool"] for part in reply.data] == ["web_search"]
    layout = reply.state["content"]
    assert [entry["type"] for entry in layout] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    if stream:
        assert "".join(d.text for d in deltas if d.kind == "text") == reply.text


async def test_answer_that_breaks_after_its_pause_is_shown_whole_again(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    broken = messages.stream(*messages.events(said("Fou nd"))[:4])
    server.script(
        [
            _answer([said("I look. ")], "pause_turn", True),
            broken,
            _answer([said("Found.")], "end_turn", True),
        ]
    )
    deltas: list[Delta] = []
    reply = await claude.complete(PROMPT.model_copy(update={"stream": True}), deltas.append)
    at = [delta.kind for delta in deltas].index("restart")
    assert (
        "".join(d.text for d in deltas[at:] if d.kind == "text") == reply.text == "I look. Found."
    )


async def test_answer_that_never_stops_pausing_ends(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    server.script([_answer([said("a")], "pause_turn", False)] * 9)
    reply = await claude.complete(PROMPT)
    assert (reply.text, len(server.requests)) == ("a" * 9, 9)
    assert "pause_turn" not in reply.state


async def test_an_answer_that_pauses_goes_on_only_within_the_requests_that_are_left(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    server.script([_answer([said("a")], "pause_turn", False)] * 9)
    reply = await claude.complete(PROMPT.model_copy(update={"max_requests": 2}))
    assert (reply.text, reply.requests, len(server.requests)) == ("aa", 2, 2)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("refusal", "content-filter"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("stop_sequence", "stop"),
    ],
)
async def test_reasons_to_stop(
    server: FakeOpenAI, claude: AnthropicChat, reason: str, finish: str
) -> None:
    server.script([_answer([said("Hm")], reason, False)])
    assert (await claude.complete(PROMPT)).finish_reason == finish


@pytest.mark.parametrize("odd", [{}, [], {"type": "pong"}, {"error": {"message": "no"}}])
async def test_document_that_is_no_message_is_refused(
    server: FakeOpenAI, claude: AnthropicChat, odd: Any
) -> None:
    server.script([document(json.dumps(odd))] * 6)
    with pytest.raises(ModelError) as caught:
        await claude.complete(PROMPT)
    assert caught.value.type in ("InvalidResponse", "APIError")


@pytest.mark.parametrize("content", [None, [1], [{}], [{"type": "text"}], [{"type": "new"}]])
async def test_blocks_that_nobody_knows_say_nothing(
    server: FakeOpenAI, claude: AnthropicChat, content: Any
) -> None:
    server.script([document({**messages.message(), "content": content}), say("on")])
    reply = await claude.complete(PROMPT)
    assert (reply.text, reply.calls) == ("", ())
    # One of a kind that is new goes back as it came, in an answer that says something.
    kept = ProviderState(provider=reply.provider, model=reply.asked_model, fields=reply.state)
    before = HELLO[0].model_copy(update={"role": Role.ASSISTANT, "provider_state": kept})
    await claude.complete(PROMPT.model_copy(update={"messages": (*HELLO, before, *HELLO)}))
    sent = server.requests[-1].body["messages"][1]["content"]
    assert ({"type": "new"} in sent) is (content == [{"type": "new"}])


def test_key_is_enough_for_names_that_begin_so(server: FakeOpenAI) -> None:
    env = Environment.model_validate({"ANTHROPIC_API_KEY": "sk-ant"})
    variables = {"ANTHROPIC_API_KEY": "sk-ant"}
    model = make_model(env, lambda: None, variables, str, _no_aws)
    assert isinstance(model, Providers)
    chat, name = model.chat_of("anthropic/claude-opus-4-6")
    assert isinstance(chat, AnthropicChat)
    assert name == "openai/claude-opus-4-6"
    assert chat.base_url == "https://api.anthropic.com"
    without = make_model(Environment.model_validate({}), lambda: None, {}, str, _no_aws)
    assert isinstance(without, Providers)
    # A router may have models of such names.
    assert isinstance(without.chat_of("anthropic/claude-opus-4-6")[0], OpenAIChat)


def test_address_of_the_settings_wins_over_the_key() -> None:
    address = {"base_url": "https://gateway.example", "api": "anthropic"}
    env = Environment.model_validate(
        {"ANTHROPIC_API_KEY": "sk", "LAYOVER_PROVIDERS": json.dumps({"anthropic": address})}
    )
    assert env.providers["anthropic"] == ProviderAddress(**address)


async def test_missing_key_is_named(server: FakeOpenAI) -> None:
    def key() -> str:
        raise ConfigurationError("the key of anthropic is not set")

    chat = AnthropicChat(key, server.base_url)
    with pytest.raises(ModelError, match="the key of anthropic is not set") as caught:
        await chat.complete(PROMPT)
    assert caught.value.type == "ConfigurationError"
    assert not server.requests
    await chat.aclose()


def _answer(content: list[dict[str, Any]], reason: str, stream: bool) -> Raw:
    if stream:
        return messages.stream(*messages.events(*content, reason=reason))
    return document(messages.message(*content, reason=reason))


def _no_aws() -> Any:
    raise AssertionError
