"""Events to sockets: in order, no gap, no double, whichever process writes and whichever dies."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from layover.engine.time_left import NoDeadline
from layover.errors import Fenced
from layover.inmemory.table import InMemoryTable
from layover.keys import CONNECTION, connection_key
from layover.plugins.memory.learns.extract import extract
from layover.ports import NoSink, RunLog
from layover.ports.sockets import MAX_FRAME, SocketUnsure
from layover.ports.table import Action, Delete
from layover.recovery.sweep import sweep
from layover.runs.cancel import cancel
from layover.runs.turn import turn
from layover.sockets.delivery import STALE, frame
from layover.values.runs.payload import RunPayload
from layover.values.socket import Claim, Subscription
from support.inmemory.sockets import InMemorySockets
from support.worlds.services import ANN
from support.worlds.sockets import SocketBench


async def delivered(world: SocketBench, line: Subscription) -> bool:
    """Deliver within seconds, and return whether all was sent."""
    until = time.monotonic() + 60
    return await world.pushing.deliver(line, lambda: time.monotonic() < until)


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


@pytest.fixture
async def log(world: SocketBench) -> RunLog:
    """A run's writer; the connections c1 and c2 are open, and follow nothing yet."""
    await world.connect("c1")
    await world.connect("c2")
    return await world.running()


# Faults


async def test_a_death_between_claim_and_release_closes_the_connection(
    world: SocketBench, log: RunLog
) -> None:
    line = await world.followed(log)
    await world.tell(log, 1)
    assert isinstance(await world.ports.connections.claim(line, world.clock.now()), Claim)
    await world.tell(log, 2)
    assert world.seqs() == [1]
    assert world.left == [line]
    world.clock.advance(STALE + timedelta(seconds=1))
    assert await delivered(world, line)
    assert world.seqs() == [1]
    assert "c1" not in world.sockets.open
    assert await world.ports.connections.get("c1") is None


async def test_a_live_claim_is_waited_for(world: SocketBench, log: RunLog) -> None:
    line = await world.subscribe(log.snapshot.meta.id)
    claim = await world.ports.connections.claim(line, world.clock.now())
    assert isinstance(claim, Claim)
    await world.tell(log, 1, 2, 3)
    waiting = asyncio.create_task(delivered(world, line))
    # What the claim's holder sent by itself.
    assert await world.ports.connections.release(claim, 2)
    assert await asyncio.wait_for(waiting, 60)
    assert world.seqs() == [3]


async def test_a_gone_socket_is_forgotten_with_all_that_it_follows(
    world: SocketBench, log: RunLog
) -> None:
    run_id = log.snapshot.meta.id
    other = await world.running()
    await world.followed(log)
    await world.subscribe(other.snapshot.meta.id)
    await world.followed(log, "c2")
    world.sockets.open.discard("c1")
    await world.tell(log, 1)
    assert await world.ports.connections.get("c1") is None
    for each, left in ((run_id, {"c2"}), (other.snapshot.meta.id, set())):
        meta = await world.journal.runs.get(ANN, each)
        assert meta is not None
        assert meta.sockets == left
    assert world.seqs("c2") == [1]


async def test_a_post_whose_end_nobody_knows_closes_the_connection() -> None:
    class Unsure(InMemorySockets):
        async def post(self, connection_id: str, frame: str) -> None:
            await super().post(connection_id, frame)
            if len(self.frames[connection_id]) == 2:
                raise SocketUnsure

    world = SocketBench(sockets=Unsure("c1"))
    await world.connect()
    log = await world.running()
    await world.followed(log)
    await world.tell(log, 1, 2, 3)
    await world.tell(log, 4)
    assert world.seqs() == [1, 2]
    assert world.sockets.open == set()


async def test_a_frame_without_room_is_posted_again() -> None:
    world = SocketBench(finish_s=20)
    await world.connect()
    log = await world.running()
    await world.followed(log)
    world.sockets.busy = 2
    await world.tell(log, 1, 2, 3)
    assert world.seqs() == [1, 2, 3]


async def test_a_connection_whose_token_expired_gets_nothing_and_is_closed(
    world: SocketBench,
) -> None:
    await world.connect(token_lives=60)
    log = await world.running()
    await world.followed(log)
    await world.tell(log, 1)
    world.clock.advance(timedelta(seconds=60))
    await world.tell(log, 2)
    assert world.seqs() == [1]
    assert world.sockets.open == {"c2"}


async def test_a_line_of_a_connection_without_a_record_is_not_tried_for_ever(
    world: SocketBench, log: RunLog
) -> None:
    line = await world.followed(log)
    await world.table.write(Delete(connection_key("c1"), CONNECTION))
    world.sockets.open.discard("c1")
    await world.tell(log, 1)
    run = await world.journal.runs.get(ANN, line.run_id)
    assert run is not None
    assert run.sockets == frozenset()
    assert await world.ports.connections.claim(line, world.clock.now()) is None


