"""What stands before the input stays byte for byte from turn to turn, so that the provider's cache hits
(BEHAVIOUR 6.1)."""

import json
from itertools import pairwise
from typing import Any

from fake_openai import FakeOpenAI
from fake_openai import call as wants
from fake_openai import say as says
from layover import Agent, Memory, tool
from layover.adapters.models.openai_chat import OpenAIChat
from layover.wiring import in_memory_runtime

TURNS = 40


@tool
def measure(place: str) -> dict[str, Any]:
    """The temperature at a place, in degrees."""
    return {"place": place, "degrees": len(place), "sky": "clear"}


def _respond(body: Any) -> Any:
    newest = max(i for i, m in enumerate(body["messages"]) if m["role"] == "user")
    asked = body["messages"][newest]["content"]
    answered = any(m["role"] == "tool" for m in body["messages"][newest:])
    return says(f"It is fine: {asked}") if answered else wants("measure", place=asked[-9:])


def _pieces(body: Any) -> tuple[list[bytes], bytes]:
    """The messages before the run's input, each as its bytes; and the tools."""
    newest = max(i for i, m in enumerate(body["messages"]) if m["role"] == "user")
    before = [json.dumps(m).encode() for m in body["messages"][:newest]]
    return before, json.dumps(body["tools"]).encode()


async def test_everything_before_the_input_is_a_prefix_of_the_next_request() -> None:
    agent = Agent(
        "weather", instructions="Be brief.", tools=[measure], memory=Memory(last_messages=20)
    )
    with FakeOpenAI() as provider:
        provider.respond_with(_respond)
        model = OpenAIChat("key", provider.base_url)
        agent.runtime = in_memory_runtime(agent, model=model)
        for turn in range(TURNS):
            result = await agent.generate(f"how is it in town {turn:03}?", thread_id="t")
            assert result.status == "success", result.error
        await model.aclose()
        first_steps = [r.body for r in provider.turns][::2]
    assert len(first_steps) == TURNS
    seen = [_pieces(body) for body in first_steps]
    assert len({tools for _, tools in seen}) == 1
    stepped = 0
    for (before, _), (after, _) in pairwise(seen):
        assert before[0] == after[0], "the system message never changes"
        if after[: len(before)] != before:
            stepped += 1
            assert 20 <= len(after) - 1 <= 30, "only a step of the window may break the prefix"
    assert 0 < stepped <= TURNS / 3
