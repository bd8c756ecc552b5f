"""The contract of every store of compaction, in memory and on Postgres."""

from layover.values.memory.compaction import Compacted, Generation
from support.worlds.compaction import (
    AT,
    Branches,
    ids,
    left_out,
    new,
    observation,
    slices,
)
from support.worlds.threads import Stores


async def test_a_thread_without_compaction_shows_none(branches: Branches) -> None:
    assert await branches.compacted("f") == Compacted()
    assert await branches.compacted("nobody") == Compacted()
    assert await branches.memory.observations(branches.owner, branches.id, "f") == ()


async def test_a_slice_of_messages_that_are_not_there_is_not_kept(branches: Branches) -> None:
    assert await branches.slice(None, "nobody") is None
    assert await branches.slice("nobody", "f") is None
    assert await branches.memory.observations(branches.owner, branches.id, "f") == ()


async def test_a_slice_that_ends_before_it_begins_is_not_kept(branches: Branches) -> None:
    assert await branches.slice("d", "b") is None
    assert await branches.slice("d", "d") is None


async def test_a_slice_does_not_go_from_one_branch_to_another(branches: Branches) -> None:
    await branches.line("b", "x", "y")
    assert await branches.slice("c", "y") is None


async def test_a_slice_whose_start_is_behind_the_cursor_is_not_kept(branches: Branches) -> None:
    await branches.observe(None, "c")
    assert await branches.slice(None, "d") is None
    assert await branches.slice("b", "d") is None
    assert await branches.slice("c", "d") is not None


async def test_a_path_has_one_slice_from_one_start(branches: Branches) -> None:
    assert await branches.slice(None, "c") is not None
    assert await branches.slice(None, "c", "other") is None
    assert await branches.slice(None, "e") is None
    assert slices(await branches.compacted("f")) == ["c"]


async def test_slices_do_not_take_effect_with_a_gap_between_them(branches: Branches) -> None:
    first, second = await branches.slice(None, "b"), await branches.slice("c", "e")
    assert first is not None
    assert second is not None
    assert slices(await branches.compacted("f")) == ["b"]
    assert not await branches.activate(first.number, second.number)
    assert not await branches.activate(second.number)
    assert await branches.shows("f") == []


async def test_half_a_chain_does_nothing(branches: Branches) -> None:
    first, second = await branches.slice(None, "b"), await branches.slice("b", "e")
    assert first is not None
    assert second is not None
    assert not await branches.activate(second.number)
    assert not await branches.activate(second.number, first.number)
    assert not await branches.activate(first.number, 99)
    assert not await branches.activate(first.number, first.number)
    assert not await branches.activate()
    assert (await branches.compacted("f")).generation is None


async def test_slices_of_two_branches_are_no_chain(branches: Branches) -> None:
    await branches.line("c", "x", "y")
    first, second = await branches.slice(None, "d"), await branches.slice("c", "y")
    assert first is not None
    assert second is not None
    assert not await branches.activate(first.number, second.number)


async def test_slices_do_not_take_effect_behind_a_generation_that_is_not_there_any_more(
    branches: Branches,
) -> None:
    first = await branches.observe(None, "b")
    second = await branches.slice("b", "d")
    assert second is not None
    assert not await branches.activate(second.number)
    assert not await branches.activate(second.number, expected=first + 5)
    reflected = await branches.reflect("b", "r", expected=first)
    assert reflected is not None
    assert not await branches.activate(second.number, expected=first)
    assert await branches.activate(second.number, expected=reflected.number)
    assert await branches.shows("f") == ["r", "o-d"]


async def test_a_slice_takes_effect_once(branches: Branches) -> None:
    number = await branches.observe(None, "b")
    assert not await branches.activate(number)
    assert not await branches.activate(number, expected=number)
    assert await branches.shows("f") == ["o-b"]


