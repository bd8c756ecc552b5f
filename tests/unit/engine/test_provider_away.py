"""Runs whose model's provider is away: they pause without a process, and go on by themselves."""

from datetime import timedelta
from itertools import accumulate
from typing import Any

import pytest

from layover import Agent, Limits, tool
from layover.errors import ModelError
from layover.inmemory.model import ScriptedModel, call, calls, fail, say
from layover.runs.cancel import cancel
from layover.values.metrics import PAUSE_LINE
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench, types

HOUR = timedelta(hours=1)
PAUSES = [15, 30, 60, 120, 240, 300, 300]


def away(**more: Any) -> ModelError:
    """The error of a provider that may come back."""
    return fail("overloaded", status=503, passes=True, **more)


def bench_of(script: Any, *tools: Any, **options: Any) -> Bench:
    return Bench(Agent("helper", model="openai/small", tools=list(tools), **options), script)


async def pause(bench: Bench, run_id: str) -> int:
    """One turn that ends with a pause, which is over then. Its seconds."""
    answer = await bench.turn(run_id)
    assert (answer["status"], answer["next"]) == ("away", "away")
    bench.clock.advance(timedelta(seconds=answer["pause_s"]))
    return int(answer["pause_s"])


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
async def test_a_fault_that_does_not_pass_fails_the_run_at_once(status: int) -> None:
    bench = bench_of([fail(status=status)])
    run = await bench.go()
    assert run.status is Status.FAILED
    assert "model-waiting" not in types(await bench.events(run.id))


async def test_a_run_without_patience_fails_with_the_providers_error() -> None:
    bench = bench_of([away()], limits=Limits(provider_patience=timedelta(0)))
    run = await bench.go()
    assert run.error is not None
    assert run.error.type == "InternalServerError"


async def test_a_wait_that_outlasts_the_patience_is_not_begun() -> None:
    error = away()
    error.retry_after = 4_000
    run = await bench_of([error]).go()
    assert run.error is not None
    assert run.error.type == "InternalServerError"


async def test_after_its_patience_the_run_fails_because_the_provider_is_away() -> None:
    bench = bench_of(ScriptedModel(lambda _: away()))
    run_id = await bench.start()
    waited = 0
    while (answer := await bench.turn(run_id))["status"] == "away":
        bench.clock.advance(timedelta(seconds=answer["pause_s"]))
        waited += answer["pause_s"]
    run = await bench.run(run_id)
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "ProviderAway"
    assert HOUR.total_seconds() <= waited < HOUR.total_seconds() + 1
    assert types(await bench.events(run_id))[-2:] == ["error", "finish"]


async def test_operators_are_told_which_of_its_models_was_away() -> None:
    def answer(prompt: Prompt) -> ModelError:
        return away() if prompt.model == "openai/small" else fail("no such model", status=404)

    agent = Agent("helper", model=["openai/small", "deepseek/large"])
    bench = Bench(agent, ScriptedModel(answer))
    run_id = await bench.start()
    while (answered := await bench.turn(run_id))["status"] == "away":
        bench.clock.advance(timedelta(seconds=answered["pause_s"]))
    detail = (await bench.meta(run_id)).error_detail
    assert detail is not None
    assert (detail.provider, detail.model, detail.status) == ("openai", "openai/small", 503)
    assert "openai has been away for 1:00:00: overloaded" in detail.message


async def test_a_run_pauses_and_goes_on_as_if_nothing_had_been() -> None:
    bench = bench_of([away(), away(), say("Hello.")])
    run_id = await bench.start()
    first = await pause(bench, run_id)
    waiting = await bench.run(run_id)
    assert waiting.status is Status.RUNNING
    assert waiting.waiting_for is not None
    assert waiting.waiting_for.provider == "openai"
    assert waiting.waiting_for.error == "InternalServerError"
    second = await pause(bench, run_id)
    assert first < second
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert (run.status, run.text, run.waiting_for) == (Status.SUCCESS, "Hello.", None)
    told = [e for e in await bench.events(run_id) if e.type == "model-waiting"]
    assert [e.attempt for e in told] == [1, 2]


async def test_a_run_that_comes_from_a_pause_asks_once_until_a_step_is_journaled() -> None:
    """No process waits for a provider that is still away."""

    @tool
    def look() -> str:
        """Look."""
        return "clear"

    model = ScriptedModel([away(), away(), call("look"), say("Hello.")])
    bench = bench_of(model, look)
    run_id = await bench.start()
    await pause(bench, run_id)
    await pause(bench, run_id)
    assert await bench.drive(run_id) == "over"
    assert [prompt.asks_again for prompt in model.prompts] == [True, False, False, True]


