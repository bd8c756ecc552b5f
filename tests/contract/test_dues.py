"""The sweeper looks at things that may have outlived their use when their time is over. In memory and on
DynamoDB."""

from datetime import timedelta

import pytest

from layover.ports import Due, DueKind, RequestKey
from layover.ports.table import Delete
from support.worlds.journal import BIG, JournalBench, noise

DAY = timedelta(days=1)


async def due_at(world: JournalBench, later: timedelta) -> list[tuple[str, str]]:
    found = await world.journal.dues.overdue(world.clock.now() + later, 1_000)
    return [(d.kind, d.name) for d in found if d.owner == world.owner]


async def the_due(world: JournalBench) -> Due:
    [due] = await world.journal.dues.of(world.owner)
    return due


async def test_nothing_is_due_before_its_time_and_nothing_after_it_was_looked_at(
    world: JournalBench,
) -> None:
    await world.journal.dues.schedule(world.owner, "file", "f", world.clock.now() + DAY)
    assert await due_at(world, DAY - timedelta(microseconds=1)) == []
    assert await due_at(world, DAY) == [("file", "f")]
    due = await the_due(world)
    for _ in range(2):
        await world.journal.dues.remove(due)
    assert await world.journal.dues.of(world.owner) == []


async def test_dues_of_one_kind_are_told_from_kinds_that_begin_alike(world: JournalBench) -> None:
    things: list[tuple[DueKind, str]] = [
        ("owner", "2026"),
        ("export", "e"),
        ("node", "n"),
        ("node", "n2"),
    ]
    for kind, name in things:
        await world.journal.dues.schedule(world.owner, kind, name, world.clock.now())
    found = [(due.kind, due.name) for due in await world.journal.dues.of(world.owner, "node")]
    assert found == [("node", "n"), ("node", "n2")]
    assert await world.journal.dues.of(world.owner, "file") == []
    assert len(await world.journal.dues.of(world.owner)) == 4


async def test_an_earlier_look_that_was_asked_for_stands(world: JournalBench) -> None:
    now = world.clock.now()
    for days in (2, 1, 3):
        await world.journal.dues.schedule(world.owner, "thread", "t", now + DAY * days)
    assert (await the_due(world)).at == now + DAY


async def test_what_was_asked_for_since_it_was_seen_is_not_taken_away(world: JournalBench) -> None:
    now = world.clock.now()
    await world.journal.dues.schedule(world.owner, "entries", "", now + DAY * 2)
    seen = await the_due(world)
    world.tick()
    await world.journal.dues.schedule(world.owner, "entries", "", now + DAY)
    await world.journal.dues.remove(seen)
    assert (await the_due(world)).at == now + DAY


async def test_an_earlier_look_that_was_asked_for_since_is_not_put_off(world: JournalBench) -> None:
    now = world.clock.now()
    await world.journal.dues.schedule(world.owner, "entries", "", now + DAY * 2)
    seen = await the_due(world)
    await world.journal.dues.schedule(world.owner, "entries", "", now + DAY)
    await world.journal.dues.reschedule(seen, now + DAY * 3)
    await world.journal.dues.put_off(seen, now + DAY * 3)
    assert ((await the_due(world)).at, (await the_due(world)).failures) == (now + DAY, 0)


async def test_what_a_slow_clock_asked_for_since_is_not_taken_away(world: JournalBench) -> None:
    now = world.clock.now()
    await world.journal.dues.schedule(world.owner, "entries", "", now + DAY * 2)
    seen = await the_due(world)
    world.tick(-5)
    await world.journal.dues.schedule(world.owner, "entries", "", now + DAY)
    await world.journal.dues.remove(seen)
    assert (await the_due(world)).at == now + DAY


async def test_looks_that_failed_are_counted_until_one_did_not(world: JournalBench) -> None:
    now = world.clock.now()
    await world.journal.dues.schedule(world.owner, "node", "n", now)
    for failures in range(3):
        assert (await the_due(world)).failures == failures
        await world.journal.dues.put_off(await the_due(world), now + DAY * (failures + 1))
    assert await due_at(world, timedelta(0)) == []
    await world.journal.dues.reschedule(await the_due(world), now)
    assert (await the_due(world)).failures == 0


async def test_an_owner_with_many_dues_leaves_a_turn_to_others(
    world: JournalBench, stranger: JournalBench
) -> None:
    """At a time of their own: the dues of other tests are of the same partition."""
    early = world.clock.now() - 20_000 * DAY
    for n in range(12):
        await world.journal.dues.schedule(world.owner, "file", f"f{n:02}", early)
    await stranger.journal.dues.schedule(stranger.owner, "export", "e", early + DAY)
    found = await world.journal.dues.overdue(early + DAY, 3)
    assert [(due.owner, due.name) for due in found] == [
        (world.owner, "f00"),
        (stranger.owner, "e"),
        (world.owner, "f01"),
    ]


