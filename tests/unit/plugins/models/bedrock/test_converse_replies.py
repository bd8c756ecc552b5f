"""Converse's replies, streamed and not, and faults on the way."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from layover.adapters.aws.services import AwsServices
from layover.errors import ContextLengthExceeded, ModelError
from layover.ids import SequentialIds
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.bedrock.content import REASONING
from layover.plugins.models.call_pieces import CUT
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Delta, OutputSpec, Prompt, Reply, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from support.providers import converse
from support.providers.openai import FakeOpenAI, Raw, calls, say

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
HELLO = Message(
    id="m",
    thread_id="t",
    role=Role.USER,
    content=(TextPart(text="hi"),),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object"})
TICKET = OutputSpec(name="Ticket", json_schema={"type": "object"})
PLAIN = Prompt(model=f"bedrock/{CLAUDE}", messages=(HELLO,), tools=(LOOK,), cache_key="k")
STREAM = PLAIN.model_copy(update={"stream": True})
BOTH = pytest.mark.parametrize("prompt", [PLAIN, STREAM], ids=["plain", "stream"])


@pytest.fixture
async def chat(server: FakeOpenAI) -> AsyncIterator[BedrockChat]:
    async def at_once(_: float) -> None:
        return

    made = BedrockChat(
        AwsServices(converse.variables_of(server.base_url)), ids=SequentialIds(), sleep=at_once
    )
    yield made
    await made.aclose()


async def told(chat: BedrockChat, prompt: Prompt = STREAM) -> tuple[Reply, list[Delta]]:
    deltas: list[Delta] = []
    return await chat.complete(prompt, deltas.append), deltas


def words(text: str = "Hello", reason: str = "end_turn") -> Raw:
    frames = (converse.begin(), converse.text(0, text), converse.end(0), converse.stop(reason))
    return converse.stream(*frames, converse.metadata())


# What goes wrong


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (429, "ThrottlingException"),
        (429, "ModelNotReadyException"),
        (408, "ModelTimeoutException"),
        (424, "ModelErrorException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    ],
)
@BOTH
async def test_fault_that_passes_is_repeated(
    server: FakeOpenAI, chat: BedrockChat, prompt: Prompt, status: int, code: str
) -> None:
    server.script([converse.refuse(status, code, "later"), say("Hello")])
    assert (await chat.complete(prompt)).text == "Hello"


@pytest.mark.parametrize(
    ("status", "code", "found"),
    [
        (400, "ValidationException", (400, "BadRequestError")),
        (403, "AccessDeniedException", (403, "PermissionDeniedError")),
        (404, "ResourceNotFoundException", (404, "NotFoundError")),
        (400, "ServiceQuotaExceededException", (429, "RateLimitError")),
        (403, "UnrecognizedClientException", (401, "AuthenticationError")),
        (403, "ExpiredTokenException", (401, "AuthenticationError")),
        (403, "InvalidSignatureException", (401, "AuthenticationError")),
    ],
)
async def test_fault_that_stays_is_told_at_once(
    server: FakeOpenAI, chat: BedrockChat, status: int, code: str, found: tuple[int, str]
) -> None:
    server.script([converse.refuse(status, code, "It is wrong.")])
    with pytest.raises(ModelError, match="It is wrong") as caught:
        await chat.complete(PLAIN)
    assert (caught.value.status, caught.value.type) == found
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("code", "message", "to_do"),
    [
        ("AccessDeniedException", "User is not authorized to perform this.", "so that the role"),
        ("ServiceQuotaExceededException", "Too much.", "ask AWS for a higher quota"),
        ("ExpiredTokenException", "The token is expired.", "renew the credentials"),
        (
            "ValidationException",
            "Invocation of model ID x with on-demand throughput isn\u2019t supported.",
            "name an inference profile",
        ),
    ],
)
async def test_error_says_what_to_do(
    server: FakeOpenAI, chat: BedrockChat, code: str, message: str, to_do: str
) -> None:
    server.script([converse.refuse(400, code, message)])
    with pytest.raises(ModelError, match=to_do) as caught:
        await chat.complete(PLAIN)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    "message",
    [
        "Input is too long for requested model.",
        "The model returned the following errors: prompt is too long: 208310 tokens > 200000 maximum",
        "The model returned the following errors: Input Tokens Exceeded: Number of input tokens "
        "exceeds maximum length. Please update the input to try again.",
        "The model returned the following errors: input length and `max_tokens` exceed context "
        "limit: 199000 + 8000 > 200000, decrease input length or `max_tokens` and try again",
        "This model's maximum context length is 8192 tokens. Please reduce the length of the prompt",
        "Too many input tokens. Max input tokens: 128000, request input token count: 130000",
    ],
)
@pytest.mark.parametrize("in_stream", [False, True])
async def test_prompt_that_is_too_long_is_its_own_error(
    server: FakeOpenAI, chat: BedrockChat, message: str, in_stream: bool
) -> None:
    refusal = converse.refuse(400, "ValidationException", message)
    event = converse.stream(converse.exception("validationException", message))
    server.script([event if in_stream else refusal])
    with pytest.raises(ContextLengthExceeded):
        await chat.complete(STREAM if in_stream else PLAIN)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("throttlingException", {}),
        ("internalServerException", {}),
        ("serviceUnavailableException", {}),
        ("modelStreamErrorException", {"originalStatusCode": 400, "originalMessage": "x"}),
    ],
)
async def test_error_in_mid_stream_begins_it_again(
    server: FakeOpenAI, chat: BedrockChat, name: str, more: Any
) -> None:
    half = converse.stream(
        converse.begin(), converse.text(0, "Hel"), converse.exception(name, "no", **more)
    )
    server.script([half, words()])
    reply, deltas = await told(chat)
    assert [d.kind for d in deltas] == ["text", "restart", "text"]
    assert reply.text == "Hello"


async def test_error_in_mid_stream_that_stays_is_told(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    wrong = converse.exception("validationException", "This is wrong.")
    server.script([converse.stream(converse.begin(), converse.text(0, "Hel"), wrong)])
    with pytest.raises(ModelError, match="This is wrong") as caught:
        await chat.complete(STREAM)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "raw",
    [
        converse.stream(converse.begin(), converse.text(0, "Hel")),
        converse.stream(converse.begin(), converse.text(0, "Hel"), breaks=True),
        converse.stream(converse.begin(), converse.text(0, "Hel")[:-3] + b"!!!"),
        converse.stream(converse.begin(), converse.text(0, "Hel")[:-3]),
        converse.stream(),
        words(reason="malformed_tool_use"),
        converse.refuse(424, "ModelErrorException", "It failed.", originalStatusCode=529),
    ],
    ids=["ends", "breaks", "damaged", "cut", "empty", "malformed", "model"],
)
async def test_stream_that_is_none_is_asked_for_again(
    server: FakeOpenAI, chat: BedrockChat, raw: Raw
) -> None:
    server.script([raw, words()])
    assert (await told(chat))[0].text == "Hello"


async def test_model_that_keeps_failing_is_given_up_soon_and_left_to_others(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    server.respond_with(lambda _: converse.refuse(424, "ModelErrorException", "It failed."))
    with pytest.raises(ModelError, match="attempt 3") as caught:
        await chat.complete(PLAIN)
    assert caught.value.status == 502


@pytest.mark.parametrize("body", ["[]", "{}", '{"output": 1, "usage": []}', "<html>", "null"])
async def test_answer_that_is_none_is_an_error_and_no_accident(
    server: FakeOpenAI, chat: BedrockChat, body: str
) -> None:
    raw = Raw(200, {"content-type": "application/json"}, (body.encode(),))
    server.respond_with(lambda _: raw)
    with pytest.raises(ModelError) as caught:
        await chat.complete(PLAIN)
    assert caught.value.type == "InvalidResponse"


async def test_usage_that_did_not_come_loses_no_reply(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    frames = (converse.begin(), converse.text(0, "Hello"), converse.stop())
    server.script([converse.stream(*frames, breaks=True), converse.stream(*frames)])
    for _ in range(2):
        assert (await told(chat))[0].text == "Hello"
    assert len(server.requests) == 2


async def test_call_that_was_cut_before_its_input_is_not_one_without_any(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    frames = [*converse.call(0, "c_1", "look"), *converse.call(1, "c_2", "look")]
    stop = converse.stop("max_tokens")
    server.script([converse.stream(converse.begin(), *frames, stop, converse.metadata())])
    reply, _ = await told(chat)
    assert [c.args for c in reply.calls] == ["{}", CUT]


# What a model refuses


@pytest.mark.parametrize(
    ("message", "gone"),
    [
        (
            "The model returned the following errors: `temperature` is deprecated for this model.",
            "temperature",
        ),
        (
            "This model doesn't support the stopSequences field. Remove it and try again.",
            "stopSequences",
        ),
        ("The model returned the following errors: top_p: Extra inputs are not permitted", "topP"),
        ('"thinking.type.enabled" is not supported for this model.', "thinking"),
        (
            "You invoked an unsupported model or your request did not allow prompt caching.",
            "cachePoint",
        ),
        ("This model doesn't support the toolConfig.toolChoice.any field.", "toolChoice"),
        ("Thinking may not be enabled when tool_choice forces tool use.", "toolChoice"),
    ],
)
async def test_setting_that_is_refused_is_dropped_once_and_remembered(
    server: FakeOpenAI, chat: BedrockChat, message: str, gone: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ModelSettings(
        temperature=1, top_p=0.99, stop="x", reasoning="low", tool_choice="required"
    )
    prompt = PLAIN.model_copy(update={"settings": settings, "system": "You help."})
    server.script([converse.refuse(400, "ValidationException", message), say("a"), say("b")])
    replies = [await chat.complete(prompt) for _ in range(2)]
    assert [reply.text for reply in replies] == ["a", "b"]
    assert [reply.chooses_freely for reply in replies] == [gone == "toolChoice"] * 2
    assert [gone in json.dumps(r.body) for r in server.requests] == [True, False, False]
    assert len([r for r in caplog.records if "not sent to it again" in r.message]) == 1


async def test_setting_that_is_only_wrong_fails_and_is_named(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    wrong = "The maximum tokens you requested exceeds the model limit of 4096: maxTokens"
    server.script([converse.refuse(400, "ValidationException", wrong)])
    settings = ModelSettings(max_tokens=100_000)
    with pytest.raises(ModelError, match="maxTokens"):
        await chat.complete(PLAIN.model_copy(update={"settings": settings}))


async def test_model_that_streams_no_tools_is_asked_without_a_stream(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    refusal = "This model doesn't support tool use in streaming mode."
    found = converse.message({"text": "Hello"})
    server.script([converse.refuse(400, "ValidationException", refusal), found, words("again")])
    reply, deltas = await told(chat)
    assert reply.text == "".join(d.text for d in deltas) == "Hello"
    bare = STREAM.model_copy(update={"tools": ()})
    assert (await told(chat, bare))[0].text == "again"
    operations = [r.path.rpartition("/")[2] for r in server.requests]
    assert operations == ["converse-stream", "converse", "converse-stream"]


async def test_setting_without_a_word_is_said_once(
    server: FakeOpenAI, chat: BedrockChat, caplog: pytest.LogCaptureFixture
) -> None:
    server.respond_with(lambda _: say("Hello"))
    for _ in range(2):
        await chat.complete(PLAIN.model_copy(update={"settings": ModelSettings(seed=1)}))
    (said,) = (r.message for r in caplog.records if r.name == "layover")
    assert said == f"{CLAUDE} takes no seed: not sent"


# Replies


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("content_filtered", "content-filter"),
        ("guardrail_intervened", "content-filter"),
        ("a_new_one", "stop"),
    ],
)
async def test_reason_to_stop_is_said_in_the_ports_words(
    server: FakeOpenAI, chat: BedrockChat, reason: str, finish: str
) -> None:
    server.script([converse.message({"text": "Hello"}, reason=reason), words(reason=reason)])
    assert (await chat.complete(PLAIN)).finish_reason == finish
    assert (await chat.complete(STREAM)).finish_reason == finish


async def test_cached_tokens_are_part_of_the_input(server: FakeOpenAI, chat: BedrockChat) -> None:
    told = {"text": "Hello"}
    counted = converse.message(told, cacheReadInputTokens=200, cacheWriteInputTokens=30)
    server.script([counted])
    usage = (await chat.complete(PLAIN)).usage
    assert (usage.input_tokens, usage.output_tokens) == (240, 5)
    assert (usage.cached_input_tokens, usage.cache_write_input_tokens) == (200, 30)


@BOTH
async def test_reply_without_a_word_is_a_reply(
    server: FakeOpenAI, chat: BedrockChat, prompt: Prompt
) -> None:
    nothing = converse.stream(converse.begin(), converse.stop(), converse.metadata())
    server.script([nothing if prompt.stream else converse.message()])
    reply = await chat.complete(prompt)
    assert (reply.text, reply.calls, reply.finish_reason) == ("", (), "stop")


async def test_thoughts_are_told_before_the_text(server: FakeOpenAI, chat: BedrockChat) -> None:
    server.script([say("So be it", reasoning="Let me think")])
    reply, deltas = await told(chat)
    kinds = [d.kind for d in deltas]
    assert kinds == sorted(kinds)
    assert (reply.reasoning, reply.text) == ("Let me think", "So be it")


async def test_signed_thoughts_are_kept_with_their_places(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    pieces = [b"\x01\x02", b"\x03\x04\x05\x06"]
    redacted = [converse.thought(1, redactedContent=b64encode(p).decode()) for p in pieces]
    server.script(
        [
            converse.stream(
                converse.begin(),
                converse.thought(0, text=""),
                converse.thought(0, signature="s1"),
                *redacted,
                converse.text(2, "So."),
                *converse.call(3, "c", "look", "{}"),
                converse.thought(4, text="later"),
                converse.thought(4, signature="s2"),
                *converse.call(5, "d", "look", "{}"),
                converse.stop("tool_use"),
                converse.metadata(),
            )
        ]
    )
    reply, _ = await told(chat)
    assert reply.state[REASONING] == [
        {"at": 0, "reasoningText": {"text": "", "signature": "s1"}},
        {"at": 0, "redactedContent": b64encode(b"".join(pieces)).decode()},
        {"at": 2, "reasoningText": {"text": "later", "signature": "s2"}},
    ]
    assert (reply.provider, reply.asked_model) == ("127.0.0.1", CLAUDE)


async def test_thoughts_without_a_signature_are_not_kept(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    server.script([converse.message(thought, {"text": "So."})])
    reply = await chat.complete(PLAIN)
    assert (reply.reasoning, reply.state) == ("hm", {})


async def test_tools_that_bedrock_runs_itself_are_not_ours_to_call(
    server: FakeOpenAI, chat: BedrockChat
) -> None:
    theirs = {"toolUseId": "s", "name": "look", "input": {"q": 1}, "type": "server_tool_use"}
    server.script([converse.message({"toolUse": theirs}, {"text": "So."})])
    reply = await chat.complete(PLAIN)
    assert (reply.text, reply.calls, reply.finish_reason) == ("So.", (), "stop")


# Structured output


@pytest.mark.parametrize("stream", [False, True])
async def test_call_of_the_answers_tool_is_the_text(
    server: FakeOpenAI, chat: BedrockChat, stream: bool
) -> None:
    prompt = PLAIN.model_copy(update={"output": TICKET, "stream": stream})
    server.script([calls(("Ticket", {"title": "ä"}))])
    reply, deltas = await told(chat, prompt)
    assert json.loads(reply.text) == {"title": "ä"}
    assert (reply.calls, reply.finish_reason) == ((), "stop")
    assert "".join(d.text for d in deltas) == (reply.text if stream else "")
    assert {d.kind for d in deltas} <= {"text"}


@BOTH
async def test_answer_beside_other_calls_waits_for_them(
    server: FakeOpenAI, chat: BedrockChat, prompt: Prompt
) -> None:
    wanted = prompt.model_copy(update={"output": TICKET})
    server.script([calls(("look", {"n": 1}), ("Ticket", {}))])
    reply = await chat.complete(wanted)
    assert [c.name for c in reply.calls] == ["look"]
    assert (reply.text, reply.finish_reason) == ("", "tool-calls")


async def test_answer_in_words_is_the_text(server: FakeOpenAI, chat: BedrockChat) -> None:
    server.script([say('{"title": "x"}')])
    reply = await chat.complete(PLAIN.model_copy(update={"output": TICKET}))
    assert reply.text == '{"title": "x"}'


# Connections


async def test_connection_is_used_again(server: FakeOpenAI, chat: BedrockChat) -> None:
    server.respond_with(lambda _: say("Hello"))
    for prompt in (STREAM, PLAIN, STREAM):
        await chat.complete(prompt)
    assert server.connections == 1
