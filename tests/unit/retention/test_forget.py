"""A user is forgotten: no earlier data is left, whichever process dies; later data stays."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import IO, Any

import pytest

from layover import Agent, Approval, tool
from layover.approvals import decide as approvals
from layover.approvals.lists import list_decisions
from layover.clock import ManualClock, rfc3339
from layover.errors import DatabaseWaking, InvalidRequest, NotFound, RetryableError
from layover.files import uploads as files
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import call, say
from layover.inmemory.stores.memory import InMemoryMemory
from layover.keys import Keys
from layover.plugins.memory.learns import profiles as notes
from layover.recovery.sweep import sweep
from layover.retention.export import export
from layover.retention.forget import carry_on, forget
from layover.threads import threads
from layover.values.deployment.access import Actor
from layover.values.message import FilePart
from layover.values.note import profile_key
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench, Ledger
from support.worlds.sockets import SocketBench

DAY = timedelta(days=1)


@tool(needs_approval=Approval(by=["finance"]))
def wire(amount: int) -> str:
    """Pay."""
    return "paid"


def bench() -> Bench:
    clock = ManualClock()
    script = [call("pay", amount=5, tool_call_id="c1"), *[say("fine")] * 5]
    agent = Agent("helper", model="m", tools=[Ledger().pay])
    return Bench(agent, script, clock=clock, blobs=InMemoryBlobs(clock))


async def later(made: Bench, by: timedelta) -> dict[str, int]:
    made.clock.advance(by)
    return await sweep(made.plain)


async def lived() -> Bench:
    """A run that waits in one thread, a profile, an unused file."""
    made = bench()
    run = await made.go()
    assert run.status is Status.SUSPENDED
    await notes.put_profile(made.plain, ANN, "helper", {"name": "Ann"})
    await files.create(made.plain, ANN, "a.txt", "text/plain", 3)
    made.clock.advance(timedelta(seconds=5))
    return made


async def left(made: Bench) -> list[Any]:
    """All that is stored of ANN anywhere."""
    hash = Keys(ANN).hash
    items = [key for key in made._table._items if f"#{hash}" in key[0]]
    objects = await made.plain.blobs.keys(f"u/{hash}/")
    rows = [key for key in made.threads._threads if key[0] == ANN]
    spent = [key for key in made.threads.usage_rows if key[0] == ANN]
    kept = made.threads.shelf.notes_of(ANN)
    return [*items, *objects, *rows, *spent, *kept]


class Asleep(InMemoryMemory):
    """A database that wakes up while a user is to be forgotten."""

    async def forget(self, *_: Any) -> None:
        raise DatabaseWaking("the database is waking up")


class Keeping(InMemoryBlobs):
    """An S3 that deletes nothing for now."""

    async def delete(self, key: str) -> None:
        raise RetryableError("S3 is away")


async def kept() -> Bench:
    """A world whose S3 deletes nothing, so that all is left to the sweeper."""
    made = bench()
    made = Bench(made.agent, [say("fine")] * 5, clock=made.clock, blobs=Keeping(made.clock))
    await made.go()
    return made


async def unnamed(made: Bench) -> str:
    """An uploaded file that no message names."""
    file_id = (await files.create(made.plain, ANN, "a.txt", "text/plain", 3)).id
    key = Keys(ANN).blob("uploads", file_id, "data")
    await made.plain.blobs.put(key, b"abc", "text/plain")
    return file_id


async def listed(made: Bench) -> list[str]:
    """Ids of the files in ANN's export."""
    document = await export(made.plain, ANN, lambda text: True)
    return [file["id"] for file in json.loads(document.text or "")["files"]]


async def test_files_that_no_message_names_are_gone_before_anything_is_erased() -> None:
    made = await kept()
    file_id = await unnamed(made)
    assert await files.link(made.plain, ANN, file_id)
    assert await listed(made) == [file_id]
    made.clock.advance(timedelta(seconds=5))
    await forget(made.plain, ANN)
    with pytest.raises(NotFound):
        await files.link(made.plain, ANN, file_id)
    assert await listed(made) == []


async def test_a_run_cannot_name_a_file_from_before_the_user_was_forgotten() -> None:
    made = await kept()
    part = FilePart(file_id=await unnamed(made))
    made.clock.advance(timedelta(seconds=5))
    await forget(made.plain, ANN)
    await made.go("hello again", thread="t2")
    with pytest.raises(InvalidRequest):
        await files.take_files(made.plain, ANN, "t2", (part,))


