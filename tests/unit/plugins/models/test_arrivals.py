"""What of a provider's stream arrives together: the deltas that it becomes."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import pytest

from layover.adapters.aws.services import AwsServices
from layover.adapters.http.client import Response
from layover.adapters.http.connection import ConnectionBroken
from layover.adapters.http.request import Url
from layover.errors import ModelError
from layover.plugins.models import http_chat
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.http_chat import MAX_PIECES
from layover.plugins.models.openai_chat import OpenAIChat
from layover.ports import ChatModel
from layover.values.prompt import Delta, Prompt, Reply
from support.providers import converse, responses

WORDS = [f"w{i} " for i in range(3 * MAX_PIECES)]
END = b"data: [DONE]\n\n"
HANG_UP, FALL_SILENT, KEEP_ALIVE = b"hang up", b"fall silent", b"keep alive"


def event(finish: str | None = None, **delta: Any) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def said(*words: str) -> bytes:
    return b"".join(event(content=word) for word in words)


STREAM = Prompt(model="m", stream=True)
STOP = event("stop")
BROKEN = b'data: {"error": {"message": "overloaded", "code": 529}}\n\n'


class Arriving(Response):
    def __init__(self, arrivals: list[bytes]) -> None:
        super().__init__(200, {"content-type": "text/event-stream"})
        self._arrivals = arrivals

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        for arrival in self._arrivals:
            if arrival is HANG_UP:
                raise ConnectionBroken("the connection was closed")
            if arrival is FALL_SILENT:
                await asyncio.Event().wait()
            while arrival is KEEP_ALIVE:
                await asyncio.sleep(0)
                yield b": ping\n\n"
            yield arrival

    async def aclose(self) -> None: ...


class Provider:
    """A client to which each answer comes in these arrivals."""

    def __init__(self, *answers: list[bytes]) -> None:
        self._answers = list(answers)

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        return Arriving(self._answers.pop(0))

    def dial(self, url: Url) -> None: ...

    async def aclose(self) -> None: ...


async def told(*answers: list[bytes]) -> tuple[Reply, list[Delta]]:
    deltas: list[Delta] = []
    return await completed(deltas, *answers), deltas


async def completed(deltas: list[Delta], *answers: list[bytes]) -> Reply:
    return await openai(Provider(*answers)).complete(STREAM, deltas.append)


def openai(provider: Provider) -> OpenAIChat:
    return OpenAIChat("key", "http://model.example", make_client=lambda: provider, sleep=at_once)


def bedrock(provider: Provider) -> BedrockChat:
    services = AwsServices(converse.variables_of("http://bedrock.example"))
    return BedrockChat(services, make_client=lambda: provider, sleep=at_once)


async def at_once(seconds: float) -> None: ...


def texts(deltas: list[Delta]) -> list[str]:
    return [delta.text for delta in deltas]


async def test_error_among_the_pieces_comes_after_those_before_it() -> None:
    reply, deltas = await told([said("a", "b") + BROKEN], [said("c") + STOP + END])
    assert [(delta.kind, delta.text) for delta in deltas] == [
        ("text", "a"),
        ("text", "b"),
        ("restart", ""),
        ("text", "c"),
    ]
    assert reply.text == "c"


@pytest.mark.parametrize("before", [b"", event(role="assistant")], ids=["nothing", "no text"])
async def test_error_before_any_piece_needs_no_restart(before: bytes) -> None:
    _, deltas = await told([before + BROKEN], [said("c") + STOP + END])
    assert [(delta.kind, delta.text) for delta in deltas] == [
        ("retry", "InternalServerError"),
        ("text", "c"),
    ]


async def test_error_in_a_later_arrival_restarts_what_began_before() -> None:
    _, deltas = await told([said("a"), BROKEN], [said("c") + STOP + END])
    assert [delta.kind for delta in deltas] == ["text", "restart", "text"]


async def test_pieces_before_an_error_that_stays_are_told() -> None:
    deltas: list[Delta] = []
    with pytest.raises(ModelError):
        await completed(deltas, *[[said(*WORDS) + BROKEN]] * 20)
    assert "".join(texts(deltas[: MAX_PIECES + 1])) == "".join(WORDS)


@pytest.mark.parametrize(
    ("connect", "prompt", "chunks"),
    [
        (openai, STREAM, [said("Hello"), STOP, END]),
        (
            openai,
            STREAM.model_copy(update={"api": "responses"}),
            responses.stream(*responses.events(responses.response(responses.said("Hello")))).chunks,
        ),
        (
            bedrock,
            STREAM.model_copy(update={"model": "bedrock/eu.anthropic.claude"}),
            [converse.begin(), converse.text(0, "Hello"), converse.stop(), converse.metadata()],
        ),
    ],
    ids=["chat", "responses", "converse"],
)
async def test_provider_that_never_ends_the_body_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    connect: Callable[[Provider], ChatModel],
    prompt: Prompt,
    chunks: Sequence[bytes],
) -> None:
    monkeypatch.setattr(http_chat, "DRAIN_TIMEOUT_S", 0)
    model = connect(Provider([b"".join(chunks), FALL_SILENT]))
    async with asyncio.timeout(60):
        reply = await model.complete(prompt)
    assert reply.text == "Hello"


USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}\n\n'


@pytest.mark.parametrize("usage", [[], [USAGE]], ids=["without", "with"])
async def test_provider_that_only_keeps_alive_behind_the_end_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, usage: list[bytes]
) -> None:
    monkeypatch.setattr(http_chat, "USAGE_TIMEOUT_S", 0)
    async with asyncio.timeout(60):
        reply, _ = await told([said("Hello") + STOP, *usage, KEEP_ALIVE])
    assert (reply.text, reply.usage.output_tokens) == ("Hello", 2 * len(usage))


async def test_usage_behind_keep_alives_is_read() -> None:
    alive = [b": ping\n\n"] * 9
    reply, _ = await told([said("Hello") + STOP, *alive, USAGE[:20], USAGE[20:], *alive, END])
    assert (reply.text, reply.usage.output_tokens) == ("Hello", 2)


async def test_provider_that_ends_each_piece_is_read_to_its_end() -> None:
    pieces = [event("stop", content=word) for word in WORDS]
    reply, _ = await told([pieces[0], b": ping\n\n", *pieces[1:], END])
    assert reply.text == "".join(WORDS)


async def test_few_pieces_that_arrive_together_stay_apart() -> None:
    _, deltas = await told([said(*WORDS[:MAX_PIECES]) + STOP + END])
    assert texts(deltas) == WORDS[:MAX_PIECES]


@pytest.mark.parametrize("kind", ["text", "reasoning"])
async def test_rest_of_a_burst_is_one_delta(kind: str) -> None:
    field = {"text": "content", "reasoning": "reasoning_content"}[kind]
    burst = b"".join(event(**{field: word}) for word in WORDS)
    reply, deltas = await told([burst, said("end") + STOP + END])
    rest = "".join(WORDS[MAX_PIECES:])
    assert texts(deltas) == [*WORDS[:MAX_PIECES], rest, "end"]
    assert {delta.kind for delta in deltas[:-1]} == {kind}
    assert (reply.reasoning + reply.text) == "".join(WORDS) + "end"


async def test_pieces_that_arrive_one_by_one_are_never_joined() -> None:
    _, deltas = await told([*map(said, WORDS), STOP + END])
    assert texts(deltas) == WORDS


async def test_burst_of_more_than_text_is_told_piece_by_piece() -> None:
    def piece(args: str, **more: Any) -> bytes:
        call = {"index": 0, "function": {"arguments": args, **more}}
        return event(tool_calls=[call])

    args = ['{"x":', *[" "] * 2 * MAX_PIECES, "1}"]
    call = piece(args[0], name="look") + b"".join(map(piece, args[1:]))
    _, deltas = await told([said(*WORDS) + call + STOP + END])
    assert texts(deltas) == [*WORDS, *args]


async def test_connection_that_ends_after_the_last_piece_loses_nothing() -> None:
    reply, deltas = await told([said(*WORDS) + STOP, HANG_UP])
    assert reply.text == "".join(texts(deltas)) == "".join(WORDS)
