"""Runs that only wait while another one has their thread: how they leave it, and how they take it back."""

import asyncio
from typing import Any

import pytest

from layover.errors import Conflict, Fenced, ThreadBusy
from layover.ports import RequestKey, RunLog, SetAside, StaleHead, StaleRun, Unheard
from layover.values.message import Message, Role, TextPart
from layover.values.runs.run import MAX_WAITING_RUNS, OnBusy, RunMeta, Status
from layover.values.thread import ThreadHead
from support.worlds.journal import JournalBench, planned

pytestmark = pytest.mark.both_stores


async def waiting(world: JournalBench, *call_ids: str) -> tuple[RunLog, list[Any]]:
    """A run that waits for decisions about these calls, and the calls."""
    log = await world.taken()
    return log, await world.waiting(log, *(call_ids or ("c1",)))


def aside_of(world: JournalBench, run: RunMeta) -> SetAside:
    return SetAside(run, leaf_id=f"{run.id}_c1", last_created_at=world.clock.now())


async def decided(world: JournalBench, calls: list[Any]) -> None:
    for call in calls:
        await world.decide(call)


async def taken_again(world: JournalBench, run_id: str) -> RunLog:
    """The run in the hand of its next attempt, with all calls settled."""
    log = await world.take(run_id)
    for call in log.snapshot.calls:
        await log.close_call(call.model_copy(update={"result": "done"}))
    return log


def message_to(run: RunMeta, text: str, number: int = 1) -> Message:
    return Message(
        id=f"{run.id}_said{number}",
        thread_id=run.thread_id,
        run_id=run.id,
        parent_id=None,
        role=Role.USER,
        content=(TextPart(text=text),),
        created_at=run.created_at,
    )


async def test_another_run_takes_the_thread_of_one_that_waits(world: JournalBench) -> None:
    log, _ = await waiting(world)
    run = log.snapshot.meta
    accepted = await world.set_aside(run.id)
    head = await world.head(run.thread_id)
    assert accepted.started
    assert (head.active_run, head.waiting_runs) == (accepted.run_id, (run.id,))
    assert (await world.run(run.id)).aside
    assert (await world.run(accepted.run_id)).status is Status.RUNNING


async def test_a_decision_that_is_faster_keeps_the_thread(world: JournalBench) -> None:
    log, calls = await waiting(world)
    run, head = await world.run(log.snapshot.meta.id), await world.head(log.snapshot.meta.thread_id)
    await decided(world, calls)
    accept = world.journal.commands.accept
    new = world.new_run(head)
    with pytest.raises(StaleHead):
        await accept(new, head, OnBusy.REJECT, None, None, aside=aside_of(world, run))
    assert await world.head(head.id) == head
    assert not (await world.run(run.id)).aside
    assert await world.journal.runs.get(world.owner, new.id) is None


async def test_a_cancel_that_is_faster_keeps_the_thread(world: JournalBench) -> None:
    log, _ = await waiting(world)
    run, head = await world.run(log.snapshot.meta.id), await world.head(log.snapshot.meta.thread_id)
    await world.journal.commands.request_cancel(world.owner, run.id)
    aside = aside_of(world, run)
    with pytest.raises(StaleHead):
        await world.journal.commands.accept(
            world.new_run(head), head, OnBusy.REJECT, None, None, aside=aside
        )


async def test_of_many_messages_at_once_one_takes_the_thread(world: JournalBench) -> None:
    log, _ = await waiting(world)
    run, head = await world.run(log.snapshot.meta.id), await world.head(log.snapshot.meta.thread_id)

    async def accept() -> str | None:
        aside, new = aside_of(world, run), world.new_run(head)
        try:
            await world.journal.commands.accept(new, head, OnBusy.REJECT, None, None, aside=aside)
        except StaleHead:
            return None
        return new.id

    [winner] = filter(None, await asyncio.gather(*(accept() for _ in range(5))))
    now = await world.head(head.id)
    assert (now.active_run, now.waiting_runs) == (winner, (run.id,))


async def test_as_many_runs_as_may_are_set_aside(world: JournalBench) -> None:
    log, _ = await waiting(world)
    run = await world.run(log.snapshot.meta.id)
    head = await world.head(run.thread_id)
    many = head.model_copy(
        update={"waiting_runs": tuple(f"run_{n}" for n in range(MAX_WAITING_RUNS))}
    )
    with pytest.raises(ThreadBusy):
        await world.journal.commands.accept(
            world.new_run(head), many, OnBusy.REJECT, None, None, aside=aside_of(world, run)
        )
    assert await world.journal.commands.start_queued(many, aside_of(world, run)) is None


