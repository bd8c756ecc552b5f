"""The journal of a run whose provider is away, and of one that failed and goes on."""

from typing import Any

import pytest

from layover.errors import Fenced
from layover.ports import RunLog
from layover.values.runs.event import ErrorEvent, ModelWaiting, TextDelta
from layover.values.runs.provider_wait import ProviderWait
from layover.values.runs.run import ErrorInfo, Phase, RunMeta, Status
from support.worlds.journal import BIG, JournalBench, noise

ERROR = ErrorInfo(type="AuthenticationError", message="bad key")


def wait_of(world: JournalBench) -> ProviderWait:
    now = world.clock.now()
    facts = {"provider": "openai", "error": "RateLimitError", "attempt": 1, "steps": 0}
    return ProviderWait(since=now, until=now, **facts)


async def failed(world: JournalBench, log: RunLog, *events: Any, **facts: Any) -> RunMeta:
    """End the run as failed."""
    outcome = world.outcome(log.snapshot.meta, Status.FAILED, **{"error": ERROR, **facts})
    error = ErrorEvent(at=world.clock.now(), error=ERROR)
    await log.end(outcome, *events, error, world.finish(outcome))
    return await world.run(log.snapshot.meta.id)


async def types(world: JournalBench, run_id: str) -> tuple[list[str], bool]:
    page = await world.journal.events.page(world.owner, run_id, 0, 1_000)
    assert [e.seq for e in page.items] == list(range(1, len(page.items) + 1))
    return [e.type for e in page.items], page.done


async def test_a_writer_that_was_fenced_off_cannot_pause_the_run(world: JournalBench) -> None:
    log = await world.taken()
    await world.take(log.snapshot.meta.id)
    with pytest.raises(Fenced):
        await log.pause(wait_of(world))


async def test_a_pause_is_journaled_with_its_event(world: JournalBench) -> None:
    log = await world.taken()
    wait = wait_of(world)
    event = ModelWaiting(at=wait.since, attempt=1, **wait.view.model_dump())
    await log.pause(wait, event)
    run = await world.run(log.snapshot.meta.id)
    assert run.away == wait
    assert await types(world, run.id) == (["model-waiting"], False)


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.CANCELLED])
async def test_only_a_run_that_failed_is_reopened(world: JournalBench, status: Status) -> None:
    log = await world.taken()
    outcome = world.outcome(log.snapshot.meta, status)
    await log.end(outcome, world.finish(outcome))
    run = await world.run(log.snapshot.meta.id)
    head = await world.head(run.thread_id)
    assert await world.journal.commands.reopen(run, head, 1) is None
    assert (await types(world, run.id))[1]


async def test_a_run_that_is_at_work_is_not_reopened(world: JournalBench) -> None:
    run = (await world.taken()).snapshot.meta
    head = await world.head(run.thread_id)
    assert await world.journal.commands.reopen(run, head, 1) is None


async def test_a_run_whose_thread_was_taken_since_is_not_reopened(world: JournalBench) -> None:
    run = await failed(world, await world.taken())
    head = await world.head(run.thread_id)
    other = await world.accept(run.thread_id)
    assert await world.journal.commands.reopen(run, head, 1) is None
    assert (await world.head(run.thread_id)).active_run == other.run_id
    assert (await world.run(run.id)).status is Status.FAILED


async def test_a_run_is_reopened_once(world: JournalBench) -> None:
    run = await failed(world, await world.taken())
    head = await world.head(run.thread_id)
    assert await world.journal.commands.reopen(run, head, 1) == run.n + 1
    assert await world.journal.commands.reopen(run, head, 1) is None


async def test_a_reopened_run_is_at_work_in_its_next_execution(world: JournalBench) -> None:
    run = await failed(world, await world.taken())
    world.tick()
    head = await world.head(run.thread_id)
    await world.journal.commands.reopen(run, head, 3)
    now = await world.run(run.id)
    assert (now.status, now.error, now.attempts) == (Status.RUNNING, None, 0)
    assert (now.execution, now.n) == (f"{run.id}-{run.n + 1}", run.n + 1)
    assert (now.phase, now.reopened_at) == (Phase.TURN, world.clock.now())
    assert now.epoch == run.epoch + 1
    assert (await world.head(run.thread_id)).active_run == run.id
    await world.look(run.id)


@pytest.mark.parametrize("text", ["short", noise(BIG)], ids=["short", "in S3"])
async def test_the_log_goes_on_in_place_of_the_failure(world: JournalBench, text: str) -> None:
    log = await world.taken()
    told = TextDelta(at=world.clock.now(), step=1, text=text)
    run = await failed(world, log, told)
    before, done = await types(world, run.id)
    assert (before, done) == (["text-delta", "error", "finish"], True)
    await world.journal.commands.reopen(run, await world.head(run.thread_id), 1)
    assert await types(world, run.id) == (["text-delta", "redriven", "turn-start"], False)
    again = await world.take(run.id, 2)
    outcome = world.outcome(again.snapshot.meta, Status.SUCCESS)
    await again.end(outcome, world.finish(outcome))
    after = ["text-delta", "redriven", "turn-start", "finish"]
    assert await types(world, run.id) == (after, True)


async def test_the_writer_that_ended_a_run_writes_nothing_into_the_reopened_one(
    world: JournalBench,
) -> None:
    log = await world.taken()
    run = await failed(world, log)
    await world.journal.commands.reopen(run, await world.head(run.thread_id), 1)
    with pytest.raises(Fenced):
        await log.put_step(world.step(log))
