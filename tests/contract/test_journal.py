"""Threads and their runs in the journal: accepting, queueing, ending."""

from datetime import timedelta
from typing import Any

import pytest

from layover.clock import MICROSECOND
from layover.errors import Conflict, Fenced, LimitReached, NotFound, ThreadBusy
from layover.ports import RequestKey, StaleHead
from layover.values.deployment.access import Actor
from layover.values.message import Message, Role
from layover.values.runs.run import MAX_QUEUE, FinishReason, OnBusy, Status
from support.worlds.journal import JournalBench

ENQUEUE, INTERRUPT, REJECT = OnBusy.ENQUEUE, OnBusy.INTERRUPT, OnBusy.REJECT


def key(world: JournalBench, name: str = "k", body: str = "hash", life_s: float = 60) -> RequestKey:
    return RequestKey(name, body, world.clock.now() + timedelta(seconds=life_s))


# Threads


async def test_thread_that_is_not_there_cannot_be_read_changed_or_deleted(
    world: JournalBench,
) -> None:
    assert await world.journal.heads.get(world.owner, "t") is None
    assert await world.journal.heads.edit(world.owner, "t", title="x") is None
    await world.journal.erasure.mark_deleted(world.owner, "t")
    assert await world.journal.heads.get(world.owner, "t") is None


async def test_thread_that_is_there_stays_as_it_is_when_it_is_made_again(
    world: JournalBench,
) -> None:
    head = await world.thread(title="first")
    await world.journal.heads.put(head.model_copy(update={"title": "second"}))
    assert await world.head(head.id) == head


async def test_head_reads_back_as_it_was_put(world: JournalBench) -> None:
    given: dict[str, Any] = {"title": "t", "metadata": {"a": [1, None]}, "leaf_id": "m"}
    given |= {"last_created_at": world.clock.now(), "active_run": "r", "queue": ("q1", "q2")}
    head = await world.thread(**given, interrupts=1, unsaved=("u",))
    assert await world.head(head.id) == head


async def test_title_is_replaced_and_metadata_left_alone(world: JournalBench) -> None:
    head = await world.thread(metadata={"a": 1})
    world.tick()
    edited = await world.journal.heads.edit(world.owner, head.id, title="new")
    changes = {"title": "new", "updated_at": world.clock.now()}
    assert edited == head.model_copy(update=changes) == await world.head(head.id)


async def test_title_that_a_person_gave_is_not_overwritten_by_a_found_one(
    world: JournalBench,
) -> None:
    head = await world.thread(title="given")
    edit = world.journal.heads.edit
    assert await edit(world.owner, head.id, title="found", untitled_only=True) is None
    assert (await world.head(head.id)).title == "given"
    other = await world.thread()
    edited = await edit(world.owner, other.id, title="found", untitled_only=True)
    assert edited is not None
    assert edited.title == "found"


async def test_deleted_thread_stays_as_a_tombstone_out_of_the_list(world: JournalBench) -> None:
    head = await world.thread()
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    assert (await world.head(head.id)).deleted
    assert (await world.journal.heads.page(world.owner, 9, None)).items == ()
    assert await world.journal.heads.edit(world.owner, head.id, title="x") is None
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    assert (await world.head(head.id)).deleted


async def test_threads_are_listed_newest_change_first_page_by_page(world: JournalBench) -> None:
    heads = []
    for _ in range(5):
        heads.append(await world.thread())
        world.tick()
    await world.journal.heads.edit(world.owner, heads[1].id, title="changed")
    world.tick()
    await world.accept(heads[0].id)
    expected = [heads[n].id for n in (0, 1, 4, 3, 2)]
    for size in (1, 2, 5):
        seen: list[str] = []
        cursor = None
        while True:
            page = await world.journal.heads.page(world.owner, size, cursor)
            seen += [head.id for head in page.items]
            if (cursor := page.next_cursor) is None:
                break
        assert seen == expected


# Accepting a run


async def test_thread_that_is_not_there_takes_no_run(world: JournalBench) -> None:
    head = await world.thread()
    ghost = head.model_copy(update={"id": "ghost"})
    run = world.new_run(ghost)
    with pytest.raises(NotFound):
        await world.journal.commands.accept(run, ghost, REJECT, None)
    assert await world.journal.runs.get(world.owner, run.id) is None


