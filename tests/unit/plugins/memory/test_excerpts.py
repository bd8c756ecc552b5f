"""Excerpts around what was looked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.plugins.memory.text.excerpts import excerpt
from layover.plugins.memory.text.index_words import alternatives, query_terms
from layover.plugins.memory.text.words import words
from support.examples import examples

FILLER = "and then we went on with the meeting as usual. " * 40


def test_a_short_text_is_whole() -> None:
    assert excerpt("the code is 4711", {"code"}, 16) == "the code is 4711"


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("My locker code is 4711.", "locker codes"),
        ("The order A-1002 is late.", "A-1002"),
        ("\u6211\u7684\u732b\u53eb\u5c0f\u9ed1\u3002", "\u5c0f\u9ed1"),
        ("மதுரையில் வசிக்கிறாள்.", "வசிக்கிறாள்"),
        ("वह हैदराबाद\u0964 में है", "हैदराबाद"),
        ("au cafe\u0301\u2014ferme\u0301", "fermé"),
        ("«Élysée», dit-elle", "elysee"),
    ],
)
@pytest.mark.parametrize("before", ["", FILLER])
def test_an_excerpt_is_around_what_was_looked_for(before: str, said: str, query: str) -> None:
    looked_for = {*words(query), *alternatives(query_terms(query))}
    shown = excerpt(f"{before}{said} {FILLER}", looked_for, 120)
    assert said in shown
    assert len(shown) <= 120 + len("\u2026 ") + len(" \u2026")


def test_rare_words_draw_more_than_words_that_are_everywhere() -> None:
    text = f"{FILLER}My locker code is 4711. {FILLER}"
    assert "4711" in excerpt(text, set(words("the meeting about the locker")), 100)


def test_without_a_hit_it_is_the_beginning() -> None:
    assert excerpt(f"Dear all, {FILLER}", {"zebra"}, 60).startswith("Dear all, and then")


@examples(200)
@given(st.text(max_size=400), st.text(max_size=40), st.integers(1, 200))
def test_no_excerpt_is_longer_than_asked(text: str, query: str, length: int) -> None:
    shown = excerpt(text, set(words(query)), length)
    assert len(shown) <= max(length, min(len(text), length)) + 4
