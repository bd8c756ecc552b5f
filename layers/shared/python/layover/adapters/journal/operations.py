"""Operators' actions (`ports.Operations`): a row before each action, which then says what came of it; and the
switch."""

from contextlib import suppress
from datetime import date, timedelta

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.day_rows import DayRows
from layover.clock import rfc3339
from layover.keys import OPERATIONS, SWITCH, audit_partition
from layover.ports.table import ConditionFailed, Delete, Exists, Item, Missing, Put, Update
from layover.values.page import Page
from layover.values.runs.operations import OperationOutcome, OperationRow, Switch


class TableOperations:
    """`Operations`: rows by UTC day, next to those of the audit. `retention`: the life of a row."""

    def __init__(self, backing: Backing, retention: timedelta) -> None:
        self._table = backing.table
        self._rows = DayRows(backing, OPERATIONS, OperationRow, retention)

    async def open(self, row: OperationRow) -> str:
        """See `ports.Operations`."""
        put = await self._rows.put(row, _subject(row), row.at)
        await self._table.write(put)
        return put.sk

    async def close(
        self, row: OperationRow, key: str, outcome: OperationOutcome, problem: str | None = None
    ) -> None:
        """See `ports.Operations`."""
        ended = row.model_copy(update={"outcome": outcome, "problem": problem})
        pk = audit_partition(OPERATIONS, rfc3339(row.at)[:10], _subject(row))
        change = {"row": ended.model_dump_json()}
        with suppress(ConditionFailed):
            await self._table.write(Update(pk, key, set=change, when=Exists("pk")))

    async def page_actions(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[OperationRow]:
        """See `ports.Operations`."""
        return await self._rows.page(since, until, limit, cursor)

    async def switch(self) -> Switch:
        """See `ports.Operations`. Whatever the item contains, everything is stopped: it may be written by
        hand."""
        return _switch_of(await self._table.get(SWITCH, SWITCH))

    async def stop(self, switch: Switch) -> Switch:
        """See `ports.Operations`."""
        item = {"switch": switch.model_dump_json()}
        try:
            await self._table.write(Put(SWITCH, SWITCH, item, when=Missing("pk")))
        except ConditionFailed as failure:
            # Another operator was first, or a repeated write of this one.
            return _switch_of(failure.old)
        return switch

    async def start(self) -> None:
        """See `ports.Operations`."""
        await self._table.write(Delete(SWITCH, SWITCH))


def _subject(row: OperationRow) -> str:
    """Return what tells rows of the same moment apart: the run, or the kind of an action without one."""
    return row.run_id or row.operation.value


def _switch_of(item: Item | None) -> Switch:
    if item is None:
        return Switch(stopped=False)
    facts = item.get("switch")
    return Switch.model_validate_json(facts) if facts else Switch(stopped=True)