async def test_a_look_is_put_off_and_comes_again(world: JournalBench) -> None:
    now = world.clock.now()
    await world.journal.dues.schedule(world.owner, "node", "n", now)
    await world.journal.dues.reschedule(await the_due(world), now + DAY)
    assert await due_at(world, timedelta(0)) == []
    assert await due_at(world, DAY) == [("node", "n")]


async def test_another_owner_has_dues_of_their_own(
    world: JournalBench, stranger: JournalBench
) -> None:
    at = world.clock.now()
    await world.journal.dues.schedule(world.owner, "file", "f", at)
    assert await stranger.journal.dues.of(stranger.owner) == []
    mine = await the_due(world)
    theirs = Due(stranger.owner, mine.kind, mine.name, mine.at, mine.made_at)
    await stranger.journal.dues.remove(theirs)
    await stranger.journal.dues.reschedule(theirs, at + DAY)
    assert await the_due(world) == mine


async def test_what_a_retired_run_has_in_s3_is_due_when_its_records_expire(
    world: JournalBench,
) -> None:
    log = await world.taken_with(noise(BIG))
    run_id, thread_id = log.snapshot.meta.id, log.snapshot.meta.thread_id
    key, expires = await world.blob_of(run_id), world.clock.now() + DAY
    for _ in range(2):
        await world.journal.expiry.set_ttl(world.owner, run_id, expires)
    assert await due_at(world, DAY) == [("run", f"{thread_id}/{run_id}")]
    assert await world.blobs.get(key) is not None
    await world.journal.erasure.erase_run(world.owner, thread_id, run_id)
    assert (await world.state(run_id), await world.blobs.get(key)) == ({}, None)


async def test_a_retired_run_without_anything_in_s3_is_left_to_ttl(world: JournalBench) -> None:
    run_id = (await world.taken()).snapshot.meta.id
    await world.journal.expiry.set_ttl(world.owner, run_id, world.clock.now())
    assert await world.journal.dues.of(world.owner) == []


async def test_deleting_a_thread_finds_bodies_whose_records_are_gone(world: JournalBench) -> None:
    log = await world.taken_with(noise(BIG))
    run_id, thread_id = log.snapshot.meta.id, log.snapshot.meta.thread_id
    key = await world.blob_of(run_id)
    for sk in await world.state(run_id):
        await world.table.write(Delete(world.keys.run(run_id), sk))
    await world.journal.erasure.mark_deleted(world.owner, thread_id)
    await world.journal.erasure.erase_runs(world.owner, thread_id)
    await world.journal.erasure.erase_bodies(world.owner, thread_id)
    assert await world.blobs.get(key) is None


async def test_a_request_key_goes_with_the_run_that_it_made(world: JournalBench) -> None:
    request = RequestKey("key", "hash", world.clock.now() + DAY)
    head = await world.thread()
    await world.accept(head.id, request=request)
    assert (
        await world.journal.commands.find_request(world.owner, request, world.clock.now())
        is not None
    )
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    await world.journal.erasure.erase_runs(world.owner, head.id)
    assert (
        await world.journal.commands.find_request(world.owner, request, world.clock.now()) is None
    )


async def test_a_tombstone_keeps_no_title_and_can_be_taken_away_when_it_is_erased(
    world: JournalBench,
) -> None:
    head = await world.thread(title="secret", metadata={"of": "mine"})
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    tomb = await world.head(head.id)
    assert (tomb.title, tomb.metadata) == (None, {})
    page = await world.journal.erasure.page_deleted(world.owner, 9, None)
    assert [t.id for t in page.items] == [head.id]
    assert not await world.journal.erasure.remove_tombstone(world.owner, head.id), (
        "it is not erased yet"
    )
    await world.journal.erasure.finish(world.owner, head.id)
    for _ in range(2):
        assert await world.journal.erasure.remove_tombstone(world.owner, head.id)
    assert await world.journal.heads.get(world.owner, head.id) is None


@pytest.mark.parametrize("count", [1, 3])
async def test_tombs_come_in_pages(world: JournalBench, count: int) -> None:
    ids = [(await world.thread()).id for _ in range(3)]
    for id in ids:
        await world.journal.erasure.mark_deleted(world.owner, id)
    seen: list[str] = []
    cursor = None
    while True:
        page = await world.journal.erasure.page_deleted(world.owner, count, cursor)
        seen += [t.id for t in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(seen) == sorted(ids)
