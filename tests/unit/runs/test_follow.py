"""Following a run: what comes is the log, however often a client comes back."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from inspect import isawaitable
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.ports import RunLog
from layover.runs.follow import HEARTBEAT_S, SILENCE_S, STREAM_LIVES, follow, with_heartbeat
from layover.threads import threads
from layover.values.deployment.access import Actor
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


async def streams_of(world: SocketBench) -> tuple[Lease, ...]:
    """The places that ANN's streams hold."""
    return await world.runtime.leases.list_leases(ANN, LeaseKind.STREAM, world.clock.now())


async def returned(
    world: SocketBench, run_id: str, after: int = 0, look: Callable[[float], object] | None = None
) -> tuple[int, float]:
    """A stream whose reader comes back: the last seq, and the seconds until it ended. `look`: what happens
    at a look without news, so many seconds after the beginning."""
    paced, last = ManualPace(), after
    async for events in follow(world.runtime, ANN, run_id, after, None, paced.pace, returns=True):
        last = events[-1].seq if events else last
        if look is not None and not events and isawaitable(act := look(sum(paced.slept))):
            await act
    return last, sum(paced.slept)


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


@pytest.mark.parametrize("words", [0, 8])
async def test_a_stream_whose_reader_returns_ends_soon_after_the_last_word_of_a_run_that_waits(
    world: SocketBench, words: int
) -> None:
    """Another of its calls may be at work, and speak."""
    log = await world.running()
    suspends, said = True, 0

    async def play(seconds: float) -> None:
        nonlocal suspends, said
        if suspends:
            suspends = False
            step = await world.step(log, "one moment", ("c1", "refund", {}))
            await world.suspend(log, step, "c1")
            await world.tell(log, "it waits")
        elif said < words and seconds > (said + 1) * 0.9:
            said += 1
            await world.tell(log, said)

    last, seconds = await returned(world, log.snapshot.meta.id, look=play)
    assert (last, said) == (await last_seq(world, log), words)
    assert words * 0.9 + 1 <= seconds < words * 0.9 + 1.5


async def test_a_reader_that_comes_back_to_a_run_that_waits_takes_no_place(
    world: SocketBench,
) -> None:
    run, _ = await world.suspended()

    class Untouched:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("no place is asked for")

    there = (await world.journal.events.page(ANN, run.id, 0, 100)).last_seq
    world.runtime = replace(world.runtime, leases=Untouched())
    assert await returned(world, run.id, there) == (there, 0)


async def test_a_reader_that_comes_back_to_a_decided_run_follows_it(world: SocketBench) -> None:
    run, call = await world.suspended()
    await world.token(call)
    await decide(world.runtime, Actor(sub=ANN), run.id, "c1", DecisionRequest(Verdict.APPROVE))
    there = (await world.journal.events.page(ANN, run.id, 0, 100)).last_seq
    assert (await returned(world, run.id, there))[1] == pytest.approx(SILENCE_S, abs=0.6)


async def test_a_stream_whose_reader_returns_ends_after_a_short_silence(
    world: SocketBench,
) -> None:
    log = await world.running()
    is_told = False

    async def tell(seconds: float) -> None:
        nonlocal is_told
        if seconds > SILENCE_S - 5 and not is_told:
            is_told = True
            await world.tell(log, "still at it")

    run_id = log.snapshot.meta.id
    last, seconds = await returned(world, run_id, look=tell)
    assert last == await last_seq(world, log)
    assert seconds == pytest.approx(2 * SILENCE_S - 5, abs=1.2)
    assert (await returned(world, run_id, last))[1] == pytest.approx(SILENCE_S, abs=0.6)
    assert await streams_of(world) == ()


async def last_seq(world: SocketBench, log: RunLog) -> int:
    """The last event in the log."""
    return (await world.journal.events.page(ANN, log.snapshot.meta.id, 0, 100)).last_seq


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
    [(ANN, LeaseKind.STREAM, "max_user_streams"), (None, LeaseKind.STREAM, "max_waits")],
    ids=["of the user", "of all"],
)
async def test_where_too_many_streams_are_open_another_gets_what_there_is(
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
        assert len(await streams_of(world)) == 1
    assert await streams_of(world) == ()


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
