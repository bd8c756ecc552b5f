"""Exports that one request cannot make: the sweeper makes them in pieces, whatever dies in between."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from layover import Agent, Approval, tool
from layover.approvals import decide as approvals
from layover.clock import ManualClock
from layover.errors import Conflict, DatabaseWaking, NotFound
from layover.files import uploads as files
from layover.inmemory import blobs as inmemory_blobs
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import call, say
from layover.inmemory.stores.memory import InMemoryMemory
from layover.keys import Keys
from layover.plugins.memory.learns import profiles
from layover.ports import Blobs, MemoryStore
from layover.ports.blobs import MIN_PART
from layover.recovery.sweep import sweep
from layover.retention import document, export_job
from layover.retention.expire import MAX_PAUSE
from layover.retention.export import export
from layover.retention.export_job import (
    ExportFacts,
    ExportStatus,
    drop_export,
    export_link,
    list_exports,
)
from layover.retention.forget import forget
from layover.runtime import Runtime
from layover.threads import threads
from layover.values.deployment.access import Actor
from support.examples import choose_deaths
from support.worlds.loops import skipping
from support.worlds.runs import ANN, Bench, Crash, Power, Powered, powered_journal

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
NO_TIME = timedelta(0)


@tool(needs_approval=Approval(by=["finance"]))
def wire(amount: int) -> str:
    """Pay."""
    return "paid"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is a look of its own, has one thread or two rows, and is soon a part."""
    monkeypatch.setattr(export_job, "SLICE_S", 0.0)
    monkeypatch.setattr(export_job, "MAX_CONCURRENT", 1)
    monkeypatch.setattr(document, "_PAGE", 2)
    monkeypatch.setattr(export_job, "PART_BYTES", 1_000)
    monkeypatch.setattr(inmemory_blobs, "MIN_PART", 1)


def bench(blobs: InMemoryBlobs | None = None) -> Bench:
    clock = ManualClock()
    blobs = blobs or InMemoryBlobs()
    blobs._clock = clock
    script = [call("wire", amount=5, tool_call_id="c1"), *[say("fine")] * 40]
    return Bench(Agent("helper", model="m", tools=[wire]), script, clock=clock, blobs=blobs)


async def lived(blobs: InMemoryBlobs | None = None) -> Bench:
    """Three threads, a decision, a profile and three files."""
    made = bench(blobs)
    run = await made.go("pay ü", thread="t0")
    bob = Actor(sub="bob", groups=frozenset({"finance"}))
    approve = approvals.DecisionRequest(approvals.Verdict("approve"))
    await approvals.decide(made.plain, bob, run.id, "c1", approve)
    await made.hear(run.id, "c1")
    for n in (1, 2):
        made.clock.advance(timedelta(seconds=1))
        await made.go(f"hello {n}", thread=f"t{n}")
    await profiles.put_profile(made.plain, ANN, "helper", {"name": "Ann"})
    for n in range(3):
        await files.create(made.plain, ANN, f"{n}.txt", "text/plain", 3)
    return made


async def begun(made: Bench) -> ExportFacts:
    """An export that took longer than its request."""
    result = await export(made.plain, ANN, lambda text: True, NO_TIME)
    assert result.text is None
    assert result.job is not None
    return result.job


async def whole(made: Bench) -> dict[str, Any]:
    """The document as one request makes it."""
    result = await export(made.plain, ANN, lambda text: True)
    stored = await made.plain.blobs.get((result.url or "").removeprefix("memory:"))
    document: dict[str, Any] = json.loads(result.text or stored or b"")
    return document


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    """A document without what two of the same data differ in."""
    files = [{**file, "url": None} for file in document["files"]]
    return {**document, "exported_at": None, "files": files}


async def fetched(made: Bench, export_id: str) -> dict[str, Any]:
    """The document behind the link of an export."""
    _, url = await export_link(made.plain, ANN, export_id)
    assert url is not None
    data = await made.plain.blobs.get(url.removeprefix("memory:"))
    document: dict[str, Any] = json.loads(data or b"")
    return document


