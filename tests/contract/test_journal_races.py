"""Races and losses that need real requests: the journal on DynamoDB, over several connections at once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest

from layover.adapters.journal.items.dynamodb import DynamoTable, JsonClient
from layover.errors import AttemptsUsedUp, DecisionAlreadyMade, ThreadBusy
from layover.ports import Accepted, BeingEnded, StaleHead
from layover.values.runs.run import MAX_ATTEMPTS, OnBusy, Status
from support.aws.emulator import LocalAws
from support.worlds.journal import JournalBench

T = TypeVar("T")
WRITERS = 8


async def race(world: JournalBench, one: Callable[[JournalBench, int], Awaitable[T]]) -> list[T]:
    """Let writers with a journal each go at once: DynamoDB decides which one comes first."""

    async def alone(n: int) -> T:
        return await one(JournalBench(world.table, world.blobs, world.owner, world.clock), n)

    return await asyncio.gather(*map(alone, range(WRITERS)))


async def test_one_of_eight_decisions_wins(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    [call] = await world.waiting(await world.taken(), "c1")

    async def decide(mine: JournalBench, n: int) -> bool:
        try:
            await mine.decide(call, mine.data(n), reason=f"{n}")
        except DecisionAlreadyMade:
            return False
        return True

    won = await race(world, decide)
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
            await mine.journal.commands.accept(mine.new_run(head), head, OnBusy.REJECT, None)
        except StaleHead:
            with pytest.raises(ThreadBusy):
                await mine.accept(head.id)
            return "busy"
        return "started"

    answers = await race(world, accept)
    assert sorted(answers) == ["busy"] * (WRITERS - 1) + ["started"]
    assert len((await world.journal.runs.page_ids(world.owner, head.id, 99, None)).items) == 1


async def test_eight_enqueued_runs_lose_nobody(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    head = await world.thread()

    async def accept(mine: JournalBench, n: int) -> Accepted:
        while True:
            try:
                return await mine.accept(head.id, OnBusy.ENQUEUE)
            except StaleHead:
                continue

    answers = await race(world, accept)
    [active] = [a.run_id for a in answers if a.started]
    after = await world.head(head.id)
    assert after.active_run == active
    assert {active, *after.queue} == {a.run_id for a in answers}


async def test_one_of_eight_takes_the_run_to_end_it(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    run_id = await world.started()

    async def take(mine: JournalBench, n: int) -> str:
        try:
            log = await mine.journal.writers.seize(mine.owner, run_id)
        except BeingEnded as other:
            return f"ended by {other.epoch}"
        return f"took {log.snapshot.meta.epoch}" if log else "over"

    answers = await race(world, take)
    assert sorted(answers) == ["ended by 1"] * (WRITERS - 1) + ["took 1"]


async def test_takers_have_an_epoch_each(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    run_id = await world.started()

    async def take(mine: JournalBench, n: int) -> int | None:
        try:
            log = await mine.journal.writers.acquire(mine.owner, run_id, f"{run_id}-1")
        except AttemptsUsedUp:
            return None
        return log.snapshot.meta.epoch if log else None

    epochs = await race(world, take)
    taken = [epoch for epoch in epochs if epoch is not None]
    assert sorted(taken) == list(range(1, MAX_ATTEMPTS + 1))


async def test_eight_writers_share_one_sequence(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    log = await world.taken()

    async def speak(mine: JournalBench, n: int) -> None:
        writer = await mine.join(log.snapshot.meta.id)
        for i in range(3):
            writer.emit(mine.data([n, i]))
            await writer.flush()

    await race(world, speak)
    said = await world.said(log.snapshot.meta.id)
    for n in range(WRITERS):
        assert [i for writer, i in said if writer == n] == [0, 1, 2]
    assert len(said) == WRITERS * 3


async def test_one_of_eight_ends_counts(dynamo_world: JournalBench) -> None:
    world = dynamo_world
    log = await world.taken()
    queued = await world.queue(log.snapshot.meta.thread_id)

    async def end(mine: JournalBench, n: int) -> str | None:
        try:
            writer = await mine.journal.writers.seize(mine.owner, log.snapshot.meta.id)
        except BeingEnded:
            return "being ended"
        if writer is None:
            return "over"
        try:
            return await mine.end(writer)
        except Exception as error:
            return type(error).__name__

    answers = await race(world, end)
    assert answers.count(queued) == 1
    assert set(answers) <= {queued, "over", "being ended"}
    assert [e.type for e in await world.events(log.snapshot.meta.id)] == ["finish"]
    assert (await world.run(queued)).status is Status.RUNNING


# Lost answers and cancelled writers


class Client:
    """A client whose next request of one operation is odd: sent twice, or held up."""

    def __init__(self, client: JsonClient) -> None:
        self._client = client
        self.repeats: str | None = None
        self.holds: str | None = None
        self.arrived = asyncio.Event()
        self.goes_on = asyncio.Event()

    def repeat(self, operation: str) -> None:
        """Send the next call of this operation twice."""
        self.repeats = operation

    async def call(self, target: str, document: Mapping[str, Any]) -> dict[str, Any]:
        operation = target.partition(".")[2]
        if self.holds == operation:
            self.holds = None
            self.arrived.set()
            await asyncio.wait_for(self.goes_on.wait(), 60)
        if self.repeats == operation:
            self.repeats = None
            await self._client.call(target, document)
        return await self._client.call(target, document)


@pytest.fixture
def client(aws: LocalAws) -> Client:
    return Client(aws.services.client("dynamodb"))


@pytest.fixture
def odd_world(aws: LocalAws, client: Client, dynamo_world: JournalBench) -> JournalBench:
    table = DynamoTable(client, aws.table)
    return JournalBench(table, dynamo_world.blobs, dynamo_world.owner, dynamo_world.clock)


async def test_batch_whose_answer_was_lost_is_not_told_twice(
    odd_world: JournalBench, client: Client
) -> None:
    """The client repeats a put after a lost answer; the condition then fails on the writer's own item."""
    log = await odd_world.taken()
    log.emit(odd_world.data("a"))
    client.repeat("PutItem")
    await log.flush()
    assert client.repeats is None
    log.emit(odd_world.data("b"))
    await log.flush()
    assert await odd_world.said(log.snapshot.meta.id) == ["a", "b"]


async def test_transaction_whose_answer_was_lost_happens_once(
    odd_world: JournalBench, client: Client
) -> None:
    log = await odd_world.taken()
    client.repeat("TransactWriteItems")
    await log.put_step(odd_world.step(log), odd_world.data("step"))
    client.repeat("TransactWriteItems")
    [call] = await odd_world.waiting(await odd_world.taken(), "c1")
    client.repeat("TransactWriteItems")
    await odd_world.decide(call)
    assert client.repeats is None
    assert await odd_world.said(log.snapshot.meta.id) == ["step"]


@pytest.mark.parametrize("operation", ["PutItem", "TransactWriteItems"])
async def test_events_of_a_cancelled_write_are_told_once(
    odd_world: JournalBench, client: Client, operation: str
) -> None:
    """The request goes on; what it carried must not be written again."""
    log = await odd_world.taken()
    log.emit(odd_world.data("delta"))
    client.holds = operation
    writing = asyncio.create_task(
        log.flush() if operation == "PutItem" else log.put_step(odd_world.step(log))
    )
    await asyncio.wait_for(client.arrived.wait(), 60)
    writing.cancel()
    client.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(writing, 60)
    await odd_world.end(log)
    assert await odd_world.said(log.snapshot.meta.id) == ["delta"]