async def test_files_are_gone_if_the_request_dies_after_its_order() -> None:
    made = await lived()
    file_id = await unnamed(made)
    until = made.clock.now()
    await made.plain.journal.dues.schedule(ANN, "owner", rfc3339(until), until)
    with pytest.raises(NotFound):
        await files.link(made.plain, ANN, file_id)


async def test_files_of_threads_that_the_journal_has_lost_are_gone_as_well() -> None:
    made = await kept()
    file_id = await unnamed(made)
    await files.take_files(made.plain, ANN, "t1", (FilePart(file_id=file_id),))
    made._table._items.clear()
    assert await files.link(made.plain, ANN, file_id)
    made.clock.advance(timedelta(seconds=5))
    await forget(made.plain, ANN)
    with pytest.raises(NotFound):
        await files.link(made.plain, ANN, file_id)
    assert await listed(made) == []


async def test_files_of_a_deleted_thread_are_in_no_export() -> None:
    made = await kept()
    file_id = await unnamed(made)
    await files.take_files(made.plain, ANN, "t1", (FilePart(file_id=file_id),))
    assert await listed(made) == [file_id]
    await threads.delete(made.plain, ANN, "t1")
    assert await listed(made) == []


async def test_later_files_and_those_of_others_are_there() -> None:
    made = await kept()
    await forget(made.plain, "bob")
    first = await unnamed(made)
    made.clock.advance(timedelta(seconds=5))
    assert await files.link(made.plain, ANN, first)
    await forget(made.plain, ANN)
    made.clock.advance(timedelta(seconds=5))
    second = await unnamed(made)
    assert await files.link(made.plain, ANN, second)
    assert await listed(made) == [second]


class Racing(InMemoryBlobs):
    """Before the facts of a file are written, its user is forgotten."""

    forgets: Any = None

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        forgets, self.forgets = self.forgets, None
        if forgets is not None:
            await forgets()
        await super().put(key, data, content_type)


async def test_a_file_that_is_announced_at_that_moment_does_not_come_back() -> None:
    made = bench()
    blobs = Racing(made.clock)
    made = Bench(made.agent, [], clock=made.clock, blobs=blobs)

    async def forgets() -> None:
        await forget(made.plain, ANN)
        made.clock.advance(timedelta(seconds=1))

    blobs.forgets = forgets
    file_id = (await files.create(made.plain, ANN, "a.txt", "text/plain", 3)).id
    await blobs.put(Keys(ANN).blob("uploads", file_id, "data"), b"abc", "text/plain")
    for _ in range(4):
        with pytest.raises(NotFound):
            await files.link(made.plain, ANN, file_id)
        await later(made, timedelta(minutes=17))
    assert await left(made) == []


async def test_an_export_that_is_stored_goes_with_the_request() -> None:
    made = await lived()
    stored = await export(made.plain, ANN, lambda text: False)
    key = (stored.url or "").removeprefix("memory:")
    assert await made.plain.blobs.get(key)
    made.clock.advance(timedelta(seconds=5))
    await forget(made.plain, ANN)
    assert await made.plain.blobs.get(key) is None


class Late(InMemoryBlobs):
    """Before a document is stored, its user is forgotten."""

    forgets: Any = None

    async def put_file(self, key: str, file: IO[bytes], content_type: str) -> None:
        await self.forgets()
        await super().put_file(key, file, content_type)


async def test_an_export_that_is_read_meanwhile_is_not_stored() -> None:
    made = bench()
    blobs = Late(made.clock)
    made = Bench(made.agent, [say("fine")], clock=made.clock, blobs=blobs)
    await made.go()

    async def forgets() -> None:
        made.clock.advance(timedelta(seconds=1))
        await forget(made.plain, ANN)

    blobs.forgets = forgets
    with pytest.raises(RetryableError, match="erased while it was exported"):
        await export(made.plain, ANN, lambda text: False)
    assert await blobs.keys(Keys(ANN).blob("exports")) == []


async def test_nothing_is_to_be_read_once_it_is_asked_for() -> None:
    made = await lived()
    [thread] = (await threads.list_threads(made.plain, ANN, 9, None)).items
    await forget(made.plain, ANN)
    assert (await threads.list_threads(made.plain, ANN, 9, None)).items == ()
    with pytest.raises(NotFound):
        await threads.get(made.plain, ANN, thread.id)
    assert (await notes.get_profile(made.plain, ANN, "helper")).profile == {}
    assert (await made.plain.journal.decisions.page_pending(ANN, None, 9, None)).items == ()


