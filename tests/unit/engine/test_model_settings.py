"""Settings of a run's model calls: the agent's, and those that the run chose for itself."""

from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, ModelSettings, tool
from layover.errors import DefinitionError, InvalidRequest
from layover.inmemory.model import call, say
from layover.recovery.redrive import redrive
from layover.runs.accept import StartRun, make_request_key
from layover.values.deployment.settings import Settings
from layover.values.runs.model_settings import RunChoice
from support.worlds.runs import ANN, Bench, Ledger, suspended

CHOICE = RunChoice(model="openai/small", reasoning="low", max_tokens=9)
OPEN: Any = ["model", "reasoning", "max_tokens"]


@tool
def look(n: int) -> int:
    """Look."""
    return n


def chooser(**options: Any) -> Agent:
    return Agent("helper", model="m", tools=[look], overridable=OPEN, **options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"overridable": ["temperature"]},
        {"model_settings": {"max_tokens": 5}},
        {"model_settings": ModelSettings(tool_choice="refund")},
    ],
)
def test_definition_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="agent 'helper'"):
        Agent("helper", tools=[look], **wrong)


async def test_run_chooses_only_what_its_agent_leaves_to_it() -> None:
    agent = Agent("helper", model="m", overridable=["max_tokens"])
    bench = Bench(agent, [])
    with pytest.raises(InvalidRequest) as refused:
        await bench.start(choice=CHOICE)
    assert [e["loc"] for e in refused.value.errors] == [["body", "model"], ["body", "reasoning"]]
    assert (await bench.head()).active_run is None


async def test_agents_settings_reach_every_call_of_a_run() -> None:
    given = ModelSettings(max_tokens=5, temperature=0.5)
    agent = Agent("helper", model="m", tools=[look], model_settings=given)
    bench = Bench(agent, [call("look", n=1), say("done")])
    await bench.go()
    assert [p.settings for p in bench.model.prompts] == [given, given]


@pytest.mark.parametrize("forced", ["required", "look"])
async def test_call_is_forced_once(forced: str) -> None:
    agent = Agent(
        "helper", model="m", tools=[look], model_settings=ModelSettings(tool_choice=forced)
    )
    bench = Bench(agent, [call("look", n=1), call("look", n=2), say("done")])
    await bench.go()
    assert [p.settings.tool_choice for p in bench.model.prompts] == [forced, "auto", "auto"]


async def test_choice_wins_over_the_agents_settings_and_decides_the_window() -> None:
    windows: list[str] = []

    def window(model: str) -> int:
        windows.append(model)
        return 100_000

    agent = chooser(model_settings=ModelSettings(max_tokens=5, seed=1))
    bench = Bench(agent, [say("done")], settings=Settings(model="deployed"), window=window)
    await bench.go(choice=CHOICE)
    (prompt,) = bench.model.prompts
    assert prompt.model == "openai/small"
    assert prompt.settings == ModelSettings(max_tokens=9, reasoning="low", seed=1)
    assert "openai/small" in windows


OWN = ModelSettings(context_window=9_000)


@pytest.mark.parametrize(
    ("agent", "choice", "window"),
    [
        (chooser(model_settings=OWN), None, 9_000),
        (chooser(model_settings=OWN), RunChoice(reasoning="low"), 9_000),
        (chooser(model_settings=OWN), CHOICE, 100_000),
        (chooser(), None, 100_000),
    ],
    ids=["the agent's own", "a choice of something else", "a run's own model", "none"],
)
async def test_window_that_an_agent_names_is_that_of_its_own_model(
    agent: Agent, choice: Any, window: int
) -> None:
    bench = Bench(agent, [say("done")], window=lambda model: 100_000)
    settings = (choice or RunChoice()).apply(agent.model_settings)
    assert bench.runtime.window_of("any", settings) == window
    await (bench.go(choice=choice) if choice else bench.go())
    (prompt,) = bench.model.prompts
    assert bench.runtime.window_of("any", prompt.settings) == window


def test_sub_agents_do_not_inherit_a_window() -> None:
    assert OWN.for_sub_agent().context_window is None
    assert ModelSettings(context_window=5).over(OWN.for_sub_agent()).context_window == 5


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "many"])
def test_window_that_cannot_be_is_a_definition_error(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"ModelSettings\.context_window"):
        ModelSettings(context_window=wrong)


async def test_choice_outlives_a_suspension() -> None:
    agent = Agent("helper", model="m", tools=[Ledger().pay], overridable=OPEN)
    bench = Bench(agent, [call("pay", amount=3), say("paid")])
    run = await suspended(bench, choice=CHOICE)
    assert await bench.answer(run.id, run.pending[0].tool_call_id, "approve") == "over"
    assert [p.model for p in bench.model.prompts] == ["openai/small"] * 2
    assert [p.settings.max_tokens for p in bench.model.prompts] == [9, 9]


async def test_choice_outlives_its_execution() -> None:
    bench = Bench(chooser(), [])
    run_id = await bench.start(choice=CHOICE)
    bench.clock.advance(timedelta(minutes=5))
    await redrive(bench.plain, ANN, run_id)
    meta = await bench.meta(run_id)
    assert (meta.n, meta.choice) == (2, CHOICE)


async def test_choice_is_part_of_what_a_request_key_stands_for() -> None:
    agent = chooser()
    bench = Bench(agent, [])
    now = bench.clock.now()
    plain, chosen = StartRun("hi"), StartRun("hi", choice=CHOICE)
    assert make_request_key("k", "t1", plain, now) == make_request_key(
        "k", "t1", StartRun("hi"), now
    )
    assert make_request_key("k", "t1", plain, now) != make_request_key("k", "t1", chosen, now)
