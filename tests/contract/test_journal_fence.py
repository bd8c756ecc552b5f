"""The fence: the writes that a writer may still make when another one has taken the run."""

from collections.abc import Awaitable, Callable

import pytest

from layover.errors import Fenced
from layover.ports import RunLog
from layover.values.runs.run import CallState
from support.worlds.journal import JournalBench, cancelled, open_by, planned, settled

Fact = Callable[[JournalBench, RunLog], Awaitable[object]]


async def put_step(world: JournalBench, log: RunLog) -> None:
    await log.put_step(world.step(log, index=9), world.data())


async def end_step(world: JournalBench, log: RunLog) -> None:
    await log.end_step(world.step(log), world.data())


async def open_calls(world: JournalBench, log: RunLog) -> None:
    await log.open_calls([planned(log, world.step(log), "late")])


async def suspend_call(world: JournalBench, log: RunLog) -> None:
    call = planned(log, world.step(log), "late", suspension=world.suspension())
    await log.suspend_calls([call])


async def close_planned(world: JournalBench, log: RunLog) -> None:
    await log.close_call(settled(planned(log, world.step(log), "late")))


async def cancel_calls(world: JournalBench, log: RunLog) -> None:
    await log.cancel_calls(cancelled([planned(log, world.step(log), "late")]))


async def end(world: JournalBench, log: RunLog) -> None:
    await world.end(log)


async def cancel_requested(world: JournalBench, log: RunLog) -> None:
    await log.cancel_requested()


FACTS: list[Fact] = [put_step, end_step, open_calls, suspend_call, close_planned]
FACTS += [cancel_calls, end, cancel_requested]


async def writes_nothing(world: JournalBench, fact: Fact, *writers: RunLog) -> None:
    """Each of these writers of a run is refused, and nothing of the run is changed."""
    run_id = writers[0].snapshot.meta.id
    before = await world.state(run_id)
    for writer in writers:
        with pytest.raises(Fenced):
            await fact(world, writer)
    assert await world.state(run_id) == before


@pytest.mark.both_stores
@pytest.mark.parametrize("fact", FACTS)
async def test_writer_whose_epoch_is_gone_writes_nothing(world: JournalBench, fact: Fact) -> None:
    stale = await world.taken()
    run_id = stale.snapshot.meta.id
    await world.journaled(stale, "late")
    await world.take(run_id)
    await writes_nothing(world, fact, stale)


@pytest.mark.parametrize("fact", FACTS)
async def test_nothing_is_written_to_a_run_that_is_over(world: JournalBench, fact: Fact) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    await world.journaled(log, "late")
    joined = await world.join(run_id)
    await world.end(log)
    await writes_nothing(world, fact, log, joined)


async def test_call_that_its_opener_left_is_not_closed_after_the_end(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    await world.end(log)
    before = await world.state(call.run_id)
    with pytest.raises(Fenced):
        await log.close_call(settled(call))
    with pytest.raises(Fenced):
        await log.close_call(settled(call), world.data())
    assert await world.state(call.run_id) == before


@pytest.mark.parametrize("fact", FACTS)
async def test_next_execution_fences_who_writes_for_the_one_before(
    world: JournalBench, fact: Fact
) -> None:
    """Also before it takes the run: what is opened until then it would take for interrupted."""
    log = await world.taken()
    run_id = log.snapshot.meta.id
    await world.journaled(log, "late")
    joined = await world.join(run_id)
    assert await world.journal.commands.start_successor(world.owner, run_id, f"{run_id}-1") == 2
    await writes_nothing(world, fact, log, joined)


async def test_forced_writer_fences_everybody(world: JournalBench) -> None:
    log = await world.taken()
    joined = await world.join(log.snapshot.meta.id)
    forced = await world.journal.writers.seize(world.owner, log.snapshot.meta.id)
    assert forced is not None
    for writer in (log, joined):
        with pytest.raises(Fenced):
            await put_step(world, writer)
    await put_step(world, forced)


@pytest.mark.both_stores
async def test_writers_of_one_epoch_do_not_fence_each_other(world: JournalBench) -> None:
    log = await world.taken()
    waiting = await world.waiting(log, "c1", "c2")
    decided = [await world.decide(call) for call in waiting]
    joined = [await world.join(log.snapshot.meta.id) for _ in decided]
    for writer, call in zip(joined, decided, strict=True):
        await writer.open_calls([call])
    for writer, call in zip(joined, decided, strict=True):
        await writer.close_call(settled(open_by(writer, call)), world.data())
    assert {(await world.call(c)).state for c in decided} == {CallState.SETTLED}
