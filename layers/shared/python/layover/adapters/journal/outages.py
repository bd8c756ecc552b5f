"""Outages (`ports.channels.Outages`), in a partition of their own: they have no owner."""

from datetime import timedelta

from layover.dice import SYSTEM_DICE
from layover.errors import NotFound
from layover.keys import META, OPERATORS, Keys, outage_key, told_key
from layover.ports import Clock, Dice
from layover.ports.channels import AlreadyCounted
from layover.ports.table import (
    Check,
    Equals,
    Exists,
    Missing,
    Put,
    Table,
    TransactionFailed,
)
from layover.values.decision import WAIT_RECORD_LIFE
from layover.values.outages import Outage

KEPT = timedelta(days=7)
"""The life of the record behind the newest failure."""


class TableOutages:
    """`Outages`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(self, table: Table, clock: Clock, dice: Dice = SYSTEM_DICE) -> None:
        self._table = table
        self._clock = clock
        self._dice = dice

    async def get(self, id: str) -> Outage | None:
        """See `ports.channels.Outages`."""
        item = await self._table.get(OPERATORS, outage_key(id))
        return None if item is None else Outage.model_validate_json(item["b"])

    async def keep(self, outage: Outage) -> bool:
        """See `ports.channels.Outages`."""
        try:
            await self._table.transact([self._put(outage)], self._dice.hex(16))
        except TransactionFailed:
            return False
        return True

    async def count_run(self, outage: Outage, owner: str, run_id: str) -> bool:
        """See `ports.channels.Outages`."""
        pk = Keys(owner).run(run_id)
        meta = await self._table.get(pk, META)
        if meta is None:
            raise NotFound("there is no such run", run_id=run_id)
        expires = meta.get("expires") or int((self._clock.now() + WAIT_RECORD_LIFE).timestamp())
        mark = Put(pk, told_key("", "outage"), {"expires": expires}, when=Missing("pk"))
        there = Check(pk, META, Exists("pk"))
        try:
            await self._table.transact([mark, there, self._put(outage)], self._dice.hex(16))
        except TransactionFailed as failure:
            if 0 in failure.failed:
                raise AlreadyCounted("the run is counted", run_id=run_id) from None
            if 1 in failure.failed:
                raise NotFound("there is no such run", run_id=run_id) from None
            return False
        return True

    def _put(self, outage: Outage) -> Put:
        """Return the write of an outage, on the condition that it is as it was read."""
        as_read = Equals("rev", outage.rev) if outage.rev else Missing("pk")
        newer = outage.model_copy(update={"rev": outage.rev + 1})
        expires = int((outage.last_at + KEPT).timestamp())
        item = {"b": newer.model_dump_json(), "rev": newer.rev, "expires": expires}
        return Put(OPERATORS, outage_key(outage.id), item, when=as_read)
