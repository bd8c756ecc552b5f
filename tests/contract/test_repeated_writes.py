"""A plain write whose answer was lost is sent again. It does and says what one does, in each table, and
another writer that comes in between is refused."""

import ast
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import layover.adapters
import layover.plugins
from examples.sqlite_table import SqliteTable
from layover.adapters.journal.allowance import TableAllowance
from layover.adapters.journal.deliveries import CLAIMED, TableDeliveries
from layover.adapters.journal.followers.connections import TableConnections
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.adapters.journal.leases import TableLeases
from layover.clock import from_rfc3339
from layover.errors import RetryableError
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.table import InMemoryTable
from layover.keys import META, Keys
from layover.plugins.people.press_book import TablePressBook
from layover.plugins.reach.adapters.grants import TableGrants
from layover.ports import DayLimits, DayUse, DueCheck, Reservation
from layover.ports.channels import Claim
from layover.ports.table import Item, Table, Write
from layover.values.channels import Address
from layover.values.grant import Consent, Grant
from layover.values.lease import Lease, LeaseKind
from layover.values.runs.debts import Debt, DebtKind
from layover.values.runs.feedback import RunFeedback
from layover.values.runs.operations import OperationKind, OperationOutcome, OperationRow, Switch
from layover.values.runs.usage import Usage
from layover.values.socket import Claim as SocketClaim
from layover.values.socket import Connection, Held, Subscription, Ticket
from support.aws.emulator import LocalAws
from support.oauth import keep
from support.worlds.journal import JournalBench, open_by, planned, settled

ADAPTERS = Path(layover.adapters.__path__[0])
PLUGINS = Path(layover.plugins.__path__[0])
ONCE = ADAPTERS / "once.py"
LATER = timedelta(hours=1)
BEA = Address(channel="mail", to="bea@example.com")


class Repeating:
    """A table whose client loses the answer of each plain write that takes effect, and sends it again."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._left = 100
        self.writers = set[str]()
        """The functions that wrote."""
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """Happens between the next write and its repetition."""

    def write(self, action: Write) -> Coroutine[Any, Any, Item | None]:
        """See `Table`. The function that calls it may leave the write to another task."""
        self.writers.add(_writer())
        self._left -= 1
        assert self._left, "a write that takes itself for another's is tried for ever"
        return self._write(action)

    async def _write(self, action: Write) -> Item | None:
        await self._table.write(action)
        after = await self._table.get(action.pk, action.sk)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        try:
            return await self._table.write(action)
        finally:
            assert await self._table.get(action.pk, action.sk) == after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


def _writer() -> str:
    """Return the name of the adapter's function that writes here."""
    frame = sys._getframe(2)
    while Path(frame.f_code.co_filename) == ONCE:
        assert frame.f_back is not None
        frame = frame.f_back
    # A generator in a function is part of it.
    return frame.f_code.co_qualname.partition(".<locals>")[0]


class Scene:
    """A world over such a table, and another writer over the same items, whose answers are not lost."""

    def __init__(self, table: Table, owner: str) -> None:
        self.table = Repeating(table)
        self.world = JournalBench(self.table, InMemoryBlobs(), owner)
        self.other = JournalBench(table, self.world.blobs, owner, self.world.clock)
        self.plain, self.owner, self.clock = table, owner, self.world.clock
        self.journal = self.world.journal

    @asynccontextmanager
    async def between(self, write: Callable[[], Awaitable[Any]]) -> AsyncIterator[list[Any]]:
        """Let another writer write between the next write and its repetition. Yields what it gets: an answer,
        or the type of an error."""
        got: list[Any] = []

        async def meanwhile() -> None:
            try:
                got.append(await write())
            except RetryableError as error:
                got.append(type(error))

        self.table.meanwhile = meanwhile
        yield got
        assert len(got) == 1


# Each scene makes some plain writes, and says what comes of them.


async def press(scene: Scene) -> None:
    signature, now = f"v0={scene.owner}", scene.clock.now()
    other = TablePressBook(scene.plain)
    async with scene.between(lambda: other.accept_once(signature, now)) as got:
        assert await TablePressBook(scene.table).accept_once(signature, now)
    assert got == [False]