async def test_deleted_thread_takes_no_run(world: JournalBench) -> None:
    head = await world.thread()
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    run = world.new_run(head)
    with pytest.raises(NotFound):
        await world.journal.commands.accept(run, head, ENQUEUE, None)
    assert await world.journal.runs.get(world.owner, run.id) is None


async def test_busy_thread_refuses_and_names_the_run_that_holds_it(world: JournalBench) -> None:
    head = await world.thread()
    active = await world.accept(head.id)
    with pytest.raises(ThreadBusy) as caught:
        await world.accept(head.id)
    assert caught.value.ids["run_id"] == active.run_id


@pytest.mark.parametrize("on_busy", [REJECT, ENQUEUE, INTERRUPT])
async def test_head_that_moved_since_it_was_read_is_refused(
    world: JournalBench, on_busy: OnBusy
) -> None:
    old = await world.thread()
    await world.accept(old.id)
    run = world.new_run(old)
    with pytest.raises(StaleHead):
        await world.journal.commands.accept(run, old, on_busy, None)
    assert await world.journal.runs.get(world.owner, run.id) is None
    assert (await world.head(old.id)).queue == ()


async def test_run_is_not_queued_behind_one_that_ended_meanwhile(world: JournalBench) -> None:
    log = await world.taken()
    busy = await world.head(log.snapshot.meta.thread_id)
    await world.end(log)
    for on_busy in (ENQUEUE, INTERRUPT):
        with pytest.raises(StaleHead):
            await world.journal.commands.accept(world.new_run(busy), busy, on_busy, None)
    assert (await world.accept(busy.id, ENQUEUE)).started


async def test_hundred_wait_and_the_next_is_refused(world: JournalBench) -> None:
    queue = tuple(f"run_{n}" for n in range(MAX_QUEUE - 1))
    head = await world.thread(active_run="run_a", queue=queue)
    accepted = await world.accept(head.id, ENQUEUE)
    assert (await world.head(head.id)).queue == (*queue, accepted.run_id)
    for on_busy in (ENQUEUE, INTERRUPT):
        with pytest.raises(LimitReached):
            await world.accept(head.id, on_busy)


async def test_accepted_run_holds_the_thread_and_reads_back(world: JournalBench) -> None:
    head = await world.thread()
    named: dict[str, Any] = {"parent_given": True, "thread_given": False}
    run = world.new_run(head, stream=True, max_iterations=3, **named)
    accepted = await world.journal.commands.accept(run, head, REJECT, None)
    assert (accepted.run_id, accepted.started, accepted.replayed) == (run.id, True, False)
    assert (await world.head(head.id)).active_run == run.id
    placed = {"status": Status.RUNNING, "execution": f"{run.id}-1"}
    assert await world.run(run.id) == run.model_copy(update=placed)


async def test_enqueued_runs_stand_in_order_of_arrival(world: JournalBench) -> None:
    head = await world.thread()
    await world.accept(head.id)
    first, second = await world.queue(head.id), await world.queue(head.id)
    assert (await world.head(head.id)).queue == (first, second)
    waiting = await world.run(first)
    assert (waiting.status, waiting.execution) == (Status.QUEUED, None)


@pytest.mark.both_stores
async def test_interrupting_run_goes_before_the_queue_and_cancels_the_active_one(
    world: JournalBench,
) -> None:
    head = await world.thread()
    active = (await world.accept(head.id)).run_id
    queued = await world.queue(head.id)
    assert not (await world.run(active)).cancel
    accepted = await world.accept(head.id, INTERRUPT)
    second = await world.accept(head.id, INTERRUPT)
    assert accepted.interrupts == active
    assert (await world.head(head.id)).queue == (accepted.run_id, second.run_id, queued)
    assert (await world.run(active)).cancel
    assert not (await world.run(queued)).cancel


async def test_tools_of_an_interrupted_run_have_two_seconds(world: JournalBench) -> None:
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    await world.accept(head.id, INTERRUPT)
    asked = await log.cancel_requested()
    assert asked is not None
    assert (asked.grace, asked.by) == (timedelta(seconds=2), None)


