"""What every store promises of compaction, in memory and on Postgres."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from compaction_kit import AT, Branches, ids, new, observation, slices, spent
from layover.adapters.inmemory.threads import InMemoryThreads
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.memory import PostgresMemory
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.values.compaction import Compacted, Generation
from layover.values.context import IndexedText, RecallQuery
from postgres_fixture import TestPostgres
from thread_kit import Stores

A_TO_F = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def stores(thread_stores: Stores) -> Stores:
    return thread_stores


@pytest.fixture
async def talk(stores: Stores, owner: str) -> Branches:
    """The thread a, b, c, d, e, f (depths 0 to 5)."""
    talk = Branches(stores, owner)
    await talk.line(None, *A_TO_F)
    return talk


async def test_a_thread_without_compaction_shows_none(talk: Branches) -> None:
    assert await talk.compacted("f") == Compacted()
    assert await talk.compacted("nobody") == Compacted()
    assert await talk.memory.observations(talk.owner, talk.id, "f") == ()


async def test_a_slice_of_messages_that_are_not_there_is_not_kept(talk: Branches) -> None:
    assert await talk.slice(None, "nobody") is None
    assert await talk.slice("nobody", "f") is None
    assert await talk.memory.observations(talk.owner, talk.id, "f") == ()


async def test_a_slice_that_ends_before_it_begins_is_not_kept(talk: Branches) -> None:
    assert await talk.slice("d", "b") is None
    assert await talk.slice("d", "d") is None


async def test_a_slice_does_not_go_from_one_branch_to_another(talk: Branches) -> None:
    await talk.line("b", "x", "y")
    assert await talk.slice("c", "y") is None


async def test_a_slice_whose_start_is_behind_the_cursor_is_not_kept(talk: Branches) -> None:
    await talk.observe(None, "c")
    assert await talk.slice(None, "d") is None
    assert await talk.slice("b", "d") is None
    assert await talk.slice("c", "d") is not None


async def test_a_path_has_one_slice_from_one_start(talk: Branches) -> None:
    assert await talk.slice(None, "c") is not None
    assert await talk.slice(None, "c", "other") is None
    assert await talk.slice(None, "e") is None
    assert slices(await talk.compacted("f")) == ["c"]


async def test_slices_do_not_take_effect_with_a_gap_between_them(talk: Branches) -> None:
    first, second = await talk.slice(None, "b"), await talk.slice("c", "e")
    assert first is not None
    assert second is not None
    assert slices(await talk.compacted("f")) == ["b"]
    assert not await talk.activate(first.number, second.number)
    assert not await talk.activate(second.number)
    assert await talk.shows("f") == []


async def test_half_a_chain_does_nothing(talk: Branches) -> None:
    first, second = await talk.slice(None, "b"), await talk.slice("b", "e")
    assert first is not None
    assert second is not None
    assert not await talk.activate(second.number)
    assert not await talk.activate(second.number, first.number)
    assert not await talk.activate(first.number, 99)
    assert not await talk.activate(first.number, first.number)
    assert not await talk.activate()
    assert (await talk.compacted("f")).generation is None


async def test_slices_of_two_branches_are_no_chain(talk: Branches) -> None:
    await talk.line("c", "x", "y")
    first, second = await talk.slice(None, "d"), await talk.slice("c", "y")
    assert first is not None
    assert second is not None
    assert not await talk.activate(first.number, second.number)


async def test_slices_do_not_take_effect_behind_a_generation_that_is_not_there_any_more(
    talk: Branches,
) -> None:
    first = await talk.observe(None, "b")
    second = await talk.slice("b", "d")
    assert second is not None
    assert not await talk.activate(second.number)
    assert not await talk.activate(second.number, expected=first + 5)
    reflected = await talk.reflect("b", "r", expected=first)
    assert reflected is not None
    assert not await talk.activate(second.number, expected=first)
    assert await talk.activate(second.number, expected=reflected.number)
    assert await talk.shows("f") == ["r", "o-d"]


async def test_a_slice_takes_effect_once(talk: Branches) -> None:
    number = await talk.observe(None, "b")
    assert not await talk.activate(number)
    assert not await talk.activate(number, expected=number)
    assert await talk.shows("f") == ["o-b"]


async def test_a_reflection_of_another_generation_than_the_newest_is_not_stored(
    talk: Branches,
) -> None:
    assert await talk.reflect("b", "r", expected=None) is None
    first = await talk.observe(None, "b")
    second = await talk.observe("b", "d")
    assert await talk.reflect("d", "r", expected=first) is None
    assert await talk.reflect("d", "r", expected=None) is None
    assert await talk.reflect("c", "r", expected=first) is None
    assert await talk.reflect("e", "r", expected=second) is None
    assert await talk.shows("f") == ["o-b", "o-d"]


async def test_a_summary_that_is_not_newer_is_not_stored(talk: Branches) -> None:
    first = await talk.summarise(None, "c")
    assert first is not None
    assert await talk.summarise("c", "e") is None
    assert await talk.summarise(None, "c", expected=first.number) is None
    assert await talk.summarise(None, "e", expected=first.number + 1) is None
    assert (await talk.compacted("f", "summary")).generation == first


async def test_nothing_is_stored_for_a_thread_that_is_gone(talk: Branches) -> None:
    number = await talk.observe(None, "b")
    slice = await talk.slice("b", "c")
    assert slice is not None
    await talk.store.erase(talk.owner, talk.id)
    assert await talk.slice("c", "d") is None
    assert not await talk.activate(slice.number, expected=number)
    assert await talk.reflect("b", "r", expected=number) is None
    assert await talk.summarise(None, "b") is None
    assert await talk.compacted("b") == Compacted()
    assert await talk.memory.span(talk.owner, talk.id, None, "b") is None
    assert await talk.memory.observations(talk.owner, talk.id, "b") == ()
    assert (await talk.turn(talk.message("late", "b"))).compacted is None


async def test_another_user_sees_and_changes_nothing(talk: Branches, stores: Stores) -> None:
    number = await talk.observe(None, "b")
    slice = await talk.slice("b", "d")
    assert slice is not None
    stranger = Branches(stores, f"{talk.owner}-stranger")
    assert await stranger.compacted("f") == Compacted()
    assert await stranger.slice("d", "e") is None
    assert not await stranger.activate(slice.number, expected=number)
    assert await stranger.reflect("b", "r", expected=number) is None
    assert await stranger.summarise(None, "b") is None
    assert await stranger.memory.span(talk.owner + "-stranger", talk.id, None, "b") is None
    assert await talk.shows("f") == ["o-b"]


async def test_a_message_of_another_thread_bounds_nothing(talk: Branches, stores: Stores) -> None:
    other = Branches(stores, talk.owner, "other")
    await other.line(None, "v", "w")
    assert await talk.slice(None, "w") is None
    assert await talk.slice("v", "b") is None
    assert await talk.memory.span(talk.owner, talk.id, "v", "b") is None
    assert await talk.compacted("w") == Compacted()


async def test_two_threads_number_their_own_generations(talk: Branches, stores: Stores) -> None:
    other = Branches(stores, talk.owner, "other")
    await other.line(None, "v", "w")
    assert await talk.observe(None, "b") == 1
    assert await other.observe(None, "v") == 1
    assert await other.shows("w") == ["o-v"]
    assert await talk.shows("f") == ["o-b"]


async def test_what_is_stored_comes_back_as_it_was(talk: Branches) -> None:
    lines = (observation("1"), observation("2", parent="1"))
    made = new("observations", None, "b").model_copy(update={"observations": lines})
    stored = await talk.memory.add_slice(talk.owner, talk.id, made, "run")
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
    assert (await talk.compacted("f")).slices == (stored,)
    assert await talk.activate(1)
    found = await talk.compacted("f")
    assert found.generation == stored.model_copy(update={"active": True})
    assert found.observations == lines


async def test_text_that_postgres_cannot_hold_does_not_fail_a_compaction(talk: Branches) -> None:
    odd = observation("1").model_copy(update={"text": "a\x00b \ud800"})
    made = new("observations", None, "b").model_copy(update={"observations": (odd,)})
    assert await talk.memory.add_slice(talk.owner, talk.id, made, "run") is not None


async def test_generations_add_up_until_a_reflection_stands_for_all_of_them(
    talk: Branches,
) -> None:
    await talk.observe(None, "b", "1", "2")
    second = await talk.observe("b", "d", "3")
    assert await talk.shows("f") == ["1", "2", "3"]
    made = await talk.reflect("d", "2", "r", expected=second)
    assert made is not None
    assert (made.active, made.after_depth, made.through_depth) == (True, -1, 3)
    assert await talk.shows("f") == ["2", "r"]
    await talk.observe("d", "e", "4")
    assert await talk.shows("f") == ["2", "r", "4"]


async def test_several_slices_take_effect_together(talk: Branches) -> None:
    made = [await talk.slice(None, "a"), await talk.slice("a", "c"), await talk.slice("c", "e")]
    numbers = [g.number for g in made if g]
    assert slices(await talk.compacted("f")) == ["a", "c", "e"]
    assert await talk.activate(*numbers[:2])
    found = await talk.compacted("f")
    assert (found.through, slices(found)) == ("c", ["e"])
    assert await talk.shows("f") == ["o-a", "o-c"]
    # A path that leaves between them has the first one alone.
    await talk.line("b", "x")
    assert await talk.shows("x") == ["o-a"]


async def test_a_fork_before_a_generations_end_falls_back_to_the_one_before(
    talk: Branches,
) -> None:
    await talk.observe(None, "b")
    await talk.observe("b", "e")
    await talk.line("c", "x", "y")
    assert await talk.shows("y") == ["o-b"]
    assert await talk.shows("c") == ["o-b"]
    assert await talk.shows("a") == []
    assert await talk.shows("e") == ["o-b", "o-e"]


async def test_a_fork_before_a_reflection_still_shows_what_that_left_out(talk: Branches) -> None:
    await talk.observe(None, "b", "1", "2")
    second = await talk.observe("b", "d", "3")
    await talk.line("c", "x")
    assert await talk.reflect("d", "r", expected=second) is not None
    assert await talk.shows("x") == ["1", "2"]
    assert await talk.shows("f") == ["r"]


async def test_a_fork_before_a_slices_end_observes_from_the_same_start(talk: Branches) -> None:
    await talk.observe(None, "a")
    await talk.observe("a", "e")
    await talk.line("d", "x", "y")
    # Its first slice may end on what both branches share.
    assert await talk.slice("a", "e", "again") is None
    await talk.observe("a", "c")
    await talk.observe("c", "y")
    assert await talk.shows("y") == ["o-a", "o-c", "o-y"]
    assert await talk.shows("f") == ["o-a", "o-e"]


async def test_two_branches_have_slices_from_the_same_start(talk: Branches) -> None:
    await talk.line("b", "x", "y")
    assert await talk.slice("a", "d") is not None
    first = await talk.observe(None, "a")
    fork = await talk.slice("a", "y")
    assert fork is not None
    assert slices(await talk.compacted("f")) == ["d"]
    assert slices(await talk.compacted("y")) == ["y"]
    assert await talk.activate(fork.number, expected=first)
    assert await talk.shows("y") == ["o-a", "o-y"]
    assert await talk.shows("f") == ["o-a"]


async def test_of_two_slices_from_one_start_the_longer_one_is_ready(talk: Branches) -> None:
    longer, shorter = await talk.slice(None, "d"), await talk.slice(None, "b")
    assert longer is not None
    assert shorter is not None
    assert slices(await talk.compacted("f")) == ["d"]
    assert slices(await talk.compacted("c")) == ["b"]
    assert await talk.activate(longer.number)
    assert await talk.slice("d", "e") is not None
    assert slices(await talk.compacted("f")) == ["e"]


async def test_a_reflection_of_a_fork_leaves_the_other_branch_alone(talk: Branches) -> None:
    first = await talk.observe(None, "b")
    await talk.observe("b", "d")
    await talk.line("c", "x")
    assert await talk.reflect("b", "r", expected=first) is not None
    assert await talk.shows("x") == ["r"]
    assert await talk.shows("f") == ["o-b", "o-d"]


async def test_the_modes_do_not_see_each_other(talk: Branches) -> None:
    await talk.observe(None, "d")
    made = await talk.summarise(None, "b")
    assert made is not None
    assert await talk.shows("f") == ["o-d"]
    found = await talk.compacted("f", "summary")
    assert (found.summary, found.observations, found.through) == ("until b", (), "b")
    assert await talk.observe("d", "e") > made.number


async def test_a_summary_stands_for_the_ones_before_it(talk: Branches) -> None:
    first = await talk.summarise(None, "b")
    assert first is not None
    second = await talk.summarise("b", "d", expected=first.number)
    assert second is not None
    await talk.line("c", "x")
    assert (await talk.compacted("f", "summary")).generation == second
    assert (await talk.compacted("x", "summary")).generation == first
    assert (second.after_depth, second.through_depth) == (1, 3)


async def test_a_span_is_a_stretch_of_its_path(talk: Branches) -> None:
    await talk.line("c", "x", "y")
    span = await talk.memory.span(talk.owner, talk.id, "b", "y")
    assert span is not None
    assert [m.id for m in span.messages] == ["c", "x", "y"]
    assert (span.after_depth, span.through_depth) == (1, 4)
    whole = await talk.memory.span(talk.owner, talk.id, None, "b")
    assert whole is not None
    assert ([m.id for m in whole.messages], whole.after_depth) == (["a", "b"], -1)


async def test_a_span_of_nothing_is_empty(talk: Branches) -> None:
    span = await talk.memory.span(talk.owner, talk.id, "b", "b")
    assert span is not None
    assert (span.messages, span.after_depth, span.through_depth) == ((), 1, 1)


@pytest.mark.parametrize(
    ("after", "through"), [("d", "b"), ("x", "f"), ("d", "x"), ("nobody", "b"), (None, "nobody")]
)
async def test_what_is_no_stretch_of_one_path_is_no_span(
    talk: Branches, after: str | None, through: str
) -> None:
    await talk.line("c", "x")
    assert await talk.memory.span(talk.owner, talk.id, after, through) is None


async def test_all_generations_of_a_path_are_listed_with_what_a_prompt_shows(
    talk: Branches,
) -> None:
    first = await talk.observe(None, "a")
    second = await talk.observe("a", "b")
    assert await talk.reflect("b", "r", expected=second) is not None
    await talk.slice("b", "c")
    await talk.slice("c", "e")
    await talk.summarise(None, "b")
    await talk.line("b", "x")
    await talk.observe("b", "x")
    listed = await talk.memory.observations(talk.owner, talk.id, "d")
    assert [(g.number, g.kind, shown) for g, shown in listed] == [
        (first, "observations", False),
        (second, "observations", False),
        (3, "reflection", True),
        (4, "observations", False),
        (6, "summary", True),
    ]
    assert [o.id for o in listed[2][0].observations] == ["r"]


# What a turn reads


async def test_a_turn_without_a_generation_reads_the_whole_branch(talk: Branches) -> None:
    context = await talk.turn(talk.message("next", "f"))
    assert (ids(context), context.window_depth) == (list(A_TO_F), 0)
    assert context.compacted == Compacted()


async def test_a_turn_without_a_mode_is_told_nothing_of_compaction(talk: Branches) -> None:
    await talk.observe(None, "c")
    context = await talk.store.open_turn(talk.query(talk.message("next", "f")))
    assert (context.compacted, ids(context)) == (None, list(A_TO_F))


async def test_a_turn_reads_what_is_behind_the_last_compacted_message(talk: Branches) -> None:
    await talk.observe(None, "b")
    await talk.observe("b", "c")
    await talk.slice("c", "d")
    context = await talk.turn(talk.message("next", "f"))
    assert (ids(context), context.window_depth) == (["d", "e", "f"], 3)
    assert context.compacted == await talk.compacted("f")
    assert slices(context.compacted) == ["d"]


async def test_a_turn_with_a_summary_reads_what_is_behind_it(talk: Branches) -> None:
    await talk.observe(None, "b")
    assert await talk.summarise(None, "d") is not None
    context = await talk.turn(talk.message("next", "f"), kind="summary")
    assert context.compacted is not None
    assert (ids(context), context.compacted.summary) == (["e", "f"], "until d")


async def test_a_turn_on_a_fork_reads_from_where_it_falls_back_to(talk: Branches) -> None:
    await talk.observe(None, "b")
    await talk.observe("b", "e")
    context = await talk.turn(talk.message("next", "d"))
    assert (ids(context), context.window_depth) == (["c", "d"], 2)


async def test_a_pinned_generation_stays_readable_after_a_reflection(talk: Branches) -> None:
    await talk.observe(None, "b", "1", "2")
    pinned = await talk.observe("b", "c", "3")
    question = talk.message("next", "f")
    before = await talk.turn(question)
    assert await talk.reflect("c", "r", expected=pinned) is not None
    await talk.observe("c", "e")
    assert await talk.turn(question, pinned) == before
    later = await talk.turn(question)
    assert (ids(later), await talk.shows("next")) == (["f"], ["r", "o-e"])


async def test_a_run_that_pinned_no_generation_is_shown_none(talk: Branches) -> None:
    question = talk.message("next", "f")
    before = await talk.turn(question)
    await talk.observe(None, "e")
    assert await talk.turn(question, pinned=0) == before


async def test_a_run_whose_own_steps_were_compacted_has_no_history(talk: Branches) -> None:
    await talk.line("f", "next", "own1", "own2")
    number = await talk.observe(None, "own1")
    question = talk.message("next", "f")
    context = await talk.turn(question, pinned=number)
    assert (ids(context), context.window_depth) == ([], 8)
    assert context.compacted is not None
    assert context.compacted.through == "own1"


async def test_a_run_finds_the_slices_of_its_own_steps(talk: Branches) -> None:
    await talk.slice(None, "c")
    await talk.line("f", "next", "own1", "own2")
    await talk.slice("c", "own1")
    question = talk.message("next", "f")
    assert slices((await talk.turn(question)).compacted) == ["c", "own1"]
    assert slices((await talk.turn(question, run_id="other run")).compacted) == ["c"]


async def test_a_run_finds_the_slices_of_its_own_steps_on_a_branch_of_their_own(
    talk: Branches,
) -> None:
    question, *own = talk.chain("f", "next", "own1", "own2")
    await talk.turn(question)
    await talk.line("next", "taken")
    await talk.save(question, *own)
    await talk.slice(None, "own2")
    assert slices((await talk.turn(question)).compacted) == ["own2"]


async def test_slices_of_a_run_on_another_branch_are_not_found(talk: Branches) -> None:
    await talk.line("c", "u", "v", "w", "x", "y")
    await talk.slice(None, "y")
    question = talk.message("next", "f")
    assert slices((await talk.turn(question)).compacted) == []


async def test_recall_finds_what_left_the_prompt_and_nothing_that_it_shows(talk: Branches) -> None:
    texts = [
        IndexedText(thread_id=talk.id, message_id=id, agent="support", text=f"swordfish {id}")
        for id in A_TO_F
    ]
    await talk.memory.index_messages(talk.owner, texts)
    asked = RecallQuery(
        agent="support", text="swordfish", thread_id=talk.id, before=0, after=0, top_k=9, now=AT
    )
    question = talk.message("next", "f")
    assert (await talk.turn(question, recall=asked)).recalled == ()
    await talk.observe(None, "b")
    await talk.observe("b", "d")
    context = await talk.turn(question, recall=asked)
    assert [r.message.id for r in context.recalled] == ["a", "b", "c", "d"]
    assert ids(context) == ["e", "f"]
    # A compaction mode comes before whatever else says what is shown.
    assert await talk.turn(question, recall=asked, max_messages=1) == context
    assert await talk.turn(question, recall=asked, pinned_depth=1) == context


async def test_a_repeated_turn_reads_the_same(talk: Branches) -> None:
    await talk.observe(None, "c")
    question = talk.message("next", "f")
    assert await talk.turn(question) == await talk.turn(question)


async def test_a_turn_is_told_which_of_the_messages_that_it_shows_are_gone(
    talk: Branches, stores: Stores
) -> None:
    other, erased = (Branches(stores, talk.owner, id) for id in ("other", "erased"))
    await other.line(None, "v")
    await erased.line(None, "w")
    await Branches(stores, f"{talk.owner}-stranger").line(None, "z")
    await talk.store.erase(talk.owner, "erased")
    context = await talk.turn(talk.message("next", "f"), shown=("w", "a", "z", "v", "nobody"))
    assert context.gone == ("w", "z", "nobody")


# At the same time


@pytest.fixture
async def racers(
    request: pytest.FixtureRequest, stores: Stores, talk: Branches
) -> AsyncIterator[list[Branches]]:
    """The same conversation, over connections of their own."""
    databases: list[Database] = []
    if isinstance(stores.threads, PostgresThreads):
        postgres: TestPostgres = request.getfixturevalue("postgres")
        databases = [Database(postgres.runtime) for _ in range(8)]
    real = [Stores(PostgresThreads(d), PostgresMemory(d)) for d in databases]
    yield [Branches(each, talk.owner) for each in real or [stores] * 8]
    for database in databases:
        await database.close()


async def test_of_eight_who_add_the_same_slice_one_does(racers: list[Branches]) -> None:
    made = await asyncio.gather(*(r.slice(None, "c", f"o{n}") for n, r in enumerate(racers)))
    (slice,) = [g for g in made if g]
    assert (await racers[0].compacted("f")).slices == (slice,)


async def test_of_eight_who_activate_the_same_slices_one_does(racers: list[Branches]) -> None:
    made = [await racers[0].slice(None, "b"), await racers[0].slice("b", "d")]
    numbers = [g.number for g in made if g]
    done = await asyncio.gather(*(r.activate(*numbers) for r in racers))
    assert sorted(done) == [False] * 7 + [True]
    assert await racers[0].shows("f") == ["o-b", "o-d"]


async def test_of_eight_who_replace_the_same_generation_one_does(racers: list[Branches]) -> None:
    number = await racers[0].observe(None, "c")
    made = await asyncio.gather(
        *(r.reflect("c", f"r{n}", f"s{n}", expected=number) for n, r in enumerate(racers))
    )
    (reflection,) = [g for g in made if g]
    found = await racers[0].compacted("f")
    assert found.generation == reflection
    assert found.observations == reflection.observations


async def test_an_activation_a_reflection_and_slices_at_once_leave_one_chain(
    racers: list[Branches],
) -> None:
    first = await racers[0].observe(None, "b", "1")
    second = await racers[0].slice("b", "d", "2")
    assert second is not None
    one, two, three, four, *others = racers
    activated, reflected, again, late, *added = await asyncio.gather(
        one.activate(second.number, expected=first),
        two.reflect("b", "r", expected=first),
        three.activate(second.number, expected=first),
        four.slice("b", "e", "late"),
        *(r.slice("d", "e", f"o{n}") for n, r in enumerate(others)),
    )
    assert late is None
    assert sum(g is not None for g in added) == 1
    assert sum((activated, again, reflected is not None)) in (1, 2)
    shown = await one.shows("f")
    # Activated first: the reflection comes too late for this path. Reflected first: so does the other.
    assert shown == (["1", "2"] if activated or again else ["r"])


async def test_what_was_spent_is_kept_with_what_was_made_and_once(
    stores: Stores, talk: Branches, request: pytest.FixtureRequest
) -> None:
    assert await talk.slice(None, "b") is not None
    assert await talk.slice(None, "c") is None
    assert await talk.summarise(None, "b") is not None
    assert await talk.summarise(None, "d") is None
    made = new("observations", "b", "d", "again")
    assert await talk.memory.add_slice(talk.owner, talk.id, made, "run", [spent("b")]) is not None
    assert sorted(await _spent(stores, talk, request)) == [
        ("b", "background", 7),
        ("summary/b", "background", 7),
    ]


async def test_what_was_spent_in_vain_is_kept_once_and_of_no_thread_that_is_gone(
    stores: Stores, talk: Branches, request: pytest.FixtureRequest
) -> None:
    await talk.memory.spend(talk.owner, talk.id, "run", [])
    await talk.memory.spend(talk.owner, "nothing", "run", [spent("lost")])
    for _ in range(2):
        await talk.memory.spend(talk.owner, talk.id, "run", [spent("observer/1")])
    assert await _spent(stores, talk, request) == [("observer/1", "background", 7)]


async def _spent(
    stores: Stores, talk: Branches, request: pytest.FixtureRequest
) -> list[tuple[str, str, int]]:
    if isinstance(stores.threads, InMemoryThreads):
        rows = stores.threads.spent.items()
        return [(step, kind, u.usage.input_tokens) for (_, _, step), (kind, u) in rows]
    import psycopg

    postgres: TestPostgres = request.getfixturevalue("postgres")
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (talk.owner,))
        return connection.execute("select step, kind, input_tokens from usage").fetchall()
