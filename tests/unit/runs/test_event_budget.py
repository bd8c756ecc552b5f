"""An execution's history has a limit: before it comes a successor goes on, whatever spent the events."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from layover import Agent
from layover.engine.time_left import NoDeadline
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.ports.allowance import NoAllowance
from layover.recovery.sweep import sweep
from layover.runs.executions import BRANCH_EVENTS, PAUSE_EVENTS, SETTLE_EVENTS
from layover.runs.turn import turn
from layover.values.deployment.settings import Settings
from layover.values.runs.payload import RunPayload
from layover.values.runs.run import MAX_ATTEMPTS, TURN_EVENTS, Status
from support.worlds.runs import ANN, Bench, Ledger, suspended

FAULT = {"Error": "Lambda.ResourceNotReadyException", "Cause": ""}


class Stopped(NoAllowance):
    """The operator stopped everything."""

    async def stopped(self) -> bool:
        return True


def bench_of(max_history: int, *script: Any) -> Bench:
    """An agent with things to wait for, whose executions have so long a history."""
    ledger = Ledger()
    agent = Agent("helper", model="m", tools=[ledger.pay, ledger.look], tool_concurrency=40)
    return Bench(agent, ScriptedModel(script), settings=Settings(max_history=max_history))


def executions(bench: Bench) -> list[int]:
    return [n for _, _, n in bench.callbacks.started]


async def test_a_run_that_is_paused_for_very_long_goes_on_in_a_fresh_execution() -> None:
    bench = bench_of(10 * PAUSE_EVENTS, say("done"))
    run_id = await bench.start()
    bench.runtime = replace(bench.runtime, allowance=Stopped())
    answers = [(await bench.turn(run_id))["status"] for _ in range(12)]
    assert answers == ["paused"] * 10 + ["left", "paused"]
    assert executions(bench) == [1, 2]
    assert (await bench.meta(run_id)).history == 0


async def test_a_turn_that_never_begins_goes_on_in_a_fresh_execution() -> None:
    """Its function cannot be loaded: no attempt is counted."""
    bench = bench_of(10 * SETTLE_EVENTS, say("done"))
    run_id = await bench.start()
    answers = [await bench.settle(run_id, Error="Runtime.ImportModuleError") for _ in range(11)]
    assert answers == ["again"] * 10 + ["left"]
    assert executions(bench) == [1, 2]


async def test_forty_calls_that_wait_at_every_step_go_on_in_fresh_executions() -> None:
    """Each step's decisions are settled by branches, and the next forty calls wait."""
    steps, each = 3, 40
    script = [calls(*(call("pay", amount=n) for n in range(each))) for _ in range(steps)]
    limit = each * BRANCH_EVENTS + 2 * TURN_EVENTS
    bench = bench_of(limit, *script, say("done"))
    run_id, n = await bench.start(), 1
    for _ in range(3 * steps):
        answer = await driven(bench, run_id, n)
        spent = (await bench.meta(run_id)).history
        if answer == "over":
            break
        if answer == "left":
            assert spent == 0
            n += 1
            continue
        assert answer == "suspended"
        assert spent <= limit
        for pending in (await bench.run(run_id)).pending:
            await bench.decide(run_id, pending.tool_call_id, "approve")
    assert (await bench.run(run_id)).status is Status.SUCCESS
    assert executions(bench) == [1, 2, 3]


async def driven(bench: Bench, run_id: str, n: int) -> str:
    """A turn of the run's n-th execution."""
    payload = RunPayload(owner=ANN, run_id=run_id, execution=f"{run_id}-{n}")
    return str((await turn(bench.runtime, payload, NoDeadline()))["status"])


async def test_a_branch_that_waits_again_and_again_goes_on_in_a_fresh_execution() -> None:
    bench = bench_of(5 * BRANCH_EVENTS, call("pay", amount=1), say("done"))
    run = await suspended(bench)
    while (await bench.meta(run.id)).history <= 5 * BRANCH_EVENTS:
        await bench.wait(run.id, "call_1")
        assert (await bench.branch(run.id, "call_1", FAULT)).status == "waiting"
    assert await sweep(bench.plain) == {"succeeded": 1}
    assert (executions(bench), bench.callbacks.stopped) == ([1, 2], [f"{run.id}-1"])
    assert await driven(bench, run.id, 2) == "suspended"
    assert (await bench.call(run.id, "call_1")).undecided


async def test_a_run_that_waits_is_not_given_up_however_often_its_executions_end() -> None:
    bench = bench_of(20_000, call("pay", amount=1), say("done"))
    run = await suspended(bench)
    for _ in range(2 * MAX_ATTEMPTS):
        assert await bench.settle(run.id, Error="States.DataLimitExceeded") == "again"
        assert await driven(bench, run.id, 1) == "suspended"
    for n in range(1, 2 * MAX_ATTEMPTS):
        bench.callbacks.stopped.append(f"{run.id}-{n}")
        looks: list[str] = []
        for _ in range(2):
            bench.clock.advance(timedelta(hours=1))
            looks += await sweep(bench.plain)
        assert looks == ["lost", "succeeded"]
        assert await driven(bench, run.id, n + 1) == "suspended"
    assert (await bench.run(run.id)).status is Status.SUSPENDED