async def later(made: Bench, by: timedelta = MINUTE, runtime: Runtime | None = None) -> None:
    made.clock.advance(by)
    await sweep(runtime or made.plain)


async def ready(made: Bench, export_id: str, looks: int = 60) -> int:
    """Let the sweeper come until the export is ready; how often it came."""
    for n in range(looks):
        if (await export_link(made.plain, ANN, export_id))[1] is not None:
            return n
        await later(made)
    raise AssertionError("the export comes to no end")


async def objects(made: Bench) -> list[str]:
    return await made.plain.blobs.keys(Keys(ANN).blob("exports"))


def on(made: Bench, blobs: Any) -> Runtime:
    return replace(made.plain, blobs=cast(Blobs, blobs))


async def test_what_a_request_cannot_make_is_made_by_the_next_sweep() -> None:
    made = await lived()
    expected = await whole(made)
    job = await begun(made)
    assert (job.status, job.size) == (ExportStatus.MAKING, None)
    assert (await export_link(made.plain, ANN, job.id))[1] is None
    assert await ready(made, job.id) == 1
    document = await fetched(made, job.id)
    assert timeless(document) == timeless(expected)
    assert [file["url"] for file in document["files"]] == [None] * 3
    assert [row["decided_by"] for row in document["decisions"]] == ["bob"]
    [listed] = await list_exports(made.plain, ANN)
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    assert (listed.status, listed.size) == (ExportStatus.READY, len(data))
    assert len(await objects(made)) == 2, "the record and the document"


@pytest.mark.usefixtures("small")
async def test_a_document_that_is_made_in_many_pieces_is_the_same() -> None:
    made = await lived()
    expected = await whole(made)
    job = await begun(made)
    assert await ready(made, job.id) > 8
    assert timeless(await fetched(made, job.id)) == timeless(expected)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("slice_s", [0.0, 25.0])
async def test_a_death_at_any_call_loses_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, after: bool, slice_s: float
) -> None:
    made = await lived()
    expected = timeless(await whole(made))
    for cut_at in choose_deaths(after):
        # A look that dies may have had more time, and larger parts, than those after it.
        monkeypatch.setattr(export_job, "SLICE_S", slice_s)
        monkeypatch.setattr(export_job, "PART_BYTES", 9_000 if slice_s else 1_000)
        power = Power(cut_at, after=after)
        powered = replace(
            made.plain,
            blobs=cast(Blobs, Powered(made.plain.blobs, power)),
            journal=powered_journal(made.plain.journal, power),
            memory=cast(MemoryStore, Powered(made.plain.memory, power)),
        )
        job = await begun(made)
        for _ in range(100):
            if (await export_link(made.plain, ANN, job.id))[1] is not None:
                break
            try:
                await later(made, timedelta(seconds=1), powered)
            except Crash:
                power.restore()
                monkeypatch.setattr(export_job, "SLICE_S", 0.0)
        assert timeless(await fetched(made, job.id)) == expected, f"cut at {cut_at}"
        await drop_export(made.plain, ANN, job.id)
        assert await objects(made) == []
        if power.cuts == 0:
            break
    assert cut_at > 50


class Joining(InMemoryBlobs):
    """A process that dies as soon as the parts are joined. Counts the uploads."""

    dies = True
    uploads = 0

    async def begin_parts(self, key: str, content_type: str) -> str:
        self.uploads += 1
        return await super().begin_parts(key, content_type)

    async def join_parts(self, key: str, upload: str, tags: Sequence[str]) -> bool:
        is_joined = await super().join_parts(key, upload, tags)
        if self.dies:
            self.dies = False
            raise Crash
        return is_joined


async def test_a_death_behind_the_last_part_makes_nothing_again() -> None:
    blobs = Joining()
    made = await lived(blobs)
    job = await begun(made)
    with pytest.raises(Crash):
        await later(made)
    assert await ready(made, job.id) == 1
    assert blobs.uploads == 1


