"""The status of a run and the end of its log, read at half the price: what waits look at again and again."""

import pytest

from layover.adapters.journal.items.records import RUN_VERSION
from layover.errors import NewerFormat
from layover.keys import META
from layover.ports.table import Update
from layover.values.runs.run import Status
from support.worlds.journal import JournalBench


async def test_a_run_that_is_not_there_or_is_another_owners_has_no_status(
    world: JournalBench,
) -> None:
    run_id = await world.started()
    assert await world.journal.runs.peek_status(world.owner, "unknown") is None
    assert await world.journal.runs.peek_status(f"{world.owner}2", run_id) is None


async def test_status_of_a_newer_release_is_not_guessed(world: JournalBench) -> None:
    run_id = await world.started()
    newer = Update(world.keys.run(run_id), META, set={"v": RUN_VERSION + 1})
    await world.table.write(newer)
    with pytest.raises(NewerFormat):
        await world.journal.runs.peek_status(world.owner, run_id)


async def test_peeked_status_is_the_one_that_callers_see_all_along(world: JournalBench) -> None:
    head = await world.thread()
    run_id = (await world.accept(head.id)).run_id
    queued = await world.queue(head.id)

    async def check(run_id: str, status: Status) -> None:
        assert await world.journal.runs.peek_status(world.owner, run_id) is status
        assert (await world.run(run_id)).shown_status is status

    await check(queued, Status.QUEUED)
    assert await world.drop(queued)
    await check(queued, Status.CANCELLED)
    await check(run_id, Status.RUNNING)
    log = await world.take(run_id)
    [call] = await world.waiting(log, "c1")
    await check(run_id, Status.SUSPENDED)
    await world.decide(call)
    await check(run_id, Status.RUNNING)
    log = await world.take(run_id)
    await world.end(log)
    await check(run_id, Status.SUCCESS)


async def test_events_begin_where_the_ones_before_them_ended(world: JournalBench) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    peek = world.journal.events.peek
    last = (await world.journal.events.page(world.owner, run_id, 0, 100)).last_seq
    assert not await peek(world.owner, run_id, last)
    for _ in range(2):
        log.emit(world.data())
    await log.flush()
    assert await peek(world.owner, run_id, last)
    assert not await peek(world.owner, run_id, last + 1), "in the midst of a batch"
    assert not await peek(world.owner, run_id, last + 2)
    assert not await peek(world.owner, "unknown", last)
    assert not await peek(f"{world.owner}2", run_id, last)
