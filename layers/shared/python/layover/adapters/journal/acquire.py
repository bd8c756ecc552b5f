"""A run's next writer: it takes the run, and fences the writers before it."""

import asyncio
import secrets
from collections.abc import Callable

from layover.adapters.journal.heads import ThreadRecords
from layover.adapters.journal.items.expiry import keep_records
from layover.adapters.journal.items.reader import Reader
from layover.adapters.journal.runlog import TableRunLog
from layover.clock import rfc3339
from layover.errors import AttemptsUsedUp, Fenced
from layover.keys import INPUT, META, Keys
from layover.ports import Clock, EventSink, RunLog
from layover.ports.table import (
    Below,
    Condition,
    ConditionFailed,
    Differs,
    Equals,
    Item,
    Table,
    Update,
    all_of,
)
from layover.values.runs.run import MAX_ATTEMPTS, TURN_EVENTS, RunSnapshot, Status
from layover.values.thread import ThreadHead


class Acquisition:
    """Takes runs for writers. `log_of(snapshot, next_seq, head)`: returns a writer's access to the run."""

    def __init__(
        self,
        table: Table,
        clock: Clock,
        read: Reader,
        heads: ThreadRecords,
        sink: EventSink,
        log_of: Callable[[RunSnapshot, int | None, ThreadHead | None], TableRunLog],
    ) -> None:
        self._table = table
        self._clock = clock
        self._read = read
        self._heads = heads
        self._sink = sink
        self._log_of = log_of

    async def acquire(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """See `ports.Journal`. Fenced: another writer took the run while this one caught up with its log."""
        mine = all_of(Equals("execution", execution), Below("attempts", MAX_ATTEMPTS))
        try:
            return await self._take(owner, run_id, mine)
        except ConditionFailed as failure:
            old = failure.old
            if old and old["status"] == "running" and old.get("execution") == execution:
                raise AttemptsUsedUp(
                    f"{MAX_ATTEMPTS} attempts made no step", run_id=run_id
                ) from failure
            if old and Status(old["status"]).over:
                # The writer that ended the run may have died before it sent the end. A line that is gone by
                # now, or has all of it, gets nothing.
                self._sink.notify(owner, run_id, old.get("sockets", ()))
            return None
        except Fenced:
            return None

    async def seize(self, owner: str, run_id: str) -> RunLog | None:
        """See `ports.Journal`."""
        try:
            return await self._take(owner, run_id, all_of())
        except (ConditionFailed, Fenced):
            return None

    async def _take(self, owner: str, run_id: str, condition: Condition) -> RunLog:
        pk = Keys(owner).run(run_id)
        parts = (Equals("status", "running"), *getattr(condition, "parts", ()))
        # boto3 may repeat a write whose answer was lost: if the item has this taker, it succeeded.
        taker = secrets.token_hex(8)
        changes = {"updated_at": rfc3339(self._clock.now()), "taker": taker}
        counts = {"epoch": 1, "attempts": 1, "history": TURN_EVENTS}
        new = all_of(*parts, Differs("taker", taker))
        try:
            meta_item = await self._table.write(Update(pk, META, set=changes, add=counts, when=new))
        except ConditionFailed as failure:
            meta_item = failure.old
            if meta_item is None or meta_item.get("taker") != taker:
                raise
        assert meta_item is not None
        # A run's first writer finds no step and no event: no writer came before it.
        first = meta_item["epoch"] == 1
        snapshot, head = await asyncio.gather(
            self._records(owner, meta_item, first=first),
            self._heads.get(owner, meta_item["thread_id"]),
        )
        log = self._log_of(snapshot, 1 if first else None, head)
        await log.catch_up()
        return log

    async def _records(self, owner: str, meta_item: Item, *, first: bool) -> RunSnapshot:
        pk = meta_item["pk"]
        items = [] if first else await self._read.records(pk)
        input_item = next((item for item in items if item["sk"] == INPUT), None)
        meta = await self._read.meta(owner, meta_item, input_item)
        if meta.has_to_keep_records(self._clock.now()):
            is_permanent = await keep_records(self._table, pk)
            meta = meta.model_copy(update={"records_kept": is_permanent})
        steps = [item for item in items if item["sk"] not in (INPUT, META)]
        return await self._read.snapshot(meta, steps)
