"""Threads: make, read, change, delete."""

import asyncio
from dataclasses import replace

import pytest

from layover.errors import DatabaseWaking, InvalidRequest, NotFound, TooLarge
from layover.runs import read as runs
from layover.threads import threads
from layover.values.runs.run import OnBusy, Status
from support.worlds.journal import instead
from support.worlds.loops import played
from support.worlds.services import ANN, BOB, ServiceBench


async def test_an_agent_that_is_not_there_has_no_threads(world: ServiceBench) -> None:
    with pytest.raises(InvalidRequest):
        await threads.create(world.runtime, ANN, "nobody", None, {})


async def test_a_title_without_end_is_refused(world: ServiceBench) -> None:
    with pytest.raises(InvalidRequest):
        await threads.create(world.runtime, ANN, "support", "x" * 501, {})


async def test_metadata_larger_than_a_head_can_hold_is_refused(world: ServiceBench) -> None:
    with pytest.raises(TooLarge):
        await threads.create(world.runtime, ANN, "support", None, {"a": "x" * 70_000})


async def test_a_foreign_thread_can_be_neither_read_nor_changed_nor_deleted(
    world: ServiceBench,
) -> None:
    thread = await world.thread()
    with pytest.raises(NotFound):
        await threads.get(world.runtime, BOB, thread.id)
    with pytest.raises(NotFound):
        await threads.edit(world.runtime, BOB, thread.id, title="mine now")
    with pytest.raises(NotFound):
        await threads.delete(world.runtime, BOB, thread.id)
    assert (await threads.get(world.runtime, ANN, thread.id)).title is None


async def test_another_lists_cursor_is_refused(world: ServiceBench) -> None:
    thread = await world.thread()
    for _ in range(2):
        await world.run(thread.id, on_busy=OnBusy.ENQUEUE)
    page = await runs.list_runs(world.runtime, ANN, thread.id, 1, None)
    for cursor in (page.next_cursor, "abc", "🙂", "e30", ""):
        with pytest.raises(InvalidRequest):
            await threads.list_threads(world.runtime, ANN, 20, cursor)


async def test_deleting_twice_finds_nothing_the_second_time(world: ServiceBench) -> None:
    thread = await world.thread()
    await threads.delete(world.runtime, ANN, thread.id)
    with pytest.raises(NotFound):
        await threads.delete(world.runtime, ANN, thread.id)


async def test_a_thread_is_deleted_though_the_database_sleeps(world: ServiceBench) -> None:
    thread = await world.thread()
    world.threads.asleep = True
    await threads.delete(world.runtime, ANN, thread.id)
    with pytest.raises(NotFound):
        await threads.get(world.runtime, ANN, thread.id)


async def test_an_unknown_thread_is_looked_for_in_the_database(world: ServiceBench) -> None:
    world.threads.asleep = True
    with pytest.raises(DatabaseWaking):
        await threads.get(world.runtime, ANN, "thread_lost")


async def test_deleting_cancels_the_active_run_and_those_that_wait(world: ServiceBench) -> None:
    thread = await world.thread()
    active = await world.run(thread.id)
    queued = await world.run(thread.id, on_busy=OnBusy.ENQUEUE)
    await threads.delete(world.runtime, ANN, thread.id)
    for run in (active, queued):
        meta = await world.journal.runs.get(ANN, run.id)
        assert meta is None or meta.status is Status.CANCELLED
    assert world.callbacks.started == [f"{active.id}-1"]


async def never_ended(*_: object) -> bool:
    """No queued run comes to its end."""
    await asyncio.Event().wait()
    return True


def test_deleting_takes_two_seconds_at_most_and_forgets_before_it_ends_the_active_run() -> None:
    async def scene() -> None:
        world = ServiceBench()
        thread = await world.thread()
        await world.finish((await world.run(thread.id)).id)
        assert world.threads.find(ANN, thread.id) is not None
        active, *_ = [await world.run(thread.id, on_busy=OnBusy.ENQUEUE) for _ in range(9)]
        commands = instead(world.journal.commands, end_queued=never_ended)
        stuck = replace(world.journal, commands=commands)
        began = asyncio.get_running_loop().time()
        await threads.delete(replace(world.runtime, journal=stuck), ANN, thread.id)
        assert asyncio.get_running_loop().time() - began < 2.1
        assert world.threads.find(ANN, thread.id) is None
        meta = await world.journal.runs.get(ANN, active.id)
        assert meta is not None
        assert meta.status is Status.CANCELLED

    played(scene())


async def test_a_deleted_thread_takes_its_stored_messages_and_its_runs_with_it(
    world: ServiceBench,
) -> None:
    thread = await world.thread()
    run = await world.run(thread.id)
    await world.finish(run.id)
    await threads.delete(world.runtime, ANN, thread.id)
    assert world.threads.find(ANN, thread.id) is None
    with pytest.raises(NotFound):
        await runs.get(world.runtime, ANN, run.id)
    with pytest.raises(NotFound):
        await runs.events(world.runtime, ANN, run.id, 0, 10)


async def test_threads_are_listed_newest_change_first_page_by_page(world: ServiceBench) -> None:
    one, two, three = [await world.thread() for _ in range(3)]
    await world.run(one.id)
    first = await threads.list_threads(world.runtime, ANN, 2, None)
    second = await threads.list_threads(world.runtime, ANN, 2, first.next_cursor)
    assert [t.id for t in first.items] == [one.id, three.id]
    assert [t.id for t in second.items] == [two.id]
    assert second.next_cursor is None


async def test_listing_never_needs_the_database(world: ServiceBench) -> None:
    world.threads.asleep = True
    await world.thread()
    assert len((await threads.list_threads(world.runtime, ANN, 20, None)).items) == 1


async def test_the_active_run_is_shown_with_the_status_that_callers_see(
    world: ServiceBench,
) -> None:
    run, _ = await world.suspended()
    shown = (await threads.get(world.runtime, ANN, run.thread_id)).active_run
    assert shown is not None
    assert (shown.id, shown.status) == (run.id, Status.SUSPENDED)


async def test_title_and_metadata_are_replaced_whole_and_alone(world: ServiceBench) -> None:
    thread = await threads.create(world.runtime, ANN, "support", "Old", {"a": 1, "b": 2})
    edited = await threads.edit(world.runtime, ANN, thread.id, metadata={"c\x00": 3})
    assert (edited.title, edited.metadata) == ("Old", {"c�": 3})
    edited = await threads.edit(world.runtime, ANN, thread.id, title="  New ")
    assert (edited.title, edited.metadata) == ("New", {"c�": 3})


async def test_an_empty_title_takes_the_title_away(world: ServiceBench) -> None:
    thread = await threads.create(world.runtime, ANN, "support", "Old", {})
    assert (await threads.edit(world.runtime, ANN, thread.id, title="")).title is None
