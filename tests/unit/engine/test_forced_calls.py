"""A setting that forces a call is kept, or the run says that it was not."""

import pytest

from layover import Agent, tool
from layover.inmemory.model import call, say
from layover.values.message import DataPart
from layover.values.prompt import Reply
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import Status
from support.worlds.runs import Bench, types, words_of

TALK = say("I would look it up.")
CUT = say("I would", finish_reason="length")


@tool
async def look(what: str) -> str:
    """Look something up."""
    return what


@tool
async def other() -> str:
    """Do something else."""
    return "other"


def agent(choice: str = "required", **options: object) -> Agent:
    given = {"model": "m", "tools": [look, other], **options}
    return Agent("helper", model_settings=ModelSettings(tool_choice=choice), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("choice", ["required", "look"])
@pytest.mark.parametrize("answer", [TALK, CUT], ids=["whole", "cut"])
@pytest.mark.parametrize("stream", [False, True])
async def test_answer_without_the_forced_call_is_asked_for_again_once_and_fails_the_run(
    choice: str, answer: Reply, stream: bool
) -> None:
    bench = Bench(agent(choice), [answer] * 3)
    run = await bench.go(stream=stream)
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "InvalidResponse"
    assert "tool_choice" in words_of(run)
    assert "(attempt 2)" in words_of(run)
    assert "I would" not in words_of(run)
    assert [p.settings.tool_choice for p in bench.model.prompts] == [choice, choice]


async def test_call_of_another_tool_than_the_named_one_does_not_run() -> None:
    bench = Bench(agent("look"), [call("other")] * 2)
    run = await bench.go()
    assert run.status is Status.FAILED
    assert run.error is not None
    assert words_of(run) == (
        "The provider of m was told to call 'look' (tool_choice) and did not (attempt 2)"
    )
    assert run.messages == ()


@pytest.mark.parametrize("choice", ["required", "look"])
async def test_second_answer_with_the_call_goes_on(choice: str) -> None:
    bench = Bench(agent(choice), [TALK, call("look", what="x"), say("It is x.")])
    run = await bench.go(stream=True)
    assert (run.status, run.text) == (Status.SUCCESS, "It is x.")
    assert types(await bench.events(run.id)).count("turn-start") == 3


async def test_next_model_takes_over_from_one_that_makes_no_call() -> None:
    bench = Bench(agent(model=["a", "b"]), [TALK, TALK, call("look", what="x"), say("x")])
    run = await bench.go()
    assert run.text == "x"
    assert [p.model for p in bench.model.prompts] == ["a", "a", "b", "a"]


async def test_steps_after_the_first_may_answer() -> None:
    bench = Bench(agent(), [call("other"), TALK])
    assert (await bench.go()).status is Status.SUCCESS


async def test_empty_answer_and_one_without_the_call_share_the_attempts() -> None:
    bench = Bench(agent(), [TALK, say(""), TALK, call("other")])
    run = await bench.go()
    assert run.status is Status.FAILED
    assert len(bench.model.prompts) == 3


@pytest.mark.parametrize(
    "answer",
    [
        say("", finish_reason="content-filter"),
        Reply(data=(DataPart(name="provider-tool", data={"tool": "web_search"}),)),
        TALK.model_copy(update={"chooses_freely": True}),
    ],
    ids=["filtered", "the provider's own tool", "the model refuses the setting"],
)
async def test_answer_that_could_have_no_call_is_taken(answer: Reply) -> None:
    bench = Bench(agent(), [answer])
    assert (await bench.go()).status is Status.SUCCESS


async def test_sources_of_a_text_are_no_call() -> None:
    sources = DataPart(name="citations", data=[{"url": "https://a.example"}])
    bench = Bench(agent(), [TALK.model_copy(update={"data": (sources,)})] * 2)
    assert (await bench.go()).status is Status.FAILED


@pytest.mark.parametrize("choice", ["auto", "none"])
async def test_choice_that_forces_nothing_is_kept_by_a_text(choice: str) -> None:
    assert (await Bench(agent(choice), [TALK]).go()).status is Status.SUCCESS


async def test_agent_without_tools_is_sent_no_choice_and_may_answer() -> None:
    assert (await Bench(agent(tools=[]), [TALK]).go()).status is Status.SUCCESS
