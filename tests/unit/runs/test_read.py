"""Reading, waiting for, cancelling and following runs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest

from layover import keys
from layover.errors import InvalidRequest, NotFound
from layover.runs import read as runs
from layover.runs.long_polls import Pace
from layover.runtime import Runtime
from layover.threads import threads
from layover.values.deployment.access import Actor
from layover.values.runs.event import AgentStart, TextDelta
from layover.values.runs.run import CallRecord, CallState, OnBusy, Status
from support.worlds.journal import instead
from support.worlds.services import ANN, BOB, ManualPace, ServiceBench


async def test_a_foreign_run_is_not_there(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    for attempt in (
        runs.get(world.runtime, BOB, run.id),
        runs.cancel(world.runtime, Actor(sub=BOB), run.id),
        runs.events(world.runtime, BOB, run.id, 0, 10),
        runs.list_runs(world.runtime, BOB, run.thread_id, 20, None),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_a_cursor_that_is_none_is_refused(world: ServiceBench) -> None:
    thread = await world.thread()
    with pytest.raises(InvalidRequest):
        await runs.list_runs(world.runtime, ANN, thread.id, 20, "zzz")


def lagging(runtime: Runtime, *shown: Status | None, news: Sequence[bool] = ()) -> Runtime:
    """A runtime whose journal's peeks show what was, for as long as `shown` and `news` last."""
    journal, old_status, old_news = runtime.journal, list(shown), list(news)

    async def peek_status(owner: str, run_id: str) -> Status | None:
        return old_status.pop(0) if old_status else await journal.runs.peek_status(owner, run_id)

    async def peek(owner: str, run_id: str, after: int) -> bool:
        return old_news.pop(0) if old_news else await journal.events.peek(owner, run_id, after)

    runs = instead(journal.runs, peek_status=peek_status)
    events = instead(journal.events, peek=peek)
    return replace(runtime, journal=replace(journal, runs=runs, events=events))


@pytest.mark.parametrize("past", [Status.SUSPENDED, None])
async def test_a_read_of_the_past_does_not_end_a_wait(
    world: ServiceBench, past: Status | None
) -> None:
    """A run whose decision has just come waited a moment ago; one that has just begun was not there."""
    run = await world.run((await world.thread()).id)
    runtime = lagging(world.runtime, past, past)
    paced = ManualPace()
    found = await runs.get(runtime, ANN, run.id, 3, paced.pace)
    assert found.status is Status.RUNNING
    assert sum(paced.slept) == pytest.approx(3)


