"""Following a run: what comes is the log, however often a client comes back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.runs.follow import HEARTBEAT_S, STREAM_LIVES, follow, with_heartbeat
from layover.threads import threads
from layover.values.lease import Lease, LeaseKind
from support.examples import examples
from support.worlds.services import ANN, BOB, ManualPace
from support.worlds.sockets import SocketBench


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


async def seqs(
    world: SocketBench, run_id: str, after: int = 0, most: int | None = None
) -> list[int]:
    """Numbers of what a client is sent until it leaves, or has had all that there is to say in a while."""
    found: list[int] = []
    looks = follow(world.runtime, ANN, run_id, after, None, ManualPace().pace)
    async with aclosing(looks) as following:
        async for events in following:
            found += [e.seq for e in events]
            if most is not None and len(found) >= most:
                return found[:most]
    return found


async def test_a_stream_ends_behind_the_last_event(world: SocketBench) -> None:
    log = await world.running()
    await world.tell(log, "a", "b")
    await world.end(log)
    run_id = log.snapshot.meta.id
    assert await seqs(world, run_id) == list(range(1, len(await seqs(world, run_id)) + 1))
    assert await seqs(world, run_id, after=2) == (await seqs(world, run_id))[2:]
    assert await seqs(world, run_id, after=10_000) == []


async def test_what_is_written_while_somebody_follows_comes_in_order(world: SocketBench) -> None:
    log = await world.running()
    found: list[int] = []
    async for events in follow(
        world.runtime, ANN, log.snapshot.meta.id, 0, None, ManualPace().pace
    ):
        found += [e.seq for e in events]
        if not events and len(found) < 6:
            await world.tell(log, "x", "y")
        elif not events:
            await world.end(log)
    assert found == list(range(1, len(found) + 1))
    assert len(found) > 6


@given(story=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=8))
@examples(40)
def test_replay_equals_live_wherever_a_client_is_cut_off(story: list[tuple[int, int]]) -> None:
    """So many events are written, then a client takes so many and is gone, again and again."""

    async def told() -> None:
        world = SocketBench()
        log = await world.running()
        run_id, seen = log.snapshot.meta.id, list[int]()
        for written, taken in story:
            await world.tell(log, *range(written))
            there = (await world.journal.events.page(ANN, run_id, len(seen), 500)).items
            if most := min(taken, len(there)):
                seen += await seqs(world, run_id, len(seen), most)
        await world.end(log)
        seen += await seqs(world, run_id, len(seen))
        whole = [e.seq for e in (await world.journal.events.page(ANN, run_id, 0, 1000)).items]
        assert seen == whole == list(range(1, len(whole) + 1))

    asyncio.run(told())


async def test_a_stream_of_a_run_that_waits_ends_by_itself_in_time(world: SocketBench) -> None:
    run, _ = await world.suspended()
    paced = ManualPace()
    async for _ in follow(world.runtime, ANN, run.id, 0, None, paced.pace):
        pass
    assert sum(paced.slept) == pytest.approx(STREAM_LIVES.total_seconds())
    assert max(paced.slept) <= 0.5


async def test_a_stream_looks_closely_for_what_comes_next(world: SocketBench) -> None:
    """And more seldom where a person takes their time: 900 units in 14 minutes."""
    run, _ = await world.suspended()
    paced = ManualPace()
    async for _ in follow(world.runtime, ANN, run.id, 0, None, paced.pace):
        pass
    looks_at = list(accumulate(paced.slept))
    assert max(pause for pause, at in zip(paced.slept, looks_at, strict=True) if at < 7) < 0.16
    assert len(looks_at) * 0.5 < 900


async def test_a_stream_looks_closely_again_behind_what_came(world: SocketBench) -> None:
    log = await world.running()
    paced, silences = ManualPace(), list[int]()
    async for events in follow(world.runtime, ANN, log.snapshot.meta.id, 0, None, paced.pace):
        if events:
            silences.append(len(paced.slept))
        elif sum(paced.slept) > 20 * len(silences):
            await (world.tell(log, "x") if len(silences) < 3 else world.end(log))
    assert [paced.slept[n] for n in silences[:3]] == [0.025] * 3
    assert max(paced.slept) > 0.4


async def test_a_client_that_asks_for_more_than_there_is_learns_of_the_end(
    world: SocketBench,
) -> None:
    log = await world.running()
    paced, is_over = ManualPace(), False
    async for events in follow(world.runtime, ANN, log.snapshot.meta.id, 1_000, None, paced.pace):
        assert events == ()
        if not is_over and sum(paced.slept) > 1:
            is_over = True
            await world.end(log)
    assert 1 < sum(paced.slept) < 2 * HEARTBEAT_S


async def test_a_stream_ends_with_the_callers_token(world: SocketBench) -> None:
    run, _ = await world.suspended()
    paced = ManualPace()
    until = world.clock.now() + timedelta(seconds=30)
    async for _ in follow(world.runtime, ANN, run.id, 0, until, paced.pace):
        pass
    assert sum(paced.slept) == pytest.approx(30)


async def test_a_stream_of_a_deleted_thread_ends(world: SocketBench) -> None:
    run, _ = await world.suspended()
    paced, deleted = ManualPace(), False
    async for _ in follow(world.runtime, ANN, run.id, 0, None, paced.pace):
        if sum(paced.slept) > 5 and not deleted:
            deleted = True
            await threads.delete(world.runtime, ANN, run.thread_id)
    assert sum(paced.slept) < 5 + 2 * HEARTBEAT_S


@pytest.mark.parametrize(
    ("owner", "kind", "limit"),
    [(ANN, LeaseKind.WAIT, "max_user_waits"), (None, LeaseKind.STREAM, "max_waits")],
    ids=["of the user", "of all"],
)
async def test_where_too_many_requests_wait_a_stream_gets_what_there_is(
    world: SocketBench, owner: str | None, kind: LeaseKind, limit: str
) -> None:
    run, _ = await world.suspended()
    until = world.clock.now() + timedelta(minutes=1)
    most = getattr(world.runtime.settings, limit)
    for n in range(most):
        assert await world.runtime.leases.take(
            Lease(owner, kind, str(n), until), most, world.clock.now()
        )
    paced = ManualPace()
    found: list[int] = []
    async for events in follow(world.runtime, ANN, run.id, 0, None, paced.pace):
        found += [e.seq for e in events]
    there = (await world.journal.events.page(ANN, run.id, 0, 100)).last_seq
    assert (found, paced.slept) == (list(range(1, there + 1)), [])


async def test_a_place_is_given_back_when_the_client_leaves(world: SocketBench) -> None:
    run, _ = await world.suspended()
    looks = follow(world.runtime, ANN, run.id, 0, None, ManualPace().pace)
    async with aclosing(looks) as following:
        await anext(following)
        await anext(following)
        assert (
            len(await world.runtime.leases.list_leases(ANN, LeaseKind.WAIT, world.clock.now())) == 1
        )
    assert await world.runtime.leases.list_leases(ANN, LeaseKind.WAIT, world.clock.now()) == ()


async def test_a_foreign_run_has_no_events(world: SocketBench) -> None:
    run, _ = await world.suspended()
    async for events in follow(world.runtime, BOB, run.id, 0, None, ManualPace().pace):
        assert events == ()


async def test_silence_is_broken_by_a_heartbeat() -> None:
    silence = [0.0, 1.0, HEARTBEAT_S - 1, 1.0, HEARTBEAT_S / 2, HEARTBEAT_S / 2]
    paced = ManualPace()

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"first"
        for seconds in silence:
            await paced.pace.sleep(seconds)
            yield b""

    found = [piece async for piece in with_heartbeat(pieces(), b"beat", paced.pace)]
    assert found == [b"first", b"", b"", b"beat", b"", b"", b"beat"]
    assert list(accumulate(silence))[-1] == 2 * HEARTBEAT_S + 1
