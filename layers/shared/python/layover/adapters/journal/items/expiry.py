"""The expiry of a run's records (docs/saved-writes.md#expiry). They are written with an expiry, so that a run
which ends soon needs no further write for it. A run that takes longer removes the expiry again."""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from layover.adapters.journal.items.records import epoch_seconds
from layover.keys import EVENT_PREFIX, META, event_key
from layover.ports import Clock
from layover.ports.table import (
    Action,
    Check,
    ConditionFailed,
    Equals,
    Exists,
    Put,
    Table,
    TransactionFailed,
    Update,
)
from layover.values.runs.run import RECORDS_SLACK, RunMeta

MAX_WRITER = timedelta(minutes=16)
"""A function lives for 15 minutes."""
_PAGE = 25
_BESIDE = ("decision", "outcome", "votes")
_LOWEST, _HIGHEST = " ", "~"
_RUNNING = Equals("status", "running")


class RecordExpiry:
    """The expiry of the records that one writer makes. `kept`: no record of the run will expire; `alone`: all
    records are this writer's, and none refers to S3."""

    def __init__(self, meta: RunMeta, pk: str, clock: Clock) -> None:
        self._pk = pk
        self._clock = clock
        self._meta = meta
        self._expires = None if meta.records_kept else epoch_seconds(meta.records_expire_at)
        self.alone = meta.epoch == 1
        self.kept = self._expires is None

    def with_expiry(self, actions: Sequence[Action]) -> list[Action]:
        """Return the actions, with its expiry on each record of the run."""
        return [
            self.put(each) if isinstance(each, Put) and each.pk == self._pk else each
            for each in actions
        ]

    def put(self, put: Put) -> Put:
        """Return a record with its expiry."""
        self.note(put.item)
        if not self._soon():
            return put
        return replace(put, item={**put.item, "expires": self._expires})

    def note(self, item: Mapping[str, Any]) -> None:
        """Note a record. If it refers to S3, its object does not expire with it: TTL knows nothing of S3."""
        self.alone = self.alone and not is_in_s3(item)

    def covers(self, expires: int) -> bool:
        """Return whether every record of the run, including one written while this writer lives, lives until
        then and not much longer."""
        late = self._meta.has_to_keep_records(self._clock.now() + MAX_WRITER)
        return self._soon() and not late and self.alone and is_near(self._expires, expires)

    def _soon(self) -> bool:
        """Return whether the run is still short enough for its records to have an expiry."""
        if self._meta.has_to_keep_records(self._clock.now()):
            self._expires = None
        return self._expires is not None

    async def keep(self, table: Table) -> None:
        """Remove the expiry from all records of the run before it waits; META then says so. No other write of
        this writer may be under way."""
        self._expires = None
        await _remove_expiry(table, self._pk)
        self.kept = True


async def keep_records(table: Table, pk: str, *, for_good: bool = False) -> bool:
    """Remove the expiry from the records of a run that is not over; META then says so. Return False if some
    are gone. `for_good`: no writer is left that writes records with an expiry."""
    whole = await _remove_expiry(table, pk)
    if whole:
        is_kept = {"records_kept": True, **({"records_expire": None} if for_good else {})}
        with suppress(ConditionFailed):
            await table.write(Update(pk, META, set=is_kept, when=_RUNNING))
    return whole


async def _remove_expiry(table: Table, pk: str) -> bool:
    """Remove the expiry in transactions that check META: the end of the run may set another expiry meanwhile,
    which has to stay."""
    low, next_start, whole = _LOWEST, 1, True
    while items := await table.query(pk, low, _HIGHEST, limit=_PAGE):
        for batch in (item for item in items if item["sk"].startswith(EVENT_PREFIX)):
            whole = whole and batch["sk"] == event_key(next_start)
            next_start += batch["count"]
        low = items[-1]["sk"] + " "
        expiring = [i["sk"] for i in items if "expires" in i and i["sk"] != META]
        updates = [Update(pk, sk, set={"expires": None}, when=Exists("expires")) for sk in expiring]
        if not updates:
            continue
        try:
            await table.transact([Check(pk, META, _RUNNING), *updates], secrets.token_hex(16))
        except TransactionFailed as failure:
            whole = False
            if 0 in failure.failed:
                break
    return whole


def is_near(expires: int | None, expiry: int) -> bool:
    """Return whether a record that expires then needs no other time."""
    return expires is not None and 0 <= expires - expiry <= RECORDS_SLACK.total_seconds()


def is_in_s3(item: Mapping[str, Any]) -> bool:
    """Return whether part of the item is in S3: its body, or a value beside it."""
    return "blob" in item or any(isinstance(item.get(name), list) for name in _BESIDE)
