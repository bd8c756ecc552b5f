"""The audit: a row for each vote and decision, by UTC day, written in the transaction that makes it."""

import asyncio
import secrets
from collections.abc import Iterable
from datetime import date, timedelta

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.items.index import check_cursor
from layover.adapters.journal.items.marks import Marks
from layover.clock import rfc3339
from layover.keys import AUDIT, audit_key, audit_partition, audit_partitions
from layover.ports.table import Action, Put
from layover.values.page import Page
from layover.values.runs.audit import AuditRow, rows_of_hooks
from layover.values.runs.run import CallRecord, RunMeta

_END = "~"
_PREFIX = f"{AUDIT}#"


class TableAudit:
    """`Audit`, and the rows that other parts write. `retention`: the life of a row."""

    def __init__(self, backing: Backing, retention: timedelta) -> None:
        self._table = backing.table
        self._clock = backing.clock
        self._retention = retention
        self._marks = Marks(backing.table, backing.clock)

    async def put(self, row: AuditRow) -> Put:
        """Mark the row's day, and return the write that adds the row to a transaction."""
        at = rfc3339(row.decided_at)
        day = at[:10]
        # Before the row, because a day without a mark is never read.
        await self._marks.put(AUDIT, day, self._retention)
        expires = int((row.decided_at + self._retention).timestamp())
        sk = audit_key(at, row.run_id, secrets.token_hex(8))
        item = {"row": row.model_dump_json(), "expires": expires}
        return Put(audit_partition(day, row.run_id), sk, item)

    async def hook_rows(self, run: RunMeta, calls: Iterable[CallRecord]) -> list[Action]:
        """Return the writes that add the rows of calls that are opened because hooks allowed them."""
        rows = rows_of_hooks(run, calls, self._clock.now())
        return [await self.put(row) for row in rows]

    async def page_rows(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[AuditRow]:
        """See `ports.Audit`. The cursor is the sort key before the page."""
        cursor = check_cursor(_PREFIX, cursor)
        # Begin with the day of the cursor's row, since earlier days have been read.
        first = cursor.removeprefix(_PREFIX)[:10] if cursor else ""
        low = max(first, since.isoformat() if since else "")
        days = await self._marks.names(AUDIT, low, until.isoformat() if until else _END)
        keyed_rows: list[tuple[str, str]] = []
        for day in days:
            keyed_rows += await self._day(day, cursor or "", limit + 1 - len(keyed_rows))
            if len(keyed_rows) > limit:
                break
        rows = tuple(AuditRow.model_validate_json(text) for _, text in keyed_rows[:limit])
        return Page(
            items=rows, next_cursor=keyed_rows[limit - 1][0] if len(keyed_rows) > limit else None
        )

    async def _day(self, day: str, after: str, limit: int) -> list[tuple[str, str]]:
        """Return sort keys and texts behind `after`. Expired rows are left out, because TTL deletes late."""
        now = int(self._clock.now().timestamp())
        partitions = audit_partitions(day)
        # A key and a blank are the first place behind the key.
        low, rows = after + " " if after else _PREFIX, []
        while True:
            pages = await asyncio.gather(
                *(self._table.query(p, low, _PREFIX + _END, limit=limit) for p in partitions)
            )
            items = sorted((i for page in pages for i in page), key=lambda i: str(i["sk"]))[:limit]
            rows += [(str(i["sk"]), str(i["row"])) for i in items if i["expires"] > now]
            if len(items) < limit or len(rows) >= limit:
                return rows[:limit]
            low = str(items[-1]["sk"]) + " "
