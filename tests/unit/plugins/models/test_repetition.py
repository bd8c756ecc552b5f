"""A small model repeats itself until its limit: memory does not read such an answer to its end."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.ids import SequentialIds
from layover.plugins.memory.learns.requests import text_prompt
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.repetition import (
    LEAST,
    MAX_BLANKS,
    TIMES,
    Blanks,
    Repetition,
    repeats,
)
from layover.values.prompt import Delta, OutputSpec
from support.providers.openai import FakeOpenAI, delta, say, stream

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROMPT = text_prompt("observer", "local", "what was said", NOW)
LINES = "* INFO (10:01) The order is late.\n* INFO (10:02) The user asks for a refund.\n"
OBSERVED = "".join(
    f"* INFO (10:{n:02}) {words}\n"
    for n, words in enumerate(
        (
            "The user asks where order 17 is.",
            "The user asks where order 18 is.",
            "The user asks where order 19 is.",
            "The user asks where order 20 is.",
            "The assistant says that all four are on their way.",
        )
    )
)
ENTRIES = '{"entries": [' + ", ".join(
    f'{{"evidence": "{words}", "kind": "symptom", "content": "{words}"}}'
    for words in ("the printer is loud", "the printer is late", "the fan is loud", "no paper")
)


@pytest.mark.parametrize("text", ["", "a", OBSERVED, ENTRIES, "ha " * 20, OBSERVED + LINES * 3])
def test_an_answer_that_only_resembles_itself_does_not_repeat(text: str) -> None:
    assert not repeats(text)


@pytest.mark.parametrize("piece", [" ", "\n\n", "ha ", LINES, OBSERVED, "so wie immer, "])
@pytest.mark.parametrize("cut", range(3))
def test_an_answer_that_ends_with_one_piece_again_and_again_repeats(piece: str, cut: int) -> None:
    again = piece * (TIMES + 1 + LEAST // len(piece))
    assert repeats(OBSERVED + again[: len(again) - cut])


@given(st.text(max_size=50), st.text(min_size=1, max_size=300))
def test_whatever_is_repeated_is_noticed(before: str, piece: str) -> None:
    assert repeats(before + piece * (TIMES + LEAST // len(piece) + 1))


WATER = "".join(
    f"- INFO: Water on day {n} {1300 + 5 * n} cubic metres.\n- INFO: is the time of the message.\n"
    for n in range(1, 9)
)
"""As a model of 1.5 billion parameters wrote it, on to day 40."""


def stuck_after(text: str, *, in_lines: bool, size: int = 7) -> bool:
    listener = Repetition(in_lines=in_lines)
    for at in range(0, len(text), size):
        listener.add(Delta(kind="text", text=text[at : at + size]))
    return listener.is_stuck


def test_the_same_line_between_others_is_a_repetition_of_what_comes_in_lines() -> None:
    lines = WATER.splitlines(keepends=True)
    assert stuck_after("".join(lines[:8]), in_lines=True)
    assert not stuck_after("".join(lines[:7]), in_lines=True)
    assert not stuck_after(WATER, in_lines=False)


def test_short_lines_and_the_lines_of_json_may_be_the_same() -> None:
    entry = (
        '  {\n    "evidence": "EACH",\n    "kind": "environment",\n    "content": "EACH"\n  },\n'
    )
    entries = "".join(entry.replace("EACH", f"fan {n} is loud") for n in range(9))
    assert not stuck_after(entries, in_lines=False)
    assert not stuck_after("".join(f"## Day\n{n} words of it\n" for n in range(9)), in_lines=True)


def test_thoughts_may_come_back_to_the_same_line() -> None:
    listener = Repetition(in_lines=True)
    for n in range(9):
        thought = f"Let me read that again.\nMessage {n} says something else.\n"
        listener.add(Delta(kind="reasoning", text=thought))
    assert not listener.is_stuck


def test_an_answer_that_begins_anew_has_not_repeated_anything() -> None:
    listener = Repetition()
    listener.add(Delta(kind="text", text=LINES * 9))
    assert listener.is_stuck
    listener.add(Delta(kind="restart"))
    assert not listener.is_stuck


@pytest.fixture
async def chat(server: FakeOpenAI) -> AsyncIterator[OpenAIChat]:
    """A client that always streams, and repeats a request at once."""

    async def at_once(_: float) -> None:
        return

    made = OpenAIChat(
        "key", server.base_url, streams_always=True, ids=SequentialIds(), sleep=at_once
    )
    yield made
    await made.aclose()


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
async def test_memory_leaves_an_answer_that_repeats_itself_and_keeps_what_came(
    server: FakeOpenAI, chat: OpenAIChat, field: str
) -> None:
    end = threading.Event()
    pieces = [delta(**{field: text}) for text in [OBSERVED, *[LINES] * 6]]
    server.script([stream(*pieces, delta("the end"), hold=end, done=False)], task="observer")
    reply = await chat.complete(PROMPT)
    # The connection is closed while the client is open: the server is free again.
    await asyncio.to_thread(server.wait_for, lambda fake: fake.abandoned == 1)
    said = reply.text + reply.reasoning
    assert said.startswith(OBSERVED + LINES)
    assert "the end" not in said
    assert reply.finish_reason == "length"
    # The provider would have told it at the end.
    assert reply.usage.input_tokens > 100
    assert reply.usage.output_tokens > len(OBSERVED) / 8


async def test_a_server_whose_answer_was_left_is_asked_for_streams_again(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    again = stream(*[delta(LINES)] * 6, delta("the end"), hold=threading.Event(), done=False)
    server.script([again, say("x")], task="observer")
    assert [(await chat.complete(PROMPT)).finish_reason for _ in range(2)] == ["length", "stop"]
    assert [r.body["stream"] for r in server.requests] == [True, True]


async def test_a_run_reads_every_answer_to_its_end(server: FakeOpenAI, chat: OpenAIChat) -> None:
    pieces = [*[delta(LINES)] * 9, delta("the end"), delta(finish="stop")]
    server.script([stream(*pieces) for _ in range(2)])
    turn = PROMPT.model_copy(update={"task": "turn", "stops_repeating": False})
    assert (await chat.complete(turn)).text.endswith("the end")
    deltas: list[Delta] = []
    follows = turn.model_copy(update={"stream": True})
    assert (await chat.complete(follows, deltas.append)).text.endswith("the end")
    assert deltas[-1].text.endswith("the end")


@pytest.mark.parametrize(
    "texts",
    [
        ['{"a": 1,', " " * (MAX_BLANKS - 1)],
        ['{"a": 1,', *[" " * (MAX_BLANKS - 1), '"b": 2'] * 3],
        ['{"a": 1,\n    '] * MAX_BLANKS,
    ],
)
def test_json_may_be_indented(texts: list[str]) -> None:
    told: list[Delta] = []
    listener = Blanks(told.append)
    for text in texts:
        listener.add(Delta(kind="text", text=text))
    assert not listener.is_stuck
    assert "".join(delta.text for delta in told) == "".join(texts)


def test_thoughts_count_as_no_blanks() -> None:
    listener = Blanks(None)
    listener.add(Delta(kind="reasoning", text=" " * MAX_BLANKS))
    assert not listener.is_stuck


@pytest.mark.parametrize("has_listener", [True, False])
async def test_a_run_leaves_json_that_has_only_blanks_left(
    server: FakeOpenAI, chat: OpenAIChat, has_listener: bool
) -> None:
    end = threading.Event()
    pieces = [delta('{"a": 1,'), *[delta("\n" + " " * 99)] * (MAX_BLANKS // 100), delta("the end")]
    server.script([stream(*pieces, hold=end, done=False)])
    output = OutputSpec(name="a", json_schema={"type": "object"}, strict=False)
    changes = {"task": "turn", "stops_repeating": False, "stream": has_listener}
    turn = PROMPT.model_copy(update={**changes, "output": output})
    told: list[Delta] = []
    reply = await chat.complete(turn, told.append if has_listener else None)
    assert (reply.text.rstrip(), reply.finish_reason) == ('{"a": 1,', "length")
    assert len(reply.text) == len('{"a": 1,') + MAX_BLANKS
    assert "".join(each.text for each in told) == (reply.text if has_listener else "")