async def test_the_sweeper_closes_connections_whose_token_expired(world: SocketBench) -> None:
    await world.connect("c1", token_lives=60)
    await world.connect("c2")
    assert await sweep(world.runtime) == {}
    world.clock.advance(timedelta(seconds=61))
    assert await sweep(world.runtime) == {"disconnected": 1}
    assert world.sockets.open == {"c2"}
    assert await sweep(world.runtime) == {}


async def died_at_the_end(world: SocketBench, log: RunLog) -> RunPayload:
    """The writer has ended a run that is followed, and was gone before it sent that."""
    meta = log.snapshot.meta
    await world.followed(log)
    await world.tell(log, 1)
    world.sink.to = NoSink()
    await world.finish(meta.id)
    assert world.seqs() == [1]
    world.sink.to = world.pusher
    return RunPayload(owner=ANN, run_id=meta.id, execution=f"{meta.id}-1")


async def test_whoever_finds_a_run_over_sends_the_end_that_its_writer_left(
    world: SocketBench, log: RunLog
) -> None:
    payload = await died_at_the_end(world, log)
    assert (await turn(world.runtime, payload, NoDeadline()))["status"] == "over"
    await world.pusher.finish()
    assert world.seqs() == [1, 2, 3]
    assert (await turn(world.runtime, payload, NoDeadline()))["status"] == "over"
    await world.pusher.finish()
    assert world.seqs() == [1, 2, 3]


async def test_what_comes_after_a_run_leaves_an_end_that_was_not_sent_to_the_sweeper(
    world: SocketBench, log: RunLog
) -> None:
    payload = await died_at_the_end(world, log)
    await extract(world.runtime, payload)
    await sweep(world.runtime)
    [line] = world.left
    assert await delivered(world, line)
    assert world.seqs() == [1, 2, 3]
    world.clock.advance(timedelta(hours=1))
    assert await sweep(world.runtime) == {}


async def test_the_sweeper_has_sent_what_a_dead_writer_left(
    world: SocketBench, log: RunLog
) -> None:
    await died_at_the_end(world, log)
    await sweep(world.runtime)
    assert [line.run_id for line in world.left] == [log.snapshot.meta.id]


async def test_a_slow_socket_holds_up_neither_writer_nor_others() -> None:
    class Slow(InMemorySockets):
        release = asyncio.Event()

        async def post(self, connection_id: str, frame: str) -> None:
            if connection_id == "c1":
                await asyncio.wait_for(self.release.wait(), 60)
            await super().post(connection_id, frame)

    slow = Slow("c1", "c2")
    world = SocketBench(sockets=slow, finish_s=0.05)
    await world.connect("c1")
    await world.connect("c2")
    log = await world.running()
    line = await world.subscribe(log.snapshot.meta.id)
    await world.subscribe(log.snapshot.meta.id, "c2")
    for value in range(5):
        log.emit(*world.data(value))
        await asyncio.wait_for(log.flush(), 60)
    await log.cancel_requested()
    while len(slow.frames["c2"]) < 5:
        await asyncio.sleep(0)
    assert slow.frames["c1"] == []
    # The invocation ends: the post under way comes to its end, the rest is left to another one.
    asyncio.get_running_loop().call_later(0.2, slow.release.set)
    await asyncio.wait_for(world.pusher.finish(), 60)
    assert world.seqs("c1") == [1]
    assert world.left == [line]
    assert await delivered(world, line)
    assert world.seqs("c1") == [1, 2, 3, 4, 5]


# Processes that write


async def test_two_that_send_at_once_send_everything_once(world: SocketBench, log: RunLog) -> None:
    line = await world.subscribe(log.snapshot.meta.id)
    log.emit(*world.data(*range(30)))
    await log.flush()
    done = await asyncio.gather(*(delivered(world, line) for _ in range(5)))
    assert all(done)
    assert world.seqs() == list(range(1, 31))


async def test_a_subscription_just_before_the_end_gets_the_end(
    world: SocketBench, log: RunLog
) -> None:
    run_id = log.snapshot.meta.id
    line = await world.subscribe(run_id)
    assert await delivered(world, line)
    await world.end(log)
    page = await world.journal.events.page(ANN, run_id, 0, 100)
    assert world.sent() == [e.model_dump(mode="json") for e in page.items]
    assert page.items[-1].type == "agent-end"


async def test_of_two_subscriptions_the_later_is_seen_as_well(
    world: SocketBench, log: RunLog
) -> None:
    run_id = log.snapshot.meta.id
    await world.subscribe(run_id, "c1")
    await world.step(log, "one")
    await world.tell(log, 1)
    await world.subscribe(run_id, "c2")
    await log.wait_for_compaction(2)
    await world.tell(log, 2)
    assert world.seqs("c1") == world.seqs("c2") == [1, 2]