class Breaking(InMemoryBlobs):
    """A process that dies before or after its n-th write to S3."""

    cut_at = -1
    after = False

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        self.cut_at -= 1
        if self.cut_at == 0 and not self.after:
            raise Crash
        result = await super().put_if(key, data, content_type, tag)
        if self.cut_at == 0:
            raise Crash
        return result


class Early(InMemoryBlobs):
    """A sweep comes before the record of an export is written."""

    act: Any = None

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        act, self.act = self.act, None
        if act is not None:
            await act()
        return await super().put_if(key, data, content_type, tag)


async def test_a_request_that_dies_before_the_record_leaves_nothing() -> None:
    blobs = Breaking()
    made = await lived(blobs)
    blobs.cut_at = 1
    with pytest.raises(Crash):
        await begun(made)
    await later(made)
    await later(made)
    assert await objects(made) == []
    assert await made.plain.journal.dues.of(ANN, "export_job") == []


async def test_a_sweep_that_comes_before_the_record_leaves_the_export_to_the_next() -> None:
    blobs = Early()
    made = await lived(blobs)
    # On one machine, the sweeper's patience is 2 s, which a busy machine may need for a first request to S3.
    settings = made.plain.settings.model_copy(update={"sweep_patience": timedelta(seconds=2)})
    made.plain = replace(made.plain, settings=settings)
    blobs.act = lambda: later(made, timedelta(seconds=5))
    job = await begun(made)
    assert blobs.act is None
    await later(made, timedelta(seconds=1))
    assert (await export_link(made.plain, ANN, job.id))[1]


async def test_a_second_request_gets_the_export_that_is_being_made() -> None:
    made = await lived()
    job = await begun(made)
    assert (await export(made.plain, ANN, lambda text: True)).job == job
    await ready(made, job.id)
    assert (await export(made.plain, ANN, lambda text: True)).text
    assert (await begun(made)).id != job.id


async def test_an_export_is_its_owners_alone() -> None:
    made = await lived()
    job = await begun(made)
    await ready(made, job.id)
    for owner, export_id in (("bob", job.id), (ANN, "export_of_nobody"), (ANN, "../x")):
        with pytest.raises(NotFound):
            await export_link(made.plain, owner, export_id)
    assert await list_exports(made.plain, "bob") == []


async def test_an_export_expires_a_day_after_it_was_finished() -> None:
    made = await lived()
    job = await begun(made)
    await ready(made, job.id)
    [facts] = await list_exports(made.plain, ANN)
    assert facts.expires_at == made.clock.now() + DAY
    made.clock.advance(DAY)
    with pytest.raises(NotFound):
        await export_link(made.plain, ANN, job.id)
    assert await list_exports(made.plain, ANN) == []
    await sweep(made.plain)
    assert await objects(made) == []
    assert await made.plain.journal.dues.of(ANN, "export_job") == []


class Keeping(InMemoryBlobs):
    """An S3 that deletes nothing for now."""

    is_away = False

    async def delete_prefix(self, prefix: str, before: Any = None) -> None:
        if self.is_away:
            raise DatabaseWaking("S3 is away")
        await super().delete_prefix(prefix, before)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("looks", [0, 2, 30])
async def test_exports_of_a_forgotten_user_are_gone_at_once_and_for_good(looks: int) -> None:
    blobs = Keeping()
    made = await lived(blobs)
    job = await begun(made)
    for _ in range(looks):
        await later(made)
    assert await list_exports(made.plain, ANN)
    blobs.is_away = True
    made.clock.advance(timedelta(seconds=5))
    await forget(made.plain, ANN)
    with pytest.raises(NotFound):
        await export_link(made.plain, ANN, job.id)
    assert await list_exports(made.plain, ANN) == []
    assert (await export(made.plain, ANN, lambda text: True)).job is None
    blobs.is_away = False
    for _ in range(4):
        await later(made, 17 * MINUTE)
    assert await objects(made) == []
    assert blobs._uploads == {}
    assert await made.plain.journal.dues.of(ANN) == []