async def test_nothing_at_all_is_left_in_the_end() -> None:
    made = await lived()
    await forget(made.plain, ANN)
    assert await left(made) != []
    for _ in range(4):
        await later(made, timedelta(minutes=17))
    assert await left(made) == []


async def test_thousands_of_threads_that_are_not_erased_yet_are_not_tried_one_by_one() -> None:
    """The sweeper comes again and again while it erases them, and each try is a write."""
    made = bench()
    for _ in range(450):
        await threads.create(made.plain, ANN, "helper", None, {})
    await forget(made.plain, ANN, timedelta(0))
    [order] = await made.plain.journal.dues.of(ANN, "owner")
    made.clock.advance(DAY)
    tries = counted_tries(made)
    again_at = await carry_on(made.plain, order)
    assert again_at == made.clock.now() + made.plain.settings.sweep_patience
    assert 0 < len(tries) <= 100
    for _ in range(3):
        await later(made, DAY)
    assert await left(made) == []


async def test_of_orders_that_a_client_repeats_only_the_last_is_carried_out() -> None:
    """Each answer 503 makes a client ask again, and each order would go through all threads."""
    made = await lived()
    for _ in range(5):
        made.clock.advance(timedelta(seconds=20, microseconds=1))
        await forget(made.plain, ANN, timedelta(0))
    orders = await made.plain.journal.dues.of(ANN, "owner")
    assert len(orders) == 5
    made.clock.advance(timedelta(seconds=1))
    counts = await sweep(made.plain)
    assert counts["expired owner"] == 4
    [last] = await made.plain.journal.dues.of(ANN, "owner")
    assert last == replace(max(orders, key=lambda order: order.made_at), at=last.at)
    for _ in range(3):
        await later(made, DAY)
    assert await left(made) == []


async def test_a_later_order_hides_what_an_earlier_one_did() -> None:
    made = await kept()
    file_id = await unnamed(made)
    await forget(made.plain, ANN, timedelta(0))
    made.clock.advance(timedelta(seconds=20))
    await forget(made.plain, ANN, timedelta(0))
    await later(made, timedelta(0))
    assert len(await made.plain.journal.dues.of(ANN, "owner")) == 1
    assert file_id not in await listed(made)


async def test_a_thread_that_nobody_can_erase_keeps_no_others_from_their_end() -> None:
    made = bench()
    thread_ids = [
        (await threads.create(made.plain, ANN, "helper", None, {})).id for _ in range(450)
    ]
    await forget(made.plain, ANN, timedelta(0))
    [order] = await made.plain.journal.dues.of(ANN, "owner")
    made.clock.advance(DAY)
    stuck = min(thread_ids)
    for thread_id in thread_ids:
        if thread_id != stuck:
            await made.plain.journal.erasure.finish(ANN, thread_id)
    assert await carry_on(made.plain, order) is not None
    page = await made.plain.journal.erasure.page_deleted(ANN, 9, None)
    assert [head.id for head in page.items] == [stuck]


def counted_tries(made: Bench) -> list[str]:
    """Return the threads whose tombstones are tried to be removed from now on."""
    erasure, tries = made.plain.journal.erasure, list[str]()
    remove = erasure.remove_tombstone

    async def try_to_remove(owner: str, thread_id: str) -> bool:
        tries.append(thread_id)
        return await remove(owner, thread_id)

    erasure.remove_tombstone = try_to_remove  # type: ignore[method-assign]
    return tries


async def test_records_of_decisions_stay_and_nothing_leads_to_the_runs() -> None:
    agent = Agent("helper", model="m", tools=[wire])
    clock = ManualClock()
    script = [call("wire", amount=5, tool_call_id="c1")]
    made = Bench(agent, script, clock=clock, blobs=InMemoryBlobs(clock))
    run = await made.go()
    bob = Actor(sub="bob", groups=frozenset({"finance"}))
    approve = approvals.DecisionRequest(approvals.Verdict("approve"))
    await approvals.decide(made.plain, bob, run.id, "c1", approve)
    before = await list_decisions(made.plain, None, None, 9, None)
    assert [(row.owner, row.decided_by) for row in before.items] == [(ANN, "bob")]
    clock.advance(timedelta(seconds=5))
    await forget(made.plain, ANN)
    for _ in range(4):
        await later(made, timedelta(minutes=17))
    assert await left(made) == []
    assert await made.plain.journal.inbox.owner_of(run.id) is None
    assert await list_decisions(made.plain, None, None, 9, None) == before