async def grant(scene: Scene) -> None:
    grants, other = TableGrants(scene.table), TableGrants(scene.plain)
    first = Grant(
        owner=scene.owner, connection="github", sealed="1", connected_at=scene.clock.now()
    )
    old = await keep(grants, first)
    second, third = (first.model_copy(update={"sealed": text}) for text in "23")
    async with scene.between(lambda: other.replace(old, third)) as got:
        new = await grants.replace(old, second)
    assert got == [None]
    assert new is not None
    assert new.sealed == "2"
    assert await grants.remove(new)
    await keep(grants, first)
    await grants.erase(scene.owner, scene.clock.now())
    assert await grants.list_grants(scene.owner) == []


async def consent(scene: Scene) -> None:
    grants, other = TableGrants(scene.table), TableGrants(scene.plain)
    asked = Consent(
        owner=scene.owner,
        connection="github",
        scopes=(),
        redirect_url="https://layover.example.com/connected",
        sealed_verifier="v",
        asked_at=scene.clock.now(),
        expires_at=scene.clock.now() + LATER,
    )
    await grants.put_consent("state", asked)
    async with scene.between(lambda: other.use_consent(scene.owner, "state")) as got:
        assert await grants.use_consent(scene.owner, "state")
    assert got == [False]


async def allowance(scene: Scene) -> None:
    own, other = (TableAllowance(table, scene.clock) for table in (scene.table, scene.plain))
    async with scene.between(lambda: other.admit(scene.owner, 1)) as got:
        assert await own.admit(scene.owner, 1) is None
    assert got != [None]
    limits = DayLimits(tokens=100, cost_usd=None)
    assert await own.reserve(scene.owner, "r", DayUse(10), limits) is Reservation.GRANTED
    own.note(scene.owner, Usage(input_tokens=7))
    await own.release(scene.owner, "r")
    own.note(scene.owner, Usage(input_tokens=5))
    await own.flush()
    assert (await own.used(scene.owner)).tokens == 12
    small = DayUse(1)
    assert await own.reserve(scene.owner, "cut", DayUse(99), limits) is Reservation.GRANTED
    assert await other.reserve(scene.owner, "next", small, limits) is Reservation.BUSY
    await own.release_all(scene.owner, ["cut"])
    assert await other.reserve(scene.owner, "next", small, limits) is Reservation.GRANTED


async def lease(scene: Scene) -> None:
    own, other = TableLeases(scene.table), TableLeases(scene.plain)
    now, until = scene.clock.now(), scene.clock.now() + LATER
    one, two = (Lease(scene.owner, LeaseKind.WAIT, id, until) for id in ("one", "two"))
    async with scene.between(lambda: other.take(two, 1, now)) as got:
        assert await own.take(one, 1, now)
    assert got == [False]
    await own.release(one)
    assert await other.take(two, 1, now)


async def ticket(scene: Scene) -> None:
    own, other = TableConnections(scene.table), TableConnections(scene.plain)
    text, now = f"{Keys(scene.owner).hash}.secret", scene.clock.now()
    made = Ticket(text=text, owner=scene.owner, expires_at=now + LATER)
    await own.put_ticket(made)
    async with scene.between(lambda: other.redeem(text, now)) as got:
        assert await own.redeem(text, now) == made
    assert got == [None]


async def socket(scene: Scene) -> None:
    own, other = TableConnections(scene.table), TableConnections(scene.plain)
    now, id = scene.clock.now(), f"c-{scene.owner}"
    await own.open(Connection(id=id, owner=scene.owner, ends_at=now + LATER))
    line = Subscription(scene.owner, await scene.world.started(), id)
    assert await own.subscribe(line, None, 0)
    async with scene.between(lambda: other.claim(line, now)) as got:
        claim = await own.claim(line, now)
    assert isinstance(claim, SocketClaim)
    assert got == [Held(now)]
    async with scene.between(lambda: other.release(claim, 9)) as got:
        assert await own.release(claim, 3)
    assert got == [False]
    await own.close(id)
    assert await own.get(id) is None


async def delivery(scene: Scene) -> None:
    own = TableDeliveries(scene.table, scene.clock)
    other = TableDeliveries(scene.plain, scene.clock)
    place = (scene.owner, await scene.world.started(), "STEP#0000#CALL#c1", "a")
    await own.claim(*place, BEA)
    scene.clock.advance(CLAIMED)
    async with scene.between(lambda: other.claim(*place, BEA)) as got:
        claim = await own.claim(*place, BEA)
    assert (claim, got) == (Claim(unsure=True), [RetryableError])
    assert isinstance(claim, Claim)
    await own.give_back(*place, claim)
    await own.note_sent(*place, "ref")
    [sent] = await own.of_call(*place[:3])
    assert sent.reference == "ref"