async def test_a_request_that_forgets_deletes_exports_itself() -> None:
    made = await lived()
    job = await begun(made)
    await ready(made, job.id)
    made.clock.advance(timedelta(seconds=5))
    await forget(made.plain, ANN)
    assert await objects(made) == []


@pytest.mark.usefixtures("small")
async def test_an_upload_that_is_lost_begins_again() -> None:
    blobs = InMemoryBlobs()
    made = await lived(blobs)
    expected = await whole(made)
    job = await begun(made)
    for _ in range(4):
        await later(made)
    blobs._uploads.clear()
    await ready(made, job.id)
    assert timeless(await fetched(made, job.id)) == timeless(expected)


@pytest.mark.usefixtures("small")
async def test_a_part_that_another_process_replaced_is_written_again() -> None:
    blobs = InMemoryBlobs()
    made = await lived(blobs)
    expected = await whole(made)
    job = await begun(made)
    while not any(parts for _, parts in blobs._uploads.values()):
        await later(made)
    for _, parts in blobs._uploads.values():
        parts[1] = b"something else"
    await ready(made, job.id)
    assert timeless(await fetched(made, job.id)) == timeless(expected)


class Twice(Joining):
    """Another sweep goes on with the export when a part is written."""

    dies = False
    act: Any = None

    async def put_part(self, key: str, upload: str, number: int, data: bytes) -> str | None:
        tag = await super().put_part(key, upload, number, data)
        act, self.act = self.act, None
        if act is not None:
            await act()
        return tag


@pytest.mark.usefixtures("small")
async def test_of_two_sweeps_that_go_on_at_once_the_later_one_counts() -> None:
    blobs = Twice()
    made = await lived(blobs)
    expected = await whole(made)
    job = await begun(made)

    async def acts() -> None:
        await profiles.put_profile(made.plain, ANN, "helper", {"name": "A."})
        await threads.edit(made.plain, ANN, "t2", title="another text in the same part")
        await sweep(made.plain)

    blobs.act = acts
    await ready(made, job.id)
    assert blobs.act is None
    assert blobs.uploads == 1, "neither spoils the other's parts"
    document = await fetched(made, job.id)
    assert document["decisions"] == expected["decisions"]
    assert [t["title"] for t in document["threads"]] == [
        "another text in the same part",
        None,
        None,
    ]


class Overtaken(InMemoryBlobs):
    """Another sweep goes on with the export, a page at a time, before decisions are stored."""

    act: Any = None

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        if "/decisions/" in key:
            act, self.act = self.act, None
            if act is not None:
                await act()
        await super().put(key, data, content_type)


async def test_decisions_of_a_look_that_was_overtaken_count_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blobs = Overtaken()
    made = await lived(blobs)
    expected = await whole(made)
    monkeypatch.setattr(export_job, "MAX_CONCURRENT", 1)
    job = await begun(made)

    async def acts() -> None:
        monkeypatch.setattr(export_job, "SLICE_S", 0.0)
        await sweep(made.plain)

    blobs.act = acts
    await ready(made, job.id)
    assert blobs.act is None
    assert (await fetched(made, job.id))["decisions"] == expected["decisions"]


async def test_parts_are_as_large_as_s3_wants_them() -> None:
    text = "x" * 900_000
    made = await lived()
    for n in range(14):
        await made.go(text, thread=f"long{n}")
    expected = await whole(made)
    job = await begun(made)
    await ready(made, job.id)
    assert timeless(await fetched(made, job.id)) == timeless(expected)
    [facts] = await list_exports(made.plain, ANN)
    assert (facts.size or 0) > 2 * MIN_PART


class Failing(InMemoryMemory):
    """A database in which a thread cannot be read."""

    error: Exception | None = None

    async def read_state(self, owner: str, thread_id: str) -> Any:
        if self.error is not None and thread_id == "t1":
            raise self.error
        return await super().read_state(owner, thread_id)