async def test_a_request_that_is_repeated_gets_the_run_that_took_the_thread(
    world: JournalBench,
) -> None:
    log, _ = await waiting(world)
    run, head = await world.run(log.snapshot.meta.id), await world.head(log.snapshot.meta.thread_id)
    key, accept = RequestKey("k", "hash", None), world.journal.commands.accept
    first = await accept(
        world.new_run(head), head, OnBusy.REJECT, key, None, aside=aside_of(world, run)
    )
    again = await accept(
        world.new_run(head), head, OnBusy.REJECT, key, None, aside=aside_of(world, run)
    )
    assert (again.run_id, again.replayed, again.started) == (first.run_id, True, False)


async def test_the_first_in_the_queue_takes_the_thread_of_one_that_waits(
    world: JournalBench,
) -> None:
    log, _ = await waiting(world)
    run = await world.run(log.snapshot.meta.id)
    cancelled = await world.queue(run.thread_id)
    first, second = [await world.queue(run.thread_id) for _ in range(2)]
    await world.drop(cancelled)
    head = await world.head(run.thread_id)
    aside = aside_of(world, run)
    assert await world.journal.commands.start_queued(head, aside) == first
    now, started = await world.head(run.thread_id), await world.run(first)
    assert (now.active_run, now.queue, now.waiting_runs) == (first, (second,), (run.id,))
    assert (started.status, started.input.parent_id) == (Status.RUNNING, aside.leaf_id)
    assert started.input.created_at > aside.last_created_at


async def test_the_queue_stays_if_the_run_no_longer_waits(world: JournalBench) -> None:
    log, calls = await waiting(world)
    run = await world.run(log.snapshot.meta.id)
    queued = await world.queue(run.thread_id)
    head = await world.head(run.thread_id)
    await decided(world, calls)
    assert await world.journal.commands.start_queued(head, aside_of(world, run)) is None
    assert await world.head(run.thread_id) == head
    assert (await world.run(queued)).status is Status.QUEUED


async def test_a_thread_without_a_queue_starts_nothing(world: JournalBench) -> None:
    log, _ = await waiting(world)
    run = await world.run(log.snapshot.meta.id)
    head = await world.head(run.thread_id)
    assert await world.journal.commands.start_queued(head, aside_of(world, run)) is None
    assert not (await world.run(run.id)).aside


async def set_aside_run(world: JournalBench) -> tuple[RunMeta, str, list[Any]]:
    """A run that was set aside, the run that has its thread, and the calls that wait."""
    log, calls = await waiting(world)
    meta = log.snapshot.meta
    other = (await world.set_aside(meta.id)).run_id
    return await world.run(meta.id), other, calls


async def free(world: JournalBench, run_id: str) -> ThreadHead:
    """End the run that has the thread."""
    await world.end(await world.take(run_id))
    return await world.head((await world.run(run_id)).thread_id)


async def test_a_run_takes_its_thread_back_and_hears_up_to_the_newest_message(
    world: JournalBench,
) -> None:
    run, other, calls = await set_aside_run(world)
    await decided(world, calls)
    head = await free(world, other)
    log = await taken_again(world, run.id)
    assert await log.take_thread(head)
    now = await world.head(run.thread_id)
    assert (now.active_run, now.waiting_runs, now.leaf_id) == (run.id, (), f"{other}_m1")
    assert (await world.run(run.id)).hears == log.snapshot.meta.hears == f"{other}_m1"


async def test_a_thread_that_was_taken_meanwhile_is_not_taken_back(world: JournalBench) -> None:
    run, other, calls = await set_aside_run(world)
    await decided(world, calls)
    head = await free(world, other)
    log = await taken_again(world, run.id)
    faster = (await world.accept(run.thread_id)).run_id
    assert not await log.take_thread(head)
    assert (await world.head(run.thread_id)).active_run == faster
    assert (await world.run(run.id)).hears is None


async def test_a_run_takes_its_thread_back_from_one_that_waits_too(world: JournalBench) -> None:
    run, other, calls = await set_aside_run(world)
    await world.waiting(await world.take(other), "c1")
    await decided(world, calls)
    log, head = await taken_again(world, run.id), await world.head(run.thread_id)
    assert await log.take_thread(head, aside_of(world, await world.run(other)))
    now = await world.head(run.thread_id)
    assert (now.active_run, now.waiting_runs, now.leaf_id) == (run.id, (other,), f"{other}_c1")
    assert (await world.run(other)).aside


