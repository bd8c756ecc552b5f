"""Replies that were asked for again cost what they cost: they count in the run's usage."""

from datetime import date
from decimal import Decimal

import pytest

from layover import Agent, Limits, tool
from layover.inmemory.model import call, say
from layover.values.prompt import Reply
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import Status
from layover.values.runs.usage import Usage
from support.examples import share
from support.worlds.runs import ANN, Bench, Power

NOTHING = say("", usage=Usage(input_tokens=100, output_tokens=1, cost_usd=Decimal("0.1")))
HELLO = say("Hello", usage=Usage(input_tokens=10, output_tokens=2, cost_usd=Decimal("0.02")))


def said(reply: Reply, model: str) -> Reply:
    return reply.model_copy(update={"model": model})


@tool
async def look(what: str) -> str:
    """Look something up."""
    return what


def agent(**options: object) -> Agent:
    return Agent("helper", **{"model": "m", "tools": [look], **options})  # type: ignore[arg-type]


async def rows(bench: Bench) -> dict[tuple[str, str], int]:
    days = await bench.plain.memory.usage_by_day(ANN, None, None, None, 100)
    assert all(isinstance(row.day, date) for row in days)
    return {(row.agent, row.model): row.input_tokens for row in days if row.kind == "run"}


async def test_unused_replies_of_a_step_count() -> None:
    bench = Bench(agent(), [said(NOTHING, "m"), said(NOTHING, "m"), said(HELLO, "m")])
    run = await bench.go()
    assert (run.usage.input_tokens, run.usage.output_tokens) == (210, 4)
    assert run.usage.cost_usd == Decimal("0.22")
    assert await rows(bench) == {("helper", "m"): 210}


async def test_unused_replies_of_a_run_that_fails_count() -> None:
    bench = Bench(agent(), [said(NOTHING, "m")] * 3)
    run = await bench.go()
    assert run.status is Status.FAILED
    assert run.usage.total_tokens == 303
    (finish,) = [e for e in await bench.events(run.id) if e.type == "finish"]
    assert finish.usage == run.usage
    assert await rows(bench) == {("helper", "m"): 300}


async def test_unused_replies_are_of_the_model_that_gave_them() -> None:
    bench = Bench(agent(model=["a", "b"]), [said(NOTHING, "a")] * 3 + [said(HELLO, "b")])
    run = await bench.go()
    assert run.text == "Hello"
    assert run.usage.input_tokens == 310
    assert await rows(bench) == {("helper", "a"): 300, ("helper", "b"): 10}


async def test_replies_without_a_forced_call_count() -> None:
    bench = Bench(agent(model_settings=ModelSettings(tool_choice="required")), [HELLO, HELLO])
    run = await bench.go()
    assert (run.status, run.usage.input_tokens) == (Status.FAILED, 20)


async def test_unused_replies_use_up_a_runs_limits() -> None:
    limited = agent(limits=Limits(tokens=150, on_reached="fail"))
    look_up = call("look", what="x").model_copy(update={"usage": Usage(input_tokens=60)})
    run = await Bench(limited, [NOTHING, look_up, HELLO]).go()
    assert run.error is not None
    assert run.error.type == "LimitReached"


async def test_unused_replies_of_a_sub_agent_count_for_it_and_for_its_run() -> None:
    scout = Agent("scout", model="m", instructions="You scout.")
    bench = Bench(
        Agent("boss", model="m", tools=[scout.as_tool("Scouts.")]),
        [call("scout", input="go"), *[said(NOTHING, "m")] * 3, HELLO],
    )
    run = await bench.go()
    assert run.status is Status.SUCCESS
    assert [child.usage.input_tokens for child in run.children] == [300]
    assert run.usage.input_tokens == 320
    assert (await rows(bench))["scout", "m"] == 300


async def test_reply_without_a_count_leaves_no_record() -> None:
    bench = Bench(agent(), [say("", usage=Usage()), HELLO])
    run = await bench.go()
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    assert snapshot.calls == ()


async def test_model_that_names_a_call_like_the_record_adds_nothing() -> None:
    fake = call("layover.replies", usage={"input_tokens": 7_000})
    run = await Bench(agent(), [fake, HELLO]).go()
    assert run.usage.input_tokens == 20


async def test_unused_replies_count_once_whatever_dies() -> None:
    def bench(power: Power) -> Bench:
        script = [said(NOTHING, "m"), *[said(HELLO, "m")] * 9]
        return Bench(agent(), script, power=power)

    whole = bench(Power())
    await whole.go()
    for point in range(1, whole.power.calls + 1, share(5)):
        for after in (False, True):
            mortal = bench(Power(point, after=after))
            run = await mortal.go()
            # The reply that a death took with it is lost: nobody counted it.
            assert run.usage.input_tokens in (10, 110), (point, after)
            assert run.status is Status.SUCCESS


@pytest.mark.parametrize("stream", [False, True])
async def test_step_that_never_gets_an_answer_leaves_few_records(stream: bool) -> None:
    models = [f"m{n}" for n in range(6)]
    bench = Bench(agent(model=models), [NOTHING] * 18)
    run = await bench.go(stream=stream)
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    assert len(snapshot.calls) == 9
