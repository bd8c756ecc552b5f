"""A deleted thread leaves nothing behind, and asks the services only for what can be there."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from layover import Agent
from layover.clock import ManualClock
from layover.errors import RetryableError
from layover.files.node_log import NodeLog
from layover.files.store import Files, thread_file_facts
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import say
from layover.keys import Keys
from layover.ports.table import Action, Item, Write
from layover.recovery.sweep import sweep
from layover.retention.erase import erase
from layover.threads import threads
from support.worlds.runs import ANN, Bench
from support.worlds.write_units import CountingTable

LATE = timedelta(minutes=16)
HERE, NEXT = "t1", "t10"
"""The id of one begins with that of the other."""


class AskedBlobs(InMemoryBlobs):
    """Counts requests, and deletes no body while it is `away`."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.asks: Counter[str] = Counter()
        self.away = False

    async def keys(self, prefix: str) -> list[str]:
        self.asks["list"] += 1
        return await super().keys(prefix)

    async def delete_prefix(self, prefix: str, before: datetime | None = None) -> None:
        if self.away and "/threads/" in prefix:
            raise RetryableError("S3 is away")
        await super().delete_prefix(prefix, before)


class AskedTable(CountingTable):
    """Counts requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asks: Counter[str] = Counter()

    async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        self.asks["get"] += 1
        return await super().get(pk, sk, consistent=consistent)

    async def query(self, *args: Any, **options: Any) -> list[Item]:
        self.asks["query"] += 1
        return await super().query(*args, **options)

    async def query_index(self, *args: Any, **options: Any) -> list[Item]:
        self.asks["index"] += 1
        return await super().query_index(*args, **options)

    async def write(self, action: Write) -> Item | None:
        self.asks["write"] += 1
        return await super().write(action)

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        self.asks["write"] += 1
        await super().transact(actions, token)


class World:
    """Threads whose runs' records have expired, but for what a test gives them."""

    def __init__(self) -> None:
        self.blobs, self.table = AskedBlobs(), AskedTable()
        agent = Agent("helper", model="m")
        self.bench = Bench(agent, [say("fine")] * 5, blobs=self.blobs, table=self.table)
        self.runtime = self.bench.plain
        self.files = Files(self.blobs, ANN)

    async def give(self, thread_id: str) -> None:
        """Give a thread one object of each kind, a file with its bytes among them."""
        await self.leave_body(thread_id)
        await self.leave_file(thread_id)
        await self.leave_node(thread_id)

    async def leave_body(self, thread_id: str) -> None:
        await self.blobs.put(f"{Keys(ANN).bodies(thread_id, 'r')}b", b"body", "text/plain")

    async def leave_file(self, thread_id: str) -> None:
        now = self.bench.clock.now()
        facts = thread_file_facts(f"of-{thread_id}", thread_id, "a.txt", "text/plain", b"abc", now)
        await self.files.keep(facts, b"abc")

    async def leave_node(self, thread_id: str) -> None:
        # Its own writer looks at the thread's head: this is one that died before that.
        node = NodeLog(self.runtime, ANN, "helper", thread_id, "step one")
        await self.blobs.put(node.key, b"{}", "application/json")
        await self.blobs.put(node._mark, b"", "text/plain")

    async def left(self, *but: str) -> list[str]:
        """Return the user's objects, those of these threads not among them."""
        keys = await self.blobs.keys("u/")
        return [k for k in keys if not any(f"/{b}/" in k or f"/of-{b}/" in k for b in but)]

    async def asks(self, work: Any) -> tuple[Counter[str], Counter[str], int]:
        """Return the requests to S3, those to the journal, and the write units of some work."""
        self.blobs.asks.clear()
        self.table.asks.clear()
        before = self.table.total
        await work
        return Counter(self.blobs.asks), Counter(self.table.asks), self.table.total - before


async def world_of(*thread_ids: str) -> World:
    """Threads with one object of each kind."""
    world = World()
    for thread_id in thread_ids:
        await world.bench.start(thread=thread_id)
        await world.give(thread_id)
    return world


LEAVE = {"body": World.leave_body, "file": World.leave_file, "node": World.leave_node}


@pytest.mark.parametrize("kind", LEAVE)
async def test_what_a_late_writer_leaves_of_any_kind_is_erased_later(kind: str) -> None:
    world = await world_of(HERE)
    await threads.delete(world.runtime, ANN, HERE)
    assert await world.left() == []
    await LEAVE[kind](world, HERE)
    world.bench.clock.advance(LATE - timedelta(seconds=1))
    await sweep(world.runtime)
    assert await world.left() != []
    world.bench.clock.advance(timedelta(seconds=1))
    assert (await sweep(world.runtime))["erased"] == 1
    assert await world.left() == []


async def test_objects_of_a_thread_whose_id_begins_alike_stay() -> None:
    world = await world_of(HERE, NEXT)
    before = await world.left(HERE)
    assert len(before) == 6
    await threads.delete(world.runtime, ANN, HERE)
    assert await world.left() == before
    await erase(world.runtime, ANN, HERE)
    assert await world.left() == before


async def test_a_thread_whose_bodies_could_not_be_deleted_is_not_taken_for_empty() -> None:
    world = await world_of(HERE)
    await world.runtime.journal.erasure.mark_deleted(ANN, HERE)
    world.blobs.away = True
    with pytest.raises(RetryableError):
        await erase(world.runtime, ANN, HERE)
    head = await world.runtime.journal.heads.get(ANN, HERE)
    assert head is not None
    assert head.empty_again_at is None
    world.blobs.away = False
    await erase(world.runtime, ANN, HERE)
    assert await world.left() == []


async def test_a_file_that_another_thread_has_too_loses_only_this_thread() -> None:
    world = await world_of(HERE, NEXT)
    facts = await world.files.take(f"of-{HERE}", NEXT)
    assert facts is not None
    await threads.delete(world.runtime, ANN, HERE)
    facts = await world.files.facts(f"of-{HERE}")
    assert facts is not None
    assert facts.thread_ids == (NEXT,)
    assert await world.files.data(f"of-{HERE}") == b"abc"


async def test_a_thread_without_objects_costs_one_list_each_time_that_it_is_emptied() -> None:
    world = World()
    head = await threads.create(world.runtime, ANN, "helper", None, {})
    erasure = world.runtime.journal.erasure
    marks = await world.asks(erasure.mark_deleted(ANN, head.id))
    assert marks == ({}, {"write": 1}, 4)
    empties = await world.asks(erase(world.runtime, ANN, head.id))
    assert empties == ({"list": 1}, {"get": 1, "index": 1, "query": 1, "write": 1}, 4)
    world.bench.clock.advance(LATE)
    again = await world.asks(erase(world.runtime, ANN, head.id))
    assert again == ({"list": 1}, {"get": 1, "index": 1, "query": 1, "write": 1}, 2)
    removes = await world.asks(erasure.remove_tombstone(ANN, head.id))
    assert removes == ({}, {"write": 1}, 2)


async def test_a_thread_that_is_not_there_cannot_be_marked_or_made_by_it() -> None:
    world = World()
    marks = await world.asks(world.runtime.journal.erasure.mark_deleted(ANN, "none"))
    assert marks[1] == {"write": 1}
    assert await world.runtime.journal.heads.get(ANN, "none") is None
