"""One gapless sequence of events, whoever writes; and bodies of any size. In memory and on DynamoDB."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from journal_kit import World, open_by, settled
from layover.adapters.journal.codec import SPILL_ABOVE
from layover.errors import Fenced, LayoverError
from layover.keys import HEAD, META, event_key
from layover.values.event import EventPage
from layover.values.run import DecisionKind, OnBusy, Outcome, Status

RANDOM = random.Random(7)


def noise(size: int) -> str:
    """Text of about `size` bytes that does not compress below 3/4 of it."""
    return RANDOM.randbytes(size // 2).hex()


# Reading


async def page(world: World, run_id: str, after: int, limit: int = 100) -> EventPage:
    return await world.journal.events(world.owner, run_id, after, limit)


async def test_run_without_events_has_an_empty_page(world: World) -> None:
    run_id = await world.started()
    for name in (run_id, "unknown"):
        for after in (0, 7):
            found = await page(world, name, after)
            assert (found.items, found.last_seq, found.done) == ((), after, False)


async def test_events_are_read_from_any_place(world: World) -> None:
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
async def test_closed_log_is_done_at_its_end_and_not_before(world: World, limit: int) -> None:
    log = await world.taken()
    log.emit(world.data(), world.data())
    await log.flush()
    log.emit(world.data())
    await world.end(log)
    for after in range(7):
        found = await page(world, log.snapshot.meta.id, after, limit)
        assert found.done == (after + limit >= 4)


async def test_end_without_events_closes_the_log_too(world: World) -> None:
    log = await world.taken()
    log.emit(world.data("a"))
    await log.flush()
    await log.end(world.outcome(log.snapshot.meta))
    for after in (0, 1, 5):
        assert (await page(world, log.snapshot.meta.id, after)).done


async def test_more_batches_than_are_read_at_once_come_in_several_pages(world: World) -> None:
    log = await world.taken()
    for n in range(55):
        log.emit(world.data(n))
        await log.flush()
    await world.end(log)
    first = await page(world, log.snapshot.meta.id, 0)
    assert not first.done
    assert await world.said(log.snapshot.meta.id) == list(range(55))


async def test_whether_a_run_has_begun(world: World) -> None:
    log = await world.taken()
    assert not await log.begun()
    log.emit(world.data())
    await log.flush()
    assert await log.begun()
    assert await (await world.join(log.snapshot.meta.id)).begun()
    assert await (await world.take(log.snapshot.meta.id)).begun()


# Writing


async def test_nothing_emitted_is_nothing_written(world: World) -> None:
    log = await world.taken()
    before = await world.state(log.snapshot.meta.id)
    await log.flush()
    assert await world.state(log.snapshot.meta.id) == before


async def test_events_of_a_fact_that_failed_are_not_told_and_those_emitted_before_are_kept(
    world: World,
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


async def test_what_was_emitted_comes_before_the_facts_events(world: World) -> None:
    log = await world.taken()
    log.emit(world.data("a"), world.data("b"))
    await log.put_step(world.step(log), world.data("c"))
    log.emit(world.data("d"))
    await world.end(log)
    events = await world.events(log.snapshot.meta.id)
    assert [e.type for e in events] == ["data"] * 4 + ["finish"]
    assert await world.said(log.snapshot.meta.id) == ["a", "b", "c", "d"]


async def test_writer_that_fell_behind_renumbers(world: World) -> None:
    log = await world.taken()
    joined = await world.join(log.snapshot.meta.id)
    for n in range(3):
        for writer, name in ((log, "turn"), (joined, "resume")):
            writer.emit(world.data(f"{name} {n}"), world.data(f"{name} {n}+"))
            await writer.flush()
    said = await world.said(log.snapshot.meta.id)
    assert said[:4] == ["turn 0", "turn 0+", "resume 0", "resume 0+"]
    assert len(said) == 12


async def test_writer_that_fell_behind_and_lost_the_run_stops(world: World) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    new = await world.take(run_id)
    new.emit(world.data("new"))
    await new.flush()
    log.emit(world.data("stale"))
    with pytest.raises(Fenced):
        await log.flush()
    assert await world.said(run_id) == ["new"]


async def test_nothing_follows_the_last_event(world: World) -> None:
    log = await world.taken()
    joined = await world.join(log.snapshot.meta.id)
    await world.end(log)
    for writer in (log, joined):
        writer.emit(world.data("late"))
        with pytest.raises(Fenced):
            await writer.flush()
        with pytest.raises(Fenced):
            await writer.begun()
    assert [e.type for e in await world.events(log.snapshot.meta.id)] == ["finish"]


async def test_racing_writers_share_one_sequence_without_gap_loss_or_repetition(
    world: World,
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


async def test_parallel_facts_of_one_writer_keep_their_events_together(world: World) -> None:
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


# Bodies


BIG = 800_000
"""Bytes that do not fit an item even when compressed."""


async def test_three_megabytes_go_to_s3_and_come_back(world: World) -> None:
    text = noise(3_000_000)
    run_id = await world.started()
    log = await world.take(run_id)
    await log.put_step(world.step(log, text=text), world.data(text))
    snapshot = (await world.take(run_id)).snapshot
    assert snapshot.steps[0].message.text == text
    assert await world.said(run_id) == [text]
    key = await world.blob_of(run_id, "STEP#0001")
    assert key.startswith(world.keys.blob("runs", run_id) + "/")


async def test_large_input_payload_and_result_are_kept(world: World) -> None:
    head = await world.thread()
    run = world.new_run(head, text=noise(BIG))
    await world.journal.accept(run, head, OnBusy.REJECT, None)
    assert (await world.run(run.id)).input == run.input
    log = await world.take(run.id)
    payload, result = noise(BIG), noise(BIG)
    [call] = await world.waiting(log, "c1", suspension=world.suspension(payload=payload))
    [listed] = (await world.journal.approvals(world.owner, None, 9, None)).items
    assert listed.payload == payload
    decided = await world.decide(call)
    await log.open_calls([decided])
    await log.close_call(settled(open_by(log, decided), result))
    assert (await world.call(call)).result == result


async def test_decision_of_a_megabyte_is_kept(world: World) -> None:
    [call] = await world.waiting(await world.taken(), "c1")
    data = noise(1_000_000)
    decided = await world.decide(call, kind=DecisionKind.RESUMED, data=data)
    assert decided.decision is not None
    assert decided.decision.data == data


async def test_output_of_a_megabyte_ends_the_run(world: World) -> None:
    log = await world.taken()
    output = {"text": noise(1_000_000)}
    await world.end(log, output=output)
    assert (await world.run(log.snapshot.meta.id)).output == output


async def test_large_input_leaves_room_for_the_outcome(world: World) -> None:
    """Input and outcome are one item: together they must not pass DynamoDB's 400 KB."""
    log = await world.taken_with(noise(SPILL_ABOVE * 7 // 4))
    await world.end(log, output={"text": noise(100_000)})
    assert (await world.run(log.snapshot.meta.id)).status is Status.SUCCESS


@pytest.mark.parametrize("size", [1_900, 2_100, 500_000, 600_000, 640_000, 700_000])
async def test_bodies_around_the_edges_come_back(world: World, size: int) -> None:
    log = await world.taken()
    text = noise(size)
    await log.put_step(world.step(log, text=text), world.data(text))
    log.emit(world.data(text))
    await log.flush()
    snapshot = (await world.take(log.snapshot.meta.id)).snapshot
    assert snapshot.steps[0].message.text == text
    assert await world.said(log.snapshot.meta.id) == [text, text]


async def test_body_that_moved_to_s3_moves_back_with_a_shorter_one(world: World) -> None:
    """A queued run's input is written again when it starts; a call's with each of its states."""
    head = await world.thread()
    log = await world.take((await world.accept(head.id)).run_id)
    big = world.new_run(await world.head(head.id), text=noise(BIG))
    await world.journal.accept(big, await world.head(head.id), OnBusy.ENQUEUE, None)
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


Tamper = Callable[[World, str, bytes], Awaitable[None]]


async def change(world: World, key: str, data: bytes) -> None:
    await world.blobs.put(key, data[:-1] + bytes([data[-1] ^ 1]), "application/zlib")


async def cut(world: World, key: str, data: bytes) -> None:
    await world.blobs.put(key, data[:-1], "application/zlib")


async def lose(world: World, key: str, data: bytes) -> None:
    await world.blobs.delete_prefix(key)


@pytest.mark.parametrize("tamper", [change, cut, lose])
@pytest.mark.parametrize("sk", [META, "STEP#0001", event_key(1)])
async def test_body_that_was_changed_cut_or_lost_in_s3_is_refused(
    world: World, tamper: Tamper, sk: str
) -> None:
    log = await world.taken_with(noise(BIG))
    run_id = log.snapshot.meta.id
    await log.put_step(world.step(log, text=noise(BIG)), world.data(noise(BIG)))
    key = await world.blob_of(run_id, sk)
    data = await world.blobs.get(key)
    assert data is not None
    await tamper(world, key, data)
    reading = (
        page(world, run_id, 0)
        if sk == event_key(1)
        else world.journal.snapshot(world.owner, run_id)
    )
    with pytest.raises(LayoverError, match="S3"):
        await reading


async def test_erased_runs_leave_nothing_behind_and_other_threads_alone(world: World) -> None:
    log, other = await world.taken_with(noise(BIG)), await world.taken()
    run_id, thread_id = log.snapshot.meta.id, log.snapshot.meta.thread_id
    for n in range(30):
        log.emit(world.data(n))
        await log.flush()
    await world.waiting(log, "c1")
    key = await world.blob_of(run_id)
    kept = await world.state(other.snapshot.meta.id)
    await world.journal.mark_deleted(world.owner, thread_id)
    for _ in range(2):
        await world.journal.erase_runs(world.owner, thread_id)
    assert await world.state(run_id) == {}
    assert await world.blobs.get(key) is None
    assert await world.state(other.snapshot.meta.id) == kept
    assert (await world.journal.approvals(world.owner, None, 9, None)).items == ()
    await world.journal.erased(world.owner, thread_id)
    assert (await world.head(thread_id)).deleted


async def test_what_a_writer_leaves_after_its_run_was_erased_is_erased_later(world: World) -> None:
    log, other = await world.taken(), await world.taken()
    run_id, thread_id = log.snapshot.meta.id, log.snapshot.meta.thread_id
    log.emit(world.data("before"))
    await log.flush()
    await world.journal.mark_deleted(world.owner, thread_id)
    await world.journal.erase_runs(world.owner, thread_id)
    log.emit(world.data(noise(BIG)))
    await log.flush()
    [late] = await world.state(run_id)
    key, kept = await world.blob_of(run_id, late), await world.state(other.snapshot.meta.id)
    await world.journal.erase_runs(world.owner, thread_id)
    assert await world.state(run_id), "nothing leads to it but its mark"
    for _ in range(2):
        await world.journal.erase_late(world.owner, thread_id)
        assert await world.state(run_id) == {}
        assert await world.blobs.get(key) is None
    assert await world.state(other.snapshot.meta.id) == kept
    beside = await world.table.query(world.keys.thread(thread_id), " ", "~")
    assert [item["sk"] for item in beside] == [HEAD]


async def test_an_emptied_thread_is_due_once_more_and_not_before(world: World) -> None:
    thread_id = (await world.taken()).snapshot.meta.thread_id
    now, late = world.clock.now(), timedelta(minutes=16)

    async def due(at: timedelta) -> bool:
        found = await world.journal.due(now + at, 1_000)
        return any(w.run_id is None and w.thread_id == thread_id for w in found)

    await world.journal.emptied(world.owner, thread_id, now)
    assert not await due(late), "it is not deleted"
    await world.journal.mark_deleted(world.owner, thread_id)
    assert (await world.head(thread_id)).empty_again_at is None
    await world.journal.emptied(world.owner, thread_id, now + late)
    await world.journal.emptied(world.owner, thread_id, now + late * 2)
    assert (await world.head(thread_id)).empty_again_at == now + late
    assert not await due(late / 2)
    assert await due(late)
    await world.journal.erased(world.owner, thread_id)
    assert not await due(late * 3)


async def test_a_deletion_is_due_again_when_it_was_asked_for_until_it_is_done(world: World) -> None:
    thread_id = (await world.taken()).snapshot.meta.thread_id
    now = world.clock.now()

    async def due(at: timedelta) -> bool:
        found = await world.journal.due(now + at, 1_000)
        return any(w.run_id is None and w.thread_id == thread_id for w in found)

    minute = timedelta(minutes=1)
    await world.journal.erase_again(world.owner, thread_id, now)
    assert not await due(minute), "it is not deleted"
    await world.journal.mark_deleted(world.owner, thread_id)
    assert await due(timedelta(0))
    await world.journal.erase_again(world.owner, thread_id, now + minute)
    assert not await due(minute / 2)
    assert await due(minute)
    await world.journal.erased(world.owner, thread_id)
    await world.journal.erase_again(world.owner, thread_id, now)
    assert not await due(minute)


# Owners


def outcome_of(world: World, meta: Any) -> Outcome:
    return world.outcome(meta, Status.CANCELLED)


async def test_another_owner_sees_and_changes_nothing_with_any_method(
    world: World, stranger: World
) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    run_id, thread_id = call.run_id, log.snapshot.meta.thread_id
    queued = await world.queue(thread_id)
    before = [await world.state(run_id), await world.state(queued), await world.head(thread_id)]
    journal, owner, execution = stranger.journal, stranger.owner, f"{run_id}-1"
    decision, outcome = world.decision(), outcome_of(world, log.snapshot.meta)

    assert await journal.thread(owner, thread_id) is None
    assert (await journal.threads(owner, 9, None)).items == ()
    assert await journal.edit_thread(owner, thread_id, title="mine") is None
    assert await journal.mark_deleted(owner, thread_id) is None
    assert await journal.run(owner, run_id) is None
    assert await journal.snapshot(owner, run_id) is None
    assert (await journal.runs(owner, thread_id, 9, None)).items == ()
    assert (await journal.approvals(owner, None, 9, None)).items == ()
    assert (await journal.approvals(owner, thread_id, 9, None)).items == ()
    assert await journal.store_token(owner, run_id, execution, call.key, 1, "t") is None
    with pytest.raises(LayoverError):
        await journal.decide(owner, run_id, call.key, 1, decision, world.data())
    assert await journal.call(owner, run_id, call.key) is None
    assert (await journal.events(owner, run_id, 0, 9)).items == ()
    assert await journal.take(owner, run_id, execution) is None
    assert await journal.join(owner, run_id, execution) is None
    assert await journal.force(owner, run_id) is None
    assert not await journal.end_queued(owner, queued, outcome, world.finish(outcome))
    assert await journal.request_cancel(owner, run_id) is None
    assert await journal.succeed(owner, run_id, execution) is None
    await journal.look_again(owner, run_id, world.clock.now(), world.clock.now())
    await journal.saved(owner, run_id, thread_id)
    await journal.erase_runs(owner, thread_id)
    await journal.erase_late(owner, thread_id)
    await journal.emptied(owner, thread_id, world.clock.now())
    await journal.erased(owner, thread_id)
    await journal.erase_again(owner, thread_id, world.clock.now())

    after = [await world.state(run_id), await world.state(queued), await world.head(thread_id)]
    assert after == before
    assert await stranger.state(run_id) == {}
