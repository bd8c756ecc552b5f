"""The watch over runs: work whose process died is finished."""

import asyncio
import sys
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from layover import Agent, Memory, SemanticRecall
from layover.engine.time_left import NoDeadline
from layover.errors import RetryableError
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.embedder import HashingEmbedder
from layover.inmemory.metrics import InMemoryMetrics
from layover.inmemory.model import call, say
from layover.keys import EVENT_PREFIX, META, Keys
from layover.plugins.memory.learns.extract import extract
from layover.ports import DueCheck, RunLog
from layover.records.lifetimes import set_ttl
from layover.recovery.sweep import sweep
from layover.runs.cancel import cancel
from layover.runs.turn import turn
from layover.threads import threads
from layover.values.deployment.environment import Environment
from layover.values.metrics import Metric
from layover.values.page import Page
from layover.values.runs.event import Event, TextDelta
from layover.values.runs.payload import RunPayload
from layover.values.runs.run import Decision, DecisionKind, OnBusy, Status
from layover.values.runs.views import Run
from support.worlds.loops import LoopClock, skipping
from support.worlds.runs import ANN, Bench, Ledger, types, words_of
from support.worlds.write_units import CountingTable

PATIENCE = timedelta(seconds=60)
A_CANCEL = timedelta(seconds=4)
"""Longer than any cancel takes."""


async def waiting(bench: Bench) -> str:
    """A run of which one call waits, on a token."""
    run = await bench.go()
    assert run.status is Status.SUSPENDED
    assert await bench.wait(run.id, "c1") == "waiting"
    return run.id


def payer() -> Bench:
    """One payment that waits; whatever comes after it is answered."""
    return Ledger().bench(call("pay", amount=5, tool_call_id="c1"), say("paid"), say("next"))


class Hindered(InMemoryBlobs):
    """Lists nothing while it is stuck, and fails while it is away."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck = self.away = False

    async def keys(self, prefix: str) -> list[str]:
        if self.stuck:
            await asyncio.Event().wait()
        if self.away:
            raise RetryableError("S3 is away")
        return await super().keys(prefix)


async def deleting(**options: Any) -> tuple[Bench, Hindered]:
    """A deletion of a thread that waits, cut off by the end of its request. `options`: of its `Bench`."""
    blobs, agent = Hindered(), Agent("helper", model="m", tools=[Ledger().pay])
    steps = [call("pay", amount=5, tool_call_id="c1"), say("paid")]
    pays = Bench(agent, steps, blobs=blobs, **options)
    await waiting(pays)
    await pays.plain.blobs.put(Keys(ANN).blob("threads", "t1", "files", "f"), b"", "text/plain")
    blobs.stuck = True
    await threads.delete(pays.plain, ANN, "t1", within=timedelta(0))
    return pays, blobs


def count_looks(bench: Bench, fails_after: int = sys.maxsize) -> list[datetime]:
    """Return the times of the sweeper's requests for what is due, of which those after this many fail."""
    watch = bench.plain.journal.watch
    asks, looks = watch.due, list[datetime]()

    async def due(until: datetime, limit: int, past: Collection[DueCheck] = ()) -> list[DueCheck]:
        looks.append(until)
        if len(looks) > fails_after:
            raise RetryableError("the journal is away")
        return await asks(until, limit, past)

    watch.due = due  # type: ignore[method-assign]
    return looks


async def say_so(bench: Bench, log: RunLog) -> None:
    """A delta that is written at once."""
    log.emit(TextDelta(at=bench.clock.now(), step=1, text="secret"))
    await log.flush()


async def later(bench: Bench, after: timedelta) -> dict[str, int]:
    """Sweep after this time, and return the counts."""
    bench.clock.advance(after)
    return await sweep(bench.plain)


async def ended(bench: Bench, run_id: str) -> tuple[Run, list[str]]:
    """The run and the types of its events; exactly one of them is `finish`."""
    events: list[Event] = await bench.events(run_id)
    assert [e.type for e in events].count("finish") == 1
    return await bench.run(run_id), types(events)


# Cancels and deletions


async def test_a_cancel_whose_caller_died_is_finished() -> None:
    bench = payer()
    run_id = await waiting(bench)
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    assert (await later(bench, A_CANCEL))["cancelled"] == 1
    run, told = await ended(bench, run_id)
    assert run.status is Status.CANCELLED
    assert told[-3:] == ["tool-call-decided", "tool-execution-end", "finish"]
    assert bench.callbacks.stopped == [f"{run_id}-1"]
    assert bench.callbacks.woken == ["token"]
    assert (await bench.head()).active_run is None


