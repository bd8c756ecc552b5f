"""Rows by UTC day that outlive what they are about: the books of decisions and of operators' actions."""

import asyncio
from datetime import date, datetime, timedelta
from typing import Generic, TypeVar

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.items.index import check_cursor
from layover.adapters.journal.items.marks import Marks
from layover.clock import rfc3339
from layover.keys import audit_key, audit_partition, audit_partitions
from layover.ports.table import Put
from layover.values.base import Value
from layover.values.page import Page

_END = "~"
T = TypeVar("T", bound=Value)


class DayRows(Generic[T]):
    """The rows of one book (`AUDIT`, `OPERATIONS`). `retention`: the life of a row."""

    def __init__(self, backing: Backing, book: str, kind: type[T], retention: timedelta) -> None:
        self._table = backing.table
        self._clock = backing.clock
        self._dice = backing.dice
        self._book = book
        self._kind = kind
        self._retention = retention
        self._marks = Marks(backing.table, backing.clock)

    async def put(self, row: T, run_id: str, moment: datetime) -> Put:
        """Mark the row's day, and return the write of the row."""
        at = rfc3339(moment)
        day = at[:10]
        # Before the row, because a day without a mark is never read.
        await self._marks.put(self._book, day, self._retention)
        expires = int((moment + self._retention).timestamp())
        sk = audit_key(self._book, at, run_id, self._dice.hex(8))
        item = {"row": row.model_dump_json(), "expires": expires}
        return Put(audit_partition(self._book, day, run_id), sk, item)

    async def page(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[T]:
        """Return the rows of these days, the oldest first. The cursor is the sort key before the page."""
        prefix = f"{self._book}#"
        cursor = check_cursor(prefix, cursor)
        # Begin with the day of the cursor's row, since earlier days have been read.
        first = cursor.removeprefix(prefix)[:10] if cursor else ""
        low = max(first, since.isoformat() if since else "")
        days = await self._marks.names(self._book, low, until.isoformat() if until else _END)
        keyed_rows: list[tuple[str, str]] = []
        for day in days:
            keyed_rows += await self._day(day, cursor or "", limit + 1 - len(keyed_rows))
            if len(keyed_rows) > limit:
                break
        rows = tuple(self._kind.model_validate_json(text) for _, text in keyed_rows[:limit])
        return Page(
            items=rows, next_cursor=keyed_rows[limit - 1][0] if len(keyed_rows) > limit else None
        )

    async def _day(self, day: str, after: str, limit: int) -> list[tuple[str, str]]:
        """Return sort keys and texts behind `after`. Expired rows are left out, because TTL deletes late."""
        now = int(self._clock.now().timestamp())
        prefix, partitions = f"{self._book}#", audit_partitions(self._book, day)
        # A key and a blank are the first place behind the key.
        low, rows = after + " " if after else prefix, []
        while True:
            pages = await asyncio.gather(
                *(self._table.query(p, low, prefix + _END, limit=limit) for p in partitions)
            )
            items = sorted((i for page in pages for i in page), key=lambda i: str(i["sk"]))[:limit]
            rows += [(str(i["sk"]), str(i["row"])) for i in items if i["expires"] > now]
            if len(items) < limit or len(rows) >= limit:
                return rows[:limit]
            low = str(items[-1]["sk"]) + " "
