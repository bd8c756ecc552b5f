"""Counts that may only fall. Nobody sees one more branch in a review; these tests do.

A test fails above its number, and below it as well: write the lower number down, so that nobody gives it
back."""

import ast
import math

import pytest

from support.taste import (
    PHRASES,
    body_lines,
    branched,
    branches,
    calls_by_position,
    functions_of,
    has_many_positional,
    in_pages,
    in_strings,
    long_bodies,
    nested,
    nesting,
    share_of_private_used_once,
)

SNIPPET = '''
def play(a, b, rest):
    """Do nothing."""

    if a and b or rest:
        for each in rest:
            f(1, 2, 3, 4, 5, 6)
    elif b:
        f(1, 2, 3, 4, 5, sixth=6)
    else:
        f(1, 2, 3, 4, 5, *rest)
'''

MAX_CALLS_BY_POSITION = 9
MAX_BRANCHED = 2
MAX_LONG_BODIES = 3
MAX_NESTED = 10
MAX_PRIVATE_USED_ONCE = 24
"""Percent of all functions."""
MAX_IN_PAGES = {"alone": 1, "beside": 3, "is no": 1, "of its own": 1}
MAX_IN_STRINGS = {"alone": 9, "beside": 1, "is no": 3, "of its own": 3}


def check_count(places: list[str], limit: int, instead: str) -> None:
    """Refuse a count that is not its limit, with what to do."""
    listed = "\n".join(places)
    assert len(places) <= limit, f"{len(places)} where {limit} may be: {instead}\n{listed}"
    assert len(places) == limit, f"only {len(places)} are left: lower {limit} to that"


def test_counts_are_of_what_a_reader_meets() -> None:
    (function,) = functions_of(ast.parse(SNIPPET))
    assert branches(function) == 1 + 1 + 2 + 1 + 1  # if, and, or, elif, for
    assert nesting(function) == 2
    assert body_lines(function) == 7
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    assert [has_many_positional(call) for call in calls] == [True, False, False]


def test_arguments_that_a_reader_must_count_get_no_more() -> None:
    check_count(
        calls_by_position(), MAX_CALLS_BY_POSITION, "name the arguments, or make them a value"
    )


def test_functions_with_many_branches_get_no_more() -> None:
    check_count(branched(), MAX_BRANCHED, "make rules a table, use `match`, or cut it by ideas")


def test_long_functions_get_no_more() -> None:
    check_count(long_bodies(), MAX_LONG_BODIES, "cut it where one idea ends")


def test_deeply_nested_functions_get_no_more() -> None:
    check_count(nested(), MAX_NESTED, "leave early, or give the inner block a name")


def test_private_functions_that_are_used_once_take_no_larger_share() -> None:
    share = math.ceil(share_of_private_used_once())
    assert share <= MAX_PRIVATE_USED_ONCE, (
        f"{share} %: a name that is read once must earn its place"
    )
    assert share >= MAX_PRIVATE_USED_ONCE - 1, (
        f"only {share} %: lower {MAX_PRIVATE_USED_ONCE} to that"
    )


@pytest.mark.parametrize("phrase", PHRASES)
def test_pages_get_no_more_phrases_that_read_translated(phrase: str) -> None:
    check_count(in_pages(phrase), MAX_IN_PAGES[phrase], "CONTRIBUTING.md, English")


@pytest.mark.parametrize("phrase", PHRASES)
def test_docstrings_and_messages_get_no_more_of_them(phrase: str) -> None:
    check_count(in_strings(phrase), MAX_IN_STRINGS[phrase], "CONTRIBUTING.md, English")
