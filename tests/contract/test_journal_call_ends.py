"""The end of a step's last call is journaled without its events, which go with the next write. Whoever dies
between the two, they are in the log once."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from layover.context.call_ends import end_events, turn_end
from layover.errors import Fenced
from layover.ports import RunLog
from layover.values.runs.event import Event
from layover.values.runs.run import CallRecord, CallState, StepRecord
from support.worlds.journal import JournalBench, open_by, planned, settled

END = ["tool-execution-end", "message", "turn-end"]


def ended_by(log: RunLog, step: StepRecord, call: CallRecord) -> list[Event]:
    """The events of the call's end, as the engine gives them."""
    over = call.model_copy(update={"state": CallState.SETTLED})
    now = log.snapshot.meta.created_at
    return [*end_events(step, over, now), turn_end(step, {over.key: over}, now)]


async def began(
    world: JournalBench, log: RunLog, result: Any = "done"
) -> tuple[CallRecord, StepRecord]:
    """A step with one call, open with it; the end of the call is on its way."""
    step = world.step(log, "c1")
    call = planned(log, step, "c1")
    await log.put_step(step, world.data("step"), open_calls=[call])
    over = settled(open_by(log, call), result)
    over = over.model_copy(update={"settled_at": world.clock.now()})
    world.tick()
    await log.close_call(over, *ended_by(log, step, over), ended_step=step, wait=False)
    return call, step


async def told(world: JournalBench, run_id: str) -> list[str]:
    """The types of the run's events, or the data of those that have some."""
    events: Sequence[Any] = await world.events(run_id)
    return [e.data if e.type == "data" else e.type for e in events]


@pytest.mark.both_stores
async def test_a_writer_that_died_between_the_two_leaves_the_events_to_the_next(
    world: JournalBench,
) -> None:
    dead = await world.taken()
    call, step = await began(world, dead, {"sum": 3})
    await dead.wait()
    assert await told(world, call.run_id) == ["step"]
    next_writer = await world.take(call.run_id)
    assert await told(world, call.run_id) == ["step", *END]
    events: list[Any] = await world.events(call.run_id)
    [_, end, message, ends_step] = events
    assert (end.tool_call_id, end.result) == ("c1", {"sum": 3})
    assert end.at == world.clock.now() - timedelta(seconds=1)
    assert message.message.id == step.slots[0].message_id
    assert [m.id for m in ends_step.tool_results] == [message.message.id]
    await next_writer.put_step(world.step(next_writer, index=2), world.data("next"))
    for _ in range(2):
        await world.take(call.run_id)
    assert await told(world, call.run_id) == ["step", *END, "next"]


@pytest.mark.both_stores
async def test_a_writer_that_is_slow_and_its_successor_tell_the_end_once(
    world: JournalBench,
) -> None:
    """The slow one writes before the other looks, while it writes, and after it wrote."""
    for moment in ("before", "during", "after"):
        meddled, table = world.meddled()
        slow = await world.taken()
        call, _ = await began(world, slow)
        await slow.wait()
        slow.emit(world.data("late"))
        if moment == "before":
            await slow.flush()
        if moment == "during":
            table.after_next(slow.flush)
        await meddled.take(call.run_id)
        if moment == "after":
            with pytest.raises(Fenced):
                await slow.flush()
        late = [] if moment == "after" else ["late"]
        assert await told(world, call.run_id) == ["step", *END, *late], moment


async def test_whoever_takes_a_run_while_its_step_ends_sees_that_it_has_ended(
    world: JournalBench,
) -> None:
    """The step ends after META was read, and before the records are."""
    meddled, table = world.meddled()
    first = await world.taken()
    step = world.step(first, "c1")
    call = planned(first, step, "c1")
    await first.put_step(step)
    log = await world.take(call.run_id)
    await log.open_calls([call])
    over = settled(open_by(log, call))
    ends = ended_by(log, step, over)

    async def take(action: Any) -> Any:
        meta = await world.table.write(action)
        await log.close_call(over, *ends, ended_step=step)
        return meta

    table._table = Repeating(world.table, take)
    snapshot = (await meddled.take(call.run_id)).snapshot
    assert [(c.state, c.ends_step) for c in snapshot.calls] == [(CallState.SETTLED, True)]


async def test_who_forces_its_way_in_tells_the_end_before_it_ends_the_run(
    world: JournalBench,
) -> None:
    dead = await world.taken()
    call, _ = await began(world, dead)
    await dead.wait()
    forced = await world.journal.writers.seize(world.owner, call.run_id)
    assert forced is not None
    await world.end(forced)
    assert await told(world, call.run_id) == ["step", *END, "finish"]


