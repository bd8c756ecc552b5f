"""Tools that ask for another attempt, or may be called so often and no more."""

from typing import Any

import pytest

from layover import Agent, DefinitionError, Retry, ToolContext, tool
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.worlds.runs import Bench, seen


def weather(**options: Any) -> Any:
    """A tool that knows codes of cities alone."""

    @tool(name="weather", **options)
    def ask(city: str) -> str:
        """Weather of a city."""
        if city != "MUC":
            raise Retry("no such city; use the IATA code")
        return "rain"

    return ask


async def go(made: Any, *script: Any) -> tuple[list[str], Run]:
    """Return the results that the model read, in the order of the calls, and the run."""
    bench = Bench(Agent("helper", model="m", tools=[made]), [*script, say("done")])
    run = await bench.go()
    assert run.status is Status.SUCCESS
    return seen(bench.model.prompts[-1]), run


AGAIN = "no such city; use the IATA code"


async def test_a_retry_is_the_calls_result_and_an_error() -> None:
    told, run = await go(weather(), call("weather", city="Munich"), call("weather", city="MUC"))
    assert told == [AGAIN, "rain"]
    results = [m.content[0] for m in run.messages if m.role == "tool"]
    assert [(r.result, r.is_error) for r in results] == [(AGAIN, True), ("rain", False)]  # type: ignore[union-attr]


async def test_a_tool_asks_again_as_often_as_its_retries_allow() -> None:
    told, _ = await go(weather(retries=2), *[call("weather", city="x")] * 4)
    assert told[:2] == [AGAIN, AGAIN]
    assert told[2] == told[3] == f"RetriesUsedUp: weather failed after 2 retries: {AGAIN}"


async def test_calls_of_one_step_count_together() -> None:
    step = calls(*[call("weather", city="x")] * 3)
    told, _ = await go(weather(retries=1), step)
    assert sorted(text.startswith("RetriesUsedUp") for text in told) == [False, True, True]


async def test_a_tool_without_retries_left_still_answers_what_it_can() -> None:
    told, _ = await go(weather(retries=0), call("weather", city="x"), call("weather", city="MUC"))
    assert told == [f"RetriesUsedUp: weather failed after 0 retries: {AGAIN}", "rain"]


async def test_a_tool_is_called_as_often_as_it_may_and_no_more() -> None:
    done: list[int] = []

    @tool(max_calls=2)
    def count(n: int) -> int:
        """Count."""
        done.append(n)
        return n

    told, _ = await go(count, call("count", n=1), calls(call("count", n=2), call("count", n=3)))
    assert done == [1, 2]
    assert told[-1] == "MaxCallsReached: count may be called 2 times in a run"


async def test_what_another_process_counted_before_counts() -> None:
    class Dying(ScriptedModel):
        """The process dies with the model's third answer."""

    bench = Bench(
        Agent("helper", model="m", tools=[weather(retries=1, max_calls=2)]),
        Dying([*[call("weather", city="x")] * 3, say("done")]),
    )
    run_id = await bench.start()
    bench.power.cut_at = bench.power.calls + 12
    assert await bench.drive(run_id) == "over"
    assert bench.power.cuts == 1
    told = seen(bench.model.prompts[-1])
    assert [text.partition(":")[0] for text in told] == [
        "no such city; use the IATA code",
        "RetriesUsedUp",
        "MaxCallsReached",
    ]


@pytest.mark.parametrize("options", [{"retries": -1}, {"max_calls": 0}, {"max_calls": 1.5}])
def test_senseless_counts_are_definition_errors(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        weather(**options)


async def test_a_tool_learns_the_time_and_its_threads_metadata() -> None:
    found: list[Any] = []

    @tool
    def look(ctx: ToolContext) -> str:
        """Look."""
        found.append((ctx.now, dict(ctx.metadata)))
        return "seen"

    bench = Bench(Agent("helper", model="m", tools=[look]), [call("look"), say("done")])
    run_id = await bench.start()
    await bench.plain.journal.heads.edit("ann", "t1", metadata={"plan": "pro"})
    await bench.drive(run_id)
    assert found == [(bench.clock.now(), {"plan": "pro"})]