async def test_a_read_of_the_past_only_delays_the_end_of_a_wait(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    runtime = lagging(world.runtime, Status.RUNNING, Status.RUNNING)
    looks: list[float] = []

    async def sleep(seconds: float) -> None:
        if not looks:
            await world.finish(run.id)
        looks.append(seconds)

    found = await runs.get(runtime, ANN, run.id, 20, Pace(sleep=sleep, now=lambda: sum(looks)))
    assert (found.status, len(looks)) == (Status.SUCCESS, 3)


@pytest.mark.parametrize("erased", [True, False])
async def test_a_thread_that_is_deleted_meanwhile_takes_its_run_with_it(
    world: ServiceBench, erased: bool
) -> None:
    """Its records may be erased later."""
    run = await world.run((await world.thread()).id)
    looks: list[float] = []

    async def sleep(seconds: float) -> None:
        if not looks and erased:
            await threads.delete(world.runtime, ANN, run.thread_id)
        elif not looks:
            await world.journal.erasure.mark_deleted(ANN, run.thread_id)
        looks.append(seconds)

    with pytest.raises(NotFound):
        await runs.get(world.runtime, ANN, run.id, 3, Pace(sleep=sleep, now=lambda: sum(looks)))
    assert (len(looks) == 1) is erased


async def test_waiting_gives_up_after_the_time_that_was_asked_for(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    paced = ManualPace()
    found = await runs.get(world.runtime, ANN, run.id, 3, paced.pace)
    assert found.status is Status.RUNNING
    assert sum(paced.slept) == pytest.approx(3)
    assert paced.slept[0] == 0.025


@pytest.mark.parametrize(("from_s", "to_s"), [(0, 1), (1, 2), (2, 4), (4, 8)])
async def test_a_caller_learns_of_an_end_within_80_ms_on_average(
    world: ServiceBench, from_s: float, to_s: float
) -> None:
    looks_at = await _looks_at(world)
    ends = [from_s + (to_s - from_s) * i / 1_000 for i in range(1_000)]
    delays = [next(at for at in looks_at if at >= end) - end for end in ends]
    assert sum(delays) / len(delays) < 0.08
    assert max(delays) <= 0.161


async def test_a_long_wait_is_looked_at_more_seldom(world: ServiceBench) -> None:
    """It reads what it read when looks were 0.5 s apart and cost twice as much: 57 units in 25 s."""
    looks_at = await _looks_at(world)
    late = [(before, at - before) for before, at in pairwise(looks_at) if before > 8.1]
    assert all(pause <= 0.021 * before for before, pause in late)
    assert len(looks_at) * 0.5 <= 57


async def _looks_at(world: ServiceBench) -> list[float]:
    """The seconds of a wait at which it looks at the run."""
    run = await world.run((await world.thread()).id)
    paced = ManualPace()
    await runs.get(world.runtime, ANN, run.id, 25, paced.pace)
    return list(accumulate(paced.slept))


@pytest.mark.parametrize("wait", [100, 1e9, float("inf")])
async def test_nobody_waits_longer_than_25_seconds(world: ServiceBench, wait: float) -> None:
    run = await world.run((await world.thread()).id)
    paced = ManualPace()
    await runs.get(world.runtime, ANN, run.id, wait, paced.pace)
    assert sum(paced.slept) == pytest.approx(25)


async def test_a_run_that_waits_for_a_person_is_not_waited_for(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    paced = ManualPace()
    found = await runs.get(world.runtime, ANN, run.id, 20, paced.pace)
    assert found.status is Status.SUSPENDED
    assert paced.slept == []


async def test_waiting_ends_when_the_run_does(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)

    async def finish_it(_: float) -> None:
        await world.finish(run.id, "there you are")

    pace = Pace(sleep=finish_it, now=lambda: 0.0)
    found = await runs.get(world.runtime, ANN, run.id, 20, pace)
    assert (found.status, found.text) == (Status.SUCCESS, "there you are")
    assert [m.text for m in found.messages] == ["there you are"]


async def test_reading_runs_and_events_never_needs_the_database(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    world.threads.asleep = True
    await runs.get(world.runtime, ANN, run.id)
    await runs.events(world.runtime, ANN, run.id, 0, 10)
    await runs.list_runs(world.runtime, ANN, run.thread_id, 20, None)
    suspended, _ = await world.suspended()
    await runs.cancel(world.runtime, Actor(sub=ANN), suspended.id)
    assert world.threads.asked == 0


async def test_a_run_shows_what_waits_and_what_has_not_begun(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    log = await world.take(run.id)
    calls: list[tuple[str, str, Any]] = [
        ("c1", "look_up", {"order_id": "o"}),
        ("c2", "refund", {"order_id": "o", "amount": 80}),
        ("c3", "look_up", {"order_id": "p"}),
    ]
    step = await world.step(log, "let me see", *calls)
    opened = CallRecord(
        key=keys.call_key(step.key, "c1"),
        run_id=run.id,
        tool_call_id="c1",
        tool_name="look_up",
        args={"order_id": "o"},
    )
    await log.open_calls([opened])
    settled = {
        "state": CallState.OPEN,
        "opener": log.opener,
        "result": {"n": 1},
        "model_output": "n is 1",
    }
    await log.close_call(opened.written(**settled))
    await world.suspend(log, step, "c2")
    found = await runs.get(world.runtime, ANN, run.id)
    assert found.status is Status.SUSPENDED
    assert [m.role for m in found.messages] == ["assistant", "tool"]
    assert [(p.tool_call_id, p.attempt, p.agent_path) for p in found.pending] == [
        ("c2", 1, ("support",))
    ]
    assert [u.tool_call_id for u in found.unexecuted] == ["c3"]
    assert (found.usage.total_tokens, found.model, found.text) == (12, "gpt-5-mini", "let me see")


async def test_runs_are_listed_newest_first_page_by_page(world: ServiceBench) -> None:
    thread = await world.thread()
    made = [await world.run(thread.id, on_busy=OnBusy.ENQUEUE) for _ in range(3)]
    first = await runs.list_runs(world.runtime, ANN, thread.id, 2, None)
    second = await runs.list_runs(world.runtime, ANN, thread.id, 2, first.next_cursor)
    assert [r.id for r in (*first.items, *second.items)] == [r.id for r in reversed(made)]
    assert [r.status for r in second.items] == [Status.RUNNING]


async def test_a_run_that_waits_or_is_queued_is_cancelled_at_once(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    queued = await world.run(run.thread_id, on_busy=OnBusy.ENQUEUE)
    for run_id in (queued.id, run.id):
        cancelled = await runs.cancel(world.runtime, Actor(sub=ANN), run_id)
        assert (cancelled.status, cancelled.pending) == (Status.CANCELLED, ())
    head = await world.journal.heads.get(ANN, run.thread_id)
    assert head is not None
    assert (head.active_run, head.queue) == (None, ())


async def test_a_finished_run_stays_as_it_is_when_cancelled(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    await world.finish(run.id)
    assert (await runs.cancel(world.runtime, Actor(sub=ANN), run.id)).status is Status.SUCCESS


async def test_events_beyond_the_end_are_none_and_keep_their_place(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    page = await runs.events(world.runtime, ANN, run.id, 10**15, 10)
    assert (page.items, page.last_seq, page.done) == ((), 10**15, False)


async def test_events_are_waited_for(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    log = await world.take(run.id)

    async def write(_: float) -> None:
        log.emit(AgentStart(at=world.clock.now()))
        log.emit(TextDelta(at=world.clock.now(), step=1, text="hi"))
        await log.flush()

    page = await runs.events(
        world.runtime, ANN, run.id, 0, 10, 5, Pace(sleep=write, now=lambda: 0.0)
    )
    assert [(e.seq, e.type) for e in page.items] == [(1, "agent-start"), (2, "text-delta")]
    assert (page.last_seq, page.done) == (2, False)


async def test_events_of_a_log_that_a_look_shows_as_it_was_are_waited_for(
    world: ServiceBench,
) -> None:
    run = await world.run((await world.thread()).id)
    log = await world.take(run.id)
    runtime = lagging(world.runtime, news=[False, False])
    looks: list[float] = []

    async def write(seconds: float) -> None:
        if not looks:
            log.emit(AgentStart(at=world.clock.now()))
            await log.flush()
        looks.append(seconds)

    page = await runs.events(runtime, ANN, run.id, 0, 10, 5, Pace(write, lambda: sum(looks)))
    assert ([e.seq for e in page.items], len(looks)) == ([1], 3)


async def test_wait_for_events_ends_with_what_there_is(world: ServiceBench) -> None:
    """Nothing begins behind a number that no event has yet: what comes before it is no news."""
    run = await world.run((await world.thread()).id)
    looks: list[float] = []

    async def sleep(seconds: float) -> None:
        if not looks:
            await world.finish(run.id)
        looks.append(seconds)

    page = await runs.events(
        world.runtime, ANN, run.id, 100, 10, 3, Pace(sleep, lambda: sum(looks))
    )
    assert (page.items, page.last_seq, page.done) == ((), 100, True)
    assert sum(looks) == pytest.approx(3)


async def test_caller_learns_of_events_as_soon_as_of_an_end(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    paced = ManualPace()
    await runs.events(world.runtime, ANN, run.id, 0, 10, 25, paced.pace)
    assert list(accumulate(paced.slept)) == await _looks_at(world)


async def test_events_are_done_when_the_run_is_over(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    await world.finish(run.id)
    paced = ManualPace()
    page = await runs.events(world.runtime, ANN, run.id, 0, 1, 20, paced.pace)
    assert (page.last_seq, page.done) == (1, False)
    page = await runs.events(world.runtime, ANN, run.id, 1, 10, 20, paced.pace)
    assert [e.type for e in page.items] == ["agent-end"]
    assert page.done
    page = await runs.events(world.runtime, ANN, run.id, 2, 10, 20, paced.pace)
    assert (page.items, page.done, paced.slept) == ((), True, [])
