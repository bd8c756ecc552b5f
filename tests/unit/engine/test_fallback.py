"""Models that take over where one stays down."""

from typing import Any

import pytest

from layover import Agent, tool
from layover.errors import DefinitionError, ModelError
from layover.inmemory.model import ScriptedModel, broken, call, fail, say, too_long
from layover.values.prompt import Prompt
from layover.values.runs.model_settings import RunChoice
from layover.values.runs.run import Status
from support.examples import share
from support.worlds.runs import ANN, Bench, Power, types, words_of

MODELS = ["openai/first", "deepseek/second", "openai/third"]


@tool
def look(n: int) -> int:
    """Look."""
    return n


def bench_of(script: Any, models: Any = MODELS, **options: Any) -> Bench:
    agent = Agent("helper", model=models, tools=[look], overridable=["model"])
    return Bench(agent, script, **options)


def asked(bench: Bench) -> list[str]:
    return [prompt.model.partition("/")[2] for prompt in bench.model.prompts]


def without(name: str, *script: Any) -> ScriptedModel:
    """This model is down; the others play the script."""
    steps = iter(script)

    def answer(prompt: Prompt) -> Any:
        return fail("down", status=503) if name in prompt.model else next(steps)

    return ScriptedModel(answer)


@pytest.mark.parametrize("models", [[], ["a", ""], ["a", "a"], ["a", None], 5, [5]])
def test_list_that_cannot_be_is_refused(models: Any) -> None:
    with pytest.raises(DefinitionError, match="agent 'helper': model"):
        Agent("helper", model=models)


@pytest.mark.parametrize("error", [*(fail(status=s) for s in (400, 401, 403)), too_long()])
async def test_fault_of_the_request_or_the_key_is_nobody_elses_to_mend(error: ModelError) -> None:
    bench = bench_of([error] * 4)
    run = await bench.go()
    assert run.status is Status.FAILED
    assert set(asked(bench)) == {"first"}
    assert "model-fallback" not in types(await bench.events(run.id))


async def test_run_fails_with_the_last_models_error_where_all_are_down() -> None:
    bench = bench_of([fail("one"), fail("two"), fail("three")])
    run = await bench.go()
    assert run.error is not None
    assert words_of(run) == "three"
    assert asked(bench) == ["first", "second", "third"]
    fallbacks = [e for e in await bench.events(run.id) if e.type == "model-fallback"]
    assert [(e.from_, e.to) for e in fallbacks] == [tuple(MODELS[:2]), tuple(MODELS[1:])]


@pytest.mark.parametrize("status", [402, 404, 408, 429, 500, 503])
async def test_next_model_answers_the_same_step(status: int) -> None:
    bench = bench_of([fail("down", status=status), say("here")])
    run = await bench.go()
    assert (run.status, run.text) == (Status.SUCCESS, "here")
    events = await bench.events(run.id)
    (told,) = [e for e in events if e.type == "model-fallback"]
    shown = told.model_dump(mode="json")
    assert (shown["step"], shown["from"], shown["to"]) == (1, MODELS[0], MODELS[1])
    assert shown["error"] == {"type": told.error.type, "message": told.error.message}
    assert "down" not in told.error.message
    assert types(events) == [
        *("agent-start", "turn-start", "model-fallback"),
        *("turn-end", "finish", "agent-end"),
    ]


async def test_model_that_cannot_be_reached_is_passed_over() -> None:
    bench = bench_of([ModelError("refused", type="APIConnectionError"), say("here")])
    assert (await bench.go()).text == "here"


async def test_model_whose_provider_cannot_read_it_is_passed_over() -> None:
    unread = ModelError("Failed to call a function.", status=400, type="InvalidResponse")
    bench = bench_of([unread, say("here")])
    assert (await bench.go()).text == "here"
    assert asked(bench) == ["first", "second"]


async def test_followers_drop_what_a_failed_model_said() -> None:
    bench = bench_of([broken("Hel"), fail("down"), say("Hello")])
    run = await bench.go(stream=True)
    said = ""
    for event in await bench.events(run.id):
        said = "" if event.type == "turn-start" else said + getattr(event, "text", "")
    assert said == run.text == "Hello"


async def test_next_step_begins_with_the_first_model_again() -> None:
    bench = bench_of([fail(), call("look", n=1), say("done")])
    await bench.go()
    assert asked(bench) == ["first", "second", "first"]


async def test_after_two_in_a_row_the_run_stays_with_what_answers() -> None:
    model = without("first", call("look", n=1), call("look", n=2), call("look", n=3), say("done"))
    bench = bench_of(model)
    run = await bench.go()
    assert asked(bench) == ["first", "second", "first", "second", "second", "second"]
    assert types(await bench.events(run.id)).count("model-fallback") == 2


async def test_run_that_chose_its_model_has_no_other() -> None:
    bench = bench_of([fail("down")])
    run = await bench.go(choice=RunChoice(model="openai/mine"))
    assert (run.status, asked(bench)) == (Status.FAILED, ["mine"])


async def test_fallback_is_journaled_once_whatever_dies() -> None:
    def bench(power: Power) -> Bench:
        return bench_of(without("first", *[say("done")] * 9), power=power)

    whole = bench(Power())
    await whole.go()
    for point in range(1, whole.power.calls + 1, share(5)):
        mortal = bench(Power(point))
        run = await mortal.go()
        assert (run.status, run.text) == (Status.SUCCESS, "done"), (point, run.error)
        assert types(await mortal.events(run.id)).count("model-fallback") == 1, point
        snapshot = await mortal.plain.journal.runs.snapshot(ANN, run.id)
        assert snapshot is not None
        assert [s.fell_back_to for s in snapshot.steps] == [MODELS[1]]