async def test_the_end_of_a_call_that_another_one_closed_is_never_told(world: JournalBench) -> None:
    meddled, table = world.meddled()
    log = await meddled.taken()
    run_id = log.snapshot.meta.id

    async def close_it() -> None:
        other = await world.take(run_id)
        [call] = other.snapshot.calls
        await other.close_call(settled(call, "in doubt"), world.data("in doubt"))

    table.after_next(close_it)
    call, _ = await began(meddled, log)
    with pytest.raises(Fenced):
        await log.wait()
    with pytest.raises(Fenced):
        await log.flush()
    with pytest.raises(Fenced):
        await log.put_step(world.step(log, index=2))
    assert (await world.call(call)).result == "in doubt"
    await world.take(run_id)
    assert await told(world, run_id) == ["step", "in doubt"]


async def test_a_write_that_is_repeated_because_its_answer_was_lost_finds_itself(
    world: JournalBench,
) -> None:
    meddled, table = world.meddled()
    log = await meddled.taken()
    write = world.table.write

    async def twice(action: Any) -> Any:
        await write(action)
        return await write(action)

    async def lose_an_answer() -> None:
        table._table = Repeating(world.table, twice)

    table.after_next(lose_an_answer)
    call, _ = await began(meddled, log)
    await log.wait()
    table._table = world.table
    await log.flush()
    assert (await world.call(call)).result == "done"
    assert await told(world, call.run_id) == ["step", *END]


class Repeating:
    """A table whose client asks again: the answer to the first request was lost."""

    def __init__(self, table: Any, write: Any) -> None:
        self._table = table
        self.write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


@pytest.mark.parametrize("by_force", [False, True])
async def test_nothing_is_told_of_a_run_that_ended_meanwhile(
    world: JournalBench, by_force: bool
) -> None:
    dead = await world.taken()
    call, _ = await began(world, dead)
    await dead.wait()
    meddled, table = world.meddled()

    async def end_it() -> None:
        epoch = (await world.run(call.run_id)).epoch
        other = await world.journal.writers.seize(world.owner, call.run_id, epoch)
        assert other is not None
        await world.end(other)

    table.after_next(end_it)
    if by_force:
        assert await meddled.journal.writers.seize(world.owner, call.run_id) is None
    else:
        execution = f"{call.run_id}-1"
        assert await meddled.journal.writers.acquire(world.owner, call.run_id, execution) is None
    assert await told(world, call.run_id) == ["step", *END, "finish"]


async def test_the_record_of_an_end_expires_with_its_run(world: JournalBench) -> None:
    expires_at = world.clock.now() + timedelta(days=1)
    log = await world.taken(records_expire_at=expires_at)
    call, _ = await began(world, log)
    await log.wait()
    item = (await world.state(call.run_id))[call.key]
    assert item["expires"] == int(expires_at.timestamp())


async def test_events_that_another_writer_added_do_not_stand_for_the_end(
    world: JournalBench,
) -> None:
    """The vote of an approver, say. It has the place that the end was to have."""
    dead = await world.taken()
    call, _ = await began(world, dead)
    await dead.wait()
    joined = await world.join(call.run_id)
    joined.emit(world.data("vote"))
    await joined.flush()
    await world.take(call.run_id)
    assert await told(world, call.run_id) == ["step", "vote", *END]


async def test_a_call_of_an_earlier_step_is_not_looked_for(world: JournalBench) -> None:
    log = await world.taken()
    call, _ = await began(world, log)
    await log.put_step(world.step(log, index=2), world.data("next"))
    meddled, table = world.meddled()
    queries: list[str] = []
    query = world.table.query

    async def noted(pk: str, low: str, high: str, **more: Any) -> Any:
        queries.append(low)
        return await query(pk, low, high, **more)

    table.query = noted  # type: ignore[attr-defined]
    await meddled.take(call.run_id)
    assert not [low for low in queries if low.startswith("EVENT")]


async def test_a_batch_that_is_full_takes_the_end_with_the_record(world: JournalBench) -> None:
    log = await world.taken()
    step = world.step(log, "c1")
    call = planned(log, step, "c1")
    await log.put_step(step, open_calls=[call])
    for number in range(499):
        log.emit(world.data(number))
    over = settled(open_by(log, call))
    await log.close_call(over, *ended_by(log, step, over), ended_step=step, wait=False)
    await log.wait()
    assert (await world.call(call)).log_seq is None
    assert await told(world, call.run_id) == [*range(499), *END]
