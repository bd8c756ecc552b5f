"""Branches of a run that waits: a call that its branch has left does not wait for the other ones."""

from dataclasses import replace
from datetime import timedelta

import pytest

from layover import Agent
from layover.errors import RetryableError
from layover.inmemory.callbacks import InMemoryCallbacks
from layover.inmemory.metrics import InMemoryMetrics
from layover.inmemory.model import call, calls, say
from layover.ports.allowance import NoAllowance
from layover.recovery.redrive import PAUSE, redrive
from layover.recovery.sweep import sweep
from layover.values.metrics import Metric
from layover.values.runs.run import CallState, Status
from support.worlds.runs import ANN, Bench, Ledger, suspended

GRACE = timedelta(seconds=121)


class Deaf(InMemoryCallbacks):
    """EventBridge takes nothing."""

    async def publish(self, detail_type: str, detail: object) -> None:
        raise RetryableError("PutEvents failed")


class Stopped(NoAllowance):
    """The operator stopped everything."""

    async def stopped(self) -> bool:
        return True


async def two_wait() -> tuple[Bench, str]:
    """`c1` and `c2` wait, each on its token."""
    ledger = Ledger()
    asked = calls(
        call("pay", amount=1, tool_call_id="c1"), call("book", day="mon", tool_call_id="c2")
    )
    bench = ledger.bench(asked, say("done"))
    run = await suspended(bench)
    for each in ("c1", "c2"):
        assert await bench.wait(run.id, each, f"token-{each}") == "waiting"
    return bench, run.id


async def swept(bench: Bench, after: timedelta) -> dict[str, int]:
    """Sweep after this time, and return the counts."""
    bench.clock.advance(after)
    return await sweep(bench.plain)


async def test_a_decided_call_that_nobody_listens_for_gets_an_execution_of_its_own() -> None:
    bench, run_id = await two_wait()
    await bench.decide(run_id, "c1", "approve")
    bench.callbacks.closed = {"token-c1"}
    assert await swept(bench, timedelta(0)) == {"driven": 1}
    assert await swept(bench, GRACE) == {"succeeded": 1}
    assert bench.callbacks.stopped == [f"{run_id}-1"]
    assert bench.callbacks.started[-1] == (ANN, run_id, 2)


async def test_a_decided_call_that_somebody_listens_for_is_left_to_its_branch() -> None:
    bench, run_id = await two_wait()
    await bench.decide(run_id, "c1", "approve")
    for _ in range(5):
        assert await swept(bench, GRACE) == {"driven": 1}
    assert bench.callbacks.stopped == []


async def test_a_call_that_expired_unheard_gets_an_execution_of_its_own() -> None:
    bench, run_id = await two_wait()
    assert await swept(bench, timedelta(minutes=1)) == {"driven": 1}
    assert await swept(bench, timedelta(minutes=59)) == {}
    assert await swept(bench, GRACE) == {"succeeded": 1}
    assert bench.callbacks.stopped == [f"{run_id}-1"]


async def test_a_call_of_a_sub_agent_that_nobody_listens_for_gets_an_execution_of_its_own() -> None:
    ledger = Ledger()
    desk = Agent("desk", tools=[ledger.pay])
    script = [
        call("desk", input="pay", tool_call_id="d1"),
        call("pay", amount=1, tool_call_id="c1"),
    ]
    bench = Bench(Agent("top", tools=[desk.as_tool("Pays.")]), script)
    run = await suspended(bench)
    assert await swept(bench, timedelta(minutes=1)) == {"driven": 1}
    assert await swept(bench, GRACE) == {"succeeded": 1}
    assert bench.callbacks.started[-1] == (ANN, run.id, 2)


async def test_a_call_that_never_got_a_token_gets_an_execution_of_its_own() -> None:
    ledger = Ledger()
    bench = ledger.bench(call("book", day="mon", tool_call_id="c1"), say("done"))
    run = await suspended(bench)
    assert await swept(bench, timedelta(minutes=1)) == {"driven": 1}
    assert await swept(bench, GRACE) == {"succeeded": 1}
    assert bench.callbacks.started[-1] == (ANN, run.id, 2)


async def test_no_call_is_rescued_while_another_one_of_its_run_is_being_made() -> None:
    bench, run_id = await two_wait()
    await bench.decide(run_id, "c1", "approve")
    await bench.decide(run_id, "c2", "resume", data={"slot": "mon-1"})
    bench.callbacks.closed = {"token-c2"}
    log = await bench.plain.journal.writers.attach(ANN, run_id, f"{run_id}-1")
    assert log is not None
    await log.open_calls([await bench.call(run_id, "c1")])
    assert (await bench.call(run_id, "c1")).state is CallState.OPEN
    assert await swept(bench, GRACE) == {"driven": 1}
    assert bench.callbacks.stopped == []


async def test_the_only_call_is_not_taken_from_a_turn_that_took_the_run_since() -> None:
    ledger = Ledger()
    bench = ledger.bench(call("pay", amount=1, tool_call_id="c1"), say("done"))
    run_id = (await suspended(bench)).id
    await bench.wait(run_id, "c1", "token-c1")
    await bench.decide(run_id, "c1", "approve")
    bench.callbacks.closed = {"token-c1"}
    bench.clock.advance(GRACE - timedelta(seconds=30))
    assert await bench.plain.journal.writers.acquire(ANN, run_id, f"{run_id}-1") is not None
    # Its execution lives, and repeats a turn that died.
    for after in (timedelta(seconds=60), GRACE, GRACE):
        assert await swept(bench, after) == {"driven": 1}
    assert bench.callbacks.stopped == []


async def test_no_call_is_rescued_while_everything_is_stopped() -> None:
    bench, run_id = await two_wait()
    await bench.decide(run_id, "c1", "approve")
    bench.callbacks.closed = {"token-c1"}
    bench.plain = replace(bench.plain, allowance=Stopped())
    assert await swept(bench, GRACE) == {"driven": 1}
    assert bench.callbacks.stopped == []


async def test_an_event_that_could_not_be_published_fails_nothing_and_is_published_later() -> None:
    bench = Ledger().bench(call("pay", amount=1, tool_call_id="c1"), say("done"))
    run = await suspended(bench)
    heard, metrics = bench.runtime.callbacks, InMemoryMetrics()
    bench.runtime = replace(bench.runtime, callbacks=Deaf(), metrics=metrics)
    assert await bench.wait(run.id, "c1", "first") == "waiting"
    assert [c.name for c in metrics.counted] == [Metric.PUBLISH_FAILED]
    bench.runtime = replace(bench.runtime, callbacks=heard)
    assert await swept(bench, timedelta(0)) == {"driven": 1}
    (told,) = bench.published
    assert told["task_token"] == "first"
    await swept(bench, GRACE)
    assert len(bench.published) == 1
    assert bench.callbacks.woken == []


@pytest.mark.parametrize("times", [1, 7])
async def test_a_redriven_run_has_all_its_attempts_and_leaves_no_execution_behind(
    times: int,
) -> None:
    bench, run_id = await two_wait()
    for n in range(1, times + 1):
        await redrive(bench.plain, ANN, run_id)
        assert bench.callbacks.stopped[-1] == f"{run_id}-{n}"
        meta = await bench.meta(run_id)
        assert (meta.execution, meta.attempts) == (f"{run_id}-{n + 1}", 0)
        bench.clock.advance(PAUSE)
    assert (await bench.run(run_id)).status is Status.SUSPENDED