async def test_a_cancel_in_progress_is_left_to_its_caller() -> None:
    bench = payer()
    run_id = await waiting(bench)
    await sweep(bench.plain)
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    assert "cancelled" not in await later(bench, timedelta(seconds=2))
    assert (await bench.run(run_id)).status is Status.SUSPENDED


async def test_the_next_run_starts_when_a_half_done_interrupt_is_finished() -> None:
    bench = payer()
    run_id = await waiting(bench)
    next_id = await bench.start("next", on_busy=OnBusy.ENQUEUE)
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    await later(bench, A_CANCEL)
    assert (await bench.run(run_id)).status is Status.CANCELLED
    assert (await bench.head()).active_run == next_id
    assert bench.callbacks.started[-1] == (ANN, next_id, 1)


async def test_a_half_done_deletion_leaves_no_execution_waiting() -> None:
    bench = payer()
    run_id = await waiting(bench)
    await bench.plain.journal.erasure.mark_deleted(ANN, "t1")
    assert (await later(bench, timedelta(0)))["erased"] == 1
    assert bench.callbacks.stopped == [f"{run_id}-1"]
    assert await bench.plain.journal.runs.get(ANN, run_id) is None
    assert await bench.threads.messages(ANN, "t1", "any", 10, None) is None
    assert "erased" not in await later(bench, PATIENCE)


async def test_a_deletion_that_takes_too_long_for_a_request_is_finished() -> None:
    bench, blobs = await deleting()
    assert (await bench.head()).deleted
    blobs.stuck = False
    assert (await later(bench, timedelta(0)))["erased"] == 1
    assert await bench.plain.journal.runs.page_ids(ANN, "t1", 1, None) == Page(items=())
    assert await blobs.keys("u/") == []
    assert await later(bench, PATIENCE) == {}


async def test_a_deletion_that_takes_too_long_for_a_sweep_goes_on_in_the_next() -> None:
    bench, blobs = await deleting()
    for _ in range(3):
        assert (await sweep(bench.plain, erase_until=timedelta(0)))["erasing"] == 1
    blobs.stuck = False
    assert (await later(bench, timedelta(0)))["erased"] == 1


async def test_what_a_turn_writes_after_its_thread_was_deleted_is_swept_up() -> None:
    bench = payer()
    run_id = await bench.start()
    log = await bench.plain.journal.writers.acquire(ANN, run_id, f"{run_id}-1")
    assert log is not None
    await say_so(bench, log)
    await threads.delete(bench.plain, ANN, "t1")
    await say_so(bench, log)
    objects = Keys(ANN).bodies("t1", run_id)
    await bench.plain.blobs.put(objects + "late", b"", "text/plain")
    assert "erased" not in await later(bench, timedelta(minutes=15))
    batches = Keys(ANN).run(run_id), EVENT_PREFIX, EVENT_PREFIX + "~"
    assert len(await bench.table.query(*batches)) == 1
    bench.threads.away = True
    assert await later(bench, timedelta(minutes=1)) == {"erased": 1}
    assert await bench.table.query(*batches) == []
    assert await bench.plain.blobs.keys(objects) == []
    assert await later(bench, timedelta(days=1)) == {}


async def test_no_run_waits_for_a_deletion() -> None:
    bench, _ = await deleting()
    bench.clock.advance(PATIENCE)
    for n in range(20):
        lost = await bench.start(thread=f"other {n}")
        await bench.callbacks.stop(f"{lost}-1", "it died")
    done = await sweep(bench.plain, erase_until=timedelta(0))
    assert (done["lost"], list(done)[-1]) == (20, "erasing")


async def test_a_deletion_in_trouble_lets_others_go_first() -> None:
    bench, blobs = await deleting()
    blobs.stuck, blobs.away = False, True
    assert (await later(bench, timedelta(0)))["trouble"] == 1
    blobs.away = False
    assert "erased" not in await later(bench, PATIENCE / 2)
    assert await later(bench, PATIENCE / 2) == {"erased": 1}


async def delete_new_thread(bench: Bench) -> None:
    """A thread without runs, which is to be erased."""
    thread = await threads.create(bench.plain, ANN, bench.agent.name, None, {})
    await bench.plain.journal.erasure.mark_deleted(ANN, thread.id)


