"""The adapter against a provider on loopback: faults, retries, streams, connections."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from layover.errors import ContextLengthExceeded, ModelError
from layover.ids import SequentialIds
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Delta, Prompt, Reply, ToolSpec
from support.providers.openai import FakeOpenAI, Raw, calls, delta, document, fail, say, stream

HELLO = Message(
    id="m",
    thread_id="t",
    role=Role.USER,
    content=(TextPart(text="hi"),),
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
PLAIN = Prompt(model="openai/gpt-5-mini", messages=(HELLO,), run_id="run_1")
STREAM = PLAIN.model_copy(update={"stream": True})


class Chat(OpenAIChat):
    """Sleeps that are written down, not slept."""

    def __init__(self, base_url: str, **more: Any) -> None:
        self.slept: list[float] = []
        key = more.pop("key", "sk-test")
        super().__init__(key, base_url, ids=SequentialIds(), sleep=self._note, **more)

    async def _note(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
async def chat(server: FakeOpenAI) -> AsyncIterator[Chat]:
    made = Chat(server.base_url)
    yield made
    await made.aclose()


async def told(chat: OpenAIChat, prompt: Prompt = STREAM) -> tuple[Reply, list[Delta]]:
    deltas: list[Delta] = []
    async with asyncio.timeout(60):
        return await chat.complete(prompt, deltas.append), deltas


def text(deltas: list[Delta]) -> str:
    return "".join("|" if d.kind == "restart" else d.text for d in deltas)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
@pytest.mark.parametrize("prompt", [PLAIN, STREAM], ids=["plain", "stream"])
async def test_a_refusal_fails_at_once_with_the_providers_message(
    server: FakeOpenAI, chat: Chat, status: int, prompt: Prompt
) -> None:
    server.script([fail(status, "Not like this")])
    with pytest.raises(ModelError, match=re.escape("Not like this")) as caught:
        await chat.complete(prompt)
    assert caught.value.status == status
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
async def test_a_provider_that_stays_down_is_asked_six_times(
    server: FakeOpenAI, chat: Chat, status: int
) -> None:
    server.respond_with(lambda _: fail(status, "down"))
    with pytest.raises(ModelError, match=r"down \(attempt 6\)") as caught:
        await chat.complete(PLAIN)
    assert caught.value.status == status
    assert len(server.requests) == 6
    assert len(chat.slept) == 5
    assert all(1 / 2 * 2**n <= s <= 2**n for n, s in enumerate(chat.slept))
    assert sum(chat.slept) < 60


async def test_a_wait_that_does_not_fit_in_the_minute_ends_the_call(
    server: FakeOpenAI, chat: Chat
) -> None:
    server.script([fail(429, "slow down", retry_after="40")] * 3)
    with pytest.raises(ModelError, match="slow down"):
        await chat.complete(PLAIN)
    assert chat.slept == [40]
    assert len(server.requests) == 2


async def test_nobody_listening_is_a_connection_error() -> None:
    with FakeOpenAI() as gone:
        chat = Chat(gone.base_url)
    with pytest.raises(ModelError) as caught:
        await chat.complete(PLAIN)
    await chat.aclose()
    assert caught.value.type == "APIConnectionError"
    assert f"[model gpt-5-mini at {gone.base_url}]" in caught.value.message
    assert len(chat.slept) == 5


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("localhost:1234/v1", "sk"),
        ("api.example.com/v1", "sk"),
        ("ftp://127.0.0.1/v1", "sk"),
        ("http://127.0.0.1:99999999/v1", "sk"),
        ("http://[::1/v1", "sk"),
        ("http://{loopback}/v1", "s\nk"),
        ("http://{loopback}/v1", "schlüssel"),
    ],
)
async def test_settings_that_cannot_be_used_are_named_and_not_tried_again(
    server: FakeOpenAI, url: str, key: str
) -> None:
    loopback = server.base_url.split("/")[2]
    chat = Chat(url.format(loopback=loopback), key=key)
    with pytest.raises(ModelError, match=r"\[model gpt-5-mini at .*v1\]") as caught:
        await chat.complete(PLAIN)
    await chat.aclose()
    assert caught.value.type == "APIConnectionError"
    assert (chat.slept, server.requests) == ([], [])


async def test_a_server_that_speaks_no_tls_is_named_and_not_tried_again() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as plain:
        url = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}/v1"
        chat = Chat(url)
        with pytest.raises(ModelError) as caught:
            await chat.complete(PLAIN)
        await chat.aclose()
    assert caught.value.message.endswith(f"[model gpt-5-mini at {url}]")
    assert chat.slept == []


@pytest.mark.parametrize(
    "answer",
    [
        fail(404, "The model does not exist"),
        document("<html><body>nginx</body></html>", status=404),
        fail(401, "Incorrect API key"),
        fail(429, "You exceeded your current quota", code="insufficient_quota"),
        fail(307, location="http://user:secret@elsewhere/v1"),
        fail(301),
    ],
)
async def test_what_the_operator_has_to_mend_names_the_provider_without_credentials(
    server: FakeOpenAI, answer: Any
) -> None:
    url = server.base_url
    chat = Chat(url.replace("//", "//user:secret@"))
    server.script([answer])
    with pytest.raises(ModelError) as caught:
        await chat.complete(PLAIN)
    await chat.aclose()
    assert caught.value.message.endswith(f"[model gpt-5-mini at {url}]")
    assert "secret" not in caught.value.message
    assert chat.slept == []


async def test_a_page_instead_of_an_answer_is_tried_again_and_told_in_the_end(
    server: FakeOpenAI, chat: Chat
) -> None:
    server.respond_with(lambda _: document("<html><body>Please log in</body></html>"))
    for prompt in (PLAIN, STREAM):
        with pytest.raises(ModelError, match="invalid JSON: Please log in"):
            await chat.complete(prompt)
    assert len(server.requests) == 6


async def test_a_prompt_that_is_too_long_has_its_own_error(server: FakeOpenAI, chat: Chat) -> None:
    server.script([fail(400, "no", code="context_length_exceeded")])
    with pytest.raises(ContextLengthExceeded):
        await chat.complete(PLAIN)


@pytest.mark.parametrize(
    "broken",
    [
        stream(delta("Hel"), done=False, breaks=True),
        stream(delta("Hel"), done=False),
        stream(delta("Hel"), "data: {oops\n\n"),
        stream(delta("Hel"), {"error": {"message": "busy", "code": "overloaded"}}),
        stream(delta("Hel"), 'event: error\ndata: {"error": {"code": 502}}\n\n'),
    ],
    ids=["cut", "ended", "garbled", "error", "event-error"],
)
async def test_a_stream_that_breaks_half_way_begins_again(
    server: FakeOpenAI, chat: Chat, broken: Any
) -> None:
    server.script([broken, say("Hello you")])
    reply, deltas = await told(chat)
    assert reply.text == "Hello you"
    assert text(deltas) == "Hel|Hello you"


@pytest.mark.parametrize(
    "line",
    [
        "data: : keepalive",
        "data: ping",
        'data: "ping"',
        "data: null",
        "data: 1",
        "data: [KEEPALIVE]",
        "data:",
        "data:   ",
        "event: ping\ndata: ok",
        'event: ping\ndata: {"type": "ping"}',
        "event: keepalive",
        ": comment",
        "id: 7",
    ],
)
async def test_a_line_that_cannot_carry_an_answer_says_nothing(
    server: FakeOpenAI, chat: Chat, line: str
) -> None:
    alive = f"{line}\n\n"
    server.script([stream(alive, delta("Hel"), alive, delta("lo"), delta(finish="stop"), alive)])
    reply, deltas = await told(chat)
    assert (reply.text, text(deltas)) == ("Hello", "Hello")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "done", ["data: [DONE] \n\n", "data:[DONE]\t\n\n", "data:  [DONE]\r\n\r\n"]
)
async def test_blanks_around_the_end_of_a_stream_do_not_matter(
    server: FakeOpenAI, chat: Chat, done: str
) -> None:
    server.script([stream(delta("Hello"), done, done=False)])
    assert (await told(chat))[0].text == "Hello"
    assert len(server.requests) == 1


async def test_chunks_that_only_a_line_feed_parts_are_read_one_by_one(
    server: FakeOpenAI, chat: Chat
) -> None:
    lines = [f"data: {json.dumps(c)}\n" for c in (delta("Hel"), delta("lo"), delta(finish="stop"))]
    server.script([stream("data: ping\n" + "".join(lines) + "data: [DONE]\n", done=False)])
    assert (await told(chat))[0].text == "Hello"
    assert len(server.requests) == 1


async def test_keep_alives_without_an_answer_are_a_stream_that_broke_off(
    server: FakeOpenAI, chat: Chat
) -> None:
    server.script([stream("data: ping\n\n" * 3, done=False), say("Hello")])
    assert (await told(chat))[0].text == "Hello"


async def test_each_fault_before_the_stream_is_told_and_is_no_restart(
    server: FakeOpenAI, chat: Chat
) -> None:
    server.script([fail(500), fail(429), say("Hello")])
    _, deltas = await told(chat)
    assert [d.text for d in deltas if d.kind == "retry"] == [
        "InternalServerError",
        "RateLimitError",
    ]
    assert text([d for d in deltas if d.kind != "retry"]) == "Hello"
    assert [d.kind for d in deltas[:2]] == ["retry", "retry"]


async def test_a_fault_that_does_not_pass_is_not_told_as_one_that_does(
    server: FakeOpenAI, chat: Chat
) -> None:
    server.script([fail(401)])
    deltas: list[Delta] = []
    with pytest.raises(ModelError):
        await chat.complete(STREAM, deltas.append)
    assert deltas == []


async def test_an_error_event_that_does_not_pass_fails_at_once(
    server: FakeOpenAI, chat: Chat
) -> None:
    server.script([stream(delta("Hel"), {"error": {"message": "no", "code": 400}})])
    with pytest.raises(ModelError, match="no") as caught:
        await told(chat)
    assert caught.value.status == 400
    assert len(server.requests) == 1


async def test_a_stream_without_a_reason_but_with_done_is_stop(
    server: FakeOpenAI, chat: Chat
) -> None:
    server.script([stream(delta("Hello"))])
    reply, _ = await told(chat)
    assert (reply.text, reply.finish_reason) == ("Hello", "stop")


async def test_a_stream_with_a_reason_but_without_done_is_whole(
    server: FakeOpenAI, chat: Chat
) -> None:
    whole = (delta("Hello"), delta(finish="length"))
    server.script([stream(*whole, done=False), stream(*whole, done=False, breaks=True)])
    for _ in range(2):
        reply, _ = await told(chat)
        assert (reply.text, reply.finish_reason) == ("Hello", "length")
    assert len(server.requests) == 2


async def test_a_stream_that_stays_open_after_done_holds_nobody(
    server: FakeOpenAI, chat: Chat
) -> None:
    never = threading.Event()
    server.script([stream(delta("Hello"), "data: [DONE]\n\n", b"", done=False, hold=never)])
    reply, _ = await told(chat)
    assert reply.text == "Hello"
    await asyncio.to_thread(server.wait_for, lambda s: s.abandoned == 1)


async def test_a_cancelled_call_closes_its_stream_at_once(server: FakeOpenAI, chat: Chat) -> None:
    never = threading.Event()
    server.script([stream(delta("Hel"), delta("lo"), hold=never)])
    begun = asyncio.Event()
    running = asyncio.create_task(chat.complete(STREAM, lambda _: begun.set()))
    async with asyncio.timeout(60):
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await asyncio.to_thread(server.wait_for, lambda s: s.abandoned == 1, 5)


async def test_a_cancelled_plain_call_closes_its_connection(server: FakeOpenAI, chat: Chat) -> None:
    server.script([say("late", delay_s=20)])
    running = asyncio.create_task(chat.complete(PLAIN))
    await asyncio.to_thread(server.wait_for, lambda s: len(s.requests) == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(server.wait_for, lambda s: s.abandoned == 1, 5)


async def test_what_a_listener_raises_is_its_own_and_tried_only_once(
    server: FakeOpenAI, chat: Chat
) -> None:
    def listener(_: Delta) -> None:
        raise ZeroDivisionError

    server.script([say("Hello")])
    with pytest.raises(ZeroDivisionError):
        await chat.complete(STREAM, listener)
    assert len(server.requests) == 1


def test_model_call_imports_neither_the_providers_package_nor_what_repeats(
    server: FakeOpenAI,
) -> None:
    code = (
        "import asyncio, sys\n"
        "from layover.plugins.models.embeddings.openai import OpenAIEmbedder\n"
        "from layover.plugins.models.openai_chat import OpenAIChat\n"
        "from layover.values.prompt import Prompt\n"
        "chat, embedder = OpenAIChat('k', sys.argv[1]), OpenAIEmbedder('m', 'k', sys.argv[1])\n"
        "reply = asyncio.run(chat.complete(Prompt(model='m')))\n"
        "vectors = asyncio.run(embedder.embed(['a'])).vectors\n"
        "print(reply.text, len(vectors), {'openai'} & sys.modules.keys())\n"
    )
    server.script([say("hello")])
    run = [sys.executable, "-c", code, server.base_url]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "hello 1 set()\n"


async def test_base_urls_query_is_kept(server: FakeOpenAI) -> None:
    chat = Chat(f"{server.base_url}/?api-version=1")
    server.script([say("hello")])
    assert (await chat.complete(PLAIN)).text == "hello"
    await chat.aclose()
    assert server.requests[0].path == "/v1/chat/completions?api-version=1"


async def test_retry_after_is_honoured(server: FakeOpenAI, chat: Chat) -> None:
    server.script([fail(429, retry_after="7"), fail(503, retry_after_ms="250"), say("Hello")])
    reply = await chat.complete(PLAIN)
    assert reply.text == "Hello"
    assert chat.slept == [7, 0.25]


async def test_streamed_calls_use_one_connection(server: FakeOpenAI, chat: Chat) -> None:
    server.respond_with(lambda _: say("Hello you there"))
    for _ in range(5):
        await told(chat)
    await chat.complete(PLAIN)
    assert len(server.requests) == 6
    assert server.connections == 1


async def test_a_stream_whose_server_forgot_to_stream_is_told_whole(
    server: FakeOpenAI, chat: Chat
) -> None:
    body = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
    server.script([document(body)])
    reply, deltas = await told(chat)
    assert (reply.text, text(deltas)) == ("Hello", "Hello")


KINDS = ["application/json", "text/event-stream", "text/html", "text/plain", ""]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "before", ["", "\n\n", "\ufeff", ": hello\n\n", "event: message\n", "id: 1\n"]
)
@pytest.mark.parametrize("prompt", [PLAIN, STREAM], ids=["plain", "stream"])
async def test_a_stream_is_one_whatever_its_content_type_says(
    server: FakeOpenAI, chat: Chat, kind: str, before: str, prompt: Prompt
) -> None:
    events = stream(before, delta("Hel"), delta("lo"), delta(finish="stop"))
    server.script([replace(events, headers={"content-type": kind} if kind else {})])
    reply, deltas = await told(chat, prompt)
    assert (reply.text, text(deltas)) == ("Hello", "Hello" if prompt.stream else "")
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["", "\n\n", "\ufeff"])
async def test_a_document_is_one_whatever_its_content_type_says(
    server: FakeOpenAI, chat: Chat, kind: str, before: str
) -> None:
    body = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
    chunks = (before.encode(), json.dumps(body).encode())
    server.script([Raw(200, {"content-type": kind} if kind else {}, chunks)])
    reply, deltas = await told(chat)
    assert (reply.text, text(deltas)) == ("Hello", "Hello")
    assert len(server.requests) == 1


ENDS = ["data: [DONE]\n\n", "\n\ndata: [DONE]\n\n", "\r\ndata:[DONE]", "\n[DONE]\n", "\n\n"]


@pytest.mark.parametrize("prompt", [PLAIN, STREAM], ids=["plain", "stream"])
@pytest.mark.parametrize("end", ENDS)
async def test_a_document_may_end_as_a_stream_does(
    server: FakeOpenAI, chat: Chat, end: str, prompt: Prompt
) -> None:
    body = {"choices": [{"message": {"content": "data: [DONE]"}, "finish_reason": "stop"}]}
    server.script([Raw(200, {}, (json.dumps(body).encode(), end.encode()))])
    reply, _ = await told(chat, prompt)
    assert reply.text == "data: [DONE]"
    assert len(server.requests) == 1


@pytest.mark.parametrize("end", ["data: [DONE]", "[DONE]", "{}"])
async def test_a_document_that_broke_off_before_an_end_is_asked_for_again(
    server: FakeOpenAI, chat: Chat, end: str
) -> None:
    server.script([Raw(200, {}, (b'{"choices": [{"message": {"content": "Hel', end.encode()))])
    server.script([say("Hello")])
    reply, _ = await told(chat, PLAIN)
    assert reply.text == "Hello"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_is_told_whatever_its_content_type_says(
    server: FakeOpenAI, chat: Chat, kind: str
) -> None:
    page = Raw(200, {"content-type": kind} if kind else {}, (b"<html>Please log in</html>",))
    server.respond_with(lambda _: page)
    for prompt in (PLAIN, STREAM):
        with pytest.raises(ModelError, match="invalid JSON: Please log in"):
            await chat.complete(prompt)


async def test_an_unasked_stream_that_breaks_tells_nobody(server: FakeOpenAI, chat: Chat) -> None:
    server.script([stream(delta("Hel"), done=False), say("Hello")])
    reply, deltas = await told(chat, PLAIN)
    assert (reply.text, deltas) == ("Hello", [])


@pytest.mark.parametrize("prompt", [PLAIN, STREAM], ids=["plain", "stream"])
async def test_text_calls_reasoning_and_usage_arrive(
    server: FakeOpenAI, chat: Chat, prompt: Prompt
) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    asked = calls(("refund", {"amount": 40}, "c_1"), ("look", {}))
    server.script([say("Hello", reasoning="hm hm", usage=usage), asked])
    reply = await chat.complete(prompt)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Hello", "hm hm", "stop")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 3)
    assert reply.model == "gpt-5-mini"
    reply = await chat.complete(prompt)
    assert [(c.id, c.name, c.args) for c in reply.calls] == [
        ("c_1", "refund", '{"amount": 40}'),
        ("call_1", "look", "{}"),
    ]
    assert reply.finish_reason == "tool-calls"


async def test_the_request_says_who_asks_and_what(server: FakeOpenAI, chat: Chat) -> None:
    server.script([say("x")] * 2)
    tool = ToolSpec(name="f", description="F", parameters={"type": "object"})
    more = {"tools": (tool,), "cache_key": "k", "system": "größe"}
    await chat.complete(STREAM.model_copy(update=more))
    request = server.requests[0]
    assert request.headers["x-layover-task"] == "turn"
    assert request.headers["x-layover-run"] == "run_1"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "layover"
    assert request.body["stream_options"] == {"include_usage": True}
    assert request.body["messages"][0]["content"] == "größe"
    assert request.body["prompt_cache_key"] == "k"


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (400, {"error": {"message": 'Unknown name "prompt_cache_key": Cannot find field.'}}),
        (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "prompt_cache_key"]}]}),
    ],
)
@pytest.mark.parametrize("prompt", [PLAIN, STREAM])
async def test_a_host_that_refuses_the_cache_key_is_not_sent_it_again(
    server: FakeOpenAI, chat: Chat, prompt: Prompt, status: int, refusal: Any
) -> None:
    server.script([document(refusal, status=status), say("x"), say("y")])
    asked = prompt.model_copy(update={"cache_key": "k"})
    assert [(await chat.complete(asked)).text for _ in range(2)] == ["x", "y"]
    assert ["prompt_cache_key" in r.body for r in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    "refusal",
    [
        {"error": {"message": "Unrecognized request argument supplied: stream_options"}},
        {"error": {"message": "Unknown parameter", "param": "stream_options"}},
    ],
)
async def test_a_host_that_refuses_stream_options_is_not_sent_them_again(
    server: FakeOpenAI, chat: Chat, refusal: Any
) -> None:
    server.script([document(refusal, status=400), say("x"), say("y")])
    assert [(await told(chat))[0].text for _ in range(2)] == ["x", "y"]
    assert ["stream_options" in r.body for r in server.requests] == [True, False, False]
    assert all(r.body["stream"] for r in server.requests)


async def test_a_host_that_refuses_one_field_after_the_other_is_sent_neither(
    server: FakeOpenAI, chat: Chat
) -> None:
    def answer(body: Any) -> Any:
        known = ("stream_options", "prompt_cache_key")
        wrong = next((f for f in known if f in body), None)
        return fail(400, f"unknown field {wrong}") if wrong else say("x")

    server.respond_with(answer)
    assert (await told(chat, STREAM.model_copy(update={"cache_key": "k"})))[0].text == "x"
    assert len(server.requests) == 3


@pytest.mark.parametrize("most", [1, 2, 4])
@pytest.mark.parametrize("prompt", [PLAIN, STREAM], ids=["plain", "stream"])
async def test_no_more_requests_are_made_than_the_step_has_left(
    server: FakeOpenAI, chat: Chat, prompt: Prompt, most: int
) -> None:
    server.script([fail(503, "down")] * 9)
    with pytest.raises(ModelError, match="down") as caught:
        await chat.complete(prompt.model_copy(update={"max_requests": most}))
    assert len(server.requests) == caught.value.requests == most


@pytest.mark.parametrize("most", [1, 2])
async def test_neither_are_they_without_the_fields_that_a_host_refuses(
    server: FakeOpenAI, chat: Chat, most: int
) -> None:
    def answer(body: Any) -> Any:
        known = ("stream_options", "prompt_cache_key")
        wrong = next((f for f in known if f in body), None)
        return fail(400, f"unknown field {wrong}") if wrong else say("x")

    server.respond_with(answer)
    asked = STREAM.model_copy(update={"cache_key": "k", "max_requests": most})
    with pytest.raises(ModelError, match="unknown field") as caught:
        await chat.complete(asked)
    assert len(server.requests) == caught.value.requests == most
    # What it has learned by then holds for the next request.
    assert (await chat.complete(STREAM.model_copy(update={"cache_key": "k"}))).text == "x"


async def test_a_reply_says_how_many_requests_it_took(server: FakeOpenAI, chat: Chat) -> None:
    server.script([fail(503), fail(503), say("x"), say("y")])
    assert [(await chat.complete(PLAIN)).requests for _ in range(2)] == [3, 1]


async def test_a_host_that_refuses_another_field_is_asked_once(
    server: FakeOpenAI, chat: Chat
) -> None:
    server.script([fail(400, 'Unknown name "messages"')])
    with pytest.raises(ModelError, match="messages"):
        await chat.complete(PLAIN.model_copy(update={"cache_key": "k"}))
    assert len(server.requests) == 1


async def test_a_listener_may_be_async(server: FakeOpenAI, chat: Chat) -> None:
    heard: list[str] = []

    async def listener(delta: Delta) -> None:
        await asyncio.sleep(0)
        heard.append(delta.text)

    server.script([say("Hello you")])
    await chat.complete(STREAM, listener)
    assert heard == ["Hello ", "you"]


def test_each_event_loop_has_a_client_of_its_own(server: FakeOpenAI) -> None:
    server.respond_with(lambda _: say("Hello"))
    chat = Chat(server.base_url)

    async def once() -> str:
        reply = await chat.complete(PLAIN)
        await chat.aclose()
        return reply.text

    assert [asyncio.run(once()), asyncio.run(once())] == ["Hello", "Hello"]