async def test_run_that_a_person_interrupts_is_cancelled_by_them(world: JournalBench) -> None:
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    busy = await world.head(head.id)
    by = Actor(sub="shop", on_behalf_of=world.owner)
    await world.journal.commands.accept(world.new_run(busy), busy, INTERRUPT, None, by=by)
    asked = await log.cancel_requested()
    assert asked is not None
    assert (asked.by, asked.on_behalf_of) == ("shop", world.owner)


async def test_interrupt_of_a_free_thread_starts(world: JournalBench) -> None:
    accepted = await world.accept((await world.thread()).id, INTERRUPT)
    assert (accepted.started, accepted.interrupts) == (True, None)


async def test_runs_of_a_thread_are_listed_newest_first(
    world: JournalBench, stranger: JournalBench
) -> None:
    head, other = await world.thread(), await world.thread()
    ids = [(await world.accept(head.id)).run_id]
    await world.accept(other.id)
    for _ in range(2):
        world.tick()
        ids.insert(0, await world.queue(head.id))
    page = await world.journal.runs.page_ids(world.owner, head.id, 2, None)
    assert list(page.items) == ids[:2]
    rest = await world.journal.runs.page_ids(world.owner, head.id, 2, page.next_cursor)
    assert (list(rest.items), rest.next_cursor) == (ids[2:], None)
    assert (await stranger.journal.runs.page_ids(stranger.owner, head.id, 9, None)).items == ()


# Request keys


async def test_key_with_another_body_is_refused(world: JournalBench) -> None:
    head = await world.thread()
    await world.accept(head.id, request=key(world))
    other = key(world, body="other")
    with pytest.raises(Conflict):
        await world.accept(head.id, ENQUEUE, other)
    with pytest.raises(Conflict):
        await world.journal.commands.find_request(world.owner, other, world.clock.now())
    assert (await world.head(head.id)).queue == ()


async def test_key_that_was_used_answers_its_run_and_makes_none(world: JournalBench) -> None:
    head = await world.thread()
    first = await world.accept(head.id, request=key(world))
    again = await world.accept(head.id, ENQUEUE, key(world))
    assert (again.run_id, again.started, again.replayed) == (first.run_id, False, True)
    assert (
        await world.journal.commands.find_request(world.owner, key(world), world.clock.now())
        == first.run_id
    )
    assert (await world.head(head.id)).queue == ()


@pytest.mark.both_stores
async def test_interrupt_with_a_used_key_cancels_nothing(world: JournalBench) -> None:
    head = await world.thread()
    first = await world.accept(head.id, request=key(world))
    again = await world.accept(head.id, INTERRUPT, key(world))
    assert (again.run_id, again.replayed, again.interrupts) == (first.run_id, True, None)
    assert not (await world.run(first.run_id)).cancel


async def test_used_key_wins_over_a_head_that_moved(world: JournalBench) -> None:
    """The answer to the first request was lost; its repetition carries the head of before."""
    old = await world.thread()
    first = await world.accept(old.id, request=key(world))
    again = await world.journal.commands.accept(world.new_run(old), old, REJECT, key(world))
    assert (again.run_id, again.replayed) == (first.run_id, True)


async def test_expired_key_is_free_even_while_its_item_is_there(world: JournalBench) -> None:
    head = await world.thread()
    request = key(world, life_s=10)
    first = await world.accept(head.id, request=request)
    world.tick(10)
    assert (
        await world.journal.commands.find_request(world.owner, request, world.clock.now())
        == first.run_id
    )
    world.tick(1)
    assert (
        await world.journal.commands.find_request(world.owner, request, world.clock.now()) is None
    )
    second = await world.accept(head.id, ENQUEUE, key(world, body="other"))
    assert not second.replayed
    assert (await world.head(head.id)).queue == (second.run_id,)


async def test_refused_run_does_not_use_its_key_up(world: JournalBench) -> None:
    old = await world.thread()
    await world.accept(old.id)
    with pytest.raises(StaleHead):
        await world.journal.commands.accept(world.new_run(old), old, REJECT, key(world))
    assert (
        await world.journal.commands.find_request(world.owner, key(world), world.clock.now())
        is None
    )


