"""Any interleaving of writers gives one gapless sequence in which each writer's events keep their order."""

import asyncio
import itertools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.adapters.journal.log.events import MAX_BATCH
from layover.errors import Fenced, RetryableError
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.table import InMemoryTable
from layover.ports import RunLog
from support.examples import examples
from support.worlds.journal import JournalBench, Meddled, planned, settled

Act = tuple[int, str, int]
ACTS = st.tuples(
    st.integers(0, 2), st.sampled_from(["emit", "flush", "fact", "decide"]), st.integers(1, 3)
)


@given(st.lists(ACTS, max_size=40))
@examples(60)
def test_any_interleaving_is_gapless_and_in_order(acts: list[Act]) -> None:
    asyncio.run(_interleave(acts))


async def _interleave(acts: list[Act]) -> None:
    world = JournalBench(InMemoryTable(), InMemoryBlobs(), "ann")
    turn = await world.taken()
    names = [f"c{n}" for n in range(len(acts))]
    waiting = await world.waiting(turn, *names) if acts else []
    run_id = turn.snapshot.meta.id
    writers = [turn, await world.join(run_id), await world.join(run_id)]
    told: list[list[Any]] = [[], [], [], []]
    number = itertools.count()

    def events(writer: int, count: int) -> list[Any]:
        made = [world.data([writer, next(number)]) for _ in range(count)]
        told[writer] += [e.data for e in made]
        return made

    for n, (writer, act, count) in enumerate(acts):
        log = writers[writer]
        if act == "emit":
            log.emit(*events(writer, count))
        elif act == "flush":
            await log.flush()
        elif act == "fact":
            await _fact(world, log, n, events(writer, count))
        else:
            await world.decide(waiting[n], *events(3, count))
    for log in writers:
        await log.flush()
    said = await world.said(run_id)
    assert [[x for x in said if x[0] == n] for n in range(4)] == told


async def _fact(world: JournalBench, log: RunLog, n: int, events: list[Any]) -> None:
    call = planned(log, world.step(log), f"fact{n}")
    await log.close_call(settled(call), *events)


@given(st.integers(0, 12), st.integers(1, 5), st.lists(st.integers(1, 4), max_size=4))
@examples(60)
def test_any_page_of_any_log_is_what_follows(after: int, limit: int, batches: list[int]) -> None:
    async def check() -> None:
        world = JournalBench(InMemoryTable(), InMemoryBlobs(), "ann")
        log = await world.taken()
        for size in batches:
            log.emit(*(world.data() for _ in range(size)))
            await log.flush()
        page = await world.journal.events.page(world.owner, log.snapshot.meta.id, after, limit)
        expected = list(range(1, sum(batches) + 1))[after:][:limit]
        assert [e.seq for e in page.items] == expected
        assert page.last_seq == (expected[-1] if expected else after)

    asyncio.run(check())


@pytest.mark.parametrize("fact", [True, False])
async def test_many_events_at_once_are_several_batches_in_order(fact: bool) -> None:
    world = JournalBench(InMemoryTable(), InMemoryBlobs(), "ann")
    log = await world.taken()
    run_id = log.snapshot.meta.id
    log.emit(*(world.data(n) for n in range(2 * MAX_BATCH + 7)))
    if fact:
        await _fact(world, log, 0, [world.data("fact")])
    else:
        await log.flush()
    batches = [item for sk, item in (await world.state(run_id)).items() if sk.startswith("EVENT#")]
    assert max(item["count"] for item in batches) <= MAX_BATCH + 1
    said = await world.said(run_id)
    assert said == [*range(2 * MAX_BATCH + 7), *(["fact"] if fact else [])]
    page = await world.journal.events.page(world.owner, run_id, MAX_BATCH - 1, 3)
    assert [e.seq for e in page.items] == [MAX_BATCH + n for n in range(3)]


@pytest.mark.parametrize("puts", range(3))
async def test_events_that_could_not_be_written_are_written_later_and_once(puts: int) -> None:
    world = JournalBench(InMemoryTable(), InMemoryBlobs(), "ann")
    run_id = (await world.taken()).snapshot.meta.id
    meddled, table = world.meddled()
    log = await meddled.join(run_id)

    async def fine() -> None:
        pass

    async def down() -> None:
        raise RetryableError("no answer")

    for happens in [fine] * puts + [down]:
        table.before_next(happens)
    log.emit(*(world.data(n) for n in range(2 * MAX_BATCH + 7)))
    with pytest.raises(RetryableError):
        await log.flush()
    await log.flush()
    assert await world.said(run_id) == list(range(2 * MAX_BATCH + 7))


async def test_writer_that_loses_its_number_again_and_again_gets_through() -> None:
    world = JournalBench(InMemoryTable(), InMemoryBlobs(), "ann")
    log = await world.taken()
    meddled, table = world.meddled()
    slow = await meddled.join(log.snapshot.meta.id)

    async def ahead() -> None:
        log.emit(world.data("ahead"))
        await log.flush()

    for _ in range(5):
        table.before_next(ahead)
    slow.emit(world.data("slow"))
    await slow.flush()
    assert await world.said(log.snapshot.meta.id) == ["ahead"] * 5 + ["slow"]


async def test_end_that_comes_first_stops_the_others() -> None:
    world = JournalBench(InMemoryTable(), InMemoryBlobs(), "ann")
    log = await world.taken()
    meddled, table = world.meddled()
    slow = await meddled.join(log.snapshot.meta.id)
    table.before_next(lambda: world.end(log))
    slow.emit(world.data("late"))
    try:
        await slow.flush()
    except Fenced:
        pass
    else:
        raise AssertionError("the log is closed")
    assert isinstance(table, Meddled)
    assert [e.type for e in await world.events(log.snapshot.meta.id)] == ["finish"]


async def test_events_that_tools_emit_from_threads_are_all_told() -> None:
    world = JournalBench(InMemoryTable(), InMemoryBlobs(), "ann")
    log = await world.taken()

    def emit(n: int) -> None:
        for i in range(200):
            log.emit(world.data([n, i]))

    threads = [threading.Thread(target=emit, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await log.flush()
        await asyncio.sleep(0)
    await log.flush()
    said = await world.said(log.snapshot.meta.id)
    for n in range(3):
        assert [i for thread, i in said if thread == n] == list(range(200))
