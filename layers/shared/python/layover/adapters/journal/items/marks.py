"""Marks: items that lead to other items. A mark that leads to nothing does no harm."""

from datetime import datetime, timedelta

from layover.keys import mark_key
from layover.ports import Clock
from layover.ports.table import Put, Table

_AGAIN = timedelta(days=1)
"""A long-lived process writes its marks again after this time, because they expire."""


class Marks:
    """Marks. Each is written before the items that it leads to, and once per process and day, since many
    decisions share one."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._written_until: dict[tuple[str, str], datetime] = {}

    async def put(self, pk: str, name: str, retention: timedelta) -> None:
        """Write a mark that lives for `retention`."""
        now = self._clock.now()
        last = self._written_until.get((pk, name))
        if last is not None and last <= now < last + _AGAIN:
            return
        expires = int((now + retention + _AGAIN).timestamp())
        await self._table.write(Put(pk, mark_key(name), {"name": name, "expires": expires}))
        self._written_until[pk, name] = now

    async def names(self, pk: str, low: str = "", high: str = "~") -> list[str]:
        """Return the marks of a partition with low <= name <= high, in order."""
        now = int(self._clock.now().timestamp())
        items = await self._table.query(pk, mark_key(low), mark_key(high))
        return [str(item["name"]) for item in items if item["expires"] > now]
