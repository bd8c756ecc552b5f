"""The observer's set: what is read from given answers, and what the observer gets to see."""

import json

import pytest

from eval import observing
from eval.cases import Observed, matches, observed
from eval.scores import judged
from layover.plugins.memory.reads.blocks import render_observations


def each(*, telling: bool = False) -> pytest.MarkDecorator:
    """Every conversation (`telling`: whose script is of use), by its id."""
    cases = [c for c in observed() if c.lines or not telling]
    return pytest.mark.parametrize("case", cases, ids=lambda c: c.id)


@each()
def test_an_answer_is_read_as_it_has_to_be(case: Observed) -> None:
    read = observing.lines(case, case.scripted)
    tops = [o.id for o in read if o.parent_id is None]
    got = [(o.marker, o.at, o.text, o.parent_id in tops) for o in read]
    assert got == [(e.marker, e.at, e.text, e.child) for e in case.lines]


@each(telling=True)
def test_the_scripted_answer_says_all_that_it_must_and_nothing_else(case: Observed) -> None:
    score = judged(case, [line.text for line in case.lines])
    assert score.remarks == []


@each()
def test_what_must_be_observed_is_in_what_the_observer_reads(case: Observed) -> None:
    said = json.dumps([m.model_dump(mode="json") for m in case.messages], ensure_ascii=False)
    asked = observing.request(case, "m").messages[-1].text
    for fact in case.must:
        assert fact.evidence in said
        assert fact.evidence in asked
    assert [k for k in case.known if k not in asked] == []


@each()
def test_the_observer_is_shown_no_secret_and_nothing_that_closes_its_block(case: Observed) -> None:
    asked = observing.request(case, "m").messages[-1].text
    assert [p for p in case.hidden if matches(p, asked)] == []
    assert asked.count("</transcript>") == 1


@each(telling=True)
def test_observations_cannot_close_their_block(case: Observed) -> None:
    shown = render_observations(observing.lines(case, case.scripted))
    assert shown.count("</observations>") == 1
    assert "<system>" not in shown


def test_there_are_conversations_enough() -> None:
    assert len(observed()) >= 8
    assert len({c.id for c in observed()}) == len(observed())
    assert len({c.language for c in observed()}) >= 4
    assert any(not c.lines for c in observed())
