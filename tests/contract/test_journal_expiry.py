"""Records of runs are written with an expiry, which those of a run that takes long lose again. In memory and
on DynamoDB."""

from datetime import timedelta

import pytest

from layover.keys import META, event_key
from layover.ports import RunLog
from layover.ports.table import Delete
from layover.values.runs.run import RECORDS_KEPT_AFTER, RECORDS_SLACK, OnBusy
from support.worlds.journal import BIG, JournalBench, noise, settled

pytestmark = pytest.mark.both_stores
DAY = timedelta(days=1)


async def begun(world: JournalBench, text: str = "x" * 400) -> RunLog:
    """A run whose records expire a day, and the slack, after it was accepted."""
    head, at = await world.thread(), world.clock.now() + RECORDS_SLACK + DAY
    run = world.new_run(head, text, records_expire_at=at)
    await world.journal.commands.accept(run, head, OnBusy.REJECT, None)
    return await world.take(run.id)


async def ended(world: JournalBench, log: RunLog) -> bool:
    """The end of the run, after which nothing has to be done: whether it is retired."""
    outcome = world.outcome(log.snapshot.meta)
    return (await log.end(outcome, world.finish(outcome), retention=DAY)).retired


async def expiring(world: JournalBench, log: RunLog) -> set[str]:
    """Sort keys of the records that have an expiry."""
    items = await world.state(log.snapshot.meta.id)
    return {sk for sk, item in items.items() if "expires" in item}


async def test_a_run_that_ends_soon_is_retired_with_its_end(world: JournalBench) -> None:
    log = await begun(world)
    [one] = await world.opened(log, "c1")
    await log.close_call(settled(one))
    log.emit(world.data())
    await log.flush()
    assert META not in await expiring(world, log)
    world.tick(60)
    end = world.clock.now()
    assert await ended(world, log)
    items = await world.state(log.snapshot.meta.id)
    exact = int((end + DAY).timestamp())
    assert items[META]["expires"] == exact
    assert items[META]["gsi2pk"].startswith("OVER#success#")
    late = exact + RECORDS_SLACK.total_seconds()
    assert all(exact <= item["expires"] <= late for item in items.values())
    assert len(items) > 5


async def test_a_run_that_waits_has_no_record_that_expires(world: JournalBench) -> None:
    log = await begun(world)
    log.emit(world.data())
    await log.flush()
    await world.waiting(log, "c1")
    assert await expiring(world, log) == set()
    log.emit(world.data())
    await log.flush()
    again = await world.take(log.snapshot.meta.id)
    await again.put_step(world.step(again, index=2))
    assert await expiring(world, again) == set()
    assert not await ended(world, again)
    assert "gsi2pk" in (await world.state(log.snapshot.meta.id))[META]


async def test_a_run_that_is_taken_late_has_no_record_that_expires(world: JournalBench) -> None:
    log = await begun(world)
    await world.opened(log, "c1")
    world.clock.advance(RECORDS_KEPT_AFTER)
    again = await world.take(log.snapshot.meta.id)
    assert again.snapshot.meta.records_kept
    again.emit(world.data())
    await again.flush()
    assert await expiring(world, again) == set()


async def test_a_writer_gives_no_expiry_any_more_when_the_run_has_taken_long(
    world: JournalBench,
) -> None:
    log = await begun(world)
    before = await expiring(world, log)
    world.clock.advance(RECORDS_KEPT_AFTER)
    await log.put_step(world.step(log), world.data())
    assert await expiring(world, log) == before
    assert not await ended(world, log)


async def test_a_writer_may_end_a_run_only_while_all_that_it_still_writes_expires(
    world: JournalBench,
) -> None:
    log = await begun(world)
    world.clock.advance(RECORDS_KEPT_AFTER - timedelta(minutes=10))
    assert not await ended(world, log)


async def test_records_of_a_run_that_is_over_keep_their_expiry(world: JournalBench) -> None:
    log = await begun(world)
    assert await ended(world, log)
    before = await world.state(log.snapshot.meta.id)
    for for_good in (False, True):
        await world.journal.expiry.keep_records(
            world.owner, log.snapshot.meta.id, for_good=for_good
        )
    assert await world.state(log.snapshot.meta.id) == before


async def test_the_end_of_a_run_meanwhile_stands(world: JournalBench) -> None:
    other, table = world.meddled()
    log = await begun(world)
    table.before_next(lambda: ended(world, log))
    await other.journal.expiry.keep_records(world.owner, log.snapshot.meta.id)
    assert await expiring(world, log) == set(await world.state(log.snapshot.meta.id))


async def test_a_run_some_of_whose_records_are_gone_is_not_said_to_have_them(
    world: JournalBench,
) -> None:
    log = await begun(world)
    for _ in range(3):
        log.emit(world.data())
        await log.flush()
    await world.table.write(Delete(world.keys.run(log.snapshot.meta.id), event_key(2)))
    await world.journal.expiry.keep_records(world.owner, log.snapshot.meta.id)
    assert not (await world.run(log.snapshot.meta.id)).records_kept


async def test_records_of_a_second_attempt_are_looked_at_one_by_one(world: JournalBench) -> None:
    """The first attempt may have written records late: no count tells which."""
    again = await world.take((await begun(world)).snapshot.meta.id)
    assert not await ended(world, again)
    expires = world.clock.now() + DAY
    await world.journal.expiry.set_ttl(world.owner, again.snapshot.meta.id, expires)
    assert await expiring(world, again) == set(await world.state(again.snapshot.meta.id))


async def test_a_run_that_has_something_in_s3_is_looked_at(world: JournalBench) -> None:
    log = await begun(world, noise(BIG))
    assert log.snapshot.meta.records_expire_at is None
    assert not await ended(world, log)


@pytest.mark.parametrize("at_the_end", [False, True])
async def test_a_run_whose_events_are_in_s3_is_looked_at(
    world: JournalBench, at_the_end: bool
) -> None:
    log = await begun(world)
    log.emit(world.data(noise(BIG)))
    if not at_the_end:
        await log.flush()
    assert not await ended(world, log)
    assert "gsi2pk" in (await world.state(log.snapshot.meta.id))[META]


async def test_a_run_that_stood_in_line_has_no_record_that_expires(world: JournalBench) -> None:
    first = await begun(world)
    at = world.clock.now() + RECORDS_SLACK + DAY
    head = await world.head(first.snapshot.meta.thread_id)
    run = world.new_run(head, "x" * 400, records_expire_at=at)
    await world.journal.commands.accept(run, head, OnBusy.ENQUEUE, None)
    assert await ended(world, first)
    second = await world.take(run.id)
    await second.put_step(world.step(second))
    assert await expiring(world, second) == set()


async def test_a_longer_retention_than_before_is_given_to_each_record(world: JournalBench) -> None:
    log = await begun(world)
    outcome = world.outcome(log.snapshot.meta)
    retention = DAY + RECORDS_SLACK + timedelta(seconds=5)
    assert not (await log.end(outcome, world.finish(outcome), retention=retention)).retired
    await world.journal.expiry.set_ttl(
        world.owner, log.snapshot.meta.id, world.clock.now() + retention
    )
    exact = int((world.clock.now() + retention).timestamp())
    assert {i["expires"] for i in (await world.state(log.snapshot.meta.id)).values()} == {exact}
