"""One budget for all that memory's searches put into a prompt."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover import Memory
from layover.context.tokens import estimate
from layover.plugins.memory.reads.episodic.rendering import memory_block
from layover.plugins.memory.reads.injection import Injection, choose_injection, recall_budget
from layover.plugins.memory.reads.semantic.rendering import recalled_block
from layover.values.memory.context import Recalled
from layover.values.memory.entry import FoundEntry
from layover.values.message import Message, Role, TextPart
from support.examples import examples

AT = datetime(2026, 5, 1, tzinfo=UTC)
FILLER = "and then we went on with the meeting as usual. " * 200


def recalled(text: str, place: int, *, score: float | None = None, thread: str = "t") -> Recalled:
    return Recalled(
        message=Message(
            id=f"m{place} of {thread}",
            thread_id=thread,
            role=Role.USER,
            content=(TextPart(text=text),),
            created_at=AT + timedelta(minutes=place),
        ),
        match=score is not None,
        score=score,
        place=place,
    )


def entry(text: str, number: int = 0) -> FoundEntry:
    return FoundEntry(
        id=f"e{number}",
        agent="a",
        content=text,
        source="user_assertion",
        evidence=text,
        created_at=AT,
        thread_id="old",
    )


def size(injection: Injection) -> int:
    """Return the tokens of what a prompt shows of it."""
    blocks = (
        recalled_block(list(injection.recalled.values())),
        memory_block(list(injection.entries.values())),
    )
    return sum(map(estimate, blocks))


@pytest.mark.parametrize(
    ("window", "tokens"), [(4_000, 400), (8_000, 800), (128_000, 3_000), (None, 3_000)]
)
def test_the_budget_is_a_tenth_of_the_window_and_3000_tokens_at_most(
    window: int | None, tokens: int
) -> None:
    assert recall_budget(Memory(), window) == tokens
    assert recall_budget(Memory(recall_tokens=700), window) == 700


def test_a_budget_that_holds_nothing_shows_nothing() -> None:
    found = [recalled("the code is 4711", 1, score=1.0)], [entry("the code is 4711")]
    assert choose_injection(*found, "the code?", 5, AT) == Injection()


def test_long_texts_are_excerpts_around_what_was_looked_for() -> None:
    said = recalled(f"{FILLER}My locker code is 4711. {FILLER}", 1, score=1.0)
    learned = entry(f"{FILLER}The locker of Ann is blue. {FILLER}")
    chosen = choose_injection([said], [learned], "which locker code?", 3_000, AT)
    (line,) = chosen.recalled.values()
    assert "My locker code is 4711." in line
    assert estimate(line) < 330
    assert "The locker of Ann is blue." in chosen.entries["e0"]


def test_short_texts_are_whole() -> None:
    said = recalled("My locker code is 4711.", 1, score=1.0)
    (line,) = choose_injection([said], [], "which code?", 3_000, AT).recalled.values()
    assert line == "[2026-05-01 00:01] user: My locker code is 4711."


def test_the_best_of_both_kinds_come_first_and_neighbours_last() -> None:
    found = [
        recalled("before the second", 3),
        recalled("the second " * 9, 4, score=0.5),
        recalled("before the best", 6),
        recalled("the best " * 9, 7, score=0.9),
    ]
    entries = [entry("lesson one " * 9, 1), entry("lesson two " * 9, 2)]
    whole = choose_injection(found, entries, "best", 3_000, AT)
    assert len(whole.recalled) + len(whole.entries) == 6
    shown: list[set[str]] = []
    for budget in range(size(whole) + 40):
        chosen = choose_injection(found, entries, "best", budget, AT)
        ids = {id.partition(" ")[0] for id in (*chosen.recalled, *chosen.entries)}
        assert size(chosen) <= budget
        if not shown or ids != shown[-1]:
            shown.append(ids)
    firsts = [shown[i] for i in range(len(shown)) if len(shown[i]) in (2, 4, 6)]
    assert {"e1", "m7"} in firsts
    assert {"e1", "m7", "e2", "m4"} in firsts
    assert firsts[-1] == {"e1", "e2", "m3", "m4", "m6", "m7"}


def test_lines_stay_in_the_order_of_the_conversation() -> None:
    found = [recalled("one", 1, score=0.1), recalled("two", 2), recalled("three", 3, score=0.9)]
    chosen = choose_injection(found, [], "three", 3_000, AT)
    assert list(chosen.recalled) == ["m1 of t", "m2 of t", "m3 of t"]


TEXTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from(["a ", "<&>\n", "\u6f22\u5b57", "the locker code. "]).map(lambda s: s * 900),
)


@examples(150)
@given(
    st.lists(st.tuples(TEXTS, st.none() | st.floats(0, 1)), max_size=30),
    st.lists(TEXTS, max_size=20),
    TEXTS,
    st.sampled_from([4_000, 8_000, 128_000, None]),
)
def test_whatever_was_found_has_its_share_of_the_window_at_most(
    messages: list[tuple[str, float | None]],
    entries: list[str],
    query: str,
    window: int | None,
) -> None:
    found = [recalled(text, n, score=score) for n, (text, score) in enumerate(messages)]
    learned = [entry(text, n) for n, text in enumerate(entries)]
    budget = recall_budget(Memory(), window)
    chosen = choose_injection(found, learned, query, budget, AT)
    assert size(chosen) <= budget <= (window or 30_000) / 10
