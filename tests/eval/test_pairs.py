"""Pairs of statements: nothing about another matter is lost, whatever the extractor answers, and what it says
is replaced is."""

from collections import Counter
from typing import Literal

import pytest
from layover.desk.evals.replacements import Fate, fate_of

from eval.both_hold import both_hold
from eval.pairs import Pair, free_pairs, pairs
from eval.pairs_apart import pairs_apart

ALIKE = 0.95
"""The cosine that vectors give the two of any pair: nothing but words can tell them apart."""
VERBS_OF_SEVERAL = ("badge opens", "est joignable", "needs")
"""What of them a thing may have several of: only the user knows, or a model that read the conversation."""
STAYS, REPLACED, DROPPED = Fate.STAND, Fate.REPLACED, Fate.DROPPED
Says = Literal["replaces", "same"] | None


def fate(pair: Pair, says: Says, *, has_vector: bool) -> Fate:
    """The fate of a pair of which the extractor says that the new one `replaces` or is the `same` as the old
    one, or nothing."""
    return fate_of(pair.old, pair.new, similarity=ALIKE if has_vector else None, says=says)


def test_there_are_pairs_of_every_kind_in_several_languages() -> None:
    kinds = Counter(pair.kind for pair in pairs())
    assert kinds.keys() >= {"order", "server", "person", "side", "state", "unit"}
    assert min(kinds[k] for k in ("order", "server", "person", "side", "state", "unit")) >= 20
    assert len(pairs()) >= 250
    assert len({pair.language for pair in pairs()}) >= 8
    assert sum(pair.replaces for pair in pairs()) >= 100


@pytest.mark.parametrize("has_vector", [True, False])
def test_an_extractor_that_never_names_a_known_entry_loses_no_other_matter(
    has_vector: bool,
) -> None:
    every = (*pairs(), *free_pairs())
    others = [p for p in every if not p.replaces and fate(p, None, has_vector=has_vector) != STAYS]
    assert others == []
    # What takes the old one's place may stand next to it, and is never lost.
    lost = [p for p in every if p.replaces and fate(p, None, has_vector=has_vector) == DROPPED]
    assert lost == []


def share_of_replacements(some: tuple[Pair, ...], says: Says, *, has_vector: bool) -> float:
    """The share of true replacements that are made."""
    true = [p for p in some if p.replaces]
    return sum(fate(p, says, has_vector=has_vector) == REPLACED for p in true) / len(true)


@pytest.mark.parametrize("has_vector", [True, False])
def test_without_a_word_of_the_extractor_all_that_words_can_tell_is_replaced(
    has_vector: bool,
) -> None:
    true = [p for p in pairs() if p.replaces]
    unmade = [p for p in true if fate(p, None, has_vector=has_vector) != REPLACED]
    assert [p for p in unmade if not any(verb in p.old for verb in VERBS_OF_SEVERAL)] == []
    assert share_of_replacements(pairs(), None, has_vector=has_vector) >= 0.91
    assert share_of_replacements(free_pairs(), None, has_vector=has_vector) >= 0.9
    assert share_of_replacements(pairs_apart(), None, has_vector=has_vector) >= 0.88


@pytest.mark.parametrize("has_vector", [True, False])
def test_of_two_that_hold_in_nearly_the_same_words_none_is_lost(has_vector: bool) -> None:
    every = (*both_hold(), *(p for p in pairs_apart() if not p.replaces))
    assert len(both_hold()) >= 200
    assert [p for p in every if fate(p, None, has_vector=has_vector) != STAYS] == []


@pytest.mark.parametrize("has_vector", [True, False])
def test_what_says_that_it_comes_on_top_replaces_nothing_whatever_the_extractor_says(
    has_vector: bool,
) -> None:
    kinds = ("more", "history", "party")
    every = [p for p in both_hold() if p.kind in kinds]
    assert [p for p in every if fate(p, "replaces", has_vector=has_vector) != STAYS] == []


@pytest.mark.parametrize("has_vector", [True, False])
def test_an_extractor_that_names_what_is_replaced_loses_no_other_matter_and_is_believed(
    has_vector: bool,
) -> None:
    for some in (pairs(), free_pairs()):
        true = [p for p in some if p.replaces]
        fates = Counter(fate(p, "replaces", has_vector=has_vector) for p in true)
        assert fates[DROPPED] == 0
        assert fates[REPLACED] >= 0.95 * len(true), fates


@pytest.mark.parametrize("has_vector", [True, False])
def test_an_extractor_that_says_of_everything_that_it_is_the_same_loses_nothing(
    has_vector: bool,
) -> None:
    every = (*pairs(), *free_pairs())
    assert [p for p in every if fate(p, "same", has_vector=has_vector) == DROPPED] == []
    others = [p for p in every if not p.replaces]
    assert [p for p in others if fate(p, "same", has_vector=has_vector) != STAYS] == []


@pytest.mark.parametrize("has_vector", [True, False])
def test_an_extractor_that_says_of_everything_that_it_replaces_loses_no_other_thing(
    has_vector: bool,
) -> None:
    wrong = [
        p
        for p in (*pairs(), *free_pairs())
        if not p.replaces and fate(p, "replaces", has_vector=has_vector) != STAYS
    ]
    # Both are about the same thing, of which nobody but the extractor knows that two facts hold.
    assert {(p.old, p.new) for p in wrong} <= {
        ("The import is slow on Mondays.", "The import is lost on Mondays."),
        ("Anna Berg is the contact for invoices.", "Anna Berg is ill until Friday."),
    }
