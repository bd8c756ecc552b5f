"""The part of a prompt before the input stays the same byte for byte from turn to turn, so that the
provider's cache hits (docs/behaviour.md#prompt-order)."""

import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from layover import Agent, Memory, tool
from layover.plugins.models.openai_chat import OpenAIChat
from layover.wiring import in_memory_runtime
from support.providers.openai import FakeOpenAI, Request
from support.providers.openai import call as wants
from support.providers.openai import say as says

TURNS = 40
WINDOW = 20


@tool
def measure(place: str) -> dict[str, Any]:
    """The temperature at a place, in degrees."""
    return {"place": place, "degrees": len(place), "sky": "clear", "ж": "ü\u2028"}


def _respond(body: Any) -> Any:
    newest = max(i for i, m in enumerate(body["messages"]) if m["role"] == "user")
    asked = body["messages"][newest]["content"]
    answered = any(m["role"] == "tool" for m in body["messages"][newest:])
    return says(f"It is fine: {asked}") if answered else wants("measure", place=asked[-9:])


@pytest.fixture(scope="module")
async def requests() -> AsyncIterator[list[Request]]:
    """Two requests for each turn of a conversation of 40, as they arrived; then one of another thread."""
    memory = Memory(last_messages=WINDOW, titles=False)
    agent = Agent("weather", instructions="Be brief.", tools=[measure], memory=memory)
    with FakeOpenAI() as provider:
        provider.respond_with(_respond)
        model = OpenAIChat("key", provider.base_url, prompt_cache_key=True)
        agent.runtime = in_memory_runtime(agent, model=model)
        for turn in range(TURNS):
            result = await agent.generate(f"how is it in town {turn:03}?", thread_id="t")
            assert result.status == "success", result.error
            await agent.wait_for_memory()
        await agent.generate("how is it in town 000?", thread_id="other")
        await model.aclose()
        yield provider.turns


def _at_input(raw: bytes) -> tuple[bytes, int]:
    """A request's bytes before the message with the run's input, and how many messages these hold
    beside the system message."""
    text = raw.decode()
    decoder = json.JSONDecoder()
    at = text.index('"messages":[') + len('"messages":[')
    starts: list[tuple[int, str]] = []
    while text[at] != "]":
        message, end = decoder.raw_decode(text, at)
        starts.append((at, message["role"]))
        at = end + (text[end] == ",")
    newest = max(n for n, (_, role) in enumerate(starts) if role == "user")
    return text[: starts[newest][0]].encode(), newest - 1


def _behind_messages(raw: bytes) -> Any:
    """Return the parts of a request that are no messages: the tools and the options."""
    return {k: v for k, v in json.loads(raw).items() if k != "messages"}


def _stepped(raws: Sequence[bytes]) -> int:
    """Count the requests that do not begin with what stood before the input of the request before."""
    steps = 0
    for raw, following in pairwise(raws):
        before, shown = _at_input(raw)
        if following.startswith(before):
            continue
        steps += 1
        _, left = _at_input(following)
        assert WINDOW <= left < shown <= WINDOW + WINDOW // 2, "the window may step, nothing else"
    return steps


async def test_everything_before_the_input_is_a_prefix_of_the_next_request(
    requests: list[Request],
) -> None:
    raws = [r.raw for r in requests[: 2 * TURNS]]
    assert len(raws) == 2 * TURNS
    assert all(
        raw.startswith(b'{"model":"gpt-5-mini","messages":[{"role":"system"') for raw in raws
    )
    assert 0 < _stepped(raws[::2]) <= TURNS / 3
    assert 0 < _stepped(raws) <= TURNS / 3, "a window steps between turns, never within one"


async def test_the_second_step_sends_the_first_one_again(requests: list[Request]) -> None:
    for first, second in list(zip(requests[::2], requests[1::2], strict=False))[:TURNS]:
        end = first.raw.index(b'],"tools":')
        assert second.raw.startswith(first.raw[:end] + b",")


async def test_only_the_conversation_differs_between_requests_of_a_thread(
    requests: list[Request],
) -> None:
    first, *others = [_behind_messages(r.raw) for r in requests[: 2 * TURNS]]
    assert all(other == first for other in others)
    elsewhere = _behind_messages(requests[-1].raw)
    assert first["prompt_cache_key"] != elsewhere["prompt_cache_key"]
    assert first["tools"] == elsewhere["tools"]