async def test_a_reflection_of_another_generation_than_the_newest_is_not_stored(
    branches: Branches,
) -> None:
    assert await branches.reflect("b", "r", expected=None) is None
    first = await branches.observe(None, "b")
    second = await branches.observe("b", "d")
    assert await branches.reflect("d", "r", expected=first) is None
    assert await branches.reflect("d", "r", expected=None) is None
    assert await branches.reflect("c", "r", expected=first) is None
    assert await branches.reflect("e", "r", expected=second) is None
    assert await branches.shows("f") == ["o-b", "o-d"]


async def test_a_summary_that_is_not_newer_is_not_stored(branches: Branches) -> None:
    first = await branches.summarise(None, "c")
    assert first is not None
    assert await branches.summarise("c", "e") is None
    assert await branches.summarise(None, "c", expected=first.number) is None
    assert await branches.summarise(None, "e", expected=first.number + 1) is None
    assert (await branches.compacted("f", "summary")).generation == first


async def test_nothing_is_stored_for_a_thread_that_is_gone(branches: Branches) -> None:
    number = await branches.observe(None, "b")
    slice = await branches.slice("b", "c")
    assert slice is not None
    await branches.store.erase(branches.owner, branches.id)
    assert await branches.slice("c", "d") is None
    assert not await branches.activate(slice.number, expected=number)
    assert await branches.reflect("b", "r", expected=number) is None
    assert await branches.summarise(None, "b") is None
    assert await branches.compacted("b") == Compacted()
    assert await branches.memory.span(branches.owner, branches.id, None, "b") is None
    assert await branches.memory.observations(branches.owner, branches.id, "b") == ()
    assert (await branches.turn(branches.message("late", "b"))).compacted is None


async def test_another_user_sees_and_changes_nothing(
    branches: Branches, thread_stores: Stores
) -> None:
    number = await branches.observe(None, "b")
    slice = await branches.slice("b", "d")
    assert slice is not None
    stranger = Branches(thread_stores, f"{branches.owner}-stranger")
    assert await stranger.compacted("f") == Compacted()
    assert await stranger.slice("d", "e") is None
    assert not await stranger.activate(slice.number, expected=number)
    assert await stranger.reflect("b", "r", expected=number) is None
    assert await stranger.summarise(None, "b") is None
    assert await stranger.memory.span(branches.owner + "-stranger", branches.id, None, "b") is None
    assert await branches.shows("f") == ["o-b"]


async def test_a_message_of_another_thread_bounds_nothing(
    branches: Branches, thread_stores: Stores
) -> None:
    other = Branches(thread_stores, branches.owner, "other")
    await other.line(None, "v", "w")
    assert await branches.slice(None, "w") is None
    assert await branches.slice("v", "b") is None
    assert await branches.memory.span(branches.owner, branches.id, "v", "b") is None
    assert await branches.compacted("w") == Compacted()


async def test_two_threads_number_their_own_generations(
    branches: Branches, thread_stores: Stores
) -> None:
    other = Branches(thread_stores, branches.owner, "other")
    await other.line(None, "v", "w")
    assert await branches.observe(None, "b") == 1
    assert await other.observe(None, "v") == 1
    assert await other.shows("w") == ["o-v"]
    assert await branches.shows("f") == ["o-b"]


async def test_what_is_stored_comes_back_as_it_was(branches: Branches) -> None:
    lines = (observation("1"), observation("2", parent="1"))
    made = new("observations", None, "b").model_copy(update={"observations": lines})
    stored = await branches.memory.add_slice(branches.owner, branches.id, made, "run")
    assert stored == Generation(
        number=1,
        kind="observations",
        after_depth=-1,
        through_depth=1,
        through_message_id="b",
        active=False,
        observations=lines,
        token_count=10,
        prompt_version="v1",
        model="memory-model",
        created_at=AT,
    )
    assert (await branches.compacted("f")).slices == (stored,)
    assert await branches.activate(1)
    found = await branches.compacted("f")
    assert found.generation == stored.model_copy(update={"active": True})
    assert found.observations == lines