async def test_pauses_double_up_to_five_minutes() -> None:
    bench = bench_of(ScriptedModel(lambda _: away()))
    run_id = await bench.start()
    pauses = [await pause(bench, run_id) for _ in PAUSES]
    pairs = zip(pauses, PAUSES, strict=True)
    assert all(0.75 * s <= found <= 1.25 * s + 1 for found, s in pairs), pauses


async def test_each_pause_logs_how_long_the_run_will_have_waited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The alarm on providers that are away is made of it."""
    bench = bench_of([away()] * 4)
    run_id = await bench.start()
    pauses = [await pause(bench, run_id) for _ in range(4)]
    lines = [vars(each) for each in caplog.records if each.message == PAUSE_LINE]
    assert [each["wait_s"] for each in lines] == list(accumulate(pauses))
    assert {(each["provider"], each["cause"]) for each in lines} == {
        ("openai", "InternalServerError")
    }
    assert {each["run_id"] for each in lines} == {run_id}


async def test_a_wait_that_the_provider_names_is_kept() -> None:
    error = away()
    error.retry_after = 600
    bench = bench_of([error, say("Hello.")])
    assert await pause(bench, await bench.start()) == 600


async def test_a_step_begins_the_patience_anew() -> None:
    @tool
    def look(n: int) -> int:
        """Look."""
        return n

    bench = bench_of([away(), call("look", n=1), away(), say("Hello.")], look)
    run_id = await bench.start()
    await pause(bench, run_id)
    await pause(bench, run_id)
    meta = await bench.meta(run_id)
    assert meta.away is not None
    assert meta.away.attempt == 1


async def test_a_pause_uses_up_no_attempt() -> None:
    bench = bench_of(ScriptedModel(lambda _: away()))
    run_id = await bench.start()
    for _ in range(7):
        await pause(bench, run_id)
    assert (await bench.meta(run_id)).attempts == 0


async def test_a_cancel_ends_the_pause_at_once() -> None:
    bench = bench_of([away()])
    run_id = await bench.start()
    await bench.turn(run_id)
    await cancel(bench.plain, ANN, run_id)
    assert (await bench.run(run_id)).status is Status.CANCELLED
    assert (await bench.turn(run_id))["next"] == "done"
    assert (await bench.head()).active_run is None


async def test_the_other_models_are_asked_before_the_run_pauses() -> None:
    def answer(prompt: Prompt) -> Any:
        return away() if "small" in prompt.model else fail("bad key", status=401)

    agent = Agent("helper", model=["openai/small", "deepseek/large"])
    bench = Bench(agent, ScriptedModel(answer))
    await pause(bench, run_id := await bench.start())
    run = await bench.run(run_id)
    assert run.waiting_for is not None
    assert run.waiting_for.provider == "openai"
    assert len(bench.model.prompts) == 2


async def test_a_sub_agents_pause_is_the_whole_runs() -> None:
    helper = Agent("inner", model="mistral/small")
    script = [call("inner", input="go"), away(), say("Found."), say("Done.")]
    bench = bench_of(script, helper.as_tool("Helps."))
    run_id = await bench.start()
    await pause(bench, run_id)
    run = await bench.run(run_id)
    assert run.waiting_for is not None
    assert run.waiting_for.provider == "mistral"
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).text == "Done."


async def test_a_background_sub_agents_pause_does_not_spin() -> None:
    helper = Agent("inner", model="mistral/small")

    def answer(prompt: Prompt) -> Any:
        if "mistral" in prompt.model:
            return next(inner)
        return next(outer)

    inner = iter([away(), say("Found.")])
    outer = iter([call("inner", input="go"), say("I wait."), say("Done.")])
    tools = helper.as_tool("Helps.", background=True)
    bench = bench_of(ScriptedModel(answer), tools)
    run_id = await bench.start()
    await pause(bench, run_id)
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).text == "Done."


async def test_a_call_that_waits_stays_while_a_sub_agent_pauses() -> None:
    @tool(needs_approval=True)
    def refund(n: int) -> str:
        """Pay money back."""
        return "paid"

    helper = Agent("inner", model="mistral/small")
    both = calls(call("inner", input="go"), call("refund", tool_call_id="r", n=1))
    script = [both, away(), say("Found."), say("Done.")]
    bench = bench_of(script, helper.as_tool("Helps."), refund, tool_concurrency=2)
    run_id = await bench.start()
    await pause(bench, run_id)
    assert (await bench.run(run_id)).status is Status.SUSPENDED
    await bench.decide(run_id, "r", "approve")
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).text == "Done."
