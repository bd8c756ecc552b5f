"""What only real requests can race or lose: the journal on DynamoDB, from several threads at once."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.errors import DecisionAlreadyMade, ThreadBusy
from layover.ports import Accepted, StaleHead
from layover.values.runs.run import OnBusy, Status
from support.aws.emulator import LocalAws
from support.worlds.journal import JournalBench

WRITERS = 8


def race(world: JournalBench, one: Callable[[JournalBench, int], Any]) -> list[Any]:
    """Each writer in a thread and an event loop of its own, all let go at once."""
    gate = threading.Barrier(WRITERS)

    async def prepared(n: int) -> Any:
        mine = JournalBench(world.table, world.blobs, world.owner, world.clock)
        gate.wait(10)
        return await one(mine, n)

    with ThreadPoolExecutor(WRITERS) as pool:
        running = [pool.submit(asyncio.run, prepared(n)) for n in range(WRITERS)]
        return [each.result(timeout=30) for each in running]


async def test_one_of_eight_decisions_wins(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    [call] = await world.waiting(await world.taken(), "c1")

    async def decide(mine: JournalBench, n: int) -> bool:
        try:
            await mine.decide(call, mine.data(n), reason=f"{n}")
        except DecisionAlreadyMade:
            return False
        return True

    won = await asyncio.to_thread(race, world, decide)
    assert sum(won) == 1
    decision = (await world.call(call)).decision
    assert decision is not None
    assert decision.reason == f"{won.index(True)}"
    assert await world.said(call.run_id) == [won.index(True)]


async def test_one_of_eight_runs_starts(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    head = await world.thread()

    async def accept(mine: JournalBench, n: int) -> str:
        try:
            await mine.journal.accept(mine.new_run(head), head, OnBusy.REJECT, None)
        except StaleHead:
            with pytest.raises(ThreadBusy):
                await mine.accept(head.id)
            return "busy"
        return "started"

    answers = await asyncio.to_thread(race, world, accept)
    assert sorted(answers) == ["busy"] * (WRITERS - 1) + ["started"]
    assert len((await world.journal.runs(world.owner, head.id, 99, None)).items) == 1


async def test_eight_enqueued_runs_lose_nobody(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    head = await world.thread()

    async def accept(mine: JournalBench, n: int) -> Accepted:
        while True:
            try:
                return await mine.accept(head.id, OnBusy.ENQUEUE)
            except StaleHead:
                continue

    answers = await asyncio.to_thread(race, world, accept)
    [active] = [a.run_id for a in answers if a.started]
    after = await world.head(head.id)
    assert after.active_run == active
    assert {active, *after.queue} == {a.run_id for a in answers}


async def test_eight_takers_have_an_epoch_each(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    run_id = await world.started()

    async def take(mine: JournalBench, n: int) -> int | None:
        log = await mine.journal.seize(mine.owner, run_id)
        return log.snapshot.meta.epoch if log else None

    epochs = await asyncio.to_thread(race, world, take)
    assert sorted(epochs) == list(range(1, WRITERS + 1))


async def test_eight_writers_in_threads_share_one_sequence(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    log = await world.taken()

    async def speak(mine: JournalBench, n: int) -> None:
        writer = await mine.join(log.snapshot.meta.id)
        for i in range(3):
            writer.emit(mine.data([n, i]))
            await writer.flush()

    await asyncio.to_thread(race, world, speak)
    said = await world.said(log.snapshot.meta.id)
    for n in range(WRITERS):
        assert [i for writer, i in said if writer == n] == [0, 1, 2]
    assert len(said) == WRITERS * 3


async def test_one_of_eight_ends_counts(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    log = await world.taken()
    queued = await world.queue(log.snapshot.meta.thread_id)

    async def end(mine: JournalBench, n: int) -> str | None:
        writer = await mine.journal.seize(mine.owner, log.snapshot.meta.id)
        if writer is None:
            return "over"
        try:
            return await mine.end(writer)
        except Exception as error:
            return type(error).__name__

    answers = await asyncio.to_thread(race, world, end)
    assert answers.count(queued) == 1
    assert set(answers) <= {queued, "over", "Fenced"}
    assert [e.type for e in await world.events(log.snapshot.meta.id)] == ["finish"]
    assert (await world.run(queued)).status is Status.RUNNING


# Lost answers and cancelled writers


class Client:
    """A client whose next request of one operation is odd: sent twice, or held up."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.repeats: str | None = None
        self.holds: str | None = None
        self.arrived = threading.Event()
        self.goes_on = threading.Event()

    def repeat(self, operation: str) -> None:
        """Send the next call of this operation twice."""
        self.repeats = operation

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> Any:
            send = getattr(self._client, operation)
            if self.holds == operation:
                self.holds = None
                self.arrived.set()
                assert self.goes_on.wait(10)
            if self.repeats == operation:
                self.repeats = None
                send(**arguments)
            return send(**arguments)

        return call


@pytest.fixture
def client(aws: LocalAws) -> Client:
    return Client(aws.client("dynamodb"))


@pytest.fixture
def odd_world(aws: LocalAws, client: Client, dynamo_world: JournalBench) -> JournalBench:
    table = DynamoTable(lambda: client, aws.table)  # type: ignore[arg-type, return-value]
    return JournalBench(table, dynamo_world.blobs, dynamo_world.owner, dynamo_world.clock)


async def test_batch_whose_answer_was_lost_is_not_told_twice(
    odd_world: JournalBench, client: Client
) -> None:
    """boto3 repeats a put after a lost answer; the condition then fails on the writer's own item."""
    log = await odd_world.taken()
    log.emit(odd_world.data("a"))
    client.repeat("put_item")
    await log.flush()
    assert client.repeats is None
    log.emit(odd_world.data("b"))
    await log.flush()
    assert await odd_world.said(log.snapshot.meta.id) == ["a", "b"]


async def test_transaction_whose_answer_was_lost_happens_once(
    odd_world: JournalBench, client: Client
) -> None:
    log = await odd_world.taken()
    client.repeat("transact_write_items")
    await log.put_step(odd_world.step(log), odd_world.data("step"))
    client.repeat("transact_write_items")
    [call] = await odd_world.waiting(await odd_world.taken(), "c1")
    client.repeat("transact_write_items")
    await odd_world.decide(call)
    assert client.repeats is None
    assert await odd_world.said(log.snapshot.meta.id) == ["step"]


@pytest.mark.parametrize("operation", ["put_item", "transact_write_items"])
async def test_events_of_a_cancelled_write_are_told_once(
    odd_world: JournalBench, client: Client, operation: str
) -> None:
    """The request goes on in its thread; what it carried must not be written again."""
    log = await odd_world.taken()
    log.emit(odd_world.data("delta"))
    client.holds = operation
    writing = asyncio.create_task(
        log.flush() if operation == "put_item" else log.put_step(odd_world.step(log))
    )
    assert await asyncio.to_thread(client.arrived.wait, 10)
    writing.cancel()
    client.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(writing, 10)
    await odd_world.end(log)
    assert await odd_world.said(log.snapshot.meta.id) == ["delta"]
