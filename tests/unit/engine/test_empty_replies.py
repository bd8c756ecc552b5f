"""Replies that answer nothing: the provider is asked again, and then it is told."""

import pytest

from layover import Agent, tool
from layover.inmemory.model import call, say
from layover.values.message import DataPart
from layover.values.prompt import Reply
from layover.values.runs.run import FinishReason, Status
from support.worlds.runs import Bench, types, words_of

NOTHING = say("")
BLANKS = say(" \n\n")
THOUGHTS = say("", reasoning="The user greets me.")
PROMISE = say("Let me look.", finish_reason="tool-calls")
EACH = pytest.mark.parametrize("empty", [NOTHING, THOUGHTS, PROMISE])


@tool
async def look(what: str) -> str:
    """Look something up."""
    return what


def agent(**options: object) -> Agent:
    return Agent("helper", **{"model": "m", "tools": [look], **options})  # type: ignore[arg-type]


@EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_that_answers_nothing_three_times_fails_the_run(
    empty: Reply, stream: bool
) -> None:
    bench = Bench(agent(), [empty] * 4)
    run = await bench.go(stream=stream)
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "InvalidResponse"
    assert words_of(run).startswith("The provider of m ")
    assert "Let me look" not in words_of(run)
    assert len(bench.model.prompts) == 3


@EACH
async def test_after_a_tool_nothing_is_no_answer_either(empty: Reply) -> None:
    run = await Bench(agent(), [call("look", what="x"), *[empty] * 3]).go()
    assert run.status is Status.FAILED


@EACH
async def test_the_answer_to_the_next_request_is_the_answer(empty: Reply) -> None:
    bench = Bench(agent(), [empty, empty, say("Hello")])
    run = await bench.go(stream=True)
    assert (run.status, run.text) == (Status.SUCCESS, "Hello")
    assert [m.text for m in run.messages] == ["Hello"]
    # Whatever was streamed of the empty ones is void: the step begins again.
    events = await bench.events(run.id)
    assert types(events).count("turn-start") == 3


async def test_the_next_model_takes_over_from_one_that_answers_nothing() -> None:
    bench = Bench(agent(model=["a", "b"]), [NOTHING, NOTHING, NOTHING, say("Hello")])
    run = await bench.go()
    assert run.text == "Hello"
    assert [p.model for p in bench.model.prompts] == ["a", "a", "a", "b"]


async def test_blanks_are_what_a_model_has_left_to_say() -> None:
    run = await Bench(agent(), [BLANKS]).go()
    assert (run.status, run.messages[-1].text) == (Status.SUCCESS, " \n\n")


@pytest.mark.parametrize("reason", ["length", "content-filter"])
async def test_an_answer_that_was_cut_or_filtered_to_nothing_is_what_its_reason_says(
    reason: FinishReason,
) -> None:
    run = await Bench(agent(), [say("", finish_reason=reason)]).go()  # type: ignore[arg-type]
    assert (run.status, run.finish_reason) == (Status.SUCCESS, reason)


async def test_work_of_the_providers_own_tools_is_an_answer() -> None:
    found = Reply(data=(DataPart(name="provider-tool", data={"tool": "web_search"}),))
    run = await Bench(agent(), [found]).go()
    assert run.status is Status.SUCCESS


async def test_sources_without_a_text_are_no_answer() -> None:
    sources = Reply(data=(DataPart(name="citations", data=[{"url": "https://a.example"}]),))
    run = await Bench(agent(), [sources] * 3).go()
    assert (run.status, run.error and run.error.type) == (Status.FAILED, "InvalidResponse")
