"""Nothing of a run that is not over expires, whatever happens to it; what is over does, by itself."""

from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Memory
from layover.errors import RetryableError
from layover.inmemory.model import call, say
from layover.keys import META, Keys, event_key
from layover.recovery.sweep import sweep
from layover.values.runs.event import TextDelta
from layover.values.runs.run import RECORDS_KEPT_AFTER, RECORDS_SLACK, Status
from support.worlds.runs import ANN, Bench, Crash, Ledger, answers

RETENTION = timedelta(days=30)
MINUTE = timedelta(minutes=1)


def payer() -> Bench:
    """One payment that waits."""
    tools: list[Any] = [Ledger().pay]
    agent = Agent("helper", model="m", tools=tools, memory=Memory(titles=False))
    return Bench(agent, answers(call("pay", amount=5, tool_call_id="c1"), say("paid")))


async def records(bench: Bench, run_id: str) -> dict[str, Any]:
    items = await bench.table.query(Keys(ANN).run(run_id), " ", "~")
    return {item["sk"]: item for item in items}


async def expiring(bench: Bench, run_id: str) -> set[str]:
    return {sk for sk, i in (await records(bench, run_id)).items() if "expires" in i}


async def test_a_run_that_ends_at_once_needs_no_further_look() -> None:
    agent = Agent("helper", model="m", memory=Memory(titles=False))
    bench = Bench(agent, [say("hi")])
    run_id = (await bench.go("x" * 400)).id
    exact = int((bench.clock.now() + RETENTION).timestamp())
    items = await records(bench, run_id)
    assert items[META]["expires"] == exact
    latest = exact + RECORDS_SLACK.total_seconds()
    assert all(exact <= item["expires"] <= latest for item in items.values())
    bench.clock.advance(RETENTION)
    assert await sweep(bench.plain) == {}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_no_record_of_a_run_that_waits_expires_wherever_its_process_died(after: bool) -> None:
    deaths = 0
    for cut_at in range(1, 100):
        bench = payer()
        bench.power.cut_at, bench.power.after = cut_at, after
        run_id = (await bench.go("x" * 400)).id
        assert (await bench.meta(run_id)).shown_status is Status.SUSPENDED
        assert await expiring(bench, run_id) == set()
        if not bench.power.cuts:
            break
        deaths += 1
        bench.clock.advance(MINUTE)
        assert await bench.wait(run_id, "c1") == "waiting"
        assert await bench.answer(run_id, "c1", "approve") == "over"
        items = await records(bench, run_id)
        assert all("expires" in item for item in items.values())
        assert not items[META].get("gsi2pk", "").startswith("WATCH#")
    assert deaths > 6


async def test_records_of_a_run_that_nobody_drives_are_kept_by_the_sweeper() -> None:
    bench = Bench(Agent("helper", model="m"), [say("hi")])
    run_id = await bench.start("x" * 400)
    bench.power.cut_at = 3
    with pytest.raises(Crash):
        await bench.turn(run_id)
    assert await expiring(bench, run_id)
    bench.clock.advance(RECORDS_KEPT_AFTER)
    await sweep(bench.plain)
    assert await expiring(bench, run_id) == set()


async def test_what_a_late_writer_left_is_kept_as_well_when_none_is_left() -> None:
    bench = payer()
    run_id = (await bench.go()).id
    assert await bench.wait(run_id, "c1") == "waiting"
    item = next(i for sk, i in (await records(bench, run_id)).items() if sk.startswith("EVENT"))
    bench.table._items[item["pk"], item["sk"]]["expires"] = 1
    bench.clock.advance(RECORDS_SLACK)
    await sweep(bench.plain)
    assert await expiring(bench, run_id) == set()
    assert (await bench.meta(run_id)).records_expire_at is None


async def test_a_run_that_is_tried_for_long_keeps_its_records() -> None:
    bench = Bench(Agent("helper", model="m"), [say("hi"), say("hi"), say("hi")])
    run_id = await bench.start("x" * 400)
    bench.threads.away = True
    with pytest.raises(RetryableError):
        await bench.turn(run_id)
    bench.clock.advance(RECORDS_KEPT_AFTER)
    with pytest.raises(RetryableError):
        await bench.turn(run_id)
    assert await expiring(bench, run_id) == set()
    bench.clock.advance(RETENTION * 2)
    bench.threads.away = False
    assert (await bench.turn(run_id))["status"] == "over"
    assert (await bench.run(run_id)).status is Status.SUCCESS


async def test_a_run_whose_records_are_gone_does_not_go_on() -> None:
    """The run stood still for a month: its work is not known any more, and must not be done again."""
    bench = payer()
    run_id = await bench.start()
    log = await bench.plain.journal.writers.acquire(ANN, run_id, f"{run_id}-1")
    assert log is not None
    for text in ("a", "b"):
        log.emit(TextDelta(at=bench.clock.now(), step=1, text=text))
        await log.flush()
    del bench.table._items[Keys(ANN).run(run_id), event_key(1)]
    bench.clock.advance(RETENTION + RECORDS_SLACK)
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert run.error is not None
    assert (run.status, run.error.type) == (Status.FAILED, "RecordsExpired")
