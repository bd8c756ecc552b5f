"""The audit: a row for each vote and decision, by UTC day, written in the transaction that makes it."""

from collections.abc import Iterable
from datetime import date, timedelta

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.day_rows import DayRows
from layover.keys import AUDIT
from layover.ports.table import Action, Put
from layover.values.page import Page
from layover.values.runs.audit import AuditRow, rows_of_hooks
from layover.values.runs.event import Event, ToolExecutionStart
from layover.values.runs.run import CallRecord, RunMeta


class TableAudit:
    """`Audit`, and the rows that other parts write. `retention`: the life of a row."""

    def __init__(self, backing: Backing, retention: timedelta) -> None:
        self._clock = backing.clock
        self._rows = DayRows(backing, AUDIT, AuditRow, retention)

    async def put(self, row: AuditRow) -> Put:
        """Mark the row's day, and return the write that adds the row to a transaction."""
        return await self._rows.put(row, row.run_id, row.decided_at)

    async def hook_rows(
        self, run: RunMeta, calls: Iterable[CallRecord], events: Iterable[Event]
    ) -> list[Action]:
        """Return the writes that add the rows of calls that are opened because hooks allowed them. `events`:
        those of their beginning."""
        starts = (event for event in events if isinstance(event, ToolExecutionStart))
        args = {start.tool_call_id: start.args for start in starts}
        rows = rows_of_hooks(run, calls, args, self._clock.now())
        return [await self.put(row) for row in rows]

    async def page_rows(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[AuditRow]:
        """See `ports.Audit`."""
        return await self._rows.page(since, until, limit, cursor)
