"""A server that notices a closed connection only while it writes: all requests to it are streams."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from layover import ModelSettings
from layover.adapters.http.client import Response
from layover.adapters.http.connection import ConnectionBroken
from layover.adapters.http.request import Url
from layover.errors import ModelError
from layover.ids import SequentialIds
from layover.plugins.models.closing import may_miss_close
from layover.plugins.models.http_chat import PLAIN_TIMEOUT_S, SILENCE_TIMEOUT_S
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Delta, OutputSpec, Prompt, Reply, ToolSpec
from support.providers.openai import FakeOpenAI, Raw, delta, document, fail, say, stream
from support.providers.openai import Response as Answer

HELLO = Message(
    id="m",
    thread_id="t",
    role=Role.USER,
    content=(TextPart(text="hi"),),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
PLAIN = Prompt(model="openai/small", messages=(HELLO,), run_id="run_1")
STREAM = PLAIN.model_copy(update={"stream": True})
WORD = f"data: {json.dumps(delta('on and '))}\n\n".encode()
APIS = pytest.mark.parametrize("api", ["chat", "responses"])


async def at_once(_: float) -> None:
    """No pause between attempts."""


def chat_of(url: str, *, streams_always: bool = True) -> OpenAIChat:
    return OpenAIChat("key", url, streams_always=streams_always, ids=SequentialIds(), sleep=at_once)


@pytest.fixture
async def chat(server: FakeOpenAI) -> AsyncIterator[OpenAIChat]:
    """A client that always streams."""
    made = chat_of(server.base_url)
    yield made
    await made.aclose()


class DeafServer:
    """A model that writes for ever, and looks at its connection only when it writes to it."""

    def __init__(self) -> None:
        self.works = asyncio.Event()
        """Set once it works on a request."""
        self.is_free = asyncio.Event()
        """Set once it has noticed that nobody waits for its answer."""
        self.finish = asyncio.Event()
        """Ends an answer that is not streamed."""
        self.base_url = ""

    async def __aenter__(self) -> "DeafServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.finish.set()
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        self.works.set()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        try:
            if not body.get("stream"):
                await self.finish.wait()
            while not self.finish.is_set():
                writer.write(WORD)
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            self.is_free.set()
        finally:
            writer.transport.abort()


async def cancelled(server: DeafServer, *, streams_always: bool) -> None:
    """Ask it, and cancel the request while it works."""
    chat = chat_of(server.base_url, streams_always=streams_always)
    request = asyncio.create_task(chat.complete(PLAIN))
    await server.works.wait()
    request.cancel()
    await asyncio.wait([request])
    await chat.aclose()


async def test_a_cancel_frees_a_server_that_looks_only_while_it_writes() -> None:
    async with asyncio.timeout(60), DeafServer() as server:
        await cancelled(server, streams_always=True)
        await server.is_free.wait()


async def test_that_server_works_on_after_a_cancel_of_a_plain_request() -> None:
    async with asyncio.timeout(60), DeafServer() as server:
        await cancelled(server, streams_always=False)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not server.is_free.is_set()


# Servers that cannot stream, or not whole


REFUSALS = [
    (400, "This model does not support streaming."),
    (400, "Unsupported parameter: stream"),
    (400, "Streaming is not supported for this deployment"),
    (400, "`stream` is currently not supported"),
    (400, "tools are not supported with streaming"),
    (404, "streaming is disabled on this server"),
    (405, "stream mode isn't available"),
    (422, "body.stream: Extra inputs are not permitted"),
    (501, "Streaming is not implemented"),
]


@APIS
@pytest.mark.parametrize(("status", "message"), REFUSALS)
async def test_a_server_that_refuses_streams_is_asked_plainly_from_then_on(
    server: FakeOpenAI, chat: OpenAIChat, status: int, message: str, api: str
) -> None:
    def answer(body: Any) -> Any:
        return fail(status, message) if body.get("stream") else say("x")

    server.respond_with(answer)
    prompt = PLAIN.model_copy(update={"api": api})
    assert [(await chat.complete(prompt)).text for _ in range(2)] == ["x", "x"]
    plain = [r.body for r in server.requests if not r.body.get("stream")]
    assert len(plain) == 2
    assert all("stream_options" not in body for body in plain)
    assert not server.requests[-2].body.get("stream")


async def test_who_follows_a_server_that_refuses_streams_reads_the_answer_at_its_end(
    server: FakeOpenAI,
) -> None:
    server.script([fail(400, "This model does not support streaming."), say("Hello you")])
    chat = chat_of(server.base_url, streams_always=False)
    deltas: list[Delta] = []
    reply = await chat.complete(STREAM, deltas.append)
    await chat.aclose()
    assert (reply.text, "".join(d.text for d in deltas)) == ("Hello you", "Hello you")
    assert [bool(r.body.get("stream")) for r in server.requests] == [True, False]


@pytest.mark.parametrize(
    "message",
    [
        "Upstream error: this image is not supported",
        "The model `small` does not exist",
        "max_tokens is too large",
        "messages: unexpected role in the stream of messages",
    ],
)
async def test_another_refusal_is_no_refusal_of_streams(
    server: FakeOpenAI, chat: OpenAIChat, message: str
) -> None:
    server.script([fail(400, message), say("x")])
    with pytest.raises(ModelError):
        await chat.complete(PLAIN)
    await chat.complete(PLAIN)
    assert [r.body["stream"] for r in server.requests] == [True, True]


async def test_a_setting_that_is_refused_in_streams_is_left_out_and_the_stream_stays(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script([fail(400, "'seed' is not supported when streaming"), say("x")])
    await chat.complete(PLAIN.model_copy(update={"settings": ModelSettings(seed=1)}))
    assert [("seed" in r.body, r.body["stream"]) for r in server.requests] == [
        (True, True),
        (False, True),
    ]


async def test_a_server_that_refuses_stream_options_still_streams_if_it_tells_the_usage(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    def answer(body: Any) -> Any:
        if "stream_options" in body:
            return fail(400, "Unrecognized request argument supplied: stream_options")
        told = {"usage": {"prompt_tokens": 3, "completion_tokens": 1}, "choices": []}
        return stream(delta("x"), delta(finish="stop"), told)

    server.respond_with(answer)
    replies = [await chat.complete(PLAIN) for _ in range(2)]
    assert [r.usage.total_tokens for r in replies] == [4, 4]
    assert [r.body["stream"] for r in server.requests] == [True, True, True]


async def test_a_server_whose_streams_tell_no_usage_is_asked_plainly_from_then_on(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    def answer(body: Any) -> Any:
        return stream(delta("x"), delta(finish="stop")) if body.get("stream") else say("x")

    server.respond_with(answer)
    assert (await chat.complete(PLAIN)).usage.total_tokens == 0
    assert (await chat.complete(PLAIN)).usage.total_tokens > 0
    assert [bool(r.body.get("stream")) for r in server.requests] == [True, False]


async def test_each_model_of_a_server_refuses_for_itself(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script([fail(400, "small does not support streaming"), say("x"), say("y")])
    await chat.complete(PLAIN)
    await chat.complete(PLAIN.model_copy(update={"model": "openai/large"}))
    assert [bool(r.body.get("stream")) for r in server.requests] == [True, False, True]


# One reply, however it comes


TICKET = OutputSpec(name="ticket", json_schema={"type": "object", "required": ["id"]})
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object"})
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 9,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
ANSWERS: Mapping[str, tuple[dict[str, Any], Answer]] = {
    "words": ({}, say("Hello, you there")),
    "a long text": ({}, say("word " * 500)),
    "usage in detail": ({}, say("Hello", usage=USAGE)),
    "thoughts": ({}, say("Hello", reasoning="let me see")),
    "thoughts in tags": ({}, say("<think>let me see</think>Hello")),
    "calls": (
        {"tools": (LOOK,)},
        Answer(calls=(("c1", "look", '{"at": "a"}'), ("c2", "look", "{}"))),
    ),
    "words and a call": ({"tools": (LOOK,)}, Answer(text="I look.", calls=(("c1", "look", "{}"),))),
    "cut": ({}, say("Hel", finish_reason="length")),
    "filtered": ({}, say("I cannot", finish_reason="content_filter")),
    "an object": ({"output": TICKET}, say('{"id": 1}')),
    "no object": ({"output": TICKET}, say("no idea")),
    "another model": ({}, say("Hello", model="small-2026")),
    "a forced call that is not made": (
        {"tools": (LOOK,), "settings": ModelSettings(tool_choice="look")},
        say("No."),
    ),
}


async def _reply(
    server: FakeOpenAI, prompt: Prompt, answer: Answer, deltas: list[Delta], *, always: bool
) -> Reply:
    server.script([answer])
    chat = chat_of(server.base_url, streams_always=always)
    reply = await chat.complete(prompt, deltas.append)
    await chat.aclose()
    return reply


@APIS
@pytest.mark.parametrize("name", ANSWERS)
async def test_the_reply_is_the_same_streamed_or_not(
    server: FakeOpenAI, name: str, api: str
) -> None:
    changes, answer = ANSWERS[name]
    prompt = PLAIN.model_copy(update={**changes, "api": api})
    deltas: list[Delta] = []
    plain = await _reply(server, prompt, answer, deltas, always=False)
    unfollowed = await _reply(server, prompt, answer, deltas, always=True)
    assert unfollowed == plain
    assert deltas == []
    first, second = server.requests
    assert second.body["stream"] is True
    streaming = ("stream", "stream_options")
    assert first.body == {n: v for n, v in second.body.items() if n not in streaming}


async def test_a_request_that_nobody_follows_is_that_of_one_who_does(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script([say("x"), say("x")])
    await chat.complete(PLAIN)
    await chat.complete(STREAM)
    first, second = server.requests
    assert first.raw == second.raw


async def test_a_stream_that_breaks_is_asked_for_again_and_nobody_is_told(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    broken = Raw(200, {"content-type": "text/event-stream"}, (WORD,), breaks=True)
    server.script([broken, say("Hello")])
    deltas: list[Delta] = []
    assert (await chat.complete(PLAIN, deltas.append)).text == "Hello"
    assert deltas == []


async def test_a_server_that_answers_a_stream_with_a_document_is_read(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    message = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    server.script([document(message)])
    assert (await chat.complete(PLAIN)).text == "whole"


# Silence: a small server reads a long prompt for minutes before its first word


class Hanging:
    """A client to a server that never answers; `waits` has the silences that were allowed."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        self.waits.append(silence_s)
        return _Broken()

    def dial(self, url: Url) -> None: ...

    async def aclose(self) -> None: ...


