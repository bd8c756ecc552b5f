"""One gapless sequence of events, whichever process writes."""

import asyncio

import pytest

from layover.errors import Fenced
from layover.keys import event_key
from layover.ports.table import Delete
from layover.values.runs.event import EventPage
from support.worlds.journal import JournalBench, open_by, settled

# Reading


async def page(world: JournalBench, run_id: str, after: int, limit: int = 100) -> EventPage:
    return await world.journal.events.page(world.owner, run_id, after, limit)


async def test_run_without_events_has_an_empty_page(world: JournalBench) -> None:
    run_id = await world.started()
    for name in (run_id, "unknown"):
        for after in (0, 7):
            found = await page(world, name, after)
            assert (found.items, found.last_seq, found.done) == ((), after, False)


async def test_events_are_read_from_any_place(world: JournalBench) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    for batch in (("a",), ("b", "c", "d"), ("e", "f")):
        log.emit(*(world.data(x) for x in batch))
        await log.flush()
    for after in range(8):
        for limit in (1, 2, 100):
            found = await page(world, run_id, after, limit)
            expected = list("abcdef")[after:][:limit]
            assert [e.data for e in found.items] == expected  # type: ignore[union-attr]
            assert [e.seq for e in found.items] == list(range(after + 1, after + 1 + len(expected)))
            assert all(e.run_id == run_id for e in found.items)
            assert (found.last_seq, found.done) == (after + len(expected), False)


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_closed_log_is_done_at_its_end_and_not_before(
    world: JournalBench, limit: int
) -> None:
    log = await world.taken()
    log.emit(world.data(), world.data())
    await log.flush()
    log.emit(world.data())
    await world.end(log)
    for after in range(7):
        found = await page(world, log.snapshot.meta.id, after, limit)
        assert found.done == (after + limit >= 4)


async def test_end_without_events_closes_the_log_too(world: JournalBench) -> None:
    log = await world.taken()
    log.emit(world.data("a"))
    await log.flush()
    await log.end(world.outcome(log.snapshot.meta))
    for after in (0, 1, 5):
        assert (await page(world, log.snapshot.meta.id, after)).done


async def test_more_batches_than_are_read_at_once_come_in_several_pages(
    world: JournalBench,
) -> None:
    log = await world.taken()
    for n in range(55):
        log.emit(world.data(n))
        await log.flush()
    await world.end(log)
    first = await page(world, log.snapshot.meta.id, 0)
    assert not first.done
    assert await world.said(log.snapshot.meta.id) == list(range(55))


async def test_nothing_is_read_behind_a_batch_that_is_gone(world: JournalBench) -> None:
    """Nothing writes a gap, but whoever deletes a run, and the table's own expiry, takes batch by batch."""
    log = await world.taken()
    run_id = log.snapshot.meta.id
    for batch in (("a", "b"), ("c", "d"), ("e",)):
        log.emit(*(world.data(x) for x in batch))
        await log.flush()
    await world.end(log)
    await world.table.write(Delete(world.keys.run(run_id), event_key(3)))
    for after, seqs in ((0, [1, 2]), (1, [2]), (2, []), (3, [])):
        found = await page(world, run_id, after)
        assert ([e.seq for e in found.items], found.done) == (seqs, False)
    assert (await page(world, run_id, 4)).done
    await world.table.write(Delete(world.keys.run(run_id), event_key(1)))
    assert (await page(world, run_id, 0)).items == ()


async def test_whether_a_run_has_begun(world: JournalBench) -> None:
    log = await world.taken()
    assert not await log.has_begun()
    log.emit(world.data())
    await log.flush()
    assert await log.has_begun()
    assert await (await world.join(log.snapshot.meta.id)).has_begun()
    assert await (await world.take(log.snapshot.meta.id)).has_begun()


# Writing


async def test_nothing_emitted_is_nothing_written(world: JournalBench) -> None:
    log = await world.taken()
    before = await world.state(log.snapshot.meta.id)
    await log.flush()
    assert await world.state(log.snapshot.meta.id) == before


