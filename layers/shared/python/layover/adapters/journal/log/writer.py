"""The writes of one writer of a run: every fact in one transaction with its events, one after another.

Three things may make such a transaction fail, and the action that failed tells which: another writer took the
run or the call (`Fenced`: this writer stops), another writer's batch is at our seq (renumber, and try again),
or a connection began to follow the run (learn of it, and try again)."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from layover.adapters.journal.expiry import RecordExpiry
from layover.adapters.journal.followers.watchers import Watchers
from layover.adapters.journal.log.events import MAX_BATCH, EventLog
from layover.adapters.once import write_once
from layover.errors import Fenced
from layover.futures import retrieve_exception
from layover.keys import EVENT_PREFIX, META, Keys, event_key
from layover.ports import Dice
from layover.ports.table import (
    Action,
    Check,
    ConditionFailed,
    Item,
    Put,
    Table,
    TransactionFailed,
)
from layover.values.runs.event import Event
from layover.values.runs.run import CallRecord, RunMeta


class TtlNotSet(Exception):
    """The run needs a look after its end, because a socket follows it or it has objects in S3."""


@dataclass(frozen=True)
class _Doubt:
    """A batch whose write had no answer: it may be in the log, or not. Its first `emitted` events are still
    kept, as the oldest that are to be written."""

    seq: int
    body_id: str
    emitted: int
    count: int
    last: bool


class LogWriter:
    """Writes facts and events under the epoch of `meta`. `next_seq`: the next free seq, if it is known."""

    def __init__(
        self,
        table: Table,
        meta: RunMeta,
        *,
        log: EventLog,
        expiry: RecordExpiry,
        watchers: Watchers,
        next_seq: int | None,
        dice: Dice,
    ) -> None:
        self._table = table
        self._dice = dice
        self._log = log
        self._run_id, self._epoch = meta.id, meta.epoch
        self._pk = Keys(meta.owner).run(meta.id)
        self._expiry = expiry
        self._watchers = watchers
        # None: unknown, or known to be wrong. The tail of the log is then read before the next batch.
        self._next_seq = next_seq
        # Tools emit from other threads. Single operations of a deque are atomic.
        self._emitted: deque[Event] = deque()
        self._begun: asyncio.Task[None] | None = None
        # Whether this writer has found no event: what it emits begins the run.
        self._begins = False
        self._doubt: _Doubt | None = None
        # Facts of parallel calls are written one after another, so that their events have one order.
        self._writing = asyncio.Lock()

    def emit(self, *events: Event) -> None:
        """Add events. They become durable with the next fact or `flush`."""
        self._emitted.extend(events)

    async def look(self) -> Item:
        """Return the present META. Raises Fenced if another writer took the run, or it is over."""
        item = await self._table.get(self._pk, META)
        if item is None or item["epoch"] != self._epoch or item["status"] != "running":
            raise Fenced("another attempt holds the run", run_id=self._run_id)
        self._watchers.update(item)
        return item

    async def keep_records(self) -> None:
        """Remove the expiry from the records of the run, if they have one."""
        # In turn with the writes, because a record written at the same time would keep its expiry.
        async with self._writing:
            await self._settle_earlier()
            if not self._expiry.kept:
                await self._expiry.keep(self._table)

    async def has_begun(self) -> bool:
        """Return whether the run has any event yet."""
        if self._next_seq is None:
            await self._find_tail()
        self._begins = self._next_seq == 1
        return not self._begins

    async def flush(self) -> bool:
        """Write the events emitted so far, if this writer still holds the run. Raises Fenced otherwise.
        Return False if there were none, and no other write was under way."""
        # A write under way has drained the earlier events, so they are written once that write is done.
        if not self._emitted and not self._writing.locked():
            return False

        async def flush() -> None:
            async with self._writing:
                await self._settle_earlier()
                emitted = self._drain()
                if not emitted:
                    return
                try:
                    await self._shorten(emitted)
                    await self._put_batch(emitted)
                    self._watchers.notify_connections()
                except BaseException:
                    self._emitted.extendleft(reversed(emitted))
                    raise

        await run_to_end(flush())
        return True

    async def write(
        self,
        facts: list[Action],
        events: Sequence[Event] = (),
        *,
        last: bool = False,
        sets_ttl: bool = False,
    ) -> None:
        """Write facts, the events emitted before them and `events`, in this order. `last`: the log is closed
        with them. `sets_ttl`: the facts retire the run. Raises Fenced, TtlNotSet, and TransactionFailed if a
        condition on anything but the run fails."""

        async def write() -> None:
            async with self._writing:
                await self._settle_earlier()
                # Drained in turn, not before, because the previous write may give its events back.
                await self._write_batch(self._drain(), facts, events, last=last, sets_ttl=sets_ttl)

        await run_to_end(write())

    async def begin(self, facts: list[Action], events: Sequence[Event]) -> None:
        """Begin to write the end of a call, and return while the write is under way. Events emitted from now
        on come after `events`, and nothing is written after it if it fails. `wait` raises its error.

        The record is put without its events, because they follow from it: they go with the next write, and
        the record's `log_seq` tells a later writer where to look for them."""
        await self._writing.acquire()
        try:
            await self._settle_earlier()
        except BaseException:
            self._writing.release()
            raise
        # No other task runs until this task has the events that it writes, so that no event falls behind a
        # later one.
        match facts:
            # A batch is written whole, so the log has all of these events or none of them.
            case [Put() as call] if (
                self._next_seq and len(self._emitted) + len(events) <= MAX_BATCH
            ):
                self._emitted.extend(events)
                item = {**call.item, "log_seq": self._next_seq}
                record = Put(call.pk, call.sk, item, call.when)
                writing: Coroutine[Any, Any, None] = self._put_alone(record)
            case _:
                # Without a known seq a successor could not look for the events, so they go with the record.
                writing = self._write_batch(
                    self._drain(), facts, events, last=False, sets_ttl=False
                )

        async def write_and_release() -> None:
            try:
                await writing
            finally:
                self._writing.release()

        # The lock passes to the task, so that the next write, and each batch of deltas, waits for this
        # record.
        self._begun = asyncio.create_task(write_and_release())

    async def _put_alone(self, call: Put) -> None:
        # A plain put without META suffices: the call's own condition names its opener, and no other writer
        # settles a call in this writer's name.
        own = {name: call.item[name] for name in ("state", "opener")}
        try:
            await write_once(self._table, self._expiry.put(call), own)
        except ConditionFailed as failure:
            raise Fenced("another attempt closed the call", run_id=self._run_id) from failure

    async def log_end(self, call: CallRecord, events: Sequence[Event], fence: Check) -> None:
        """Write the events of a call's end, if its writer died before it did. Raises Fenced."""
        assert call.log_seq is not None
        body = await self._log.body(list(events))
        async with self._writing:
            await self._settle_earlier()
            while True:
                self._next_seq = await self._log.seq_for_end(call.tool_call_id, call.log_seq)
                if self._next_seq is None:
                    return None
                # That writer may still be alive and write them at the same place, in which case they collide.
                # The fence ensures that of two successors only the one that holds the run writes them.
                put = self._log.batch(body, self._next_seq)
                try:
                    await self._attempt([fence, put], sets_ttl=False)
                except TransactionFailed as failure:
                    if set(failure.failed) != {1}:
                        raise
                    continue
                self._next_seq += len(events)
                return self._watchers.notify_connections()

    async def wait(self) -> None:
        """Wait for the write that `begin` started, if there is one. Raises what `write` raises."""
        if self._begun is not None:
            await run_to_end(self._begun)

    async def _settle_earlier(self) -> None:
        """Raise the error of the write that `begin` started, under the lock, so that it is done: the journal
        lacks a result that the model has read since, and nothing may follow from it. Then find out whether
        the batch whose answer was lost is in the log: its events would stand there twice."""
        if self._begun is not None:
            self._begun.result()
        doubt = self._doubt
        if doubt is None:
            return
        item = await self._table.get(self._pk, event_key(doubt.seq))
        # If it is not there, it comes no more: the next batch takes its place, or somebody else has.
        if item is not None and item.get("id") == doubt.body_id:
            for _ in range(doubt.emitted):
                self._emitted.popleft()
            self._next_seq = None if doubt.last else doubt.seq + doubt.count
        self._doubt = None

    def _drain(self) -> list[Event]:
        """Remove and return the events emitted so far, one by one, because tools emit from other threads at
        the same time."""
        return [self._emitted.popleft() for _ in range(len(self._emitted))]

    async def _shorten(self, emitted: list[Event]) -> None:
        """Put the oldest events as separate batches, until the rest fits into one."""
        while len(emitted) > MAX_BATCH:
            await self._put_batch(emitted[:MAX_BATCH])
            # Events leave the list only when they are put. The rest goes back if a later write fails.
            del emitted[:MAX_BATCH]

    async def _put_batch(self, batch: list[Event]) -> None:
        """Put a batch of deltas. Deltas state no fact, and a plain put costs half as much as a
        transaction."""
        body = await self._log.body(batch)
        while True:
            if self._next_seq is None:
                # A put has no fence. The batch at its seq may be a successor's, and this writer must not go
                # on behind it.
                await self.look()
                await self._find_tail()
            assert self._next_seq is not None
            try:
                put = self._log.batch(body, self._next_seq)
                with self._doubted(body, len(batch), len(batch)):
                    await write_once(self._table, self._expiry.put(put), {"id": body["id"]})
                self._next_seq += len(batch)
                return
            except ConditionFailed as failure:
                self._renumber(failure)

    async def _write_batch(
        self,
        emitted: list[Event],
        facts: list[Action],
        events: Sequence[Event],
        *,
        last: bool,
        sets_ttl: bool,
    ) -> None:
        """Write facts with the batch of events that states them. A batch closes the log, even without events
        if necessary."""
        try:
            await self._shorten(emitted)
            batch = [*emitted, *events]
            if batch or last:
                await self._transact(
                    facts, batch, emitted=len(emitted), last=last, sets_ttl=sets_ttl
                )
            else:
                await self._attempt(facts, sets_ttl)
            if batch:
                # After the write, because a socket gets an event only once it is in the log.
                self._watchers.notify_connections()
        except BaseException:
            self._emitted.extendleft(reversed(emitted))
            raise

    async def _transact(
        self,
        facts: list[Action],
        batch: list[Event],
        *,
        emitted: int,
        last: bool,
        sets_ttl: bool,
    ) -> None:
        # The body may go to S3, but only once, because it does not contain its seq, which a collision
        # changes.
        body = await self._log.body(batch)
        self._expiry.note(body)
        if sets_ttl and not self._expiry.is_only_writer:
            raise TtlNotSet
        while True:
            if self._next_seq is None:
                # META need not be read, as in `_put_batch`, because the fence is among the facts.
                await self._find_tail()
            assert self._next_seq is not None
            try:
                put = self._log.batch(body, self._next_seq, last=last)
                with self._doubted(body, emitted, len(batch), last=last):
                    await self._attempt([*facts, put], sets_ttl)
                # After the last event no seq is free: a writer that goes on finds the log closed.
                self._next_seq = None if last else self._next_seq + len(batch)
                return
            except TransactionFailed as failure:
                # Only the batch is in the way. Nothing was written, and the same facts go to a later seq.
                if set(failure.failed) != {len(facts)}:
                    raise
                self._renumber(failure)

    def _renumber(self, failure: Exception) -> None:
        """Look for the tail before the next try, because another writer's batch is in the way. Raises Fenced
        if it is the log's first one, and this writer was to begin the run: it would begin twice."""
        if self._begins and self._next_seq == 1:
            raise Fenced("another attempt has begun the run", run_id=self._run_id) from failure
        self._next_seq = None

    @contextmanager
    def _doubted(
        self, body: dict[str, Any], emitted: int, count: int, *, last: bool = False
    ) -> Iterator[None]:
        """Note the batch that is written here as one in doubt, unless the journal says what became of it."""
        try:
            yield
        except (ConditionFailed, TransactionFailed, Fenced, TtlNotSet):
            raise
        except BaseException:
            assert self._next_seq is not None
            self._doubt = _Doubt(self._next_seq, body["id"], emitted, count, last)
            raise

    async def _attempt(self, actions: list[Action], sets_ttl: bool) -> None:
        """Make one transaction. Raises Fenced, TtlNotSet, TransactionFailed."""
        try:
            conditional = self._watchers.with_condition(self._expiry.with_expiry(actions))
            # The token lets DynamoDB recognise a request that was repeated because its answer was lost.
            await self._table.transact(conditional, self._dice.hex(16))
        except TransactionFailed as failure:
            if self._watchers.learn(actions, failure):
                if sets_ttl:
                    # The connection waits for the end, so the run may not leave the watch index yet.
                    raise TtlNotSet from failure
                return await self._attempt(actions, sets_ttl)
            # In the run's partition, another writer shows in META's epoch and phase, in a call's rev, and in
            # an existing step. A batch is only in the way; the caller handles HEAD and the queue's next run.
            if any(
                actions[i].pk == self._pk and not actions[i].sk.startswith(EVENT_PREFIX)
                for i in failure.failed
            ):
                raise Fenced("another attempt holds the run", run_id=self._run_id) from failure
            raise

    async def _find_tail(self) -> None:
        self._next_seq, is_closed = await self._log.tail()
        if is_closed:
            raise Fenced("the run is over", run_id=self._run_id)


async def run_to_end(write: Coroutine[Any, Any, None] | asyncio.Task[None]) -> None:
    """Wait for a write that has begun, even in a task that is being cancelled: its request may have arrived,
    and if it were not known to be done, its events would be written twice."""
    task = asyncio.ensure_future(write)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        retrieve_exception(task)  # Only the cancellation matters.
        raise