async def test_a_run_that_lost_its_epoch_takes_no_thread(world: JournalBench) -> None:
    run, other, calls = await set_aside_run(world)
    await decided(world, calls)
    head = await free(world, other)
    log = await taken_again(world, run.id)
    await world.take(run.id)
    with pytest.raises(Fenced):
        await log.take_thread(head)
    assert await world.head(run.thread_id) == head


async def readied(world: JournalBench) -> tuple[RunMeta, str]:
    """A run that was decided while another one has its thread, and that other one."""
    run, other, calls = await set_aside_run(world)
    await decided(world, calls)
    log, head = await taken_again(world, run.id), await world.head(run.thread_id)
    assert await log.wait_for_thread(head, await world.run(other))
    return await world.run(run.id), other


async def test_a_decided_run_goes_on_when_the_one_at_work_ends(world: JournalBench) -> None:
    run, other = await readied(world)
    assert run.ready
    assert (await world.head(run.thread_id)).ready == (run.id,)
    log = await world.take(other)
    outcome = world.outcome(log.snapshot.meta)
    ended = await log.end(outcome, world.finish(outcome))
    assert (ended.next_run, ended.next_n) == (run.id, 2)
    head, now = await world.head(run.thread_id), await world.run(run.id)
    assert (head.active_run, head.ready, head.waiting_runs) == (run.id, (), ())
    assert (now.ready, now.hears, now.execution) == (False, outcome.leaf_id, f"{run.id}-2")
    assert now.epoch > run.epoch


async def test_those_that_interrupt_come_first_then_decided_ones_then_the_queue(
    world: JournalBench,
) -> None:
    run, other = await readied(world)
    queued = await world.queue(run.thread_id)
    interrupts = (await world.accept(run.thread_id, OnBusy.INTERRUPT)).run_id
    order = [await world.end(await world.take(other), status=Status.CANCELLED)]
    order.append(await world.end(await world.take(interrupts)))
    order.append(await world.end(await world.take(run.id, 2)))
    assert order == [interrupts, run.id, queued]


async def test_a_decided_run_that_is_cancelled_gives_way_and_still_waits_to_be_saved(
    world: JournalBench,
) -> None:
    run, other = await readied(world)
    queued = await world.queue(run.thread_id)
    await world.journal.commands.request_cancel(world.owner, run.id)
    assert await world.end(await world.take(other)) == queued
    head = await world.head(run.thread_id)
    assert (head.active_run, head.ready, head.waiting_runs) == (queued, (), (run.id,))
    log = await world.journal.writers.seize(world.owner, run.id)
    assert log is not None
    await world.end(log, status=Status.CANCELLED, saved=False)
    head = await world.head(run.thread_id)
    assert (head.active_run, head.waiting_runs, head.unsaved) == (queued, (), (run.id,))


async def test_the_one_at_work_ends_although_a_decided_one_joined_since_it_read_the_thread(
    world: JournalBench,
) -> None:
    run, other, calls = await set_aside_run(world)
    worker = await world.take(other)
    read = await world.head(run.thread_id)
    await decided(world, calls)
    log = await taken_again(world, run.id)
    assert await log.wait_for_thread(read, await world.run(other))
    outcome = world.outcome(worker.snapshot.meta)
    assert (await worker.end(outcome, world.finish(outcome), head=read)).next_run == run.id


async def test_nobody_joins_those_that_wait_for_a_run_that_waits_itself_by_now(
    world: JournalBench,
) -> None:
    run, other, calls = await set_aside_run(world)
    busy, head = await world.run(other), await world.head(run.thread_id)
    await world.waiting(await world.take(other), "c1")
    await decided(world, calls)
    log = await taken_again(world, run.id)
    assert not await log.wait_for_thread(head, busy)
    assert (await world.head(run.thread_id)).ready == ()
    assert not (await world.run(run.id)).ready


async def test_nobody_waits_for_a_run_that_is_over(world: JournalBench) -> None:
    run, other, calls = await set_aside_run(world)
    busy, head = await world.run(other), await world.head(run.thread_id)
    await decided(world, calls)
    await free(world, other)
    log = await taken_again(world, run.id)
    assert not await log.wait_for_thread(head, busy)


async def test_a_run_joins_those_that_wait_once(world: JournalBench) -> None:
    run, other = await readied(world)
    log = await world.take(run.id)
    assert await log.wait_for_thread(await world.head(run.thread_id), await world.run(other))
    assert (await world.head(run.thread_id)).ready == (run.id,)


