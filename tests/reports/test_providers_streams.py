"""Streams of providers."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest

from layover import Agent, Limits
from layover.plugins.models import http_chat
from layover.values.message import ReasoningPart
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from reports import Found, report
from reports.kit import Asked, Json, Provider, Said, delta, events, said
from support.providers.odd import OddResponse
from support.worlds.runs import words_of


class NeverClosed(OddResponse):
    """A stream whose server keeps the connection alive behind the last event."""

    def __init__(self, stream: bytes) -> None:
        super().__init__(200, "text/event-stream", [stream])

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        async for piece in super().pieces():
            yield piece
        while True:
            await asyncio.sleep(0)
            yield b": keep-alive\n\n"


def asked(*answers: Said) -> Asked:
    """A thread whose provider gives these answers, the last of them for ever."""
    answer = Provider(lambda _, n: answers[min(n, len(answers)) - 1])
    return Asked(Agent("desk", model="m", limits=Limits(provider_patience=timedelta(0))), answer)


def thoughts(run: Run) -> str:
    """The thoughts of a run's messages."""
    parts = [part for message in run.messages for part in message.content]
    return "".join(part.text for part in parts if isinstance(part, ReasoningPart))


def usage(**counts: object) -> Json:
    """A chunk that has only the usage."""
    return {"id": "c1", "choices": [], "usage": counts}


@report("maximhq/bifrost#6784", Found.MENDED)
async def test_an_answer_is_over_when_its_provider_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer whose end was told is over, however long its connection is kept alive."""
    monkeypatch.setattr(http_chat, "USAGE_TIMEOUT_S", 0)
    stream = events(delta({"content": "Hello!"}), delta({}, "stop"), done=False)
    async with asyncio.timeout(60):
        run = await asked(NeverClosed(stream)).say("hi")
    assert (run.status, run.text) == (Status.SUCCESS, "Hello!")


@report("MoonshotAI/kimi-code#3928", Found.RIGHT)
async def test_thoughts_in_two_fields_are_told_once() -> None:
    """Thoughts that each piece has in two fields are told once."""
    pieces = [delta({"reasoning": t, "reasoning_content": t}) for t in ("The ", "user")]
    run = await asked(events(*pieces, delta({"content": "Hello!"}), delta({}, "stop"))).say("hi")
    assert (thoughts(run), run.text) == ("The user", "Hello!")


@report("cita-777/metapi#32", Found.MENDED)
async def test_thoughts_that_are_told_as_text_too_are_not_the_answer() -> None:
    """Pieces whose text is that of their thoughts are thoughts."""
    pieces = [delta({"content": t, "reasoning_content": t}) for t in ("Let me ", "greet.")]
    run = await asked(events(*pieces, delta({"content": "Hello!"}), delta({}, "stop"))).say("hi")
    assert (thoughts(run), run.text) == ("Let me greet.", "Hello!")


@report("Agent-Field/CodeAF#370", Found.RIGHT)
async def test_a_frame_of_the_cost_keeps_the_counts() -> None:
    """Counts that an earlier frame told stay, whatever a later one leaves out."""
    details = {"reasoning_tokens": 4}
    counts = usage(prompt_tokens=9, completion_tokens=7, completion_tokens_details=details)
    answer = [delta({"content": "Hello!"}), delta({}, "stop"), counts, usage(cost=0.5)]
    used = (await asked(events(*answer)).say("hi")).usage
    assert (used.input_tokens, used.output_tokens, used.reasoning_tokens) == (9, 7, 4)
    assert used.cost_usd is not None
    assert float(used.cost_usd) == 0.5


@report("can1357/oh-my-pi#2434", Found.MENDED)
async def test_thoughts_in_tags_and_in_a_field_are_told_once() -> None:
    """Thoughts that come in tags and in a field are told once, and are not the answer."""
    first = delta({"content": "<think>The user", "reasoning_content": "The user"})
    second = delta({"content": " greets</think>", "reasoning_content": " greets"})
    stream = events(first, second, delta({"content": "Hello!"}), delta({}, "stop"))
    run = await asked(stream).say("hi")
    assert (thoughts(run), run.text) == ("The user greets", "Hello!")


@report("razzant/claudexor#144", Found.RIGHT)
async def test_an_answer_that_ends_in_an_error_is_asked_for_again() -> None:
    """A whole answer that says it ended in an error is no answer, and is asked for again."""
    half = {"index": 0, "message": {"role": "assistant", "content": "Hel"}}
    error = {"code": 502, "message": "Provider disconnected"}
    failed: Json = {"choices": [{**half, "finish_reason": "error", "error": error}]}
    run = await asked(failed, said("Hello!")).say("hi", stream=False)
    assert (run.status, run.text) == (Status.SUCCESS, "Hello!")
    run = await asked(failed).say("hi", stream=False)
    assert run.error is not None
    assert "Provider disconnected" in words_of(run)


@report("mnfst/llm-gateway#2072", Found.RIGHT, held_back=True)
async def test_an_answer_whose_stream_begins_again_is_told_once() -> None:
    """What follows the end of an answer in its stream is not part of it."""
    cycle = events(delta({"role": "assistant", "content": "Bonjour!"}), delta({}, "stop"))
    run = await asked(cycle + cycle).say("hi")
    assert run.text == "Bonjour!"


@report("abundantbeing/hermes-browser-extension#11", Found.MENDED, held_back=True)
async def test_a_last_chunk_that_repeats_the_whole_answer_adds_nothing() -> None:
    """A whole message at the end of a stream says what its pieces said."""
    whole = {"index": 0, "message": {"role": "assistant", "content": "Hello!"}}
    last = {"id": "c1", "choices": [{**whole, "finish_reason": "stop"}]}
    run = await asked(events(delta({"content": "Hel"}), delta({"content": "lo!"}), last)).say("hi")
    assert run.text == "Hello!"
