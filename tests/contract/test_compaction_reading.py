"""Reads of a compacted thread: by turns, compactions and recall; in memory and on Postgres."""

import pytest

from layover.values.memory.compaction import Compacted
from layover.values.memory.context import IndexedText, RecallQuery
from support.worlds.compaction import A_TO_F, AT, Branches, ids, slices
from support.worlds.threads import Stores


async def test_a_span_is_a_stretch_of_its_path(branches: Branches) -> None:
    await branches.line("c", "x", "y")
    span = await branches.memory.span(branches.owner, branches.id, "b", "y")
    assert span is not None
    assert [m.id for m in span.messages] == ["c", "x", "y"]
    assert (span.after_depth, span.through_depth) == (1, 4)
    whole = await branches.memory.span(branches.owner, branches.id, None, "b")
    assert whole is not None
    assert ([m.id for m in whole.messages], whole.after_depth) == (["a", "b"], -1)


async def test_a_span_of_nothing_is_empty(branches: Branches) -> None:
    span = await branches.memory.span(branches.owner, branches.id, "b", "b")
    assert span is not None
    assert (span.messages, span.after_depth, span.through_depth) == ((), 1, 1)


@pytest.mark.parametrize(
    ("after", "through"), [("d", "b"), ("x", "f"), ("d", "x"), ("nobody", "b"), (None, "nobody")]
)
async def test_what_is_no_stretch_of_one_path_is_no_span(
    branches: Branches, after: str | None, through: str
) -> None:
    await branches.line("c", "x")
    assert await branches.memory.span(branches.owner, branches.id, after, through) is None


async def test_all_generations_of_a_path_are_listed_with_what_a_prompt_shows(
    branches: Branches,
) -> None:
    first = await branches.observe(None, "a")
    second = await branches.observe("a", "b")
    assert await branches.reflect("b", "r", expected=second) is not None
    await branches.slice("b", "c")
    await branches.slice("c", "e")
    await branches.summarise(None, "b")
    await branches.line("b", "x")
    await branches.observe("b", "x")
    listed = await branches.memory.observations(branches.owner, branches.id, "d")
    assert [(g.number, g.kind, shown) for g, shown in listed] == [
        (first, "observations", False),
        (second, "observations", False),
        (3, "reflection", True),
        (4, "observations", False),
        (6, "summary", True),
    ]
    assert [o.id for o in listed[2][0].observations] == ["r"]


# What a turn reads


async def test_a_turn_without_a_generation_reads_the_whole_branch(branches: Branches) -> None:
    context = await branches.turn(branches.message("next", "f"))
    assert (ids(context), context.window_depth) == (list(A_TO_F), 0)
    assert context.compacted == Compacted()


async def test_a_turn_without_a_mode_is_told_nothing_of_compaction(branches: Branches) -> None:
    await branches.observe(None, "c")
    context = await branches.store.open_turn(branches.query(branches.message("next", "f")))
    assert (context.compacted, ids(context)) == (None, list(A_TO_F))


async def test_a_turn_reads_what_is_behind_the_last_compacted_message(branches: Branches) -> None:
    await branches.observe(None, "b")
    await branches.observe("b", "c")
    await branches.slice("c", "d")
    context = await branches.turn(branches.message("next", "f"))
    assert (ids(context), context.window_depth) == (["d", "e", "f"], 3)
    assert context.compacted == await branches.compacted("f")
    assert slices(context.compacted) == ["d"]


async def test_a_turn_with_a_summary_reads_what_is_behind_it(branches: Branches) -> None:
    await branches.observe(None, "b")
    assert await branches.summarise(None, "d") is not None
    context = await branches.turn(branches.message("next", "f"), kind="summary")
    assert context.compacted is not None
    assert (ids(context), context.compacted.summary) == (["e", "f"], "until d")


async def test_a_turn_on_a_fork_reads_from_where_it_falls_back_to(branches: Branches) -> None:
    await branches.observe(None, "b")
    await branches.observe("b", "e")
    context = await branches.turn(branches.message("next", "d"))
    assert (ids(context), context.window_depth) == (["c", "d"], 2)


