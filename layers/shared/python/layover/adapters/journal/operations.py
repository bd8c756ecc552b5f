"""Operators' actions (`ports.Operations`): a row before each action, which then says what came of it."""

from contextlib import suppress
from datetime import date, timedelta

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.day_rows import DayRows
from layover.clock import rfc3339
from layover.keys import OPERATIONS, audit_partition
from layover.ports.table import ConditionFailed, Exists, Update
from layover.values.page import Page
from layover.values.runs.operations import OperationOutcome, OperationRow


class TableOperations:
    """`Operations`: rows by UTC day, next to those of the audit. `retention`: the life of a row."""

    def __init__(self, backing: Backing, retention: timedelta) -> None:
        self._table = backing.table
        self._rows = DayRows(backing, OPERATIONS, OperationRow, retention)

    async def open(self, row: OperationRow) -> str:
        """See `ports.Operations`."""
        put = await self._rows.put(row, row.run_id, row.at)
        await self._table.write(put)
        return put.sk

    async def close(
        self, row: OperationRow, key: str, outcome: OperationOutcome, problem: str | None = None
    ) -> None:
        """See `ports.Operations`."""
        ended = row.model_copy(update={"outcome": outcome, "problem": problem})
        pk = audit_partition(OPERATIONS, rfc3339(row.at)[:10], row.run_id)
        change = {"row": ended.model_dump_json()}
        with suppress(ConditionFailed):
            await self._table.write(Update(pk, key, set=change, when=Exists("pk")))

    async def page_actions(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[OperationRow]:
        """See `ports.Operations`."""
        return await self._rows.page(since, until, limit, cursor)