async def test_the_sweeper_does_all_of_it_where_the_request_died_at_once() -> None:
    made = await lived()
    until = made.clock.now()
    await made.plain.journal.dues.schedule(
        ANN, "owner", until.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), until
    )
    for _ in range(4):
        await later(made, timedelta(minutes=17))
    assert await left(made) == []


async def test_what_is_made_afterwards_stays() -> None:
    made = await lived()
    await forget(made.plain, ANN)
    made.clock.advance(timedelta(seconds=1))
    again = await made.go("hello again", thread="t2")
    await notes.put_profile(made.plain, ANN, "helper", {"name": "A."})
    announced = await files.create(made.plain, ANN, "b.txt", "text/plain", 3)
    for _ in range(4):
        await later(made, timedelta(minutes=17))
    assert (await made.run(again.id)).status is Status.SUCCESS
    assert [t.id for t in (await threads.list_threads(made.plain, ANN, 9, None)).items] == ["t2"]
    [note] = await made.plain.memory.read_notes(ANN, [profile_key("helper")])
    assert note.value == {"name": "A."}
    key = Keys(ANN).blob("files", announced.id, "facts.json")
    assert await made.plain.blobs.get(key) is not None


async def test_a_sleeping_database_is_said_and_the_sweeper_goes_on() -> None:
    made = await lived()
    asleep = replace(made.plain, memory=Asleep(made.threads))
    with pytest.raises(DatabaseWaking):
        await forget(asleep, ANN)
    assert (await sweep(asleep))["trouble"] == 1
    for _ in range(4):
        await later(made, timedelta(minutes=17))
    assert await left(made) == []


async def test_others_keep_everything() -> None:
    made = await lived()
    await forget(made.plain, "bob")
    for _ in range(4):
        await later(made, timedelta(minutes=17))
    assert [t.id for t in (await threads.list_threads(made.plain, ANN, 9, None)).items] == ["t1"]
    assert (await notes.get_profile(made.plain, ANN, "helper")).profile == {"name": "Ann"}


async def test_threads_that_the_journal_has_lost_do_not_come_back() -> None:
    made = await lived()
    made._table._items.clear()
    await forget(made.plain, ANN)
    assert (await threads.list_threads(made.plain, ANN, 9, None)).items == ()
    with pytest.raises(NotFound):
        await threads.get(made.plain, ANN, "t1")


async def test_lost_threads_are_not_listed_again_before_the_sweeper_comes() -> None:
    made = await lived()
    made._table._items.clear()
    with pytest.raises(DatabaseWaking):
        await forget(replace(made.plain, memory=Asleep(made.threads)), ANN)
    assert (await threads.list_threads(made.plain, ANN, 9, None)).items == ()


async def test_connections_are_closed() -> None:
    world = SocketBench()
    await world.connect("c1")
    await forget(world.runtime, ANN)
    assert "c1" not in world.sockets.open
    assert await world.ports.connections.of(ANN) == []


async def test_a_connection_of_somebody_else_stays_open() -> None:
    world = SocketBench()
    await world.connect("c1")
    await forget(world.runtime, "bob")
    assert "c1" in world.sockets.open


async def test_a_profile_goes_with_a_thread_if_that_is_asked_for() -> None:
    made = await lived()
    await threads.delete(made.plain, ANN, "t1")
    assert (await notes.get_profile(made.plain, ANN, "helper")).profile == {"name": "Ann"}
    await made.go("again", thread="t2")
    made.threads.away = True
    await threads.delete(made.plain, ANN, "t2", forget_profile=True)
    made.threads.away = False
    await later(made, timedelta(minutes=2))
    assert (await notes.get_profile(made.plain, ANN, "helper")).profile == {}


async def test_a_file_that_is_used_a_moment_before_goes_with_its_thread_alone() -> None:
    made = await lived()
    await threads.delete(made.plain, ANN, "t1")
    announced = await files.create(made.plain, ANN, "b.txt", "text/plain", 3)
    key = Keys(ANN).blob("uploads", announced.id, "data")
    await made.plain.blobs.put(key, b"abc", "text/plain")
    await made.go("hi", thread="t2")
    await files.take_files(made.plain, ANN, "t2", (FilePart(file_id=announced.id),))
    assert (await later(made, DAY))["expired file"] == 2
    assert await files.link(made.plain, ANN, announced.id)
