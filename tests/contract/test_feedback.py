"""What users think of their runs, in the journal: one for each run, which goes with its thread."""

from datetime import timedelta
from typing import Any

import pytest

from layover.adapters.journal.journal import table_journal
from layover.values.runs.feedback import RunFeedback
from support.filled import filled, lost
from support.worlds.journal import JournalBench, Meddled

pytestmark = pytest.mark.both_stores(in_every_tier=True)


def of(world: JournalBench, thread_id: str, run_id: str = "run_1", **fields: Any) -> RunFeedback:
    about = {"owner": world.owner, "thread_id": thread_id, "run_id": run_id, "agent": "support"}
    standard: dict[str, Any] = {**about, "score": -1.0, "at": world.clock.now()}
    return RunFeedback.model_validate({**standard, **fields})


async def listed(world: JournalBench, limit: int = 100) -> list[str]:
    """Ids of this owner's runs in the list over all owners."""
    items, cursor = [], None
    while True:
        page = await world.journal.feedback.page(None, limit, cursor)
        assert len(page.items) <= limit
        items += [each.run_id for each in page.items if each.owner == world.owner]
        cursor = page.next_cursor
        if cursor is None:
            return items


async def test_deleted_thread_takes_no_feedback(world: JournalBench) -> None:
    head = await world.thread()
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    assert not await world.journal.feedback.put(of(world, head.id))
    assert await world.journal.feedback.get(world.owner, head.id, "run_1") is None
    assert await listed(world) == []


async def test_feedback_goes_with_its_thread_and_that_of_others_stays(world: JournalBench) -> None:
    head, other = await world.thread(), await world.thread()
    for n in range(30):
        await world.journal.feedback.put(of(world, head.id, f"run_{n:02}"))
    await world.journal.feedback.put(of(world, other.id, "run_x"))
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    await world.journal.erasure.erase_runs(world.owner, head.id)
    assert (await world.journal.feedback.page_thread(world.owner, head.id, 100, None)).items == ()
    assert await listed(world) == ["run_x"]
    assert await world.journal.feedback.get(world.owner, other.id, "run_x") is not None


async def test_feedback_stays_when_the_records_of_its_run_go(world: JournalBench) -> None:
    head = await world.thread()
    run = await world.accept(head.id)
    await world.end(await world.take(run.run_id))
    await world.journal.feedback.put(of(world, head.id, run.run_id))
    await world.journal.erasure.erase_run(world.owner, head.id, run.run_id)
    assert await world.journal.feedback.get(world.owner, head.id, run.run_id) is not None
    assert await listed(world) == [run.run_id]


async def test_thread_that_is_not_there_takes_no_feedback(world: JournalBench) -> None:
    """Nothing would lead its erasure to it."""
    assert not await world.journal.feedback.put(of(world, "thread_lost"))
    assert await world.journal.feedback.get(world.owner, "thread_lost", "run_1") is None


async def test_another_owner_has_none(world: JournalBench, stranger: JournalBench) -> None:
    head = await world.thread()
    await world.journal.feedback.put(of(world, head.id))
    theirs = stranger.journal.feedback
    assert await theirs.get(stranger.owner, head.id, "run_1") is None
    assert await theirs.of_runs(stranger.owner, head.id, ["run_1"]) == {}
    assert (await theirs.page_thread(stranger.owner, head.id, 10, None)).items == ()
    assert not await theirs.remove(stranger.owner, head.id, "run_1")
    assert await world.journal.feedback.get(world.owner, head.id, "run_1") is not None


async def test_newer_feedback_takes_the_place_of_the_older(world: JournalBench) -> None:
    head = await world.thread()
    await world.journal.feedback.put(of(world, head.id, score=-1.0, comment="wrong"))
    world.tick()
    newest = of(world, head.id, score=1.0)
    await world.journal.feedback.put(newest)
    assert await world.journal.feedback.get(world.owner, head.id, "run_1") == newest.plain
    assert await listed(world) == ["run_1"]


