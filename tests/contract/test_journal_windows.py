"""A window of calls with large bodies is one write all the same: DynamoDB's transactions take 4 MB."""

import random
from collections.abc import Sequence

import pytest

from layover.ports import RunLog
from layover.values.runs.event import DataEvent
from layover.values.runs.run import MAX_WINDOW, CallRecord, CallState, DecisionKind, Status
from support.worlds.journal import JournalBench, cancelled, open_by, planned

pytestmark = pytest.mark.both_stores

NOISE = random.Random(7).randbytes(260_000).hex()
"""300 KB compressed: one item holds it, a transaction at most fourteen of it."""
SHARE = NOISE[:108_000]
"""62 KB compressed: a window of it fits a transaction, with an input and events of 300 KB."""
DECIDED = NOISE[:50_000]
"""29 KB compressed: it fits beside a body."""


async def window(world: JournalBench, log: RunLog, size: int = MAX_WINDOW) -> list[CallRecord]:
    """Calls of one step, planned, with 300 KB of arguments each."""
    step = world.step(log, *(f"c{n}" for n in range(size)))
    await log.put_step(step)
    return [
        planned(log, step, slot.tool_call_id, args={"n": slot.tool_call_id, "text": NOISE})
        for slot in step.slots
    ]


def with_suspension(
    world: JournalBench, calls: Sequence[CallRecord], payload: str = NOISE
) -> list[CallRecord]:
    """Calls that wait from now on."""
    return [
        call.model_copy(update={"args": {}, "suspension": world.suspension(payload=payload)})
        for call in calls
    ]


async def journaled(world: JournalBench, log: RunLog) -> Sequence[CallRecord]:
    snapshot = await world.journal.runs.snapshot(world.owner, log.snapshot.meta.id)
    assert snapshot is not None
    return snapshot.calls


async def keys(world: JournalBench, log: RunLog) -> list[str]:
    """Return the keys of the run's objects in S3."""
    return await world.blobs.keys(
        world.keys.bodies(log.snapshot.meta.thread_id, log.snapshot.meta.id)
    )


def told(world: JournalBench) -> DataEvent:
    """An event of 300 KB."""
    return world.data(NOISE)


async def test_window_of_large_calls_is_opened_in_one_write(world: JournalBench) -> None:
    log = await world.taken_with(NOISE)
    calls = await window(world, log)
    await log.open_calls(calls, told(world))
    found = await journaled(world, log)
    assert {c.state for c in found} == {CallState.OPEN}
    assert {c.key: c.args for c in found} == {c.key: c.args for c in calls}
    assert await world.said(log.snapshot.meta.id) == [NOISE]


async def test_window_of_large_calls_is_suspended_in_one_write(world: JournalBench) -> None:
    log = await world.taken_with(NOISE)
    calls = with_suspension(world, await window(world, log))
    await log.suspend_calls(calls, told(world))
    assert (await world.run(log.snapshot.meta.id)).waiting == {c.key for c in calls}
    found = await journaled(world, log)
    assert [c.suspension.payload == NOISE for c in found if c.suspension] == [True] * MAX_WINDOW


@pytest.mark.parametrize(("payload", "decided"), [(NOISE, 3), (SHARE, MAX_WINDOW)])
async def test_window_of_large_calls_is_cancelled_in_one_write(
    world: JournalBench, payload: str, decided: int
) -> None:
    """Each fits an item, and came alone; some were decided meanwhile."""
    log = await world.taken_with(NOISE)
    for call in with_suspension(world, await window(world, log), payload):
        await log.suspend_calls([call])
    for call in (await journaled(world, log))[:decided]:
        await world.decide(call, kind=DecisionKind.RESUMED, data=DECIDED)
    withdrawn = world.decision(DecisionKind.CANCELLED)
    closed = [
        call if call.decision else call.model_copy(update={"decision": withdrawn})
        for call in cancelled(await journaled(world, log))
    ]
    await log.cancel_calls(closed, told(world))
    assert await journaled(world, log) == tuple(open_as_settled(log, c) for c in closed)
    await world.end(log, status=Status.CANCELLED)
    assert (await world.head(log.snapshot.meta.thread_id)).active_run is None


def open_as_settled(log: RunLog, call: CallRecord) -> CallRecord:
    """The settled call as its record says it: by whom."""
    return open_by(log, call).model_copy(update={"state": CallState.SETTLED})


async def test_window_of_small_calls_puts_nothing_in_s3(world: JournalBench) -> None:
    log = await world.taken()
    step = world.step(log, *(f"c{n}" for n in range(MAX_WINDOW)))
    await log.put_step(step)
    text = NOISE[:60_000]
    calls = [planned(log, step, s.tool_call_id, args={"text": text}) for s in step.slots]
    await log.open_calls(calls, world.data(text))
    await log.cancel_calls(cancelled([open_by(log, call) for call in calls]))
    assert await keys(world, log) == []


async def test_few_large_calls_put_nothing_in_s3(world: JournalBench) -> None:
    """As many as fit a transaction, whatever their size."""
    log = await world.taken()
    calls = await window(world, log, size=7)
    await log.open_calls(calls)
    assert await keys(world, log) == []
