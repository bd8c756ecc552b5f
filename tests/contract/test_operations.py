"""Rows of what operators did: there before the effect, and when the run is gone. In memory and on DynamoDB,
where others' rows lie beside these."""

from datetime import timedelta
from typing import Any

import pytest

from layover.adapters.journal.journal import table_journal
from layover.errors import InvalidRequest
from layover.keys import SWITCH
from layover.ports.table import Delete, Put
from layover.values.runs.operations import (
    OperationKind,
    OperationOutcome,
    OperationRow,
    Switch,
)
from support.filled import filled, lost
from support.worlds.journal import JournalBench

pytestmark = pytest.mark.both_stores(in_every_tier=True)


def row(world: JournalBench, run_id: str = "run_1", **fields: Any) -> OperationRow:
    about = {"by": "olga", "run_id": run_id, "thread_id": "thread_1", "agent": "support"}
    standard = {**about, "operation": OperationKind.CANCEL, "owner": world.owner}
    return OperationRow.model_validate({**standard, "at": world.clock.now(), **fields})


async def rows(world: JournalBench, size: int = 3) -> list[OperationRow]:
    found: list[OperationRow] = []
    cursor = None
    while True:
        page = await world.journal.operations.page_actions(None, None, size, cursor)
        found += [each for each in page.items if each.owner == world.owner]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_cursor_of_the_decisions_leads_nowhere(world: JournalBench) -> None:
    with pytest.raises(InvalidRequest):
        await world.journal.operations.page_actions(None, None, 9, "AUDIT#2026-01-01")


async def test_row_is_pending_until_its_outcome_is_known(world: JournalBench) -> None:
    key = await world.journal.operations.open(row(world))
    assert [each.outcome for each in await rows(world)] == ["pending"]
    close = world.journal.operations.close
    await close(row(world), key, OperationOutcome.REFUSED, "Conflict")
    [one] = await rows(world)
    assert (one.outcome, one.problem) == ("refused", "Conflict")


async def test_rows_are_in_order_and_each_is_there_once(world: JournalBench) -> None:
    for n in range(7):
        world.clock.advance(timedelta(hours=7))
        await world.journal.operations.open(row(world, f"run_{n}"))
    assert [each.run_id for each in await rows(world)] == [f"run_{n}" for n in range(7)]


async def test_row_is_not_among_the_decisions(world: JournalBench) -> None:
    await world.journal.operations.open(row(world))
    page = await world.journal.audit.page_rows(None, None, 50, None)
    assert [each for each in page.items if each.owner == world.owner] == []


async def test_rows_without_a_run_are_beside_the_others(world: JournalBench) -> None:
    about: dict[str, Any] = {"run_id": None, "thread_id": None, "agent": None}
    erased = row(world, operation=OperationKind.ERASE, **about)
    key = await world.journal.operations.open(erased)
    await world.journal.operations.open(row(world))
    await world.journal.operations.close(erased, key, OperationOutcome.DONE)
    assert {(each.operation.value, each.outcome.value) for each in await rows(world)} == {
        ("erase", "done"),
        ("cancel", "pending"),
    }


async def test_no_field_of_a_row_is_lost(world: JournalBench) -> None:
    full = filled(OperationRow, owner=world.owner, at=world.clock.now())
    key = await world.journal.operations.open(full)
    await world.journal.operations.close(full, key, full.outcome, full.problem)
    [back] = await rows(world)
    assert not lost(full, back)


async def test_row_lives_as_long_as_those_of_decisions(world: JournalBench) -> None:
    brief = table_journal(world.table, world.blobs, world.clock, audit_retention=timedelta(days=10))
    key = await brief.operations.open(row(world))
    await brief.operations.close(row(world), key, OperationOutcome.DONE)
    world.clock.advance(timedelta(days=9))
    assert len(await rows(world)) == 1
    world.clock.advance(timedelta(days=2))
    assert await rows(world) == []


# The switch. It has no owner: on DynamoDB, tests side by side share it, so one test does everything.


async def test_switch_keeps_who_turned_it_first_until_somebody_turns_it_back(
    world: JournalBench,
) -> None:
    operations, now = world.journal.operations, world.clock.now()
    await operations.start()
    assert await operations.switch() == Switch(stopped=False)
    first = Switch(stopped=True, by="olga", reason="outage", since=now)
    assert await operations.stop(first) == first
    second = Switch(stopped=True, by="oscar", reason="other", since=now)
    assert await operations.stop(second) == first
    assert await operations.switch() == first
    await operations.start()
    assert await operations.switch() == Switch(stopped=False)
    # Whatever the item contains, as allowances read it.
    await world.table.write(Put(SWITCH, SWITCH, {}))
    assert await operations.switch() == Switch(stopped=True)
    await world.table.write(Delete(SWITCH, SWITCH))