async def switch(scene: Scene) -> None:
    own, other = scene.journal.operations, scene.other.journal.operations
    now = scene.clock.now()
    mine, theirs = (Switch(stopped=True, by=by, reason="r", since=now) for by in ("ann", "bob"))
    async with scene.between(lambda: other.stop(theirs)) as got:
        stopped = await own.stop(mine)
    assert (stopped, got) == (mine, [mine])
    await own.start()
    assert not (await own.switch()).stopped


async def head(scene: Scene) -> None:
    heads, other = scene.journal.heads, scene.other.journal.heads
    made = await scene.world.thread()
    now = scene.clock.now()
    async with scene.between(lambda: other.advance(made, "n", now)) as got:
        advanced = await heads.advance(made, "m", now)
    assert (advanced and advanced.leaf_id, got) == ("m", [None])
    edit: dict[str, Any] = {"untitled_only": True}
    theirs = lambda: other.edit(scene.owner, made.id, title="B", **edit)  # noqa: E731
    async with scene.between(theirs) as got:
        edited = await heads.edit(scene.owner, made.id, title="A", **edit)
    assert (edited and edited.title, got) == ("A", [None])
    await heads.add_missing(scene.owner, [made])
    assert await heads.has_all(scene.owner)
    await heads.unmark(scene.owner)
    assert not await heads.has_all(scene.owner)


async def writer(scene: Scene) -> None:
    run_id = await scene.world.started()
    log = await scene.world.take(run_id)
    meta = await scene.world.run(run_id)
    assert (meta.epoch, meta.attempts) == (1, 1)
    log.emit(scene.world.data("a"))
    await log.flush()
    step = scene.world.step(log, "c1", "c2")
    await log.put_step(step)
    calls = [planned(log, step, call_id) for call_id in ("c1", "c2")]
    await log.open_calls(calls)
    first, second = (settled(open_by(log, call)) for call in calls)
    await log.close_call(first, scene.world.data("b"))
    await log.close_call(second, scene.world.data("c"), wait=False)
    await log.wait()
    await log.flush()
    assert await scene.world.said(run_id) == ["a", "b", "c"]


async def driver(scene: Scene) -> None:
    commands, other = scene.journal.commands, scene.other.journal.commands
    run_id = await scene.world.started()
    one = f"{run_id}-1"
    assert await commands.spend(scene.owner, run_id, one, 5, 9) == 5
    assert await commands.spend(scene.owner, run_id, one, 5, 9) == 10
    assert [await commands.count_fault(scene.owner, run_id, 0) for _ in range(3)] == [0, 1, 2]
    async with scene.between(lambda: other.start_successor(scene.owner, run_id, one)) as got:
        assert await commands.start_successor(scene.owner, run_id, one) == 2
    assert got == [None]
    await commands.mark_left(scene.owner, run_id, 0)
    await commands.request_cancel(scene.owner, run_id)
    assert (await scene.world.run(run_id)).cancel


async def debt(scene: Scene) -> None:
    run_id, owed = await scene.world.started(), Debt(DebtKind.REQUESTED, 1, "STEP#0001#CALL#c1")
    await scene.journal.commands.owe(scene.owner, run_id, owed)
    item = await scene.plain.get(Keys(scene.owner).run(run_id), META)
    assert item is not None
    assert item["owed"] == {str(owed)}


async def saved(scene: Scene) -> None:
    log = await scene.world.taken()
    meta = log.snapshot.meta
    await scene.world.end(log, saved=False)
    await scene.journal.commands.mark_saved(scene.owner, meta.id, meta.thread_id)
    assert (await scene.world.head(meta.thread_id)).unsaved == ()
    await scene.journal.expiry.set_ttl(scene.owner, meta.id, scene.clock.now() + LATER)
    item = await scene.plain.get(Keys(scene.owner).run(meta.id), META)
    assert item is not None
    assert "expires" in item


async def kept(scene: Scene) -> None:
    run_id = await scene.world.started()
    await scene.journal.expiry.keep_records(scene.owner, run_id, for_good=True)
    assert (await scene.world.run(run_id)).records_kept


async def next_look(scene: Scene) -> None:
    run_id = await scene.world.started()
    run, place = await scene.world.run(run_id), (Keys(scene.owner).run(run_id), META)

    async def seen() -> DueCheck:
        item = await scene.plain.get(*place)
        assert item is not None
        at = from_rfc3339(item["gsi2sk"])
        return DueCheck(scene.owner, run.thread_id, run_id, None, place, at)

    watch, other, read = scene.journal.watch, scene.other.journal.watch, await seen()
    async with scene.between(lambda: other.reschedule(read, read.at + 2 * LATER)) as got:
        assert await watch.reschedule(read, read.at + LATER)
    assert got == [False]
    await watch.put_off(await seen(), read.at + 2 * LATER)
    assert (await seen()).at == read.at + 2 * LATER