async def test_a_run_that_ends_while_it_is_set_aside_leaves_the_newest_message(
    world: JournalBench,
) -> None:
    run, other, _ = await set_aside_run(world)
    before = await world.head(run.thread_id)
    log = await world.journal.writers.seize(world.owner, run.id)
    assert log is not None
    assert await world.end(log, status=Status.CANCELLED) is None
    head = await world.head(run.thread_id)
    assert (head.active_run, head.waiting_runs) == (other, ())
    assert (head.leaf_id, head.last_created_at) == (before.leaf_id, before.last_created_at)


async def test_an_end_while_set_aside_notes_that_it_is_not_saved(world: JournalBench) -> None:
    run, _, _ = await set_aside_run(world)
    log = await world.journal.writers.seize(world.owner, run.id)
    assert log is not None
    await world.end(log, status=Status.CANCELLED, saved=False)
    assert (await world.head(run.thread_id)).unsaved == (run.id,)


async def ended_aside(world: JournalBench, run: RunMeta) -> RunMeta:
    """The end of a run that is set aside, and leaves a message that nobody has read."""
    meta = await world.run(run.id)
    assert await world.journal.commands.add_message(meta, message_to(run, "wait"))
    log = await world.journal.writers.seize(world.owner, run.id)
    assert log is not None
    left = {"unplaced": f"{run.id}_said1", "loose_at": world.clock.now(), "saved": False}
    await world.end(log, status=Status.CANCELLED, **left)
    return await world.run(run.id)


async def test_what_a_run_leaves_that_ends_set_aside_is_newest_if_no_run_is_at_work(
    world: JournalBench,
) -> None:
    run, other, _ = await set_aside_run(world)
    await free(world, other)
    before = await world.head(run.thread_id)
    over = await ended_aside(world, run)
    head = await world.head(run.thread_id)
    assert (over.hears, over.unplaced) == (before.leaf_id, None)
    assert over.loose_at is not None
    assert before.last_created_at is not None
    assert over.loose_at > before.last_created_at
    assert (head.leaf_id, head.unsaved) == (f"{run.id}_said1", (run.id,))
    assert head.last_created_at is not None
    assert head.last_created_at >= over.loose_at


async def test_what_a_run_leaves_comes_behind_the_run_at_work_and_before_the_next(
    world: JournalBench,
) -> None:
    run, other, _ = await set_aside_run(world)
    dropped, queued = await world.queue(run.thread_id), await world.queue(run.thread_id)
    over = await ended_aside(world, run)
    assert over.unplaced == f"{run.id}_said1"
    assert await world.drop(dropped)
    head = await world.head(run.thread_id)
    assert (head.unplaced, head.queue, head.unsaved) == ((run.id, dropped), (queued,), ())
    worker = await world.take(other)
    outcome = world.outcome(worker.snapshot.meta)
    assert (await worker.end(outcome, world.finish(outcome), head=head)).next_run == queued
    first, second = await world.run(run.id), await world.run(dropped)
    third, head = await world.run(queued), await world.head(run.thread_id)
    assert (first.hears, first.unplaced) == (outcome.leaf_id, None)
    assert (second.input.parent_id, second.unplaced) == (f"{run.id}_said1", None)
    assert third.input.parent_id == head.leaf_id == second.input.id
    assert first.loose_at is not None
    assert outcome.last_created_at < first.loose_at < second.input.created_at
    assert second.input.created_at < third.input.created_at
    assert (head.unplaced, head.unsaved) == ((), (run.id, dropped))


async def test_an_end_knows_what_a_run_left_since_it_read_the_thread(world: JournalBench) -> None:
    run, other, _ = await set_aside_run(world)
    worker, read = await world.take(other), await world.head(run.thread_id)
    await ended_aside(world, run)
    outcome = world.outcome(worker.snapshot.meta)
    await worker.end(outcome, world.finish(outcome), head=read)
    head = await world.head(run.thread_id)
    assert (head.leaf_id, head.unplaced) == (f"{run.id}_said1", ())


async def test_a_queued_run_that_is_sent_a_message_ends_with_it_or_not_yet(
    world: JournalBench,
) -> None:
    run, _, _ = await set_aside_run(world)
    queued = await world.run(await world.queue(run.thread_id))
    assert await world.journal.commands.add_message(queued, message_to(queued, "more"))
    outcome = world.outcome(queued, Status.CANCELLED, loose_at=queued.created_at)
    assert not await world.journal.commands.end_queued(queued, outcome, world.finish(outcome))
    assert (await world.head(run.thread_id)).queue == (queued.id,)