# The end


async def test_run_ends_once(world: JournalBench) -> None:
    log = await world.taken()
    await world.end(log)
    with pytest.raises(Fenced):
        await world.end(log)
    assert [e.type for e in await world.events(log.snapshot.meta.id)] == ["finish"]


async def test_end_frees_the_thread_and_moves_its_leaf(world: JournalBench) -> None:
    log = await world.taken()
    meta = log.snapshot.meta
    world.tick()
    assert await world.end(log, output={"x": 1}, model="openai/gpt-5-mini") is None
    head, run = await world.head(meta.thread_id), await world.run(meta.id)
    assert (head.active_run, head.leaf_id, head.unsaved) == (None, f"{meta.id}_m1", ())
    assert head.last_created_at == meta.input.created_at + MICROSECOND
    assert head.updated_at == run.updated_at == world.clock.now()
    assert (run.status, run.finish_reason, run.saved) == (Status.SUCCESS, FinishReason.STOP, True)
    assert (run.output, run.model) == ({"x": 1}, "openai/gpt-5-mini")


async def test_failed_end_says_why_and_that_it_is_not_saved(world: JournalBench) -> None:
    log = await world.taken()
    meta = log.snapshot.meta
    await world.end(log, status=Status.FAILED, saved=False)
    run = await world.run(meta.id)
    assert run.error is not None
    assert (run.status, run.error.type, run.saved) == (Status.FAILED, "Boom", False)
    assert (await world.head(meta.thread_id)).unsaved == (meta.id,)


async def test_saving_later_takes_the_mark_away_and_another_runs_mark_not(
    world: JournalBench,
) -> None:
    log = await world.taken()
    meta = log.snapshot.meta
    await world.end(log, saved=False)
    await world.journal.commands.mark_saved(world.owner, "another", meta.thread_id)
    assert (await world.head(meta.thread_id)).unsaved == (meta.id,)
    await world.journal.commands.mark_saved(world.owner, meta.id, meta.thread_id)
    assert (await world.head(meta.thread_id)).unsaved == ()
    assert (await world.run(meta.id)).saved


async def test_unsaved_run_is_remembered_until_it_is_saved(world: JournalBench) -> None:
    """A run that ends cannot know whether the one before it, unsaved, has been saved since."""
    head = await world.thread()
    first = await world.take((await world.accept(head.id)).run_id)
    await world.end(first, saved=False)
    second = await world.take((await world.accept(head.id)).run_id)
    await world.end(second)
    assert (await world.head(head.id)).unsaved == (first.snapshot.meta.id,)


@pytest.mark.both_stores
async def test_end_hands_the_thread_to_the_next_and_gives_its_input_parent_and_time(
    world: JournalBench,
) -> None:
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    nexts = [await world.queue(head.id), await world.queue(head.id)]
    last = world.clock.now() + timedelta(hours=1)
    assert await world.end(log, leaf_id="leaf", last_created_at=last) == nexts[0]
    run = await world.run(nexts[0])
    assert (run.status, run.execution) == (Status.RUNNING, f"{run.id}-1")
    assert (run.input.parent_id, run.input.created_at) == ("leaf", last + MICROSECOND)
    after = await world.head(head.id)
    assert (after.active_run, after.queue) == (nexts[0], (nexts[1],))
    assert await world.end(await world.take(nexts[0])) == nexts[1]


async def test_parent_that_the_caller_named_stays(world: JournalBench) -> None:
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    given = Message(
        id="m", thread_id=head.id, parent_id="fork", role=Role.USER, created_at=world.clock.now()
    )
    queued = await world.queue(head.id, parent_given=True, input=given)
    await world.end(log)
    assert (await world.run(queued)).input.parent_id == "fork"


async def test_runs_in_the_queue_that_do_not_wait_are_passed_over(world: JournalBench) -> None:
    busy = await world.thread(active_run="run_a")
    over = await world.queue(busy.id)
    await world.drop(over)
    head = await world.thread(queue=(over, "run_unknown"))
    log = await world.take((await world.accept(head.id)).run_id)
    third = await world.queue(head.id)
    assert await world.end(log) == third
    assert (await world.head(head.id)).queue == ()


