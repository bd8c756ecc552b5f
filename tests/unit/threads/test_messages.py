"""A thread's messages: the database's, and over them the journal's of an unfinished run."""

import pytest

from layover.errors import DatabaseWaking, InvalidRequest, NotFound
from layover.threads.messages import list_messages
from support.worlds.services import ANN, BOB, ServiceBench


async def texts(world: ServiceBench, thread_id: str, branch: str | None = None) -> list[str]:
    page = await list_messages(world.runtime, ANN, thread_id, branch, 100, None)
    assert page.next_cursor is None
    return [m.text for m in page.items]


async def test_a_foreign_thread_has_no_messages(world: ServiceBench) -> None:
    thread = await world.thread()
    with pytest.raises(NotFound):
        await list_messages(world.runtime, BOB, thread.id, None, 20, None)


async def test_an_unknown_branch_is_not_there(world: ServiceBench) -> None:
    thread = await world.thread()
    await world.finish((await world.run(thread.id)).id)
    with pytest.raises(NotFound):
        await list_messages(world.runtime, ANN, thread.id, "msg_\x00", 20, None)


@pytest.mark.parametrize(
    "cursor", ["x", "WyJtZXNzYWdlcyJd", "WyJtZXNzYWdlcyIsbnVsbCxudWxsLG51bGxd"]
)
async def test_what_is_no_cursor_is_refused(world: ServiceBench, cursor: str) -> None:
    thread = await world.thread()
    with pytest.raises(InvalidRequest):
        await list_messages(world.runtime, ANN, thread.id, None, 20, cursor)


async def test_a_sleeping_database_says_so(world: ServiceBench) -> None:
    thread = await world.thread()
    await world.finish((await world.run(thread.id)).id)
    world.threads.asleep = True
    with pytest.raises(DatabaseWaking):
        await list_messages(world.runtime, ANN, thread.id, None, 20, None)


async def test_a_new_thread_has_none_and_needs_no_database(world: ServiceBench) -> None:
    thread = await world.thread()
    world.threads.asleep = True
    assert await texts(world, thread.id) == []


async def test_a_run_that_waits_in_the_queue_is_not_shown(world: ServiceBench) -> None:
    from layover.values.runs.run import OnBusy

    thread = await world.thread()
    await world.run(thread.id, "one")
    await world.run(thread.id, "two", on_busy=OnBusy.ENQUEUE)
    assert await texts(world, thread.id) == ["one"]


async def test_an_unfinished_runs_messages_follow_those_in_the_database(
    world: ServiceBench,
) -> None:
    thread = await world.thread()
    await world.finish((await world.run(thread.id, "one")).id, "first answer")
    run = await world.run(thread.id, "two")
    await world.step(await world.take(run.id), "thinking", ("c1", "look_up", {}))
    assert await texts(world, thread.id) == ["one", "first answer", "two", "thinking"]


async def test_a_message_in_both_places_is_shown_once(world: ServiceBench) -> None:
    from layover.values.memory.context import TurnQuery

    thread = await world.thread()
    run = await world.run(thread.id, "one")
    head = await world.journal.heads.get(ANN, thread.id)
    assert head is not None
    query = TurnQuery(head=head, run_id=run.id, input=run.input, window=20)
    await world.threads.open_turn(query)
    assert await texts(world, thread.id) == ["one"]


async def test_a_branch_is_named_by_its_last_message(world: ServiceBench) -> None:
    thread = await world.thread()
    first = await world.run(thread.id, "one")
    await world.finish(first.id, "answer")
    await world.finish((await world.run(thread.id, "two")).id, "more")
    again = await world.run(thread.id, "other", parent_id=f"{first.id}.a1")
    assert await texts(world, thread.id) == ["one", "answer", "other"]
    assert await texts(world, thread.id, f"{first.id}.a1") == ["one", "answer"]
    assert await texts(world, thread.id, again.input.id) == ["one", "answer", "other"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("ends_between", [False, True])
async def test_pages_fit_together_though_the_run_ends_between_them(
    world: ServiceBench, limit: int, ends_between: bool
) -> None:
    thread = await world.thread()
    for text in ("one", "two"):
        await world.finish((await world.run(thread.id, text)).id, f"answer to {text}")
    run = await world.run(thread.id, "three")
    page = await list_messages(world.runtime, ANN, thread.id, None, limit, None)
    shown = [m.text for m in page.items]
    if ends_between:
        await world.finish(run.id, "late")
    while page.next_cursor:
        page = await list_messages(world.runtime, ANN, thread.id, None, limit, page.next_cursor)
        shown += [m.text for m in page.items]
        assert len(page.items) <= limit
    assert shown == ["one", "answer to one", "two", "answer to two", "three"]


async def test_a_smaller_limit_on_a_later_page_repeats_nothing(world: ServiceBench) -> None:
    thread = await world.thread()
    for text in ("one", "two"):
        await world.finish((await world.run(thread.id, text)).id, "yes")
    run = await world.run(thread.id, "three")
    await world.step(await world.take(run.id), "thinking", ("c1", "look_up", {}))
    page = await list_messages(world.runtime, ANN, thread.id, None, 5, None)
    ids = [m.id for m in page.items]
    while page.next_cursor:
        page = await list_messages(world.runtime, ANN, thread.id, None, 1, page.next_cursor)
        ids += [m.id for m in page.items]
    assert len(ids) == len(set(ids)) == 6


async def test_a_missing_ancestor_ends_the_branch(world: ServiceBench) -> None:
    thread = await world.thread()
    await world.finish((await world.run(thread.id, "one")).id, "first answer")
    await world.run(thread.id, "two")
    await world.threads.erase(ANN, thread.id)
    assert await texts(world, thread.id) == ["two"]