async def test_messages_come_to_a_run_in_their_order_and_with_its_records(
    world: JournalBench,
) -> None:
    log, _ = await waiting(world)
    run = await world.run(log.snapshot.meta.id)
    add = world.journal.commands.add_message
    for number in (1, 2):
        run = await world.run(run.id)
        assert await add(run, message_to(run, f"text {number}", number))
    snapshot = await world.journal.runs.snapshot(world.owner, run.id)
    assert snapshot is not None
    assert [m.text for m in snapshot.said] == ["text 1", "text 2"]
    assert snapshot.meta.said == 2
    again = await world.take(run.id)
    assert [m.text for m in again.snapshot.said] == ["text 1", "text 2"]
    assert await again.new_messages(2) == ()


async def test_a_message_that_is_repeated_comes_once(world: JournalBench) -> None:
    log, _ = await waiting(world)
    run, add = await world.run(log.snapshot.meta.id), world.journal.commands.add_message
    key = RequestKey("k", "hash", None)
    assert await add(run, message_to(run, "x"), key)
    run = await world.run(run.id)
    assert not await add(run, message_to(run, "x", 2), key)
    with pytest.raises(Conflict):
        await add(run, message_to(run, "x", 3), RequestKey("k", "other", None))
    assert (await world.run(run.id)).said == 1


async def test_of_two_messages_at_once_the_slower_reads_the_run_again(world: JournalBench) -> None:
    log, _ = await waiting(world)
    run, add = await world.run(log.snapshot.meta.id), world.journal.commands.add_message
    assert await add(run, message_to(run, "x", 1))
    with pytest.raises(StaleRun):
        await add(run, message_to(run, "x", 2))


async def test_a_run_that_is_over_or_flagged_takes_no_message(world: JournalBench) -> None:
    log, _ = await waiting(world)
    run, add = await world.run(log.snapshot.meta.id), world.journal.commands.add_message
    await world.journal.commands.request_cancel(world.owner, run.id)
    with pytest.raises(StaleRun):
        await add(run, message_to(run, "x"))
    ended = await world.taken()
    meta = ended.snapshot.meta
    await world.end(ended)
    with pytest.raises(StaleRun):
        await add(meta, message_to(meta, "x"))


async def test_a_run_does_not_end_before_it_knows_each_message(world: JournalBench) -> None:
    log = await world.taken()
    run = log.snapshot.meta
    await world.journal.commands.add_message(run, message_to(run, "wait"))
    with pytest.raises(Fenced):
        await world.end(log)
    assert (await world.run(run.id)).status is Status.RUNNING
    assert await log.cancel_requested() is None
    assert [m.text for m in await log.new_messages(0)] == ["wait"]
    await world.end(log)
    assert (await world.run(run.id)).status is Status.SUCCESS


async def test_the_end_of_a_queue_is_not_lost_on_a_run_that_was_sent_a_message(
    world: JournalBench,
) -> None:
    log = await world.taken()
    run = log.snapshot.meta
    queued = await world.queue(run.thread_id)
    meta = await world.run(queued)
    assert await world.journal.commands.add_message(meta, message_to(meta, "more"))
    assert await world.end(log) == queued
    first = await world.take(queued)
    assert [m.text for m in first.snapshot.said] == ["more"]


async def test_calls_do_not_begin_before_the_model_has_read_each_message(
    world: JournalBench,
) -> None:
    log = await world.taken()
    run = log.snapshot.meta
    step = world.step(log, "c1")
    call = planned(log, step, "c1")
    await world.journal.commands.add_message(run, message_to(run, "wait"))
    with pytest.raises(Unheard):
        await log.put_step(step, open_calls=[call], heard=0)
    found = await world.journal.runs.snapshot(world.owner, run.id)
    assert found is not None
    assert (found.steps, found.calls) == ((), ())
    await log.put_step(step)
    with pytest.raises(Unheard):
        await log.open_calls([call], heard=0)
    assert [m.text for m in await log.new_messages(0)] == ["wait"]
    await log.open_calls([call], heard=1)


async def test_a_writer_that_was_fenced_off_is_told_so_whatever_it_has_heard(
    world: JournalBench,
) -> None:
    log = await world.taken()
    run = log.snapshot.meta
    step = world.step(log, "c1")
    call = planned(log, step, "c1")
    await world.journal.commands.add_message(run, message_to(run, "wait"))
    await world.take(run.id)
    for heard in (0, 1, None):
        with pytest.raises(Fenced):
            await log.put_step(step, open_calls=[call], heard=heard)
