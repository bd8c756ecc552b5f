"""The expiry of a run's records (docs/saved-writes.md#expiry). They are written with an expiry, so that a run
that ends soon needs no further write for it. A run that takes longer removes the expiry again.

The records expire by TTL, which knows nothing of S3. S3 has no fitting lifecycle rule (a run may wait for a
year), so the sweeper looks at a run with objects in S3 when its records expire (`adapters.journal.sweep`)."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.items.places import place_in_lists
from layover.adapters.journal.items.records import epoch_seconds
from layover.keys import EVENT_PREFIX, META, POINTER, Keys, event_key, pointer_partition
from layover.ports import Clock, Dice, Dues
from layover.ports.table import (
    Action,
    Check,
    Condition,
    ConditionFailed,
    Equals,
    Exists,
    Item,
    Missing,
    Put,
    Table,
    TransactionFailed,
    Update,
    all_of,
    any_of,
)
from layover.values.runs.run import RECORDS_SLACK, RunMeta

MAX_WRITER = timedelta(minutes=16)
"""A function lives for 15 minutes."""
_PAGE = 25
_VALUES = frozenset({"decision", "outcome", "votes"})
_LOWEST, _HIGHEST = " ", "~"
_RUNNING = Equals("status", "running")


class TableExpiry:
    """`Expiry`: the time to live of a run's records, once the run is over."""

    def __init__(self, backing: Backing, dues: Dues) -> None:
        self._table = backing.table
        self._bodies = backing.bodies
        self._dues = dues
        self._dice = backing.dice

    async def set_ttl(
        self, owner: str, run_id: str, expires_at: datetime, paid: frozenset[str] = frozenset()
    ) -> None:
        """See `ports.Expiry`. META comes last: until then the run is in the watch, and whatever stops this
        is repeated.

        The items tell whether anything is in S3. Listing S3 would cost as much as eight writes. An object
        whose record was never written is deleted with its thread."""
        pk, low = Keys(owner).run(run_id), _LOWEST
        expires = int(expires_at.timestamp())
        thread_id, has_objects, place = None, False, dict[str, Any]()
        while items := await self._table.query(pk, low, _HIGHEST, limit=_PAGE):
            late = (i for i in items if i["sk"] != META and not is_near(i.get("expires"), expires))
            rest = [i["sk"] for i in late]
            await asyncio.gather(*(self._change(pk, sk, {"expires": expires}) for sk in rest))
            if any(i.get("pointed") for i in items):
                await self._change(pointer_partition(run_id), POINTER, {"expires": expires})
            if meta := next((i for i in items if i["sk"] == META), None):
                thread_id, place = meta["thread_id"], await self._place(meta)
            has_objects = has_objects or any(map(is_in_s3, items))
            low = items[-1]["sk"] + " "
        if has_objects and thread_id is not None:
            # Before META leaves the watch index, so that after a death in between this is repeated, and
            # nothing in S3 is forgotten.
            await self._dues.schedule(owner, "run", f"{thread_id}/{run_id}", expires_at)
        # A run that owes something stays in the watch until it is told.
        retired = Update(
            pk,
            META,
            set={"expires": expires, "untold": None, **place},
            exclude={"owed": paid} if paid else {},
            when=all_of(Exists("pk"), owes_at_most(paid)),
        )
        with suppress(ConditionFailed):
            await self._table.write(retired)

    async def _place(self, meta: Item) -> dict[str, Any]:
        """Return the attributes that move META from the sweeper's list to that of runs that are over."""
        packed = meta.get("outcome")
        outcome = None if packed is None else await self._bodies.unpack_value(packed)
        return place_in_lists(meta, outcome)

    async def keep_records(self, owner: str, run_id: str, *, for_good: bool = False) -> None:
        """See `ports.Expiry`."""
        await keep_records(self._table, Keys(owner).run(run_id), self._dice, for_good=for_good)

    async def _change(self, pk: str, sk: str, changes: dict[str, Any]) -> None:
        with suppress(ConditionFailed):
            await self._table.write(Update(pk, sk, set=changes, when=Exists("pk")))


