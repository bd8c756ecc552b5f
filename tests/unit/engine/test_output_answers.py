"""Answers of agents that want an output, and which of them is asked for again."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent
from layover.inmemory.model import say
from layover.values.prompt import Reply
from layover.values.runs.run import Status
from support.worlds.runs import Bench


class Offer(BaseModel):
    """An offer."""

    total: int


class Refusal(BaseModel):
    """No offer."""

    why: str


WORDS = "I can't help with that."


@pytest.mark.parametrize("output", [Offer, Offer | Refusal, list[int]])
@pytest.mark.parametrize("text", [WORDS, ""])
async def test_an_answer_that_was_withheld_is_not_asked_for_again(output: Any, text: str) -> None:
    bench = Bench(
        Agent("clerk", model="m", output=output), [say(text, finish_reason="content-filter")]
    )
    run = await bench.go()
    assert (run.status, run.finish_reason, run.output) == (Status.SUCCESS, "content-filter", None)
    assert run.text == text


async def test_no_validator_judges_an_answer_that_was_withheld() -> None:
    asked: list[Any] = []
    agent = Agent("clerk", model="m", output=Offer, output_validator=lambda o, _: asked.append(o))
    run = await Bench(agent, [say('{"total": 1}', finish_reason="content-filter")]).go()
    assert (run.status, run.output, asked) == (Status.SUCCESS, None, [])


async def test_an_answer_that_was_cut_is_asked_for_again() -> None:
    agent = Agent("clerk", model="m", output=Offer)
    bench = Bench(agent, [say('{"total"', finish_reason="length"), say('{"total": 1}')])
    assert (await bench.go()).output == {"total": 1}
    assert "its limit of tokens cut it" in bench.model.prompts[-1].messages[-1].text


async def test_a_run_says_that_its_answer_was_cut() -> None:
    agent = Agent("clerk", model="m", output=Offer)
    run = await Bench(agent, [say('{"total"', finish_reason="length")] * 2).go()
    assert run.error is not None
    assert "its limit of tokens cut it" in run.error.message


@pytest.mark.parametrize(
    "thoughts",
    ["They want an offer.", 'Perhaps {"total": 1}?', '{"total": "much"}', "[1", "1", '{"a": 1}'],
)
async def test_thoughts_that_are_not_the_output_are_not_the_answer(thoughts: str) -> None:
    agent = Agent("clerk", model="m", output=Offer)
    run = await Bench(agent, [Reply(reasoning=thoughts)] * 3).go()
    assert (run.status, run.error and run.error.type) == (Status.FAILED, "InvalidResponse")


async def test_thoughts_of_an_agent_without_an_output_are_not_its_answer() -> None:
    run = await Bench(Agent("clerk", model="m"), [Reply(reasoning='{"total": 1}')] * 3).go()
    assert (run.status, run.error and run.error.type) == (Status.FAILED, "InvalidResponse")


async def test_thoughts_next_to_an_answer_stay_thoughts() -> None:
    agent = Agent("clerk", model="m", output=Offer)
    run = await Bench(agent, [Reply(text='{"total": 2}', reasoning='{"total": 1}')]).go()
    assert run.output == {"total": 2}


@pytest.mark.parametrize("output", [Offer, Offer | Refusal])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_output_that_came_as_thoughts_is_the_answer(output: Any, stream: bool) -> None:
    agent = Agent("clerk", model="m", output=output)
    run = await Bench(agent, [Reply(reasoning='\n{"total": 1}\n')]).go(stream=stream)
    assert (run.status, run.output, json.loads(run.text)) == (
        Status.SUCCESS,
        {"total": 1},
        {"total": 1},
    )
    assert [part.type for part in run.messages[-1].content] == ["text"]