async def test_feedback_that_is_taken_back_is_gone_and_that_of_other_runs_stays(
    world: JournalBench,
) -> None:
    head = await world.thread()
    for name in ("run_1", "run_2"):
        await world.journal.feedback.put(of(world, head.id, name))
    for _ in range(2):
        assert await world.journal.feedback.remove(world.owner, head.id, "run_1")
        assert await world.journal.feedback.get(world.owner, head.id, "run_1") is None
        assert await listed(world) == ["run_2"]
    await world.journal.feedback.put(of(world, head.id, score=1.0))
    assert sorted(await listed(world)) == ["run_1", "run_2"]


async def test_of_a_thread_that_is_deleted_or_not_there_nothing_is_taken_back(
    world: JournalBench,
) -> None:
    head = await world.thread()
    await world.journal.feedback.put(of(world, head.id))
    await world.journal.erasure.mark_deleted(world.owner, head.id)
    assert not await world.journal.feedback.remove(world.owner, head.id, "run_1")
    assert not await world.journal.feedback.remove(world.owner, "thread_lost", "run_1")


async def test_every_field_is_read_as_it_was_put(world: JournalBench) -> None:
    head = await world.thread()
    feedback = filled(RunFeedback, owner=world.owner, thread_id=head.id, score=-0.1)
    await world.journal.feedback.put(feedback)
    [back] = (await world.journal.feedback.page_thread(world.owner, head.id, 10, None)).items
    assert lost(feedback, back) == set()
    page = await world.journal.feedback.page(feedback.at, 100, None)
    assert feedback in page.items


async def test_runs_have_theirs_and_no_others(world: JournalBench) -> None:
    head = await world.thread()
    for name in ("run_1", "run_2", "run_3", "run_4"):
        await world.journal.feedback.put(of(world, head.id, name))
    of_runs = world.journal.feedback.of_runs
    assert set(await of_runs(world.owner, head.id, ["run_3", "run_0", "run_1"])) == {
        "run_1",
        "run_3",
    }
    assert await of_runs(world.owner, head.id, []) == {}


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_lead_to_all_feedback(world: JournalBench, limit: int) -> None:
    head = await world.thread()
    names = [f"{head.id}_{n}" for n in range(3)]  # Runs of two owners never have the same id.
    for name in names:
        world.tick()
        await world.journal.feedback.put(of(world, head.id, name))
    assert await listed(world, limit) == names
    items, cursor = [], None
    for _ in range(4):
        page = await world.journal.feedback.page_thread(world.owner, head.id, limit, cursor)
        items += [each.run_id for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert items == names


async def test_list_begins_at_a_time(world: JournalBench) -> None:
    head = await world.thread()
    await world.journal.feedback.put(of(world, head.id, "run_1"))
    world.tick(60)
    await world.journal.feedback.put(of(world, head.id, "run_2"))
    page = await world.journal.feedback.page(world.clock.now(), 100, None)
    assert [each.run_id for each in page.items if each.owner == world.owner] == ["run_2"]


class LateIndex(Meddled):
    """An index that still has places of earlier feedback, and of what was erased."""

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        """See `Table`."""
        places = await self._table.behind(partition, after, limit)
        late = [(f"2001-01-01#{at}", pk, sk) for at, pk, sk in places]
        return [*late, *((at, pk, f"{sk}-erased") for at, pk, sk in places), *places]


async def test_place_in_the_index_that_is_out_of_date_is_passed_over(world: JournalBench) -> None:
    head = await world.thread()
    await world.journal.feedback.put(of(world, head.id))
    table: Any = LateIndex(world.table)
    late = table_journal(table, world.blobs, world.clock)
    page = await late.feedback.page(None, 10_000, None)
    assert [each.run_id for each in page.items if each.owner == world.owner] == ["run_1"]


async def test_feedback_never_expires_by_itself(world: JournalBench) -> None:
    head = await world.thread()
    await world.journal.feedback.put(of(world, head.id))
    [item] = await world.table.query(world.keys.thread(head.id), "RUN_FEEDBACK#", "RUN_FEEDBACK#~")
    assert "expires" not in item
    world.clock.advance(timedelta(days=1000))
    assert await world.journal.feedback.get(world.owner, head.id, "run_1") is not None