async def test_thread_is_free_where_everybody_in_the_queue_is_cancelled(
    world: JournalBench,
) -> None:
    head = await world.thread(queue=("run_unknown",), interrupts=1)
    log = await world.take((await world.accept(head.id)).run_id)
    await world.drop(await world.queue(head.id))
    assert await world.end(log) is None
    after = await world.head(head.id)
    assert (after.active_run, after.queue, after.interrupts) == (None, (), 0)


async def test_interrupts_are_counted_down_as_they_start(world: JournalBench) -> None:
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    queued = await world.queue(head.id)
    first, second = [(await world.accept(head.id, INTERRUPT)).run_id for _ in range(2)]
    assert await world.end(log) == first
    assert (await world.head(head.id)).interrupts == 1
    third = (await world.accept(head.id, INTERRUPT)).run_id
    assert (await world.head(head.id)).queue == (second, third, queued)


async def test_end_on_a_deleted_thread_leaves_it_out_of_the_list(world: JournalBench) -> None:
    log = await world.taken()
    thread_id = log.snapshot.meta.thread_id
    await world.journal.erasure.mark_deleted(world.owner, thread_id)
    await world.end(log)
    assert (await world.journal.heads.page(world.owner, 9, None)).items == ()
    assert (await world.head(thread_id)).deleted


async def test_thread_that_is_deleted_during_the_end_stays_out_of_the_list(
    world: JournalBench,
) -> None:
    meddled, table = world.meddled()
    log = await meddled.taken()
    thread_id = log.snapshot.meta.thread_id
    table.before_next(lambda: world.journal.erasure.mark_deleted(world.owner, thread_id))
    await meddled.end(log)
    assert (await world.journal.heads.page(world.owner, 9, None)).items == ()
    head = await world.head(thread_id)
    assert (head.deleted, head.active_run) == (True, None)


async def test_run_that_is_queued_during_the_end_is_started(world: JournalBench) -> None:
    meddled, table = world.meddled()
    log = await meddled.taken()
    thread_id = log.snapshot.meta.thread_id
    table.before_next(lambda: world.queue(thread_id))
    started = await meddled.end(log)
    assert started is not None
    assert (await world.head(thread_id)).active_run == started
    assert (await world.run(started)).status is Status.RUNNING
    assert len(await world.events(log.snapshot.meta.id)) == 1


async def test_queued_run_that_is_cancelled_during_the_end_is_passed_over(
    world: JournalBench,
) -> None:
    meddled, table = world.meddled()
    log = await meddled.taken()
    queued = await world.queue(log.snapshot.meta.thread_id)
    table.before_next(lambda: world.drop(queued))
    assert await meddled.end(log) is None
    assert (await world.run(queued)).status is Status.CANCELLED
    assert (await world.head(log.snapshot.meta.thread_id)).queue == ()


async def test_run_that_never_started_ends_alone(world: JournalBench) -> None:
    head = await world.thread()
    active = (await world.accept(head.id)).run_id
    queued = await world.queue(head.id)
    assert not await world.drop(active)
    assert not await world.drop("unknown")
    assert await world.drop(queued)
    assert not await world.drop(queued)
    run = await world.run(queued)
    assert (run.status, run.finish_reason) == (Status.CANCELLED, FinishReason.CANCELLED)
    page = await world.journal.events.page(world.owner, queued, 0, 9)
    assert ([e.type for e in page.items], page.done) == (["finish"], True)


async def test_a_head_advances_only_as_it_was_read(world: JournalBench) -> None:
    head = await world.thread()
    at = world.clock.now() - timedelta(days=400)
    moved = await world.journal.heads.advance(head, "m1", at)
    assert moved is not None
    assert (moved.leaf_id, moved.last_created_at, moved.id) == ("m1", at, head.id)
    assert moved.updated_at >= head.updated_at
    assert await world.journal.heads.advance(head, "m2", at) is None
    await world.accept(head.id)
    assert await world.journal.heads.advance(moved, "m2", at) is None
    unknown = head.model_copy(update={"id": "unknown"})
    assert await world.journal.heads.advance(unknown, "m2", at) is None
    assert await world.journal.heads.get(world.owner, "unknown") is None