async def test_an_export_that_cannot_be_made_fails_and_goes_after_a_day() -> None:
    made = await lived()
    memory = Failing(made.threads)
    memory.error = ValueError("bad row")
    broken = replace(made.plain, memory=memory)
    job = await begun(made)
    for _ in range(10):
        await later(made, MAX_PAUSE * MINUTE, runtime=broken)
    with pytest.raises(Conflict, match="ask for another"):
        await export_link(made.plain, ANN, job.id)
    assert [each.status for each in await list_exports(made.plain, ANN)] == [ExportStatus.FAILED]
    assert (await begun(made)).id != job.id
    await later(made)
    second, first = await list_exports(made.plain, ANN)
    assert (second.status, first.status) == (ExportStatus.READY, ExportStatus.FAILED)
    await later(made, DAY + MINUTE)
    assert await objects(made) == []


async def test_a_database_that_is_away_for_an_hour_fails_no_export() -> None:
    made = await lived()
    memory = Failing(made.threads)
    memory.error = DatabaseWaking("the database is waking up")
    away = replace(made.plain, memory=memory)
    expected = await whole(made)
    job = await begun(made)
    for _ in range(60):
        await later(made, runtime=away)
    await ready(made, job.id)
    assert timeless(await fetched(made, job.id)) == timeless(expected)


class Crowded(InMemoryMemory):
    """A database in which two threads at once take longer than a sweep has."""

    readers = 0

    async def read_state(self, owner: str, thread_id: str) -> Any:
        self.readers += 1
        try:
            await asyncio.sleep(0)
            if self.readers > 1:
                await asyncio.sleep(3_600)
            return await super().read_state(owner, thread_id)
        finally:
            self.readers -= 1


@skipping
async def test_threads_that_take_too_long_together_are_read_one_after_another() -> None:
    made = await lived()
    crowded = replace(made.plain, memory=Crowded(made.threads))
    expected = await whole(made)
    job = await begun(made)
    for _ in range(2):
        await later(made, runtime=crowded)
    assert timeless(await fetched(made, job.id)) == timeless(expected)


async def test_an_export_that_takes_more_than_a_day_fails() -> None:
    made = await lived()
    memory = Failing(made.threads)
    memory.error = DatabaseWaking("the database is waking up")
    away = replace(made.plain, memory=memory)
    job = await begun(made)
    await later(made, DAY, away)
    with pytest.raises(Conflict):
        await export_link(made.plain, ANN, job.id)


@pytest.mark.usefixtures("small")
async def test_a_thread_that_is_deleted_meanwhile_is_left_out() -> None:
    made = await lived()
    job = await begun(made)
    await later(made)
    await threads.delete(made.plain, ANN, "t0")
    await ready(made, job.id)
    document = await fetched(made, job.id)
    assert [thread["id"] for thread in document["threads"]] == ["t2", "t1"]
    assert document["decisions"] == []


@pytest.mark.usefixtures("small")
async def test_a_thread_that_changes_meanwhile_is_not_missed() -> None:
    made = await lived()
    job = await begun(made)
    await later(made)
    await made.go("more", thread="t1")
    await ready(made, job.id)
    document = await fetched(made, job.id)
    assert [thread["id"] for thread in document["threads"]] == ["t2", "t1", "t0"]


async def test_erasing_comes_before_exports_in_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    made = await lived()
    await begun(made)
    await forget(made.plain, "carl")
    await files.create(made.plain, ANN, "x.txt", "text/plain", 3)
    kinds: list[str] = []
    remove, reschedule = made.plain.journal.dues.remove, made.plain.journal.dues.reschedule

    async def removes(due: Any) -> None:
        kinds.append(due.kind)
        await remove(due)

    async def reschedules(due: Any, at: Any) -> None:
        kinds.append(due.kind)
        await reschedule(due, at)

    monkeypatch.setattr(made.plain.journal.dues, "remove", removes)
    monkeypatch.setattr(made.plain.journal.dues, "reschedule", reschedules)
    await later(made, DAY)
    assert kinds[-2:] == ["owner", "export_job"]