async def test_text_that_postgres_cannot_hold_does_not_fail_a_compaction(
    branches: Branches,
) -> None:
    odd = observation("1").model_copy(update={"text": "a\x00b \ud800"})
    made = new("observations", None, "b").model_copy(update={"observations": (odd,)})
    assert await branches.memory.add_slice(branches.owner, branches.id, made, "run") is not None


async def test_generations_add_up_until_a_reflection_stands_for_all_of_them(
    branches: Branches,
) -> None:
    await branches.observe(None, "b", "1", "2")
    second = await branches.observe("b", "d", "3")
    assert await branches.shows("f") == ["1", "2", "3"]
    made = await branches.reflect("d", "2", "r", expected=second)
    assert made is not None
    assert (made.active, made.after_depth, made.through_depth) == (True, -1, 3)
    assert await branches.shows("f") == ["2", "r"]
    await branches.observe("d", "e", "4")
    assert await branches.shows("f") == ["2", "r", "4"]


async def test_several_slices_take_effect_together(branches: Branches) -> None:
    made = [
        await branches.slice(None, "a"),
        await branches.slice("a", "c"),
        await branches.slice("c", "e"),
    ]
    numbers = [g.number for g in made if g]
    assert slices(await branches.compacted("f")) == ["a", "c", "e"]
    assert await branches.activate(*numbers[:2])
    found = await branches.compacted("f")
    assert (found.through, slices(found)) == ("c", ["e"])
    assert await branches.shows("f") == ["o-a", "o-c"]
    # A path that leaves between them has the first one alone.
    await branches.line("b", "x")
    assert await branches.shows("x") == ["o-a"]


async def test_a_fork_before_a_generations_end_falls_back_to_the_one_before(
    branches: Branches,
) -> None:
    await branches.observe(None, "b")
    await branches.observe("b", "e")
    await branches.line("c", "x", "y")
    assert await branches.shows("y") == ["o-b"]
    assert await branches.shows("c") == ["o-b"]
    assert await branches.shows("a") == []
    assert await branches.shows("e") == ["o-b", "o-e"]


async def test_a_fork_before_a_reflection_still_shows_what_that_left_out(
    branches: Branches,
) -> None:
    await branches.observe(None, "b", "1", "2")
    second = await branches.observe("b", "d", "3")
    await branches.line("c", "x")
    assert await branches.reflect("d", "r", expected=second) is not None
    assert await branches.shows("x") == ["1", "2"]
    assert await branches.shows("f") == ["r"]


async def test_a_fork_before_a_slices_end_observes_from_the_same_start(branches: Branches) -> None:
    await branches.observe(None, "a")
    await branches.observe("a", "e")
    await branches.line("d", "x", "y")
    # Its first slice may end on what both branches share.
    assert await branches.slice("a", "e", "again") is None
    await branches.observe("a", "c")
    await branches.observe("c", "y")
    assert await branches.shows("y") == ["o-a", "o-c", "o-y"]
    assert await branches.shows("f") == ["o-a", "o-e"]


async def test_two_branches_have_slices_from_the_same_start(branches: Branches) -> None:
    await branches.line("b", "x", "y")
    assert await branches.slice("a", "d") is not None
    first = await branches.observe(None, "a")
    fork = await branches.slice("a", "y")
    assert fork is not None
    assert slices(await branches.compacted("f")) == ["d"]
    assert slices(await branches.compacted("y")) == ["y"]
    assert await branches.activate(fork.number, expected=first)
    assert await branches.shows("y") == ["o-a", "o-y"]
    assert await branches.shows("f") == ["o-a"]


async def test_of_two_slices_from_one_start_the_longer_one_is_ready(branches: Branches) -> None:
    longer, shorter = await branches.slice(None, "d"), await branches.slice(None, "b")
    assert longer is not None
    assert shorter is not None
    assert slices(await branches.compacted("f")) == ["d"]
    assert slices(await branches.compacted("c")) == ["b"]
    assert await branches.activate(longer.number)
    assert await branches.slice("d", "e") is not None
    assert slices(await branches.compacted("f")) == ["e"]


