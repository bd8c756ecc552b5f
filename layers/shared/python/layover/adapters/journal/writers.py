"""The right to write a run (`ports.Writers`): a writer takes the run and fences all earlier writers."""

import asyncio

from layover.adapters.journal.audit import TableAudit
from layover.adapters.journal.backing import Backing
from layover.adapters.journal.expiry import keep_records
from layover.adapters.journal.heads import TableHeads
from layover.adapters.journal.inbox import TableInbox
from layover.adapters.journal.runlog import TableRunLog
from layover.adapters.journal.runs import TableRuns
from layover.adapters.once import write_once, written_by
from layover.clock import rfc3339
from layover.errors import AttemptsUsedUp, Fenced
from layover.keys import INPUT, META, Keys
from layover.ports import BeingEnded, RunLog
from layover.ports.table import (
    Below,
    Condition,
    ConditionFailed,
    Differs,
    Equals,
    Item,
    Update,
    all_of,
    any_of,
)
from layover.values.runs.run import MAX_ATTEMPTS, TURN_EVENTS, Phase, RunSnapshot, Status
from layover.values.thread import ThreadHead

_NOT_ENDING = Differs("phase", Phase.ENDING.value)


class TableWriters:
    """`Writers`: takes runs for writers of one process."""

    def __init__(
        self,
        backing: Backing,
        *,
        heads: TableHeads,
        runs: TableRuns,
        audit: TableAudit,
        inbox: TableInbox,
    ) -> None:
        self._backing = backing
        self._table = backing.table
        self._heads = heads
        self._runs = runs
        self._audit = audit
        self._inbox = inbox

    async def acquire(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """See `ports.Writers`. Fenced: another writer took the run while this one caught up with its log."""
        try:
            may_begin = all_of(
                Equals("execution", execution), Below("attempts", MAX_ATTEMPTS), _NOT_ENDING
            )
            return await self._take(owner, run_id, Phase.TURN, may_begin)
        except ConditionFailed as failure:
            old = failure.old
            if old and _is_ending(old):
                return None
            if old and old["status"] == "running" and old.get("execution") == execution:
                raise AttemptsUsedUp(
                    f"{MAX_ATTEMPTS} attempts made no step", run_id=run_id
                ) from failure
            if old and Status(old["status"]).over:
                # The writer that ended the run may have died before it sent the end. A line that no longer
                # exists, or that has everything, gets nothing.
                self._backing.sink.notify(owner, run_id, old.get("sockets", ()))
            return None
        except Fenced:
            return None

    async def attach(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """See `ports.Writers`. Nothing is written, because branches that settle calls in parallel must not
        fence each other off. The epoch is that of the turn which left the run: its phase tells them from that
        turn's successors, and each call has its own condition."""
        snapshot = await self._runs.snapshot(owner, run_id)
        if snapshot is None or snapshot.meta.execution != execution:
            return None
        running = snapshot.meta.status == "running"
        return self._log_of(snapshot, is_branch=True) if running else None

    async def seize(self, owner: str, run_id: str, ended_by: int | None = None) -> RunLog | None:
        """See `ports.Writers`."""
        may_end = (
            _NOT_ENDING if ended_by is None else any_of(_NOT_ENDING, Equals("epoch", ended_by))
        )
        try:
            return await self._take(owner, run_id, Phase.ENDING, may_end)
        except ConditionFailed as failure:
            if failure.old and _is_ending(failure.old):
                raise BeingEnded(failure.old["epoch"]) from failure
            return None
        except Fenced:
            return None

    async def _take(self, owner: str, run_id: str, phase: Phase, when: Condition) -> RunLog:
        """Take a running run on this condition. Raises ConditionFailed, Fenced."""
        pk = Keys(owner).run(run_id)
        changes = {
            "updated_at": rfc3339(self._backing.clock.now()),
            "phase": phase.value,
            "branches": None,
        }
        # One write fences earlier writers, counts the attempt before any part of it can fail, and counts the
        # most that the turn may add to its execution's history.
        counts = {"epoch": 1, "attempts": 1, "history": TURN_EVENTS, "takes": 1}
        running = all_of(Equals("status", "running"), when)
        take = Update(pk, META, set=changes, add=counts, when=running)
        meta_item = await write_once(self._table, take, written_by(self._backing.dice))
        assert meta_item is not None
        # The records are read after the write, so they contain whatever a fenced writer managed to write. A
        # run's first writer finds no step and no event: no writer came before it.
        first = meta_item["epoch"] == 1
        snapshot, head = await asyncio.gather(
            self._records(owner, meta_item, first=first),
            self._heads.get(owner, meta_item["thread_id"]),
        )
        log = self._log_of(snapshot, next_seq=1 if first else None, head=head)
        await log.catch_up()
        return log

    async def _records(self, owner: str, meta_item: Item, *, first: bool) -> RunSnapshot:
        pk = meta_item["pk"]
        no_records = first and not meta_item.get("said")
        items = [] if no_records else await self._runs.records(pk)
        input_item = next((item for item in items if item["sk"] == INPUT), None)
        meta = await self._runs.meta_of(owner, meta_item, input_item)
        # The run is not over after an hour, and from now on TTL could delete records that it still needs.
        if meta.has_to_keep_records(self._backing.clock.now()):
            is_permanent = await keep_records(self._table, pk, self._backing.dice)
            meta = meta.model_copy(update={"records_kept": is_permanent})
        steps = [item for item in items if item["sk"] not in (INPUT, META)]
        return await self._runs.snapshot_of(meta, steps)

    def _log_of(
        self,
        snapshot: RunSnapshot,
        *,
        next_seq: int | None = None,
        head: ThreadHead | None = None,
        is_branch: bool = False,
    ) -> TableRunLog:
        return TableRunLog(
            self._backing,
            snapshot,
            audit=self._audit,
            inbox=self._inbox,
            runs=self._runs,
            next_seq=next_seq,
            head=head,
            is_branch=is_branch,
        )


def _is_ending(item: Item) -> bool:
    """Return whether somebody has seized the run to end it, and has not done so yet."""
    return bool(item["status"] == "running" and item.get("phase") == Phase.ENDING.value)