async def test_events_of_a_fact_that_failed_are_not_told_and_those_emitted_before_are_kept(
    world: JournalBench,
) -> None:
    log = await world.taken()
    await world.journaled(log)
    joined = await world.join(log.snapshot.meta.id)
    joined.emit(world.data("delta"))
    with pytest.raises(Fenced):
        await joined.put_step(world.step(joined), world.data("told"))
    assert await world.said(log.snapshot.meta.id) == []
    await joined.flush()
    assert await world.said(log.snapshot.meta.id) == ["delta"]


async def test_what_was_emitted_comes_before_the_facts_events(world: JournalBench) -> None:
    log = await world.taken()
    log.emit(world.data("a"), world.data("b"))
    await log.put_step(world.step(log), world.data("c"))
    log.emit(world.data("d"))
    await world.end(log)
    events = await world.events(log.snapshot.meta.id)
    assert [e.type for e in events] == ["data"] * 4 + ["finish"]
    assert await world.said(log.snapshot.meta.id) == ["a", "b", "c", "d"]


async def test_writer_that_fell_behind_renumbers(world: JournalBench) -> None:
    log = await world.taken()
    joined = await world.join(log.snapshot.meta.id)
    for n in range(3):
        for writer, name in ((log, "turn"), (joined, "resume")):
            writer.emit(world.data(f"{name} {n}"), world.data(f"{name} {n}+"))
            await writer.flush()
    said = await world.said(log.snapshot.meta.id)
    assert said[:4] == ["turn 0", "turn 0+", "resume 0", "resume 0+"]
    assert len(said) == 12


async def test_writer_that_fell_behind_and_lost_the_run_stops(world: JournalBench) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    new = await world.take(run_id)
    new.emit(world.data("new"))
    await new.flush()
    log.emit(world.data("stale"))
    with pytest.raises(Fenced):
        await log.flush()
    assert await world.said(run_id) == ["new"]


async def test_nothing_follows_the_last_event(world: JournalBench) -> None:
    log = await world.taken()
    joined = await world.join(log.snapshot.meta.id)
    await world.end(log)
    for writer in (log, joined):
        writer.emit(world.data("late"))
        with pytest.raises(Fenced):
            await writer.flush()
        with pytest.raises(Fenced):
            await writer.has_begun()
    assert [e.type for e in await world.events(log.snapshot.meta.id)] == ["finish"]


@pytest.mark.both_stores
async def test_racing_writers_share_one_sequence_without_gap_loss_or_repetition(
    world: JournalBench,
) -> None:
    """A turn and resumes that emit, flush and journal facts, while decisions come from outside."""
    log = await world.taken()
    calls = await world.waiting(log, *(f"c{n}" for n in range(4)))
    run_id = log.snapshot.meta.id

    async def resume(n: int) -> None:
        name = f"c{n}"
        decided = await world.decide(calls[n], world.data(f"{name} decided"))
        writer = await world.join(run_id)
        await writer.open_calls([decided], world.data(f"{name} start"))
        for i in range(3):
            writer.emit(world.data(f"{name} {i}"))
            await writer.flush()
        writer.emit(world.data(f"{name} 3"))
        await writer.close_call(settled(open_by(writer, decided)), world.data(f"{name} end"))

    async def turn() -> None:
        for i in range(6):
            log.emit(world.data(f"turn {i}"))
            await log.flush()

    await asyncio.wait_for(asyncio.gather(turn(), *(resume(n) for n in range(4))), 30)
    said = await world.said(run_id)
    own = [[x for x in said if x.startswith(f"c{n}")] for n in range(4)]
    for n, found in enumerate(own):
        words = ("decided", "start", "0", "1", "2", "3", "end")
        assert found == [f"c{n} {word}" for word in words]
    assert [x for x in said if x.startswith("turn")] == [f"turn {i}" for i in range(6)]
    assert len(said) == 4 * 7 + 6


@pytest.mark.both_stores
async def test_parallel_facts_of_one_writer_keep_their_events_together(world: JournalBench) -> None:
    log = await world.taken()
    calls = await world.opened(log, *(f"c{n}" for n in range(5)))
    await asyncio.gather(
        *(
            log.close_call(settled(c), world.data(c.tool_call_id), world.data(c.tool_call_id))
            for c in calls
        )
    )
    said = await world.said(log.snapshot.meta.id)
    assert len(said) == 10
    assert said[::2] == said[1::2]