async def due(scene: Scene) -> None:
    dues, now = scene.journal.dues, scene.clock.now()
    await dues.schedule(scene.owner, "file", "f", now)
    [seen] = await dues.of(scene.owner)
    await dues.reschedule(seen, now + LATER)
    [later] = await dues.of(scene.owner)
    assert later.at == now + LATER
    await dues.remove(later)
    assert await dues.of(scene.owner) == []


async def operation(scene: Scene) -> None:
    row = OperationRow(
        operation=OperationKind.CANCEL,
        by="olga",
        owner=scene.owner,
        run_id="run_1",
        thread_id="thread_1",
        agent="support",
        at=scene.clock.now(),
    )
    key = await scene.journal.operations.open(row)
    await scene.journal.operations.close(row, key, OperationOutcome.DONE)
    page = await scene.journal.operations.page_actions(None, None, 1_000, None)
    assert [one.outcome for one in page.items if one.owner == scene.owner] == ["done"]


async def erasure(scene: Scene) -> None:
    log = await scene.world.taken()
    run, journal = log.snapshot.meta, scene.journal
    await scene.world.end(log)
    about = RunFeedback(
        owner=scene.owner,
        thread_id=run.thread_id,
        run_id=run.id,
        agent=run.agent,
        score=1,
        at=scene.clock.now(),
    )
    assert await journal.feedback.put(about)
    thread = (scene.owner, run.thread_id)
    await journal.erasure.mark_deleted(*thread)
    await journal.erasure.erase_runs(*thread)
    await journal.erasure.erase_late(*thread)
    await journal.erasure.finish(*thread)
    assert await journal.erasure.remove_tombstone(*thread)
    past = await scene.world.taken()
    await journal.erasure.erase_run(
        scene.owner, past.snapshot.meta.thread_id, past.snapshot.meta.id
    )
    unused = await scene.world.thread()
    theirs = lambda: scene.other.journal.erasure.mark_unused_deleted(unused)  # noqa: E731
    async with scene.between(theirs) as got:
        assert await journal.erasure.mark_unused_deleted(unused)
    assert got == [False]
    assert await scene.world.state(run.id) == await scene.world.state(past.snapshot.meta.id) == {}


SCENES = [
    *(press, grant, consent, allowance, lease, ticket, socket, delivery, switch, head, writer),
    *(driver, debt, saved, kept, next_look, due, operation, erasure),
]


@pytest.fixture(params=["memory", "sqlite", "dynamodb"])
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    if request.param == "memory":
        yield InMemoryTable()
    elif request.param == "sqlite":
        table = SqliteTable()
        yield table
        table.close()
    else:
        aws: LocalAws = request.getfixturevalue("aws")
        yield DynamoTable(aws.services.client("dynamodb"), aws.table)


@pytest.mark.parametrize("scene", SCENES)
async def test_repeated_write_takes_effect_once_and_keeps_others_out(
    scene: Callable[[Scene], Awaitable[None]], table: Table, owner: str
) -> None:
    await scene(Scene(table, owner))


async def test_every_plain_write_of_the_adapters_is_repeated_here(owner: str) -> None:
    """A new one gets a scene, in which it fails unless it knows its repetition (`adapters/once.py`)."""
    repeated = set[str]()
    for play in SCENES:
        scene = Scene(InMemoryTable(), owner)
        await play(scene)
        repeated |= scene.table.writers
    written = _all_writers()
    assert len(written) > 40
    assert written == repeated


def _all_writers() -> set[str]:
    files = (*ADAPTERS.rglob("*.py"), *PLUGINS.rglob("*.py"))
    return {name for file in files for name in _writers_in(file)}


def _writers_in(file: Path) -> Iterator[str]:
    """Yield the qualified names of functions in a file that make plain writes."""

    def look(node: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            inner = names
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = (*names, child.name)
            called = ast.unparse(child.func) if isinstance(child, ast.Call) else ""
            is_once = called in ("write_once", "change_once")
            if is_once or called.endswith("table.write"):
                yield ".".join(inner)
            yield from look(child, inner)

    if file != ONCE:
        yield from look(ast.parse(file.read_text(encoding="utf-8")), ())
