"""Messages about calls, and the links in them (`ports.channels`), in the partition of their run: whatever
erases the run, or gives its records a time to live, has them too."""

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from layover.adapters.once import write_once, written_by
from layover.clock import rfc3339
from layover.dice import SYSTEM_DICE
from layover.errors import NotFound, RetryableError
from layover.keys import META, Keys, can_be_id, link_key, run_partition, told_key
from layover.ports import Clock, Dice
from layover.ports.channels import Claim, Delivery, Link
from layover.ports.table import (
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
)
from layover.values.channels import Address
from layover.values.decision import WAIT_RECORD_LIFE

CLAIMED = timedelta(minutes=1)
"""The time that a sender has, after which another may send."""
_HIGHEST = "~"
_OWNER_HASH = re.compile(r"[0-9a-f]{32}")


class TableDeliveries:
    """`Deliveries`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(self, table: Table, clock: Clock, dice: Dice = SYSTEM_DICE) -> None:
        self._table = table
        self._clock = clock
        self._dice = dice

    async def claim(
        self, owner: str, run_id: str, call: str, id: str, address: Address
    ) -> Claim | Delivery:
        """See `ports.channels.Deliveries`."""
        pk, now = Keys(owner).run(run_id), self._clock.now()
        until = rfc3339(now + CLAIMED)
        place = {"channel": address.channel, "to": address.to}
        item = {"id": id, **place, "claimed_until": until}
        key = told_key(call, id)
        try:
            await _put(self._table, Put(pk, key, item), run_id, now, self._dice)
        except TransactionFailed as failure:
            # The run's own condition is not the one that failed: its record was read a moment ago.
            old = failure.failed.get(1)
        else:
            return Claim(unsure=False, until=until)
        if old is not None and "sent_at" in old:
            return _read(old)
        if old is None or old["claimed_until"] > rfc3339(now):
            raise RetryableError("another process sends this message", run_id=run_id)
        over = all_of(Equals("claimed_until", old["claimed_until"]), Missing("sent_at"))
        claimed = {"claimed_until": until, "free": False}
        try:
            claim = Update(pk, key, set=claimed, when=over)
            await write_once(self._table, claim, written_by(self._dice))
        except ConditionFailed as failure:
            raise RetryableError("another process sends this message", run_id=run_id) from failure
        return Claim(unsure=not old.get("free", False), until=until)

    async def give_back(self, owner: str, run_id: str, call: str, id: str, claim: Claim) -> None:
        """See `ports.channels.Deliveries`."""
        free = {"claimed_until": rfc3339(self._clock.now()), "free": not claim.unsure}
        mine = Equals("claimed_until", claim.until)
        await self._change((Keys(owner).run(run_id), told_key(call, id)), free, mine)

    async def note_sent(self, owner: str, run_id: str, call: str, id: str, reference: str) -> None:
        """See `ports.channels.Deliveries`. A record that was erased meanwhile does not come back."""
        note = {"sent_at": rfc3339(self._clock.now()), "reference": reference or None}
        await self._change((Keys(owner).run(run_id), told_key(call, id)), note, Exists("pk"))

    async def of_call(self, owner: str, run_id: str, call: str) -> list[Delivery]:
        """See `ports.channels.Deliveries`."""
        low = told_key(call, "")
        items = await self._table.query(Keys(owner).run(run_id), low, low + _HIGHEST)
        return [_read(item) for item in items]

    async def _change(
        self, place: tuple[str, str], values: dict[str, Any], when: Condition
    ) -> None:
        """Change the record of a message that nobody has noted as sent, if this holds."""
        first = all_of(when, Missing("sent_at"))
        with suppress(ConditionFailed):
            await self._table.write(Update(*place, set=values, when=first))


class TableDecisionLinks:
    """`DecisionLinks`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(self, table: Table, clock: Clock, dice: Dice = SYSTEM_DICE) -> None:
        self._table = table
        self._clock = clock
        self._dice = dice

    async def put_link(self, secret: str, link: Link) -> None:
        """See `ports.channels.DecisionLinks`."""
        pk, now = Keys(link.owner).run(link.run_id), self._clock.now()
        item = {"b": link.model_dump_json()}
        await _put(self._table, Put(pk, link_key(secret), item), link.run_id, now, self._dice)

    async def get_link(self, owner_hash: str, run_id: str, secret: str) -> Link | None:
        """See `ports.channels.DecisionLinks`."""
        if not _OWNER_HASH.fullmatch(owner_hash) or not can_be_id(run_id):
            return None
        item = await self._table.get(run_partition(owner_hash, run_id), link_key(secret))
        return None if item is None else Link.model_validate_json(item["b"])


async def _put(table: Table, record: Put, run_id: str, now: datetime, dice: Dice) -> None:
    """Add a record to a run that is there. Raises NotFound, TransactionFailed (the record is there)."""
    missing = NotFound("there is no such run", run_id=run_id)
    meta = await table.get(record.pk, META)
    if meta is None:
        raise missing
    # The end of the run sets the time to live of all its records. It does not see one that comes later.
    expires = meta.get("expires") or int((now + WAIT_RECORD_LIFE).timestamp())
    there = Check(record.pk, META, Exists("pk"))
    put = replace(record, item={**record.item, "expires": expires}, when=Missing("pk"))
    try:
        await table.transact([there, put], dice.hex(16))
    except TransactionFailed as failure:
        if 0 in failure.failed:
            raise missing from None
        raise


def _read(item: Item) -> Delivery:
    return Delivery.model_validate(
        {
            "id": item["id"],
            "address": {"channel": item["channel"], "to": item["to"]},
            "sent_at": item.get("sent_at"),
            "reference": item.get("reference", ""),
            "is_free": item.get("free", False),
        }
    )
