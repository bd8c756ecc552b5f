"""Each end of a run is told: on the bus, by whoever is there to tell it, and in one line of the log."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Memory
from layover.errors import RetryableError
from layover.inmemory.model import call, fail, say
from layover.recovery.sweep import sweep
from layover.runs.cancel import cancel
from layover.values.decision import RUN_FINISHED
from layover.values.runs.run import OnBusy, Status
from support.worlds.runs import ANN, Bench, Ledger
from support.worlds.write_units import CountingTable

REFUSED = fail("Incorrect API key provided: sk-proj-123456", status=401)


def bench_of(*script: Any, **options: Any) -> Bench:
    # Memory has no work after such runs.
    agent = Agent("helper", model="m", memory=Memory(titles=False))
    return Bench(agent, script, **options)


def told(bench: Bench) -> list[Mapping[str, Any]]:
    """The ends that the bus knows of."""
    return [detail for kind, detail in bench.callbacks.events if kind == RUN_FINISHED]


def stop_bus(bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def publish(detail_type: str, detail: Mapping[str, Any]) -> None:
        raise error

    monkeypatch.setattr(bench.callbacks, "publish", publish)


async def look(bench: Bench) -> None:
    """The sweeper looks at what is due within two minutes."""
    bench.clock.advance(timedelta(minutes=2))
    await sweep(bench.plain)


async def test_bus_that_is_away_is_told_by_the_execution_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = bench_of(say("hi"))
    run_id = await bench.start()
    with monkeypatch.context() as away:
        stop_bus(bench, away, RetryableError("the bus is away"))
        assert (await bench.turn(run_id))["next"] == "pause"
    assert (await bench.run(run_id)).status is Status.SUCCESS
    assert (await bench.turn(run_id))["next"] == "done"
    assert [each["run_id"] for each in told(bench)] == [run_id]


async def test_process_that_dies_behind_the_end_is_followed_by_one_that_tells_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = bench_of(say("hi"))
    run_id = await bench.start()
    with monkeypatch.context() as dead:
        stop_bus(bench, dead, MemoryError())
        with pytest.raises(MemoryError):
            await bench.turn(run_id)
    assert (await bench.turn(run_id))["next"] == "done"
    assert [each["status"] for each in told(bench)] == ["success"]


async def test_failure_whose_execution_died_behind_the_end_is_told_by_the_sweeper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = bench_of(REFUSED)
    run_id = await bench.start()
    with monkeypatch.context() as dead:
        stop_bus(bench, dead, MemoryError())
        with pytest.raises(MemoryError):
            await bench.turn(run_id)
    await look(bench)
    assert [each["error_type"] for each in told(bench)] == ["AuthenticationError"]


async def test_run_that_is_cancelled_while_it_waits_is_told_once() -> None:
    bench = Ledger().bench(call("pay", amount=5, tool_call_id="c1"), say("paid"))
    run = await bench.go()
    assert run.status is Status.SUSPENDED
    await cancel(bench.plain, ANN, run.id)
    for _ in range(3):
        await look(bench)
    assert [each["status"] for each in told(bench)] == ["cancelled"]


async def test_run_that_is_cancelled_in_the_queue_is_told() -> None:
    bench = bench_of(say("hi"))
    await bench.start()
    run_id = await bench.start("more", on_busy=OnBusy.ENQUEUE)
    await cancel(bench.plain, ANN, run_id)
    for _ in range(3):
        await look(bench)
    ends = [each for each in told(bench) if each["run_id"] == run_id]
    assert [each["status"] for each in ends] == ["cancelled"]


async def test_end_that_is_told_has_ids_and_kinds_only() -> None:
    bench = bench_of(REFUSED)
    run = await bench.go()
    assert told(bench) == [
        {
            "run_id": run.id,
            "thread_id": run.thread_id,
            "owner": ANN,
            "agent": "helper",
            "status": "failed",
            "finish_reason": "error",
            "error_type": "AuthenticationError",
        }
    ]


async def test_success_is_told_without_a_write() -> None:
    table = CountingTable()
    bench = bench_of(say("hi"), table=table)
    run_id = await bench.start()
    await bench.turn(run_id)
    spent = table.total
    assert [each["status"] for each in told(bench)] == ["success"]
    # Retired with its end: nobody comes back to it.
    await look(bench)
    assert table.total == spent
    assert len(told(bench)) == 1


async def test_failure_is_retired_once_it_is_told() -> None:
    bench = bench_of(REFUSED)
    run = await bench.go()
    assert not (await bench.meta(run.id)).untold
    await look(bench)
    assert len(told(bench)) == 1


async def test_line_of_a_failure_names_the_request_and_no_word_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "layover"):
        run = await bench_of(REFUSED).go("my card is 4111")
    (line,) = [each for each in caplog.records if each.message == "a run ended"]
    facts = vars(line)
    assert (line.levelno, facts["run_id"], facts["agent"]) == (logging.WARNING, run.id, "helper")
    assert (facts["status"], facts["error_type"]) == ("failed", "AuthenticationError")
    assert (facts["model"], facts["provider_status"]) == ("m", 401)
    assert "provider_request_id" in facts
    assert not any(word in str(facts) for word in ("Incorrect", "sk-proj", "4111"))


async def test_line_of_a_success_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "layover"):
        await bench_of(say("hi")).go()
    (line,) = [each for each in caplog.records if each.message == "a run ended"]
    assert (line.levelno, vars(line)["finish_reason"]) == (logging.INFO, "stop")