async def test_a_reflection_of_a_fork_leaves_the_other_branch_alone(branches: Branches) -> None:
    first = await branches.observe(None, "b")
    await branches.observe("b", "d")
    await branches.line("c", "x")
    assert await branches.reflect("b", "r", expected=first) is not None
    assert await branches.shows("x") == ["r"]
    assert await branches.shows("f") == ["o-b", "o-d"]


async def test_the_modes_do_not_see_each_other(branches: Branches) -> None:
    await branches.observe(None, "d")
    made = await branches.summarise(None, "b")
    assert made is not None
    assert await branches.shows("f") == ["o-d"]
    found = await branches.compacted("f", "summary")
    assert (found.summary, found.observations, found.through) == ("until b", (), "b")
    assert await branches.observe("d", "e") > made.number


async def test_a_summary_stands_for_the_ones_before_it(branches: Branches) -> None:
    first = await branches.summarise(None, "b")
    assert first is not None
    second = await branches.summarise("b", "d", expected=first.number)
    assert second is not None
    await branches.line("c", "x")
    assert (await branches.compacted("f", "summary")).generation == second
    assert (await branches.compacted("x", "summary")).generation == first
    assert (second.after_depth, second.through_depth) == (1, 3)


async def test_a_slice_without_observations_covers_its_messages(branches: Branches) -> None:
    first = await branches.slice(None, "b")
    made = new("observations", "b", "d")
    empty = await branches.memory.add_slice(branches.owner, branches.id, made, "run")
    assert first is not None
    assert empty is not None
    assert await branches.activate(first.number, empty.number)
    compacted = await branches.compacted("f")
    assert compacted.through == "d"
    assert compacted.generation is not None
    assert compacted.generation.observations == ()
    assert len(compacted.observations) == len(first.observations)


async def test_a_chain_stands_for_what_a_later_slice_took(branches: Branches) -> None:
    await branches.observe(None, "d", left_out=("b", "c"))
    assert left_out(await branches.compacted("f")) == ["b", "c"]
    ahead = await branches.slice("d", "e", taken=("b",))
    assert ahead is not None
    assert left_out(await branches.compacted("f")) == ["b", "c"], "it is not active yet"
    assert await branches.activate(ahead.number, expected=ahead.number - 1)
    found = await branches.compacted("f")
    assert left_out(found) == ["c"]
    assert found.left_out[0].text == "text of c"
    assert left_out(await branches.compacted("d")) == ["b", "c"], "that path ends before it"


async def test_a_turn_reads_what_its_own_generation_leaves_out(branches: Branches) -> None:
    first = await branches.observe(None, "c", left_out=("b",))
    await branches.observe("c", "e", left_out=("d",), taken=("b",))
    newest = await branches.turn(branches.message("new", "f"))
    assert (left_out(newest.compacted), ids(newest)) == (["d"], ["f"])
    pinned = await branches.turn(branches.message("old", "f"), pinned=first)
    assert (left_out(pinned.compacted), ids(pinned)) == (["b"], ["d", "e", "f"])
    none = await branches.turn(branches.message("none", "f"), pinned=0)
    assert left_out(none.compacted) == []


async def test_what_stands_for_all_before_it_leaves_out_what_it_says(branches: Branches) -> None:
    number = await branches.observe(None, "d", left_out=("b", "c"))
    made = new("reflection", None, "d", "r", left_out=("c",))
    assert await branches.memory.replace(branches.owner, branches.id, made, number, "run")
    assert left_out(await branches.compacted("f")) == ["c"]
    summed_up = new("summary", None, "e", summary="all", left_out=("a",))
    assert await branches.memory.replace(branches.owner, branches.id, summed_up, None, "run")
    assert left_out(await branches.compacted("f", "summary")) == ["a"]


async def test_a_message_that_is_left_out_and_gone_is_not_read(branches: Branches) -> None:
    await branches.observe(None, "d", left_out=("b", "nobody"))
    assert left_out(await branches.compacted("f")) == ["b"]