class _Broken(Response):
    def __init__(self) -> None:
        super().__init__(200, {"content-type": "text/event-stream"})

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        if self.is_success:
            raise ConnectionBroken("closed")
        yield b""

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    ("streams_always", "prompt", "silence_s"),
    [
        (True, PLAIN, PLAIN_TIMEOUT_S),
        (True, STREAM, PLAIN_TIMEOUT_S),
        (False, PLAIN, PLAIN_TIMEOUT_S),
        (False, STREAM, SILENCE_TIMEOUT_S),
    ],
)
async def test_such_a_server_may_be_silent_as_long_in_a_stream_as_without(
    streams_always: bool, prompt: Prompt, silence_s: float
) -> None:
    client = Hanging()
    chat = OpenAIChat(
        "key",
        "http://gpu.local/v1",
        make_client=lambda: client,
        streams_always=streams_always,
        sleep=at_once,
    )
    with pytest.raises(ModelError):
        await chat.complete(prompt)
    assert set(client.waits) == {silence_s}


# Which servers


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/v1",
        "http://localhost:11434/v1",
        "http://[::1]:8000/v1",
        "http://10.1.2.3/v1",
        "http://gpu:8000/v1",
        "https://llm.shop.example/v1",
        "https://openrouter.ai/api/v1",
        "https://notopenai.com/v1",
        "https://openai.com.example/v1",
    ],
)
def test_servers_that_may_miss_a_close(url: str) -> None:
    assert may_miss_close(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "https://API.OPENAI.COM/v1",
        "https://eu.api.openai.com/v1",
        "https://shop.openai.azure.com/openai/v1",
        "https://shop.cognitiveservices.azure.com/openai/v1",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "https://api.anthropic.com/v1",
        "https://api.mistral.ai/v1",
        "https://api.deepseek.com/v1",
        "https://api.x.ai/v1",
        "https://api.groq.com/openai/v1",
        "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
    ],
)
def test_hosts_of_the_large_providers_are_asked_plainly(url: str) -> None:
    assert not may_miss_close(url)


@pytest.mark.parametrize("url", ["", "no address", "http://[half", "http://"])
def test_an_address_that_is_none_is_asked_plainly(url: str) -> None:
    """Its request says what is wrong with it."""
    assert not may_miss_close(url)