async def test_a_pinned_generation_stays_readable_after_a_reflection(branches: Branches) -> None:
    await branches.observe(None, "b", "1", "2")
    pinned = await branches.observe("b", "c", "3")
    question = branches.message("next", "f")
    before = await branches.turn(question)
    assert await branches.reflect("c", "r", expected=pinned) is not None
    await branches.observe("c", "e")
    assert await branches.turn(question, pinned) == before
    later = await branches.turn(question)
    assert (ids(later), await branches.shows("next")) == (["f"], ["r", "o-e"])


async def test_a_run_that_pinned_no_generation_is_shown_none(branches: Branches) -> None:
    question = branches.message("next", "f")
    before = await branches.turn(question)
    await branches.observe(None, "e")
    assert await branches.turn(question, pinned=0) == before


async def test_a_run_whose_own_steps_were_compacted_has_no_history(branches: Branches) -> None:
    await branches.line("f", "next", "own1", "own2")
    number = await branches.observe(None, "own1")
    question = branches.message("next", "f")
    context = await branches.turn(question, pinned=number)
    assert (ids(context), context.window_depth) == ([], 8)
    assert context.compacted is not None
    assert context.compacted.through == "own1"


async def test_a_run_finds_the_slices_of_its_own_steps(branches: Branches) -> None:
    await branches.slice(None, "c")
    await branches.line("f", "next", "own1", "own2")
    await branches.slice("c", "own1")
    question = branches.message("next", "f")
    assert slices((await branches.turn(question)).compacted) == ["c", "own1"]
    assert slices((await branches.turn(question, run_id="other run")).compacted) == ["c"]


async def test_a_run_finds_the_slices_of_its_own_steps_on_a_branch_of_their_own(
    branches: Branches,
) -> None:
    question, *own = branches.chain("f", "next", "own1", "own2")
    await branches.turn(question)
    await branches.line("next", "taken")
    await branches.save(question, *own)
    await branches.slice(None, "own2")
    assert slices((await branches.turn(question)).compacted) == ["own2"]


async def test_slices_of_a_run_on_another_branch_are_not_found(branches: Branches) -> None:
    await branches.line("c", "u", "v", "w", "x", "y")
    await branches.slice(None, "y")
    question = branches.message("next", "f")
    assert slices((await branches.turn(question)).compacted) == []


async def test_recall_finds_what_left_the_prompt_and_nothing_that_it_shows(
    branches: Branches,
) -> None:
    texts = [
        IndexedText(thread_id=branches.id, message_id=id, agent="support", text=f"swordfish {id}")
        for id in A_TO_F
    ]
    await branches.memory.index_messages(branches.owner, texts)
    asked = RecallQuery(
        agent="support", text="swordfish", thread_id=branches.id, before=0, after=0, top_k=9, now=AT
    )
    question = branches.message("next", "f")
    assert (await branches.turn(question, recall=asked)).recalled == ()
    await branches.observe(None, "b")
    await branches.observe("b", "d")
    context = await branches.turn(question, recall=asked)
    assert [r.message.id for r in context.recalled] == ["a", "b", "c", "d"]
    assert ids(context) == ["e", "f"]
    # A compaction mode comes before whatever else says what is shown.
    assert await branches.turn(question, recall=asked, max_messages=1) == context
    assert await branches.turn(question, recall=asked, pinned_depth=1) == context


async def test_a_repeated_turn_reads_the_same(branches: Branches) -> None:
    await branches.observe(None, "c")
    question = branches.message("next", "f")
    assert await branches.turn(question) == await branches.turn(question)


async def test_a_turn_is_told_which_of_the_messages_that_it_shows_are_gone(
    branches: Branches, thread_stores: Stores
) -> None:
    other, erased = (Branches(thread_stores, branches.owner, id) for id in ("other", "erased"))
    await other.line(None, "v")
    await erased.line(None, "w")
    await Branches(thread_stores, f"{branches.owner}-stranger").line(None, "z")
    await branches.store.erase(branches.owner, "erased")
    context = await branches.turn(
        branches.message("next", "f"), shown=("w", "a", "z", "v", "nobody")
    )
    assert context.gone == ("w", "z", "nobody")
