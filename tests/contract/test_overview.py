"""Runs of all owners, for operators, from the watch index: in memory and on DynamoDB."""

import time
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from layover.errors import InvalidRequest
from layover.ids import reverse_order
from layover.keys import META
from layover.ports import RunFacts, RunFilter
from layover.values.runs.run import ErrorDetail, ErrorInfo, Status
from layover.values.runs.usage import Usage
from support.worlds.journal import BIG, JournalBench, noise

pytestmark = pytest.mark.both_stores(in_every_tier=True)
NUMBERS = count(time.time_ns())
"""Of ids, which sort by their time as those of a deployment do."""
A_DAY = timedelta(days=1)


async def begun(world: JournalBench, agent: str = "support", **fields: Any) -> str:
    """A run at work; its id."""
    head = await world.thread(agent=agent)
    world.tick()
    return (await world.accept(head.id, id=f"run_{next(NUMBERS):026d}", **fields)).run_id


async def over(
    world: JournalBench, agent: str = "support", *, retires: bool = True, **fields: Any
) -> str:
    """A run that is over."""
    expire_at = world.clock.now() + A_DAY + timedelta(hours=1)
    run_id = await begun(world, agent, records_expire_at=expire_at)
    log = await world.take(run_id)
    outcome = world.outcome(log.snapshot.meta, **fields)
    retention = A_DAY if retires else None
    await log.end(outcome, world.finish(outcome), retention=retention)
    return run_id


async def waiting(world: JournalBench) -> str:
    log = await world.take(run_id := await begun(world))
    await world.waiting(log, "c1")
    return run_id


async def listed(world: JournalBench, size: int = 2, **only: Any) -> list[RunFacts]:
    """This owner's runs, page by page: other tests' lie in the same table."""
    found: list[RunFacts] = []
    cursor = None
    while True:
        page = await world.journal.overview.page(RunFilter(**only), size, cursor)
        assert len(page.items) <= size
        found += [facts for facts in page.items if facts.place == world.keys.run(facts.id)]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def ids(world: JournalBench, **only: Any) -> list[str]:
    return [facts.id for facts in await listed(world, **only)]


async def test_run_that_is_erased_is_in_no_list(world: JournalBench) -> None:
    run_id = await over(world)
    run = await world.run(run_id)
    await world.journal.erasure.erase_run(world.owner, run.thread_id, run_id)
    assert await ids(world) == []
    assert await world.journal.overview.find([run_id]) == {}


async def test_ids_that_nobody_gave_are_not_there(world: JournalBench) -> None:
    strange = ["", "run_0", "x" * 1_400, "\ud800", "a#b", "run_\0", "é" * 90]
    assert await world.journal.overview.find(strange) == {}


async def test_cursor_that_is_longer_than_a_key_is_refused(world: JournalBench) -> None:
    with pytest.raises(InvalidRequest):
        await world.journal.overview.page(RunFilter(), 9, "x" * 900)


async def test_all_runs_are_listed_newest_first_whatever_became_of_them(
    world: JournalBench,
) -> None:
    run_ids = [
        await over(world),
        await begun(world),
        await over(world, status=Status.FAILED),
        await waiting(world),
        await over(world, status=Status.CANCELLED),
        await over(world, retires=False),
        await begun(world),
    ]
    assert await ids(world) == run_ids[::-1]
    assert await ids(world, size=1) == run_ids[::-1]
    assert await ids(world, size=50) == run_ids[::-1]


async def test_run_that_ends_between_two_pages_is_listed_once(world: JournalBench) -> None:
    run_ids = [await begun(world) for _ in range(3)]
    only = RunFilter(owner=world.owner)
    first = await world.journal.overview.page(only, 1, None)
    log = await world.take(run_ids[0])
    await log.end(outcome := world.outcome(log.snapshot.meta), world.finish(outcome))
    await world.journal.expiry.set_ttl(world.owner, run_ids[0], world.clock.now() + A_DAY)
    rest = await world.journal.overview.page(only, 9, first.next_cursor)
    assert [facts.id for facts in (*first.items, *rest.items)] == run_ids[::-1]


async def test_filters_pass_what_they_name_and_nothing_else(world: JournalBench) -> None:
    fine = await over(world, "shop")
    boom = ErrorInfo(type="Boom # of / all", message="secret words")
    failed = await over(world, "shop", status=Status.FAILED, error=boom)
    middle = world.clock.now()
    runs, waits = await begun(world), await waiting(world)
    assert await ids(world, status=Status.SUCCESS) == [fine]
    assert await ids(world, status=Status.RUNNING) == [runs]
    assert await ids(world, status=Status.SUSPENDED) == [waits]
    assert await ids(world, agent="shop") == [failed, fine]
    assert await ids(world, error="Boom # of / all") == [failed]
    assert await ids(world, error="Boom") == []
    assert await ids(world, since=middle + timedelta(microseconds=1)) == [waits, runs]
    assert await ids(world, until=middle) == [fine]
    assert await ids(world, owner=f"{world.owner}x") == []
    assert await ids(world, owner=world.owner, agent="support") == [waits, runs]