async def test_deletions_that_a_sweep_has_no_time_to_begin_cost_it_no_write() -> None:
    table = CountingTable()
    bench = Bench(Agent("helper", model="m"), [], table=table)
    for _ in range(3):
        await delete_new_thread(bench)
    before = table.total
    assert await sweep(bench.plain, erase_until=timedelta(0)) == {"erasing": 3}
    assert table.total == before
    assert await sweep(bench.plain) == {"erased": 3}


@skipping
async def test_a_deletion_that_a_sweep_began_and_did_not_finish_goes_behind_others() -> None:
    bench, _ = await deleting(clock=LoopClock())
    sweeping = asyncio.create_task(sweep(bench.plain))
    await asyncio.sleep(10)
    await delete_new_thread(bench)
    assert (await sweeping)["erasing"] == 1
    first, last = await bench.plain.journal.watch.deletions(bench.clock.now(), 9)
    assert (first.thread_id != "t1", last.thread_id) == (True, "t1")


class Poisoned(InMemoryBlobs):
    """Holds something that nobody can list."""

    async def keys(self, prefix: str) -> list[str]:
        raise ValueError("a key that is none")


async def test_deletion_that_nobody_can_finish_is_told_to_operators_and_stops_nothing() -> None:
    blobs, metrics = Poisoned(), InMemoryMetrics()
    bench = Bench(Agent("helper", model="m"), [say("one")] * 2, blobs=blobs, metrics=metrics)
    for _ in range(3):
        await delete_new_thread(bench)
    lost = await bench.start(thread="other")
    await bench.callbacks.stop(f"{lost}-1", "it died")
    assert await later(bench, PATIENCE) == {"lost": 1, "trouble": 3}
    assert [c.name for c in metrics.counted] == [Metric.DELETION_FAILED] * 3
    # They are not at the head of what is due any more.
    assert await later(bench, timedelta(seconds=1)) == {}
    assert (await later(bench, PATIENCE))["trouble"] == 3


async def test_run_at_which_any_look_fails_stops_no_other() -> None:
    bench = payer()
    broken, lost = await bench.start(), await bench.start(thread="other")
    await bench.callbacks.stop(f"{lost}-1", "it died")
    alive = bench.callbacks.alive

    async def fails(execution: str) -> bool:
        if execution.startswith(broken):
            raise TypeError("of a kind that nobody thought of")
        return await alive(execution)

    bench.callbacks.alive = fails  # type: ignore[method-assign]
    assert await later(bench, timedelta(0)) == {"lost": 1, "trouble": 1}
    assert await later(bench, PATIENCE / 2) == {}


async def test_sweep_looks_at_all_that_is_due_however_much_it_is() -> None:
    bench = payer()
    for n in range(450):
        run_id = await bench.start(thread=f"t{n}")
        await bench.callbacks.stop(f"{run_id}-1", "it died")
    assert await later(bench, timedelta(0)) == {"lost": 450}


async def test_thousands_of_deletions_delay_no_run() -> None:
    bench = payer()
    for _ in range(1_000):
        await delete_new_thread(bench)
    # Later than all of them, so behind them if they were in one line.
    bench.clock.advance(PATIENCE)
    lost = await bench.start(thread="other")
    await bench.callbacks.stop(f"{lost}-1", "it died")
    done = await sweep(bench.plain, erase_until=timedelta(0))
    assert done["lost"] == 1
    assert (await sweep(bench.plain))["erased"] > 0


@skipping
async def test_a_run_that_is_lost_while_a_sweep_erases_goes_on_before_that_sweep_is_over() -> None:
    settings = Environment.model_validate({"LAYOVER_SWEEP_PATIENCE_S": "2"}).settings
    pays, _ = await deleting(clock=LoopClock(), settings=settings)
    sweeping = asyncio.create_task(sweep(pays.plain))
    await asyncio.sleep(10)
    lost = await pays.start(thread="other")
    await pays.callbacks.stop(f"{lost}-1", "it died")
    await asyncio.sleep(10)
    assert not sweeping.done()
    assert pays.callbacks.started[-1] == (ANN, lost, 2)
    done = await sweeping
    assert (done["lost"], done["succeeded"], done["erasing"]) == (1, 1, 1)


@skipping
async def test_a_sweep_looks_at_runs_once_while_it_erases_for_less_than_its_patience() -> None:
    pays, _ = await deleting(clock=LoopClock())
    looks = count_looks(pays)
    assert (await sweep(pays.plain))["erasing"] == 1
    # One page, and one that says that nothing more is due.
    assert len(looks) == 2


