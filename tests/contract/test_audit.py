"""The audit of decisions: written with them, and there when runs, threads and users are gone. In memory and
on DynamoDB, where other owners' rows lie beside these."""

import hashlib
import json
from datetime import date, timedelta

import pytest

from layover.adapters.journal.journal import table_journal
from layover.errors import DecisionAlreadyMade, Fenced, InvalidRequest
from layover.values.runs.audit import AuditRow
from layover.values.runs.run import DecisionKind, Via
from support.worlds.journal import JournalBench, settled

A_DAY = timedelta(days=1)
pytestmark = pytest.mark.both_stores


async def rows(
    world: JournalBench, since: date | None = None, until: date | None = None, size: int = 3
) -> list[AuditRow]:
    """This owner's, page by page."""
    found: list[AuditRow] = []
    cursor = None
    while True:
        page = await world.journal.audit.page_rows(since, until, size, cursor)
        assert len(page.items) <= size
        found += page.items
        if (cursor := page.next_cursor) is None:
            return [row for row in found if row.owner == world.owner]


async def names(
    world: JournalBench, since: date | None = None, until: date | None = None
) -> list[str]:
    return [row.tool_call_id for row in await rows(world, since, until)]


async def test_a_decision_that_lost_is_not_in_the_audit(world: JournalBench) -> None:
    [call] = await world.waiting(await world.taken(), "c1")
    await world.decide(call)
    with pytest.raises(DecisionAlreadyMade):
        await world.decide(call, kind=DecisionKind.DENIED)
    assert [row.decision for row in await rows(world)] == ["approved"]


async def test_a_call_that_was_decided_is_not_cancelled_in_the_audit(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    await world.decide(call)
    cut = world.decision(DecisionKind.CANCELLED, via=Via.SYSTEM)
    with pytest.raises(Fenced):
        await log.cancel_calls([settled(call).model_copy(update={"decision": cut})])
    assert [row.decision for row in await rows(world)] == ["approved"]


async def test_a_cursor_of_another_list_leads_nowhere(world: JournalBench) -> None:
    with pytest.raises(InvalidRequest):
        await world.journal.audit.page_rows(None, None, 9, "A#x")


async def test_a_row_says_who_decided_what_and_holds_no_arguments(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    world.tick(5)
    args = {"b": "\u00e4", "a": 1.5}
    decision = world.decision(
        decided_by="shop", on_behalf_of="bob", reason="fine", args=args, exact_args=args
    )
    await world.decided(call, decision)
    [row] = await rows(world)
    assert call.suspension is not None
    text = json.dumps({"a": 1.5, "b": "\u00e4"}, ensure_ascii=False, separators=(",", ":"))
    assert row.model_dump() == {
        "run_id": call.run_id,
        "thread_id": log.snapshot.meta.thread_id,
        "agent": "support",
        "owner": world.owner,
        "tool_call_id": "c1",
        "tool_name": "refund",
        "decision": "approved",
        "settled": True,
        "decided_by": "shop",
        "on_behalf_of": "bob",
        "reason": "fine",
        "via": "api",
        "args_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "changed": True,
        "requested_at": call.suspension.requested_at,
        "decided_at": world.clock.now(),
    }


async def test_what_a_cancelled_run_cut_off_is_in_the_audit(world: JournalBench) -> None:
    log = await world.taken()
    calls = await world.waiting(log, "c1", "c2")
    cut = world.decision(DecisionKind.CANCELLED, via=Via.SYSTEM)
    await log.cancel_calls([settled(c).model_copy(update={"decision": cut}) for c in calls])
    assert sorted((r.tool_call_id, r.decision, r.via) for r in await rows(world)) == [
        ("c1", "cancelled", "system"),
        ("c2", "cancelled", "system"),
    ]


async def test_days_are_listed_in_order_and_both_ends_are_included(world: JournalBench) -> None:
    log = await world.taken()
    calls = await world.waiting(log, *(f"c{n}" for n in range(8)))
    first = world.clock.now().date()
    for n, call in enumerate(calls):
        await world.decide(call)
        world.tick(1 if n % 2 == 0 else A_DAY.total_seconds())
    assert await names(world) == [f"c{n}" for n in range(8)]
    assert await names(world, first + A_DAY, first + 2 * A_DAY) == ["c2", "c3", "c4", "c5"]
    assert await names(world, None, first) == ["c0", "c1"]
    assert await names(world, first + 3 * A_DAY) == ["c6", "c7"]
    assert await names(world, first + 9 * A_DAY) == []


async def test_a_row_outlives_the_run_and_the_thread(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    await world.decide(call)
    thread_id = log.snapshot.meta.thread_id
    await world.end(await world.join(call.run_id))
    await world.journal.erasure.mark_deleted(world.owner, thread_id)
    await world.journal.erasure.erase_runs(world.owner, thread_id)
    await world.journal.erasure.erase_late(world.owner, thread_id)
    assert await world.journal.runs.get(world.owner, call.run_id) is None
    assert await names(world) == ["c1"]


async def test_a_row_goes_when_its_time_is_over_however_late_the_table_deletes(
    world: JournalBench,
) -> None:
    [call] = await world.waiting(await world.taken(), "c1")
    brief = table_journal(world.table, world.blobs, world.clock, audit_retention=timedelta(days=10))
    await brief.decisions.decide(await world.run(call.run_id), call, world.decision())
    world.tick(timedelta(days=10).total_seconds() - 1)
    assert await names(world) == ["c1"]
    world.tick(1)
    assert await names(world) == []
