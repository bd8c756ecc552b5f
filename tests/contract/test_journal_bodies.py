"""Bodies of any size, and what S3 makes of them."""

from collections.abc import Awaitable, Callable

import pytest

from layover.adapters.journal.items.codec import SPILL_ABOVE
from layover.errors import LayoverError
from layover.keys import INPUT, event_key
from layover.values.runs.run import DecisionKind, OnBusy, Status
from support.worlds.journal import BIG, JournalBench, noise, open_by, settled


@pytest.mark.both_stores
async def test_three_megabytes_go_to_s3_and_come_back(world: JournalBench) -> None:
    text = noise(3_000_000)
    run_id = await world.started()
    log = await world.take(run_id)
    await log.put_step(world.step(log, text=text), world.data(text))
    snapshot = (await world.take(run_id)).snapshot
    assert snapshot.steps[0].message.text == text
    assert await world.said(run_id) == [text]
    key = await world.blob_of(run_id, "STEP#0001")
    assert key.startswith(world.keys.bodies(log.snapshot.meta.thread_id, run_id))


@pytest.mark.both_stores
async def test_large_input_payload_and_result_are_kept(world: JournalBench) -> None:
    head = await world.thread()
    run = world.new_run(head, text=noise(BIG))
    await world.journal.commands.accept(run, head, OnBusy.REJECT, None)
    assert (await world.run(run.id)).input == run.input
    log = await world.take(run.id)
    payload, result = noise(BIG), noise(BIG)
    [call] = await world.waiting(log, "c1", suspension=world.suspension(payload=payload))
    [listed] = (await world.journal.decisions.page_pending(world.owner, None, 9, None)).items
    assert listed.payload == payload
    decided = await world.decide(call)
    await log.open_calls([decided])
    await log.close_call(settled(open_by(log, decided), result))
    assert (await world.call(call)).result == result


@pytest.mark.both_stores
async def test_decision_of_a_megabyte_is_kept(world: JournalBench) -> None:
    [call] = await world.waiting(await world.taken(), "c1")
    data = noise(1_000_000)
    decided = await world.decide(call, kind=DecisionKind.RESUMED, data=data)
    assert decided.decision is not None
    assert decided.decision.data == data


@pytest.mark.both_stores
async def test_output_of_a_megabyte_ends_the_run(world: JournalBench) -> None:
    log = await world.taken()
    output = {"text": noise(1_000_000)}
    await world.end(log, output=output)
    assert (await world.run(log.snapshot.meta.id)).output == output


@pytest.mark.both_stores
async def test_large_input_leaves_room_for_the_outcome(world: JournalBench) -> None:
    """Input and outcome are one item: together they must not pass DynamoDB's 400 KB."""
    log = await world.taken_with(noise(SPILL_ABOVE * 7 // 4))
    await world.end(log, output={"text": noise(100_000)})
    assert (await world.run(log.snapshot.meta.id)).status is Status.SUCCESS


@pytest.mark.both_stores
@pytest.mark.parametrize("size", [1_900, 2_100, 500_000, 600_000, 640_000, 700_000])
async def test_bodies_around_the_edges_come_back(world: JournalBench, size: int) -> None:
    log = await world.taken()
    text = noise(size)
    await log.put_step(world.step(log, text=text), world.data(text))
    log.emit(world.data(text))
    await log.flush()
    snapshot = (await world.take(log.snapshot.meta.id)).snapshot
    assert snapshot.steps[0].message.text == text
    assert await world.said(log.snapshot.meta.id) == [text, text]


@pytest.mark.both_stores
async def test_body_that_moved_to_s3_moves_back_with_a_shorter_one(world: JournalBench) -> None:
    """A queued run's input is written again when it starts; a call's with each of its states."""
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    big = world.new_run(await world.head(head.id), text=noise(BIG))
    await world.journal.commands.accept(big, await world.head(head.id), OnBusy.ENQUEUE, None)
    assert await world.end(log) == big.id
    assert (await world.run(big.id)).input.text == big.input.text
    next_log = await world.take(big.id)
    [call] = await world.waiting(next_log, "c1", suspension=world.suspension(payload=noise(BIG)))
    decided = await world.decide(call)
    small = decided.model_copy(update={"suspension": None})
    await next_log.close_call(settled(small))
    item = await world.table.get(world.keys.run(big.id), call.key)
    assert item is not None
    assert "blob" not in item


Tamper = Callable[[JournalBench, str, bytes], Awaitable[None]]


async def change(world: JournalBench, key: str, data: bytes) -> None:
    await world.blobs.put(key, data[:-1] + bytes([data[-1] ^ 1]), "application/zlib")


async def cut(world: JournalBench, key: str, data: bytes) -> None:
    await world.blobs.put(key, data[:-1], "application/zlib")


async def lose(world: JournalBench, key: str, data: bytes) -> None:
    await world.blobs.delete_prefix(key)


@pytest.mark.parametrize("tamper", [change, cut, lose])
@pytest.mark.parametrize("sk", [INPUT, "STEP#0001", event_key(1)])
async def test_body_that_was_changed_cut_or_lost_in_s3_is_refused(
    world: JournalBench, tamper: Tamper, sk: str
) -> None:
    log = await world.taken_with(noise(BIG))
    run_id = log.snapshot.meta.id
    await log.put_step(world.step(log, text=noise(BIG)), world.data(noise(BIG)))
    key = await world.blob_of(run_id, sk)
    data = await world.blobs.get(key)
    assert data is not None
    await tamper(world, key, data)
    reading = (
        world.journal.events.page(world.owner, run_id, 0, 100)
        if sk == event_key(1)
        else world.journal.runs.snapshot(world.owner, run_id)
    )
    with pytest.raises(LayoverError, match="S3"):
        await reading
