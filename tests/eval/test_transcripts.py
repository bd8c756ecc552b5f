"""The extractor's set: given answers go through the product, and exactly what has to be is kept."""

import logging
from collections import Counter
from typing import Any

import pytest

from eval.cases import (
    KEPT,
    TOPICS,
    Outcome,
    Proposal,
    Transcript,
    Turn,
    every_transcript,
    transcripts,
)
from eval.run import deviation, rehearsed
from eval.scores import judged
from layover.plugins.memory.learns.text.evidence import Witness, missing_anchors, says_enough

LANGUAGES = {"en", "de", "fr", "es", "pt", "zh", "ja", "ar", "hi", "ru"}


def each(*, awaiting: bool = True) -> pytest.MarkDecorator:
    """Every transcript, by its id; or those that await nothing of the product."""
    cases = [c for c in every_transcript() if awaiting or not c.awaits]
    return pytest.mark.parametrize("case", cases, ids=lambda c: c.id)


def every_one() -> pytest.MarkDecorator:
    """Every transcript; those that await a change of the product fail until it has come."""
    return pytest.mark.parametrize("case", [_param(case) for case in every_transcript()])


def _param(case: Transcript) -> Any:
    late = pytest.mark.xfail(reason=case.awaits or "", strict=True)
    return pytest.param(case, id=case.id, marks=[late] if case.awaits else [])


@every_one()
async def test_memory_holds_exactly_what_it_has_to(
    case: Transcript, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="layover"):
        found = await rehearsed(case)
    assert deviation(case, found) == ""
    # An extraction that broke down would keep nothing, too.
    # A tool that fails is part of some conversations.
    broken = [r.getMessage() for r in caplog.records if r.msg != "tool %s failed with %s"]
    assert broken == []


@each()
async def test_the_extractor_reads_no_secret_and_results_of_trusted_tools_alone(
    case: Transcript,
) -> None:
    found = await rehearsed(case)
    read = "\n".join(p.messages[-1].text for p in found.asked)
    texts = [u for uses in case.tools.values() for u in uses if isinstance(u.result, str)]
    doubtful = {u.name for u in texts if not u.trusted}
    assert [u.result for u in texts if u.name in doubtful and str(u.result) in read] == []
    for secret in ("Tr0ub4dor", "sk-live", "Xk29"):
        assert secret not in read


@each()
def test_the_script_remembers_all_that_it_must_and_nothing_else(case: Transcript) -> None:
    assert judged(case, [text for text, _ in case.kept]).remarks == []


@each()
def test_what_must_be_remembered_was_said(case: Transcript) -> None:
    said = [" ".join(text.split()) for text in case.texts("user", "assistant")]
    for fact in case.must:
        assert any(" ".join(fact.evidence.split()) in text for text in said), fact.fact


@each(awaiting=False)
def test_every_proposal_deserves_what_becomes_of_it(case: Transcript) -> None:
    texts = case.texts("user", "assistant")
    astray = [
        proposal.content
        for turn, proposal in case.proposals()
        if not _deserved(turn, texts[: texts.index(turn.user)], proposal)
    ]
    assert astray == []


def _deserved(turn: Turn, texts_before: list[str], proposal: Proposal) -> bool:
    everything = [turn.user, *turn.assistant]
    said = any(Witness(text).piece(proposal.evidence) for text in everything)
    has_result = any(not use.is_error for step in turn.steps for use in step.tools)
    vouched = said if has_result else Witness(turn.user).piece(proposal.evidence) is not None
    invented = bool(missing_anchors(proposal.content, [*texts_before, *everything]))
    reasons: dict[Outcome, bool] = {
        "no_evidence": not said,
        "wrong_role": said and not vouched,
        "too_short": not said and not says_enough(proposal.evidence),
        "other": proposal.kind == "other",
        "unsaid": vouched and invented,
    }
    # What was made up leads to the words of its quote, which may be known by then.
    is_quote = proposal.stored_as or proposal.outcome in ("similar", "duplicate")
    return reasons.get(proposal.outcome, vouched and (not invented or bool(is_quote)))


def test_the_set_covers_every_topic_and_language() -> None:
    cases = transcripts()
    assert len(cases) >= 44
    assert len({c.id for c in cases}) == len(cases)
    assert Counter(c.topic for c in cases).keys() == set(TOPICS)
    assert {c.language for c in cases} >= LANGUAGES


def test_the_set_has_what_must_be_kept_and_what_must_not() -> None:
    cases = transcripts()
    outcomes = Counter(p.outcome for c in cases for _, p in c.proposals())
    assert sum(bool(c.must) for c in cases) >= 30
    assert sum(not c.must for c in cases) >= 15
    assert outcomes.keys() >= {*KEPT, "superseded", "no_evidence", "wrong_role", "too_short"}
    assert outcomes.keys() >= {"other", "unsaid", "empty", "duplicate", "similar", "too_many"}