@skipping
async def test_a_journal_that_is_away_ends_a_sweep_and_what_it_erases() -> None:
    settings = Environment.model_validate({"LAYOVER_SWEEP_PATIENCE_S": "2"}).settings
    pays, _ = await deleting(clock=LoopClock(), settings=settings)
    count_looks(pays, fails_after=2)
    with pytest.raises(RetryableError, match="away"):
        await sweep(pays.plain)
    await asyncio.sleep(1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


# Executions and tokens


async def test_a_decision_whose_token_was_never_sent_is_sent() -> None:
    bench = payer()
    run_id = await waiting(bench)
    found = await bench.call(run_id, "c1")
    yes = Decision(kind=DecisionKind.APPROVED, decided_by=ANN, at=bench.clock.now())
    await bench.plain.journal.decisions.decide(await bench.meta(run_id), found, yes)
    await later(bench, timedelta(0))
    assert bench.callbacks.woken == ["token"]


async def test_a_run_gets_a_new_execution_only_after_two_looks_a_while_apart() -> None:
    bench = payer()
    run_id = await bench.start()
    await bench.callbacks.stop(f"{run_id}-1", "it died")
    assert await later(bench, timedelta(0)) == {"lost": 1}
    assert await later(bench, PATIENCE / 2) == {}
    assert bench.callbacks.started == [(ANN, run_id, 1)]
    assert await later(bench, PATIENCE) == {"succeeded": 1}
    assert bench.callbacks.started[-1] == (ANN, run_id, 2)
    assert (await bench.meta(run_id)).execution == f"{run_id}-2"


async def test_an_execution_that_is_alive_after_all_drives_on() -> None:
    bench = payer()
    run_id = await bench.start()
    bench.callbacks.stopped.append(f"{run_id}-1")
    assert await later(bench, timedelta(0)) == {"lost": 1}
    bench.callbacks.stopped.clear()
    assert await later(bench, PATIENCE) == {"driven": 1}
    bench.callbacks.stopped.append(f"{run_id}-1")
    assert await later(bench, PATIENCE) == {"lost": 1}


async def test_a_run_given_up_tells_the_same_whoever_gives_it_up() -> None:
    """Settle and the sweeper come first by chance where an outage lasts."""
    bench = payer()
    run_ids = [await bench.start(), await bench.start(thread="another")]
    for run_id in run_ids:
        for _ in range(5):
            await bench.plain.journal.writers.acquire(ANN, run_id, f"{run_id}-1")
    assert await bench.settle(run_ids[0], Error="AttemptsUsedUp") == "over"
    await bench.callbacks.stop(f"{run_ids[1]}-1", "it died")
    await later(bench, timedelta(0))
    assert (await later(bench, PATIENCE))["failed"] == 1
    words = [words_of(await bench.run(run_id)) for run_id in run_ids]
    assert words[0].startswith("the run was attempted 5 times since its last step; ")
    assert words[1] == words[0]


async def test_a_run_that_nothing_drives_after_five_attempts_is_given_up() -> None:
    bench = payer()
    run_id = await bench.start()
    next_id = await bench.start("next", on_busy=OnBusy.ENQUEUE)
    for _ in range(5):
        await bench.plain.journal.writers.acquire(ANN, run_id, f"{run_id}-1")
    await bench.callbacks.stop(f"{run_id}-1", "it died")
    await later(bench, timedelta(0))
    assert (await later(bench, PATIENCE))["failed"] == 1
    run, told = await ended(bench, run_id)
    assert (run.status, told[-2:]) == (Status.FAILED, ["error", "finish"])
    assert run.error is not None
    assert run.error.type == "AttemptsUsedUp"
    assert bench.callbacks.started[-1] == (ANN, next_id, 1)


# Saving


async def test_what_a_run_had_is_saved_when_the_database_is_back() -> None:
    bench = payer()
    run_id = await waiting(bench)
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    bench.threads.away = True
    await later(bench, A_CANCEL)
    assert await later(bench, timedelta(0)) == {"trouble": 1}
    assert (await bench.head()).unsaved == (run_id,)
    # Others are due: a database that is away is not tried again at once.
    assert await later(bench, PATIENCE / 2) == {}
    bench.threads.away = False
    assert await later(bench, PATIENCE / 2) == {"remembering": 1}
    assert (await bench.head()).unsaved == ()
    assert [m.run_id for m in await bench.stored()] == [run_id] * 3
    assert await later(bench, PATIENCE * 100) == {"retired": 1}
    assert await later(bench, PATIENCE * 100) == {}


async def test_the_trouble_of_one_run_does_not_keep_others_waiting() -> None:
    bench = payer()
    run_id = await waiting(bench)
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    bench.threads.away = True
    await later(bench, A_CANCEL)
    other = await bench.start("other", thread="t2")
    await bench.callbacks.stop(f"{other}-1", "it died")
    assert await later(bench, timedelta(0)) == {"trouble": 1, "lost": 1}


# What follows a run


async def cancelled_while_it_waits(**memory: Any) -> tuple[Bench, str]:
    agent = Agent("helper", model="m", tools=[Ledger().pay], memory=Memory(titles=False, **memory))
    bench = Bench(agent, [call("pay", amount=5, tool_call_id="c1"), say("paid")])
    bench.plain = replace(bench.plain, embedder=HashingEmbedder())
    run_id = await waiting(bench)
    await cancel(bench.plain, ANN, run_id)
    return bench, run_id


async def test_a_run_that_was_cancelled_while_it_waited_is_kept_for_recall() -> None:
    bench, run_id = await cancelled_while_it_waits(semantic_recall=SemanticRecall())
    assert await later(bench, timedelta(0)) == {"remembering": 1}
    assert bench.callbacks.started[-1] == (ANN, run_id, 2)
    payload = RunPayload(owner=ANN, run_id=run_id, execution=f"{run_id}-2")
    assert (await turn(bench.plain, payload, NoDeadline()))["status"] == "over"
    await extract(bench.plain, payload)
    (thread,) = bench.threads.of(ANN)
    (kept,) = thread.texts.values()
    assert kept.text.vector is not None
    assert await later(bench, PATIENCE) == {}


async def test_a_run_that_is_retired_while_the_sweeper_looks_is_left_alone() -> None:
    bench, run_id = await cancelled_while_it_waits()
    alive = bench.callbacks.alive

    async def done_meanwhile(execution: str) -> bool:
        await set_ttl(bench.plain, await bench.meta(run_id))
        return await alive(execution)

    bench.callbacks.alive = done_meanwhile  # type: ignore[method-assign]
    before = list(bench.callbacks.started)
    await later(bench, timedelta(0))
    assert bench.callbacks.started == before
    assert await later(bench, PATIENCE * 100) == {}


async def test_what_follows_a_run_is_asked_for_once() -> None:
    bench, run_id = await cancelled_while_it_waits()
    assert await later(bench, timedelta(0)) == {"remembering": 1}
    await bench.callbacks.stop(f"{run_id}-2", "it died")
    assert await later(bench, PATIENCE) == {"retired": 1}
    assert bench.callbacks.started.count((ANN, run_id, 2)) == 1
    assert await later(bench, PATIENCE * 100) == {}


async def test_a_run_whose_execution_goes_on_is_remembered_by_that() -> None:
    bench, run_id = await cancelled_while_it_waits()
    bench.callbacks.stopped.clear()
    assert await later(bench, timedelta(0)) == {"retired": 1}
    assert (ANN, run_id, 2) not in bench.callbacks.started


async def test_records_of_a_run_expire_as_long_after_its_end_as_the_deployment_says() -> None:
    settings = Environment.model_validate({"LAYOVER_RUN_RETENTION_DAYS": "7"}).settings
    bench = Bench(Agent("helper", model="m"), [say("hi")], settings=settings)
    run_id = (await bench.go()).id
    end = bench.clock.now()
    await later(bench, PATIENCE)
    await later(bench, PATIENCE)
    item = await bench._table.get(Keys(ANN).run(run_id), META)
    assert item is not None
    assert item["expires"] == int((end + timedelta(days=7)).timestamp())


# What is counted


async def test_age_of_a_call_that_nobody_decides_is_counted() -> None:
    bench = payer()
    metrics = InMemoryMetrics()
    bench.plain = replace(bench.plain, metrics=metrics)
    await waiting(bench)
    await later(bench, timedelta(hours=2))
    (counted,) = [c for c in metrics.counted if c.name is Metric.APPROVAL_AGE]
    assert (counted.value, counted.unit) == (7200, "Seconds")


async def test_run_that_waits_for_nobody_has_no_age() -> None:
    bench = payer()
    metrics = InMemoryMetrics()
    bench.plain = replace(bench.plain, metrics=metrics)
    await bench.start()
    await later(bench, timedelta(hours=2))
    assert metrics.counted == []
