"""Deleted data is gone, and other owners' data is out of reach."""

from datetime import timedelta
from typing import Any

import pytest

from layover.errors import LayoverError
from layover.keys import HEAD
from layover.values.runs.debts import Debt, DebtKind
from layover.values.runs.run import Outcome, Status
from support.worlds.journal import BIG, JournalBench, noise


@pytest.mark.both_stores
async def test_erased_runs_leave_nothing_behind_and_other_threads_alone(
    world: JournalBench,
) -> None:
    log, other = await world.taken_with(noise(BIG)), await world.taken()
    run_id, thread_id = log.snapshot.meta.id, log.snapshot.meta.thread_id
    for n in range(30):
        log.emit(world.data(n))
        await log.flush()
    await world.waiting(log, "c1")
    key = await world.blob_of(run_id)
    kept = await world.state(other.snapshot.meta.id)
    await world.journal.erasure.mark_deleted(world.owner, thread_id)
    for _ in range(2):
        await world.journal.erasure.erase_runs(world.owner, thread_id)
        await world.journal.erasure.erase_bodies(world.owner, thread_id)
    assert await world.state(run_id) == {}
    assert await world.blobs.get(key) is None
    assert await world.state(other.snapshot.meta.id) == kept
    assert (await world.journal.decisions.page_pending(world.owner, None, 9, None)).items == ()
    await world.journal.erasure.finish(world.owner, thread_id)
    assert (await world.head(thread_id)).deleted


async def test_what_a_writer_leaves_after_its_run_was_erased_is_erased_later(
    world: JournalBench,
) -> None:
    log, other = await world.taken(), await world.taken()
    run_id, thread_id = log.snapshot.meta.id, log.snapshot.meta.thread_id
    log.emit(world.data("before"))
    await log.flush()
    await world.journal.erasure.mark_deleted(world.owner, thread_id)
    await world.journal.erasure.erase_runs(world.owner, thread_id)
    log.emit(world.data(noise(BIG)))
    await log.flush()
    [late] = await world.state(run_id)
    key, kept = await world.blob_of(run_id, late), await world.state(other.snapshot.meta.id)
    await world.journal.erasure.erase_runs(world.owner, thread_id)
    assert await world.state(run_id), "nothing leads to it but its mark"
    for _ in range(2):
        await world.journal.erasure.erase_late(world.owner, thread_id)
        await world.journal.erasure.erase_bodies(world.owner, thread_id)
        assert await world.state(run_id) == {}
        assert await world.blobs.get(key) is None
    assert await world.state(other.snapshot.meta.id) == kept
    beside = await world.table.query(world.keys.thread(thread_id), " ", "~")
    assert [item["sk"] for item in beside] == [HEAD]


async def test_an_emptied_thread_is_due_once_more_and_not_before(world: JournalBench) -> None:
    thread_id = (await world.taken()).snapshot.meta.thread_id
    now, late = world.clock.now(), timedelta(minutes=16)

    async def due(at: timedelta) -> bool:
        found = await world.journal.watch.deletions(now + at, 1_000)
        return any(w.run_id is None and w.thread_id == thread_id for w in found)

    await world.journal.erasure.mark_purged(world.owner, thread_id, now)
    assert not await due(late), "it is not deleted"
    await world.journal.erasure.mark_deleted(world.owner, thread_id)
    assert (await world.head(thread_id)).empty_again_at is None
    await world.journal.erasure.mark_purged(world.owner, thread_id, now + late)
    await world.journal.erasure.mark_purged(world.owner, thread_id, now + late * 2)
    assert (await world.head(thread_id)).empty_again_at == now + late
    assert not await due(late / 2)
    assert await due(late)
    await world.journal.erasure.finish(world.owner, thread_id)
    assert not await due(late * 3)


async def test_a_deletion_is_due_again_when_it_was_asked_for_until_it_is_done(
    world: JournalBench,
) -> None:
    thread_id = (await world.taken()).snapshot.meta.thread_id
    now = world.clock.now()

    async def due(at: timedelta) -> bool:
        found = await world.journal.watch.deletions(now + at, 1_000)
        return any(w.run_id is None and w.thread_id == thread_id for w in found)

    minute = timedelta(minutes=1)
    await world.journal.erasure.reschedule(world.owner, thread_id, now)
    assert not await due(minute), "it is not deleted"
    await world.journal.erasure.mark_deleted(world.owner, thread_id)
    assert await due(timedelta(0))
    await world.journal.erasure.reschedule(world.owner, thread_id, now + minute)
    assert not await due(minute / 2)
    assert await due(minute)
    await world.journal.erasure.finish(world.owner, thread_id)
    await world.journal.erasure.reschedule(world.owner, thread_id, now)
    assert not await due(minute)


def outcome_of(world: JournalBench, meta: Any) -> Outcome:
    return world.outcome(meta, Status.CANCELLED)


@pytest.mark.both_stores
async def test_another_owner_sees_and_changes_nothing_with_any_method(
    world: JournalBench, stranger: JournalBench
) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    run_id, thread_id = call.run_id, log.snapshot.meta.thread_id
    queued = await world.queue(thread_id)
    before = [await world.state(run_id), await world.state(queued), await world.head(thread_id)]
    journal, owner, execution = stranger.journal, stranger.owner, f"{run_id}-1"
    decision, outcome = world.decision(), outcome_of(world, log.snapshot.meta)

    assert await journal.heads.get(owner, thread_id) is None
    assert (await journal.heads.page(owner, 9, None)).items == ()
    assert await journal.heads.edit(owner, thread_id, title="mine") is None
    await journal.erasure.mark_deleted(owner, thread_id)
    assert await journal.runs.get(owner, run_id) is None
    assert await journal.runs.snapshot(owner, run_id) is None
    assert (await journal.runs.page_ids(owner, thread_id, 9, None)).items == ()
    assert (await journal.decisions.page_pending(owner, None, 9, None)).items == ()
    assert (await journal.decisions.page_pending(owner, thread_id, 9, None)).items == ()
    assert await journal.commands.store_token(owner, run_id, execution, call.key, 1, "t") is None
    foreign = log.snapshot.meta.model_copy(update={"owner": owner})
    with pytest.raises(LayoverError):
        await journal.decisions.decide(foreign, call, decision, world.data())
    assert await journal.runs.call(owner, run_id, call.key) is None
    assert (await journal.events.page(owner, run_id, 0, 9)).items == ()
    assert await journal.writers.acquire(owner, run_id, execution) is None
    assert await journal.writers.attach(owner, run_id, execution) is None
    assert await journal.writers.seize(owner, run_id) is None
    in_line = (await world.run(queued)).model_copy(update={"owner": owner})
    assert not await journal.commands.end_queued(in_line, outcome, world.finish(outcome))
    assert await journal.commands.request_cancel(owner, run_id) is None
    assert await journal.commands.start_successor(owner, run_id, execution) is None
    await journal.commands.owe(owner, run_id, Debt(DebtKind.REQUESTED, 1, call.key))
    await journal.commands.mark_saved(owner, run_id, thread_id)
    await journal.erasure.erase_runs(owner, thread_id)
    await journal.erasure.erase_late(owner, thread_id)
    await journal.erasure.erase_bodies(owner, thread_id)
    await journal.erasure.mark_purged(owner, thread_id, world.clock.now())
    await journal.erasure.finish(owner, thread_id)
    await journal.erasure.reschedule(owner, thread_id, world.clock.now())

    after = [await world.state(run_id), await world.state(queued), await world.head(thread_id)]
    assert after == before
    assert await stranger.state(run_id) == {}
