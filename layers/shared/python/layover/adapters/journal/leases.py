"""Leases (`ports.Leases`) in the journal's table: an item for each owner and kind, with a set of the leases
held. Taking a lease is one write, returning it another. A taker that finds the set full removes the oldest
expired lease: its holder may still be at work, and the others' holders go on."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from layover.keys import LEASES, Keys
from layover.ports.table import ConditionFailed, Exists, Shorter, Table, Update
from layover.values.lease import Lease, LeaseKind

RETENTION = timedelta(days=1)
"""An item outlives its newest lease by this time; DynamoDB's TTL then removes it."""


class TableLeases:
    """`Leases`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def take(self, lease: Lease, most: int, now: datetime) -> bool:
        """See `ports.Leases`. Of many at once, no more than `most` get one."""
        if most <= 0:
            # There is no set yet whose length the condition could compare.
            return False
        expires = int((lease.until + RETENTION).timestamp())
        add = Update(
            _partition(lease.owner),
            lease.kind.value,
            set={"expires": expires},
            include={"held": _element(lease)},
            when=Shorter("held", most),
        )
        while True:
            try:
                await self._table.write(add)
                return True
            except ConditionFailed as failure:
                elements = failure.old["held"] if failure.old else ()
            if _element(lease) in elements:
                # The set is full. A request that was repeated because its answer was lost has filled it.
                return True
            oldest = min(elements, key=_expiry, default=None)
            if oldest is None or _expiry(oldest) > now:
                return False
            await self._drop(lease.owner, lease.kind, oldest)

    async def has(self, lease: Lease) -> bool:
        """See `ports.Leases`."""
        item = await self._table.get(_partition(lease.owner), lease.kind.value) or {}
        return _element(lease) in item.get("held", ())

    async def release(self, lease: Lease) -> None:
        """See `ports.Leases`."""
        await self._drop(lease.owner, lease.kind, _element(lease))

    async def list_leases(
        self, owner: str | None, kind: LeaseKind, now: datetime
    ) -> tuple[Lease, ...]:
        """See `ports.Leases`."""
        item = await self._table.get(_partition(owner), kind.value) or {}
        leases = (
            Lease(owner, kind, element.partition("#")[2], _expiry(element))
            for element in item.get("held", ())
        )
        return tuple(lease for lease in leases if lease.until > now)

    async def _drop(self, owner: str | None, kind: LeaseKind, element: str) -> None:
        with suppress(ConditionFailed):
            await self._table.write(
                Update(
                    _partition(owner), kind.value, exclude={"held": element}, when=Exists("held")
                )
            )


def _partition(owner: str | None) -> str:
    return LEASES if owner is None else Keys(owner).leases


def _element(lease: Lease) -> str:
    """Return the lease as text, with whole seconds, so that a set of a hundred stays small."""
    return f"{int(lease.until.timestamp())}#{lease.id}"


def _expiry(element: str) -> datetime:
    return datetime.fromtimestamp(int(element.partition("#")[0]), UTC)
