"""The journal of a run that waits for its compaction."""

from support.worlds.journal import JournalBench


async def test_a_run_says_before_which_steps_it_waited_last_and_before_that(
    world: JournalBench,
) -> None:
    log = await world.taken()
    await log.wait_for_compaction(2)
    once = await world.run(log.snapshot.meta.id)
    assert (once.compacted_for, once.compacted_before) == (2, 0)
    await (await world.take(once.id)).wait_for_compaction(7)
    twice = await world.run(once.id)
    assert (twice.compacted_for, twice.compacted_before) == (7, 2)