@pytest.mark.parametrize("retires", [True, False])
async def test_run_that_is_over_is_found_by_its_id_with_what_it_cost(
    world: JournalBench, retires: bool
) -> None:
    usage = Usage(input_tokens=7, output_tokens=4, cost_usd=Decimal("0.000123"))
    boom = ErrorInfo(type="Boom", message="secret words")
    run_id = await over(
        world, status=Status.FAILED, usage=usage, error=boom, retires=retires, output=noise(BIG)
    )
    facts = (await world.journal.overview.find([run_id, "run_0"]))[run_id]
    assert (facts.owner, facts.agent, facts.status) == (world.owner, "support", Status.FAILED)
    assert (facts.error, facts.tokens, facts.cost) == ("Boom", 11, Decimal("0.000123"))


async def test_place_of_a_run_says_no_words(world: JournalBench) -> None:
    boom = ErrorInfo(type="Boom", message="secret words")
    run_id = await over(world, status=Status.FAILED, error=boom, output="secret words")
    item = (await world.state(run_id))[META]
    assert item["gsi2sk"].startswith(reverse_order(run_id))
    assert "secret" not in item["gsi2sk"]


async def test_names_of_any_length_fit_into_a_place(world: JournalBench) -> None:
    name = "é" * 400
    error = ErrorInfo(type=name, message="x")
    run_id = await over(world, status=Status.FAILED, error=error)
    assert await ids(world, error=name) == [run_id]
    assert await ids(world, error="é") == []


@pytest.mark.parametrize("retires", [True, False])
async def test_provider_of_a_failure_is_in_its_place_and_its_words_are_not(
    world: JournalBench, retires: bool
) -> None:
    error, name = ErrorInfo(type="RateLimitError", message="x"), "acme @ eu/#1"
    detail = ErrorDetail(provider=name, model=f"{name}/large", message="secret words")
    failed: dict[str, Any] = {"status": Status.FAILED, "error": error, "error_detail": detail}
    run_id = await over(world, retires=retires, **failed)
    [facts] = await listed(world, error="RateLimitError")
    assert (facts.id, facts.error, facts.provider) == (run_id, "RateLimitError", name)
    [counted] = [f for f in (await tally_of(world)) if f.id == run_id]
    assert (counted.error, counted.provider) == ("RateLimitError", name)
    assert "secret" not in (await world.state(run_id))[META]["gsi2sk"]


async def tally_of(world: JournalBench) -> tuple[RunFacts, ...]:
    return (await world.journal.overview.tally(world.clock.now() - A_DAY, 5_000)).over


async def test_the_sweeper_looks_at_no_run_for_its_place(world: JournalBench) -> None:
    run_id = await over(world)
    far = world.clock.now() + timedelta(days=9_000)
    assert run_id not in {due.run_id for due in await world.journal.watch.due(far, 999)}


async def test_run_that_the_sweeper_retires_gets_its_place_once(world: JournalBench) -> None:
    run_id = await over(world, retires=False, output=noise(BIG))
    for _ in range(2):
        await world.journal.expiry.set_ttl(world.owner, run_id, world.clock.now() + A_DAY)
    assert await ids(world) == [run_id]
    assert (await world.state(run_id))[META]["gsi2pk"].startswith("OVER#success#")


async def test_tally_has_what_is_not_over_and_what_began_since(world: JournalBench) -> None:
    await over(world)
    world.clock.advance(timedelta(hours=2))
    since = world.clock.now()
    recent = await over(world, status=Status.FAILED)
    waits = await waiting(world)
    tally = await world.journal.overview.tally(since, 5_000)
    mine = (await world.journal.overview.find([recent, waits])).keys()
    assert [f.id for f in tally.over if f.id in mine] == [recent]
    assert [f.id for f in tally.live if f.owner == world.owner] == [waits]
    assert tally.live_whole
    assert tally.over_whole
    [live] = [f for f in tally.live if f.id == waits]
    assert len(live.waiting) == 1


async def test_tally_says_what_it_left_out(world: JournalBench) -> None:
    since = world.clock.now() - A_DAY
    for _ in range(3):
        await over(world)
        await begun(world)
    tally = await world.journal.overview.tally(since, 2)
    assert (len(tally.live), len(tally.over)) == (2, 2)
    assert not tally.live_whole
    assert not tally.over_whole


async def test_run_is_read_by_its_facts_and_gone_when_it_is_erased(world: JournalBench) -> None:
    run_id = await over(world)
    [facts] = await listed(world)
    snapshot = await world.journal.overview.read(facts)
    assert snapshot == await world.journal.runs.snapshot(world.owner, run_id)
    assert snapshot is not None
    await world.journal.erasure.erase_run(world.owner, snapshot.meta.thread_id, run_id)
    assert await world.journal.overview.read(facts) is None
