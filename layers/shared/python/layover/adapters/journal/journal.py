"""The journal (`ports.Journal`) over a table: reads, and the parts put together."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Unpack

from layover.adapters.journal.acquire import Acquisition
from layover.adapters.journal.audit import Audit
from layover.adapters.journal.decisions import Decisions
from layover.adapters.journal.dues import TableDues
from layover.adapters.journal.erasure import Erasure
from layover.adapters.journal.heads import QueueHandover, ThreadRecords
from layover.adapters.journal.inbox import Inbox
from layover.adapters.journal.items.codec import PayloadStore
from layover.adapters.journal.items.expiry import keep_records
from layover.adapters.journal.items.reader import InputGone, Reader
from layover.adapters.journal.items.records import status_from
from layover.adapters.journal.log.events import EventLog
from layover.adapters.journal.requests import RunCommands
from layover.adapters.journal.runlog import TableRunLog
from layover.clock import rfc3339
from layover.keys import (
    AUDIT,
    CONNECTION,
    INPUT,
    META,
    POINTER,
    Keys,
    pointer_partition,
    watch_partitions,
)
from layover.ports import (
    Accepted,
    Blobs,
    Clock,
    Decided,
    DueCheck,
    EventSink,
    InboxItem,
    NoSink,
    RequestKey,
    RunLog,
)
from layover.ports.table import Table
from layover.values.cursor import bad_cursor
from layover.values.decision import Vote
from layover.values.page import Page
from layover.values.runs.audit import AuditRow
from layover.values.runs.event import Event, EventPage
from layover.values.runs.run import (
    CANCEL_GRACE,
    CallRecord,
    Decision,
    OnBusy,
    Outcome,
    RunMeta,
    RunSnapshot,
    Status,
)
from layover.values.runs.views import OpenApproval
from layover.values.thread import ThreadEdit, ThreadHead


class TableJournal(TableDues):
    """`Journal`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(
        self,
        table: Table,
        blobs: Blobs,
        clock: Clock,
        sink: EventSink | None = None,
        *,
        audit_retention: timedelta = timedelta(days=400),
    ) -> None:
        super().__init__(table, clock)
        self._table = table
        self._sink = sink or NoSink()
        self._clock = clock
        self._bodies = PayloadStore(blobs)
        self._read = Reader(table, self._bodies)
        self._heads = ThreadRecords(table, clock)
        self._handover = QueueHandover(table, self._bodies, clock)
        self._requests = RunCommands(table, self._bodies, clock)
        self._audit = Audit(table, clock, audit_retention)
        self._inbox = Inbox(table, clock)
        self._decisions = Decisions(table, self._bodies, clock, self._audit)
        self._erasure = Erasure(table, blobs)
        reads = (self._read, self._heads)
        self._acquisition = Acquisition(table, clock, *reads, self._sink, self._log)

    async def put_thread(self, head: ThreadHead) -> None:
        """See `ports.Journal`."""
        await self._heads.put(head)

    async def thread(self, owner: str, thread_id: str) -> ThreadHead | None:
        """See `ports.Journal`."""
        return await self._heads.get(owner, thread_id)

    async def threads(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """See `ports.Journal`."""
        return await self._heads.page(owner, limit, _within("T#", cursor))

    async def has_all_threads(self, owner: str) -> bool:
        """See `ports.Journal`."""
        return await self._heads.has_all(owner)

    async def complete_threads(self, owner: str, heads: Sequence[ThreadHead]) -> None:
        """See `ports.Journal`."""
        await self._heads.add_missing(owner, heads)

    async def unmark_threads(self, owner: str) -> None:
        """See `ports.Journal`."""
        await self._heads.unmark(owner)

    async def edit_thread(
        self,
        owner: str,
        thread_id: str,
        *,
        untitled_only: bool = False,
        **edit: Unpack[ThreadEdit],
    ) -> ThreadHead | None:
        """See `ports.Journal`."""
        return await self._heads.edit(owner, thread_id, edit, untitled_only)

    async def mark_deleted(
        self, owner: str, thread_id: str, *, forget_profile: bool = False
    ) -> ThreadHead | None:
        """See `ports.Journal`."""
        return await self._heads.mark_deleted(owner, thread_id, forget_profile)

    async def deleted_threads(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """See `ports.Journal`."""
        return await self._heads.deleted_threads(owner, limit, cursor)

    async def remove_tombstone(self, owner: str, thread_id: str) -> bool:
        """See `ports.Journal`."""
        return await self._heads.remove_tombstone(owner, thread_id)

    async def erase_run(self, owner: str, thread_id: str, run_id: str) -> None:
        """See `ports.Journal`."""
        await self._erasure.erase_run(Keys(owner), thread_id, run_id)

    async def accept(
        self, run: RunMeta, head: ThreadHead, on_busy: OnBusy, request: RequestKey | None
    ) -> Accepted:
        """See `ports.Journal`."""
        return await self._requests.accept(run, head, on_busy, request)

    async def find_request(self, owner: str, request: RequestKey, now: datetime) -> str | None:
        """See `ports.Journal`."""
        return await self._requests.find_request(owner, request, now)

    async def run(self, owner: str, run_id: str) -> RunMeta | None:
        """See `ports.Journal`."""
        item = await self._table.get(Keys(owner).run(run_id), META)
        with suppress(InputGone):
            return await self._read.meta(owner, item) if item else None
        return None

    async def peek_status(self, owner: str, run_id: str) -> Status | None:
        """See `ports.Journal`."""
        item = await self._table.get(Keys(owner).run(run_id), META, consistent=False)
        return status_from(item) if item else None

    async def snapshot(self, owner: str, run_id: str) -> RunSnapshot | None:
        """See `ports.Journal`. One query: INPUT and META sort before the steps."""
        items = await self._read.records(Keys(owner).run(run_id))
        input_item = items.pop(0) if items and items[0]["sk"] == INPUT else None
        if not items or items[0]["sk"] != META:
            return None
        with suppress(InputGone):
            meta = await self._read.meta(owner, items[0], input_item)
            return await self._read.snapshot(meta, items[1:])
        return None

    async def runs(self, owner: str, thread_id: str, limit: int, cursor: str | None) -> Page[str]:
        """See `ports.Journal`."""
        cursor = _within(f"R#{thread_id}#", cursor)
        page = await self._table.query_index(
            Keys(owner).partition, f"R#{thread_id}#", limit=limit + 1, forward=False, after=cursor
        )
        more = page[limit - 1]["gsi1sk"] if len(page) > limit else None
        return Page(items=tuple(item["id"] for item in page[:limit]), next_cursor=more)

    async def approvals(
        self, owner: str, thread_id: str | None, limit: int, cursor: str | None
    ) -> Page[OpenApproval]:
        """See `ports.Journal`."""
        cursor = _within("A#", cursor)
        return await self._read.approvals(Keys(owner).partition, thread_id, limit, cursor)

    async def store_token(
        self, owner: str, run_id: str, execution: str, key: str, attempt: int, token: str
    ) -> CallRecord | None:
        """See `ports.Journal`."""
        if await self._requests.store_token(owner, run_id, execution, key, attempt, token):
            return await self.call(owner, run_id, key)
        return None

    async def publish_later(self, owner: str, run_id: str, key: str, token: str) -> None:
        """See `ports.Journal`."""
        await self._requests.publish_later(owner, run_id, key, token)

    async def inbox(
        self, groups: Collection[str], limit: int, cursor: str | None
    ) -> Page[InboxItem]:
        """See `ports.Journal`."""
        page = await self._inbox.page(groups, limit, cursor)
        items = [
            InboxItem(item["owner"], item["thread_id"], await self._read.approval(item))
            for item in page.items
        ]
        return Page(items=tuple(items), next_cursor=page.next_cursor)

    async def owner_of(self, run_id: str) -> str | None:
        """See `ports.Journal`."""
        item = await self._table.get(pointer_partition(run_id), POINTER)
        return str(item["owner"]) if item else None

    async def vote(
        self,
        run: RunMeta,
        call: CallRecord,
        votes: Sequence[Vote],
        decision: Decision,
        *events: Event,
    ) -> CallRecord:
        """See `ports.Journal`."""
        await self._decisions.vote(run, call, votes, decision, events)
        votes_before, meta = (
            await self.call(run.owner, run.id, call.key),
            await self.run(run.owner, run.id),
        )
        # Notify here: a vote wakes no process that would deliver its event.
        self._sink.notify(run.owner, run.id, meta.sockets if meta else ())
        assert votes_before is not None
        return votes_before

    async def decide(
        self,
        run: RunMeta,
        call: CallRecord,
        decision: Decision,
        *events: Event,
        votes: Sequence[Vote] | None = None,
    ) -> Decided:
        """See `ports.Journal`. The token is read after the decision is written: either it exists by then, or
        the process that stores it later sees the decision."""
        await self._decisions.decide(run, call, decision, events, votes)
        stored_call = await self.call(run.owner, run.id, call.key)
        assert stored_call is not None
        return Decided(stored_call, stored_call.token)

    async def audit(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[AuditRow]:
        """See `ports.Journal`."""
        return await self._audit.page(since, until, limit, _within(f"{AUDIT}#", cursor))

    async def call(self, owner: str, run_id: str, key: str) -> CallRecord | None:
        """See `ports.Journal`."""
        item = await self._table.get(Keys(owner).run(run_id), key)
        return await self._read.call(run_id, item) if item else None

    async def peek_events(self, owner: str, run_id: str, after: int) -> bool:
        """See `ports.Journal`."""
        return await EventLog(self._table, self._bodies, Keys(owner), run_id).peek(after)

    async def events(self, owner: str, run_id: str, after: int, limit: int) -> EventPage:
        """See `ports.Journal`."""
        return await EventLog(self._table, self._bodies, Keys(owner), run_id).page(after, limit)

    async def acquire(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """See `ports.Journal`."""
        return await self._acquisition.acquire(owner, run_id, execution)

    async def seize(self, owner: str, run_id: str) -> RunLog | None:
        """See `ports.Journal`."""
        return await self._acquisition.seize(owner, run_id)

    async def attach(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """See `ports.Journal`."""
        snapshot = await self.snapshot(owner, run_id)
        if snapshot is None or snapshot.meta.execution != execution:
            return None
        return self._log(snapshot, None) if snapshot.meta.status == "running" else None

    async def end_queued(self, owner: str, run_id: str, outcome: Outcome, *events: Event) -> bool:
        """See `ports.Journal`."""
        if not await self._requests.end_queued(owner, run_id, outcome, events):
            return False
        run = await self.run(owner, run_id)
        self._sink.notify(owner, run_id, run.sockets if run else ())
        return True

    async def due(self, until: datetime, limit: int) -> list[DueCheck]:
        """See `ports.Journal`."""
        due: list[DueCheck] = []
        for partition in watch_partitions():
            for pk, sk in await self._table.due(partition, rfc3339(until), limit):
                item = await self._table.get(pk, sk)
                if item is not None and sk == META:
                    due.append(DueCheck(item["owner"], item["thread_id"], item["id"]))
                elif item is not None and sk == CONNECTION:
                    due.append(DueCheck(item["owner"], "", None, item["id"]))
                elif item is not None:
                    due.append(DueCheck(item["owner"], item["id"], None))
        return due

    async def erase_runs(self, owner: str, thread_id: str) -> None:
        """See `ports.Journal`. Runs come from the index, a page at a time, until none is left."""
        await self._erasure.erase_runs(Keys(owner), thread_id)

    async def set_ttl(self, owner: str, run_id: str, expires_at: datetime) -> None:
        """See `ports.Journal`."""
        keys, expires = Keys(owner), int(expires_at.timestamp())
        thread_id = await self._erasure.expire(keys, run_id, expires)
        if thread_id is not None:
            await self.schedule(owner, "run", f"{thread_id}/{run_id}", expires_at)
        await self._erasure.set_ttl(keys, run_id, expires)

    async def keep_records(self, owner: str, run_id: str, *, for_good: bool = False) -> None:
        """See `ports.Journal`."""
        await keep_records(self._table, Keys(owner).run(run_id), for_good=for_good)

    async def erase_late(self, owner: str, thread_id: str) -> None:
        """See `ports.Journal`."""
        await self._erasure.erase_late(Keys(owner), thread_id)

    async def mark_purged(self, owner: str, thread_id: str, again_at: datetime) -> None:
        """See `ports.Journal`."""
        await self._heads.mark_purged(owner, thread_id, again_at)

    async def finish_erasure(self, owner: str, thread_id: str) -> None:
        """See `ports.Journal`."""
        await self._heads.finish_erasure(owner, thread_id)

    async def reschedule_erasure(self, owner: str, thread_id: str, at: datetime) -> None:
        """See `ports.Journal`."""
        await self._heads.reschedule_erasure(owner, thread_id, at)

    async def reschedule_check(
        self,
        owner: str,
        run_id: str,
        read_at: datetime,
        at: datetime,
        lost_at: datetime | None = None,
    ) -> bool:
        """See `ports.Journal`."""
        return await self._requests.reschedule_check(owner, run_id, read_at, at, lost_at)

    async def start_successor(
        self, owner: str, run_id: str, execution: str | None, *, fresh: bool = False
    ) -> int | None:
        """See `ports.Journal`."""
        return await self._requests.start_successor(owner, run_id, execution, fresh)

    async def spend(
        self,
        owner: str,
        run_id: str,
        execution: str,
        events: int,
        limit: int,
        *,
        fresh: bool = False,
    ) -> int | None:
        """See `ports.Journal`."""
        return await self._requests.spend(owner, run_id, execution, events, limit, fresh)

    async def mark_saved(self, owner: str, run_id: str, thread_id: str) -> None:
        """See `ports.Journal`."""
        await self._requests.mark_saved(owner, run_id, thread_id)

    async def request_cancel(
        self, owner: str, run_id: str, grace: timedelta = CANCEL_GRACE
    ) -> RunMeta | None:
        """See `ports.Journal`."""
        await self._requests.request_cancel(owner, run_id, grace)
        return await self.run(owner, run_id)

    def _log(
        self, snapshot: RunSnapshot, next_seq: int | None, head: ThreadHead | None = None
    ) -> TableRunLog:
        table = (self._table, self._bodies, self._clock, self._handover)
        followers = (self._sink, self._audit, self._inbox)
        return TableRunLog(*table, snapshot, next_seq, *followers, head)


def _within(prefix: str, cursor: str | None) -> str | None:
    """Return the cursor. Raises InvalidRequest if it leads out of its own list."""
    if cursor is not None and not cursor.startswith(prefix):
        raise bad_cursor()
    return cursor
