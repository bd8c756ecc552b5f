"""A run's input: a long one has an item of its own, which no step rewrites."""

import pytest

from layover.keys import INPUT, META
from layover.ports import StaleHead
from layover.ports.table import Delete, Item, Update
from layover.values.runs.run import OnBusy
from support.worlds.journal import JournalBench, noise

LONG = noise(20_000)


@pytest.mark.both_stores
async def test_long_input_is_beside_meta_and_read_with_it(world: JournalBench) -> None:
    log = await world.taken_with(LONG)
    run_id, owner = log.snapshot.meta.id, world.owner
    pk = world.keys.run(run_id)
    meta, given = [await world.table.get(pk, sk) for sk in (META, INPUT)]
    assert meta is not None
    assert given is not None
    assert meta.keys().isdisjoint({"b", "blob"})
    snapshot = await world.journal.runs.snapshot(owner, run_id)
    assert snapshot is not None
    again = (await world.take(run_id)).snapshot.meta
    texts = [m.input.text for m in (log.snapshot.meta, snapshot.meta, again)]
    assert [*texts, (await world.run(run_id)).input.text] == [LONG] * 4


@pytest.mark.parametrize("text", ["short", LONG], ids=["short", "long"])
@pytest.mark.both_stores
async def test_queued_input_follows_the_run_before_it(world: JournalBench, text: str) -> None:
    head = await world.thread()
    first = (await world.accept(head.id)).run_id
    second = await world.queue(head.id, text=text)
    before = (await world.run(second)).input
    log = await world.take(first)
    outcome = world.outcome(log.snapshot.meta)
    await log.end(outcome, world.finish(outcome))
    after = (await world.run(second)).input
    assert (after.text, after.parent_id) == (text, outcome.leaf_id)
    assert after.created_at > outcome.last_created_at
    assert after.id == before.id


async def test_queued_input_whose_parent_was_given_keeps_it(world: JournalBench) -> None:
    head = await world.thread()
    first = (await world.accept(head.id)).run_id
    second = await world.queue(head.id, parent_given=True)
    before = (await world.run(second)).input
    log = await world.take(first)
    outcome = world.outcome(log.snapshot.meta)
    await log.end(outcome, world.finish(outcome))
    assert (await world.run(second)).input.parent_id == before.parent_id


async def test_run_that_an_earlier_release_accepted_goes_on(world: JournalBench) -> None:
    """Its input is in META, however long it is."""
    log = await world.taken_with(LONG)
    run_id = log.snapshot.meta.id
    pk = world.keys.run(run_id)
    given = await world.table.get(pk, INPUT)
    assert given is not None
    names = {"b", "blob", "sha256", "size"} & given.keys()
    body: Item = {name: given[name] for name in names}
    await world.table.write(Update(pk, META, set=body))
    await world.table.write(Delete(pk, INPUT))
    assert (await world.take(run_id)).snapshot.meta.input.text == LONG
    assert (await world.run(run_id)).input.text == LONG


async def test_run_whose_input_expired_before_its_meta_is_gone(world: JournalBench) -> None:
    """DynamoDB deletes in any order."""
    head = await world.thread()
    run = world.new_run(head, LONG)
    await world.journal.commands.accept(run, head, OnBusy.REJECT, None)
    run_id = run.id
    await world.table.write(Delete(world.keys.run(run_id), INPUT))
    assert await world.journal.runs.get(world.owner, run_id) is None
    assert await world.journal.runs.snapshot(world.owner, run_id) is None


async def test_refused_run_leaves_no_input(world: JournalBench) -> None:
    head = await world.thread()
    await world.accept(head.id)
    run = world.new_run(head, LONG)
    with pytest.raises(StaleHead):
        await world.journal.commands.accept(run, head, OnBusy.REJECT, None)
    assert await world.table.get(world.keys.run(run.id), INPUT) is None