async def test_a_fact_without_events_shows_a_new_subscription(
    world: SocketBench, log: RunLog
) -> None:
    await world.tell(log, 1)
    await world.subscribe(log.snapshot.meta.id)
    await world.step(log, "hello")
    await world.pusher.finish()
    assert world.seqs() == [1]


async def test_the_look_at_the_cancel_flag_shows_a_new_subscription(
    world: SocketBench, log: RunLog
) -> None:
    await world.tell(log, 1)
    await world.subscribe(log.snapshot.meta.id)
    await world.tell(log, 2)
    assert world.sent() == []
    await log.cancel_requested()
    await world.pusher.finish()
    assert world.seqs() == [1, 2]


async def test_an_event_that_comes_while_another_is_posted_is_sent_after_it() -> None:
    class Held(InMemorySockets):
        release = asyncio.Event()

        async def post(self, connection_id: str, frame: str) -> None:
            await asyncio.wait_for(self.release.wait(), 60)
            await super().post(connection_id, frame)

    world = SocketBench(sockets=Held("c1"))
    await world.connect()
    log = await world.running()
    await world.followed(log)
    for value in (1, 2):
        log.emit(*world.data(value))
        await log.flush()
        for _ in range(20):
            await asyncio.sleep(0)
    Held.release.set()
    await world.pusher.finish()
    assert world.seqs() == [1, 2]
    assert world.left == []


async def test_the_next_writer_sends_what_the_last_one_left(
    world: SocketBench, log: RunLog
) -> None:
    run_id = log.snapshot.meta.id
    await world.tell(log, 1)
    await world.subscribe(run_id)
    await world.tell(log, 2)
    assert world.sent() == []
    await world.take(run_id)
    await world.pusher.finish()
    assert world.seqs() == [1, 2]


async def test_a_queued_run_that_is_cancelled_says_so(world: SocketBench) -> None:
    await world.connect()
    thread = (await world.thread()).id
    await world.run(thread)
    queued = await world.run(thread, on_busy="enqueue")
    await world.subscribe(queued.id)
    await cancel(world.runtime, ANN, queued.id)
    await world.pusher.finish()
    assert [f["type"] for f in world.sent()] == ["finish"]


async def test_a_writer_that_was_fenced_is_not_mistaken_for_one_that_missed_a_subscription(
    world: SocketBench, log: RunLog
) -> None:
    await world.subscribe(log.snapshot.meta.id)
    await world.take(log.snapshot.meta.id)
    with pytest.raises(Fenced):
        await world.step(log, "too late")


async def test_after_the_last_event_nobody_follows(world: SocketBench, log: RunLog) -> None:
    run_id = log.snapshot.meta.id
    line = await world.subscribe(run_id)
    await world.finish(run_id)
    await world.pusher.finish()
    run = await world.journal.runs.get(ANN, run_id)
    assert run is not None
    assert run.sockets == frozenset()
    assert await world.ports.connections.claim(line, world.clock.now()) is None


async def test_nothing_is_asked_for_a_run_that_nobody_follows() -> None:
    class Counting(InMemoryTable):
        def __init__(self) -> None:
            super().__init__()
            self.asked: Counter[str] = Counter()

        async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Any:
            self.asked["get"] += 1
            return await super().get(pk, sk, consistent=consistent)

        async def query(self, pk: str, low: str, high: str, **how: Any) -> Any:
            self.asked["query"] += 1
            return await super().query(pk, low, high, **how)

        async def write(self, action: Any) -> Any:
            self.asked["write"] += 1
            return await super().write(action)

        async def transact(self, actions: Sequence[Action], token: str) -> None:
            self.asked["transact"] += 1
            await super().transact(actions, token)

    table = Counting()
    world = SocketBench(table)
    log = await world.running()
    table.asked.clear()
    await world.tell(log, 1)
    await world.step(log, "hello")
    await log.cancel_requested()
    assert table.asked == {"write": 1, "transact": 1, "get": 1}


# Frames


def test_an_event_that_no_frame_holds_is_announced(world: SocketBench) -> None:
    [event] = world.data("x" * MAX_FRAME)
    numbered = event.model_copy(update={"seq": 7, "run_id": "r1"})
    at = numbered.model_dump(mode="json")["at"]
    told = {"seq": 7, "run_id": "r1", "type": "data", "at": at, "too_large": True}
    assert json.loads(frame(numbered)) == told


def test_an_event_that_just_fits_is_sent_whole(world: SocketBench) -> None:
    [event] = world.data("")
    room = MAX_FRAME - len(event.model_dump_json())
    [fits] = world.data("x" * room)
    [too_long] = world.data("x" * (room - 1) + "ä")
    assert frame(fits) == fits.model_dump_json()
    assert "too_large" in frame(too_long)
