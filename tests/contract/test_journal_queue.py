"""Runs that stand in line for their thread: how they get in, and how they leave."""

import asyncio

import pytest

from layover.errors import NotFound
from layover.ports import StaleHead
from layover.values.runs.run import MAX_QUEUE, OnBusy, Status
from support.worlds.journal import JournalBench

ENQUEUE, INTERRUPT = OnBusy.ENQUEUE, OnBusy.INTERRUPT


async def test_place_that_was_free_when_the_head_was_read_is_not_taken_twice(
    world: JournalBench,
) -> None:
    queue = tuple(f"waiting_{n}" for n in range(MAX_QUEUE - 1))
    head = await world.thread(active_run="run_a", queue=queue)
    await world.queue(head.id)
    with pytest.raises(StaleHead):
        await world.journal.commands.accept(world.new_run(head), head, ENQUEUE, None)
    assert len((await world.head(head.id)).queue) == MAX_QUEUE


async def test_thread_that_was_deleted_meanwhile_queues_nothing(world: JournalBench) -> None:
    head = await world.thread(active_run="run_a")
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    with pytest.raises(NotFound):
        await world.journal.commands.accept(world.new_run(head), head, ENQUEUE, None)
    assert (await world.head(head.id)).queue == ()


@pytest.mark.both_stores
async def test_many_who_read_the_same_head_all_get_into_the_queue(world: JournalBench) -> None:
    head = await world.thread(active_run="run_a")
    runs = [world.new_run(head) for _ in range(8)]
    await asyncio.gather(*(world.journal.commands.accept(r, head, ENQUEUE, None) for r in runs))
    assert sorted((await world.head(head.id)).queue) == sorted(r.id for r in runs)


async def test_cancelled_run_gives_its_place_in_the_queue_away(world: JournalBench) -> None:
    queue = tuple(f"waiting_{n}" for n in range(MAX_QUEUE - 1))
    head = await world.thread(active_run="run_a", queue=queue)
    assert await world.drop(await world.queue(head.id))
    assert (await world.head(head.id)).queue == queue
    await world.queue(head.id)


async def test_queue_without_its_last_run_is_empty(world: JournalBench) -> None:
    head = await world.thread(active_run="run_a")
    await world.drop(await world.queue(head.id))
    assert (await world.head(head.id)).queue == ()
    await world.queue(head.id)


@pytest.mark.both_stores
async def test_cancelled_interrupt_is_no_longer_counted_and_others_are(world: JournalBench) -> None:
    head = await world.thread()
    await world.accept(head.id)
    later = await world.queue(head.id)
    first, second = [(await world.accept(head.id, INTERRUPT)).run_id for _ in range(2)]
    await world.drop(later)
    assert (await world.head(head.id)).interrupts == 2
    await world.drop(first)
    after = await world.head(head.id)
    assert (after.queue, after.interrupts) == ((second,), 1)


async def test_run_that_is_queued_while_another_leaves_keeps_its_place(world: JournalBench) -> None:
    meddled, table = world.meddled()
    head = await world.thread(active_run="run_a")
    gone = await world.queue(head.id)
    table.before_next(lambda: world.queue(head.id))
    assert await meddled.drop(gone)
    [left] = (await world.head(head.id)).queue
    assert left != gone


async def test_run_that_starts_while_it_is_cancelled_is_not_dropped(world: JournalBench) -> None:
    meddled, table = world.meddled()
    log = await world.taken()
    queued = await world.queue(log.snapshot.meta.thread_id)
    table.before_next(lambda: world.end(log))
    assert not await meddled.drop(queued)
    assert (await world.head(log.snapshot.meta.thread_id)).active_run == queued


async def test_end_with_a_head_that_moved_since_it_was_read_hands_on_to_the_next(
    world: JournalBench,
) -> None:
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    read = await world.head(head.id)
    queued = await world.queue(head.id)
    outcome = world.outcome(log.snapshot.meta)
    ended = await log.end(outcome, world.finish(outcome), head=read)
    assert ended.next_run == queued
    now = await world.head(head.id)
    assert (now.active_run, now.queue, now.leaf_id) == (queued, (), outcome.leaf_id)


async def test_end_with_the_head_as_it_is_frees_the_thread(world: JournalBench) -> None:
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    read = await world.head(head.id)
    outcome = world.outcome(log.snapshot.meta)
    assert (await log.end(outcome, world.finish(outcome), head=read)).next_run is None
    now = await world.head(head.id)
    assert (now.active_run, now.leaf_id) == (None, outcome.leaf_id)


@pytest.mark.both_stores
async def test_queued_run_begins_with_the_agent_that_was_handed_the_conversation(
    world: JournalBench,
) -> None:
    log = await world.taken()
    thread = log.snapshot.meta.thread_id
    queued = await world.queue(thread)
    await log.hand_over("billing", "d1")
    assert await world.end(log) == queued
    run = await world.run(queued)
    assert (run.agent, run.status) == ("billing", Status.RUNNING)


async def test_end_with_a_head_from_before_a_hand_off_names_the_new_agent(
    world: JournalBench,
) -> None:
    log = await world.taken()
    queued = await world.queue(log.snapshot.meta.thread_id)
    read = await world.head(log.snapshot.meta.thread_id)
    await log.hand_over("billing", "d1")
    outcome = world.outcome(log.snapshot.meta, Status.CANCELLED)
    ended = await log.end(outcome, world.finish(outcome), head=read)
    assert (ended.next_run, (await world.run(queued)).agent) == (queued, "billing")