class RecordExpiry:
    """The expiry of the records that one writer makes. `kept`: no record of the run will expire;
    `is_only_writer`: all records are this writer's, and none refers to S3."""

    def __init__(self, meta: RunMeta, pk: str, clock: Clock, dice: Dice) -> None:
        self._pk = pk
        self._dice = dice
        self._clock = clock
        self._meta = meta
        self._expires = None if meta.records_kept else epoch_seconds(meta.records_expire_at)
        self.is_only_writer = meta.epoch == 1 and not meta.said
        self.kept = self._expires is None

    def with_expiry(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions with the expiry on each record of the run."""
        return [
            self.put(each) if isinstance(each, Put) and each.pk == self._pk else each
            for each in actions
        ]

    def put(self, put: Put) -> Put:
        """Return a record with its expiry."""
        self.note(put.item)
        if not self._soon():
            return put
        return Put(put.pk, put.sk, {**put.item, "expires": self._expires}, put.when)

    def note(self, item: Mapping[str, Any]) -> None:
        """Note a record. If it refers to S3, its object does not expire with it, since TTL knows nothing of
        S3."""
        self.is_only_writer = self.is_only_writer and not is_in_s3(item)

    def covers(self, expires: int) -> bool:
        """Return whether every record of the run, including one written while this writer lives, lives until
        then and not much longer."""
        late = self._meta.has_to_keep_records(self._clock.now() + MAX_WRITER)
        return self._soon() and not late and self.is_only_writer and is_near(self._expires, expires)

    def _soon(self) -> bool:
        """Return whether the run is still short enough for its records to have an expiry."""
        if self._meta.has_to_keep_records(self._clock.now()):
            self._expires = None
        return self._expires is not None

    async def keep(self, table: Table) -> None:
        """Remove the expiry from all records of the run before it waits; META then says so. No other write of
        this writer may be under way."""
        self._expires = None
        await _remove_expiry(table, self._pk, self._dice)
        self.kept = True


async def keep_records(table: Table, pk: str, dice: Dice, *, for_good: bool = False) -> bool:
    """Remove the expiry from the records of a run that is not over; META then says so. Return False if some
    are gone. `for_good`: no writer is left that writes records with an expiry."""
    whole = await _remove_expiry(table, pk, dice)
    if whole:
        is_kept = {"records_kept": True, **({"records_expire": None} if for_good else {})}
        with suppress(ConditionFailed):
            await table.write(Update(pk, META, set=is_kept, when=_RUNNING))
    return whole


async def _remove_expiry(table: Table, pk: str, dice: Dice) -> bool:
    """Remove the expiry in transactions that check META: the end of the run may set another expiry meanwhile,
    which has to stay."""
    low, next_start, whole = _LOWEST, 1, True
    while items := await table.query(pk, low, _HIGHEST, limit=_PAGE):
        # A log has no gaps. One that begins late, or lacks a batch, shows that TTL was faster.
        for batch in (item for item in items if item["sk"].startswith(EVENT_PREFIX)):
            whole = whole and batch["sk"] == event_key(next_start)
            next_start += batch["count"]
        low = items[-1]["sk"] + " "
        expiring = [i["sk"] for i in items if "expires" in i and i["sk"] != META]
        updates = [Update(pk, sk, set={"expires": None}, when=Exists("expires")) for sk in expiring]
        if not updates:
            continue
        try:
            await table.transact([Check(pk, META, _RUNNING), *updates], dice.hex(16))
        except TransactionFailed as failure:
            # The run is over, and its end decides; or TTL has removed an item since the read.
            whole = False
            if 0 in failure.failed:
                break
    return whole


def owes_at_most(paid: frozenset[str]) -> Condition:
    """Return the condition that a run owes nothing once this is paid."""
    nothing = Missing("owed")
    return any_of(nothing, Equals("owed", paid)) if paid else nothing


def is_near(expires: int | None, expiry: int) -> bool:
    """Return whether a record with this expiry can keep it."""
    return expires is not None and 0 <= expires - expiry <= RECORDS_SLACK.total_seconds()


def is_in_s3(item: Mapping[str, Any]) -> bool:
    """Return whether part of the item is in S3: its body, or a value next to it."""
    return "blob" in item or any(isinstance(item[name], list) for name in _VALUES & item.keys())
