"""Data that has outlived its use goes by itself; data that is still of use stays."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent
from layover.clock import ManualClock
from layover.files import uploads as files
from layover.files.node_log import NodeLog
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import say
from layover.keys import Keys
from layover.plugins.memory.learns.extract import extract
from layover.records.lifetimes import end_of_day
from layover.recovery.sweep import sweep
from layover.retention.expire import expire
from layover.threads import threads
from layover.values.deployment.settings import Settings
from layover.values.message import FilePart
from layover.values.thread import ThreadHead
from support.worlds.episodic import IMPORT, SAID, LearningBench, taught
from support.worlds.journal import BIG, instead, noise
from support.worlds.runs import ANN, Bench

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def bench(**settings: Any) -> Bench:
    clock = ManualClock()
    script = [say("fine")] * 9
    return Bench(
        Agent("helper", model="m"),
        script,
        clock=clock,
        blobs=InMemoryBlobs(clock),
        settings=Settings(**settings),
    )


async def later(made: Bench, by: timedelta) -> dict[str, int]:
    made.clock.advance(by)
    return await sweep(made.plain)


async def announced(made: Bench) -> str:
    """A file with its bytes, that no message has named."""
    file_id = (await files.create(made.plain, ANN, "a.txt", "text/plain", 3)).id
    key = Keys(ANN).blob("uploads", file_id, "data")
    await made.plain.blobs.put(key, b"abc", "text/plain")
    return file_id


async def objects(made: Bench) -> list[str]:
    return await made.plain.blobs.keys("u/")


async def test_a_file_that_no_message_named_goes_after_a_day() -> None:
    made = bench()
    await announced(made)
    assert await later(made, DAY - HOUR) == {}
    assert len(await objects(made)) == 2
    assert await later(made, HOUR) == {"expired file": 1}
    assert await objects(made) == []
    assert await later(made, DAY) == {}


async def test_a_file_that_a_message_named_stays() -> None:
    made = bench()
    file_id = await announced(made)
    await made.go(thread="t1")
    await files.take_files(made.plain, ANN, "t1", (FilePart(file_id=file_id),))
    await later(made, DAY * 2)
    assert await files.link(made.plain, ANN, file_id)


async def test_bodies_of_a_run_go_with_its_records() -> None:
    made = bench(run_retention=DAY * 30)
    run_id = await made.start(noise(BIG))
    await made.drive(run_id)
    await extract(made.plain, made.payload(run_id))
    assert await objects(made) != []
    await later(made, DAY * 29)
    assert (await made.run(run_id)).status.over
    assert await later(made, DAY * 2) == {"expired run": 1}
    assert await objects(made) == []
    assert await made.plain.journal.runs.get(ANN, run_id) is None


async def test_bodies_of_runs_whose_records_are_gone_go_with_their_thread() -> None:
    made = bench()
    run_id = await made.start(noise(BIG))
    await made.drive(run_id)
    for key in [k for k in made._table._items if f"#RUN#{run_id}" in k[0]]:
        del made._table._items[key]
    assert await objects(made) != []
    await threads.delete(made.plain, ANN, "t1")
    assert await objects(made) == []


async def test_node_memory_that_nobody_uses_is_emptied_without_being_touched() -> None:
    made = bench(node_memory_days=2)
    run = await made.go(thread="t1")
    await extract(made.plain, made.payload(run.id))
    log = NodeLog(made.plain, ANN, "helper", "t1", "plan")
    await log.add([{"role": "user", "content": "a secret"}])
    await log.flush()
    assert await later(made, DAY) == {}
    await log.history()
    assert (await later(made, DAY * 3 / 2)).get("kept") == 1
    assert b"a secret" in (await made.plain.blobs.get(log.key) or b"")
    assert await later(made, DAY) == {"expired node": 1}
    assert b"a secret" not in (await made.plain.blobs.get(log.key) or b"")
    await log.add([{"role": "user", "content": "another"}])
    await log.flush()
    assert await later(made, DAY * 3) == {"expired node": 1}
    assert await log.history() == []


async def test_without_a_retention_threads_and_entries_stay() -> None:
    made = bench()
    await made.go(thread="t1")
    await later(made, DAY * 3_000)
    assert len((await threads.list_threads(made.plain, ANN, 9, None)).items) == 1


async def test_a_thread_without_activity_goes_at_the_end_of_the_day_of_its_retention() -> None:
    made = bench(thread_retention=DAY * 10)
    made.clock.advance(HOUR * 5)
    thread = await threads.create(made.plain, ANN, "helper", None, {})
    made.clock.advance(DAY * 6)
    await made.go(thread=thread.id)
    assert await later(made, DAY * 9) != {"expired thread": 1}
    assert (await threads.get(made.plain, ANN, thread.id)).id == thread.id
    assert await later(made, end_of_day(made.clock.now() + DAY) - made.clock.now()) == {
        "expired thread": 1
    }
    assert (await threads.list_threads(made.plain, ANN, 9, None)).items == ()
    assert (await later(made, timedelta(minutes=1)))["erased"] == 1


@pytest.mark.parametrize("change", ["message", "title"])
async def test_a_thread_that_its_user_comes_back_to_in_that_moment_stays(change: str) -> None:
    made = bench(thread_retention=DAY * 10)
    await made.go(thread="t1")
    await made.remember()
    heads = made.plain.journal.heads

    async def read_just_before(owner: str, thread_id: str) -> ThreadHead | None:
        head = await heads.get(owner, thread_id)
        if change == "message":
            await made.start("I am back", thread="t1")
        else:
            await heads.edit(owner, thread_id, title="Keep this")
        return head

    late = instead(heads, get=read_just_before)
    runtime = replace(made.plain, journal=replace(made.plain.journal, heads=late))
    made.clock.advance(DAY * 12)
    assert await expire(runtime, made.clock.now(), math.inf) == {"kept": 1}
    head = await heads.get(ANN, "t1")
    assert head is not None
    assert not head.deleted
    [due] = await made.plain.journal.dues.of(ANN, "thread")
    assert due.at > made.clock.now()


async def test_a_thread_from_before_the_setting_is_covered_by_its_next_run() -> None:
    made = bench(thread_retention=DAY * 10)
    run = await made.go(thread="t1")
    assert await made.plain.journal.dues.of(ANN) == []
    await extract(made.plain, made.payload(run.id))
    assert [d.kind for d in await made.plain.journal.dues.of(ANN)] == ["thread"]


async def test_entries_go_so_long_after_they_were_said() -> None:
    world = LearningBench(taught(IMPORT))
    world.plain = _with(world, entry_retention=DAY * 10)
    await world.learn(SAID)
    assert await world.known() == [IMPORT["content"]]
    world.clock.advance(DAY * 10)
    assert await sweep(world.plain) == {}
    assert await world.known() == [IMPORT["content"]]
    world.clock.advance(DAY)
    assert await sweep(world.plain) == {"expired entries": 1}
    assert await world.known() == []


def _with(world: Bench, **settings: Any) -> Any:
    from dataclasses import replace

    return replace(world.plain, settings=Settings(**settings))


async def test_a_kind_of_a_newer_release_stays_and_stops_nothing() -> None:
    """Half of a deployment, or one that went back: the release that knows the kind finds it again."""
    made = bench()
    later_release: Any = "of a later release"
    await made.plain.journal.dues.schedule(ANN, later_release, "n", made.clock.now())
    await announced(made)
    assert await later(made, DAY) == {"unknown": 1, "expired file": 1}
    assert [due.kind for due in await made.plain.journal.dues.of(ANN)] == [later_release]
