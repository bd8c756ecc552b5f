"""Files of several threads, and of threads that are deleted meanwhile."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from layover.clock import SystemClock
from layover.errors import InvalidRequest, NotFound
from layover.files import uploads as files
from layover.files.store import Files, thread_file_facts
from layover.inmemory.blobs import InMemoryBlobs
from layover.keys import Keys
from layover.ports import BlobFacts
from layover.runs.accept import StartRun, start_run
from layover.threads import threads
from layover.values.deployment.access import Actor
from layover.values.file import FileFacts
from layover.values.message import FilePart
from support.worlds.services import ANN, ServiceBench

NOW = SystemClock().now()
DATA = b"1,2"


async def nothing() -> None:
    """Do nothing: no other request comes."""


class Meanwhile(InMemoryBlobs):
    """Another request acts, once: before a thread's mark is written, or before facts are."""

    act: Callable[[], Awaitable[object]] = staticmethod(nothing)

    async def head(self, key: str) -> BlobFacts | None:
        await self._once()
        return await super().head(key)

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        await self._once()
        return await super().put_if(key, data, content_type, tag)

    async def _once(self) -> None:
        act, self.act = self.act, nothing
        await act()


async def shared(blobs: InMemoryBlobs, *threads: str) -> Files:
    """A file `f` of these threads."""
    made = Files(blobs, ANN)
    await made.keep(thread_file_facts("f", threads[0], "a.csv", "text/csv", DATA, NOW), DATA)
    for thread_id in threads[1:]:
        assert await made.take("f", thread_id)
    return made


async def test_a_thread_that_takes_a_file_while_its_last_one_is_erased_keeps_it() -> None:
    blobs = Meanwhile()
    made = await shared(blobs, "t1")
    blobs.act = lambda: made.take("f", "t2")
    await made.erase("t1")
    assert await made.data("f") == DATA
    await made.erase("t2")
    assert await blobs.keys("u/") == []


async def test_a_file_that_goes_while_a_thread_takes_it_is_no_file() -> None:
    blobs = Meanwhile()
    made = await shared(blobs, "t1")
    blobs.act = lambda: made.erase("t1")
    assert await made.take("f", "t2") is None
    await made.erase("t2")
    assert await blobs.keys("u/") == []


async def test_two_last_threads_that_are_erased_at_once_leave_nothing() -> None:
    blobs = Meanwhile()
    made = await shared(blobs, "t1", "t2")
    blobs.act = lambda: made.erase("t2")
    await made.erase("t1")
    assert await blobs.keys("u/") == []


async def test_a_file_that_is_made_again_stays_with_the_threads_that_took_it() -> None:
    blobs = InMemoryBlobs()
    made = await shared(blobs, "t1", "t2")
    await shared(blobs, "t1")
    await made.erase("t1")
    assert await made.data("f") == DATA


async def test_an_erasing_that_died_half_way_is_finished_by_the_next() -> None:
    blobs = InMemoryBlobs()
    made = await shared(blobs, "t1")
    facts = await made.facts("f")
    assert facts is not None
    going = facts.model_copy(update={"thread_ids": (), "going": True})
    key = Keys(ANN).blob("files", "f", "facts.json")
    await blobs.put(key, going.model_dump_json().encode(), "application/json")
    assert await made.facts("f") is None
    assert await made.take("f", "t2") is None
    await made.erase("t1")
    assert await blobs.keys("u/") == []


async def uploaded(world: ServiceBench, file_id: str) -> FilePart:
    """A file of ANN's that no thread has yet."""
    facts = FileFacts(id=file_id, name="a.csv", mime_type="text/csv", size=3, created_at=NOW)
    await Files(world.runtime.blobs, ANN).announce(facts)
    key = Keys(ANN).blob("uploads", file_id, "data")
    await world.runtime.blobs.put(key, DATA, "text/csv")
    return FilePart(file_id=file_id)


async def test_a_thread_that_is_deleted_while_it_takes_a_file_leaves_none() -> None:
    world, blobs = ServiceBench(), Meanwhile()
    world.runtime = replace(world.runtime, blobs=blobs)
    thread = await world.thread()
    part = await uploaded(world, "f")
    blobs.act = lambda: threads.delete(world.runtime, ANN, thread.id)
    with pytest.raises(NotFound):
        await start_run(world.runtime, Actor(sub=ANN), thread.id, StartRun([part]))
    assert await blobs.keys("u/") == []


async def test_a_deleted_thread_keeps_no_file_of_a_refused_input() -> None:
    world, blobs = ServiceBench(), Meanwhile()
    world.runtime = replace(world.runtime, blobs=blobs)
    thread = await world.thread()
    part = await uploaded(world, "f")
    blobs.act = lambda: threads.delete(world.runtime, ANN, thread.id)
    with pytest.raises(NotFound) as raised:
        await files.take_files(world.runtime, ANN, thread.id, (part, FilePart(file_id="unknown")))
    assert isinstance(raised.value.__context__, InvalidRequest)
    assert await blobs.keys("u/") == []
