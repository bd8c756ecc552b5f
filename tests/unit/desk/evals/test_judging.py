"""Judges, repeats, and reports."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pytest

from layover import Agent
from layover.desk.evals.cases import Case
from layover.desk.evals.outcome import Outcome
from layover.desk.evals.play import Play
from layover.desk.evals.report import Head, interval, json_of, junit_of, lines_of
from layover.desk.evals.runs_file import Setup
from layover.desk.evals.suite import evaluate
from layover.testing import ScriptedModel, fail, say

shop = Agent("shop", instructions="You sell furniture.")
CASE = {"name": "kind", "input": "hi", "expect": {"judge": "Be kind."}, "script": [{"say": "Go."}]}
YES, NO = '{"reason": "it is", "holds": true}', '{"reason": "it is not", "holds": false}'


async def judged(answers: Sequence[Any], judges: Sequence[str] = ("openai/j",)) -> Outcome:
    model = ScriptedModel([], background={"judge": answers})
    cases = [Case.model_validate(CASE)]
    (outcome,) = await evaluate(Play(shop), cases, judges=judges, judge_model=model)
    return outcome


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([say(NO)], "it is not"),
        ([say("It is kind."), say('{"holds": "yes", "reason": ""}')], "it gave no verdict"),
        ([fail("no such model", status=404)], "it gave no answer: no such model"),
    ],
)
async def test_rule_that_no_judge_finds_kept_fails(answers: Any, reason: str) -> None:
    (failure,) = (await judged(answers)).failures
    assert failure == f"judge: 0 of 1 find 'Be kind.' kept (openai/j: {reason})"


async def test_half_of_the_judges_are_not_enough() -> None:
    outcome = await judged([say(YES), say(NO)], ["openai/a", "openai/b"])
    assert outcome.failures == ("judge: 1 of 2 find 'Be kind.' kept (openai/b: it is not)",)
    assert [(v.judge, v.holds) for v in outcome.verdicts] == [
        ("openai/a", True),
        ("openai/b", False),
    ]


async def test_more_than_half_of_the_judges_keep_a_rule() -> None:
    fenced = YES.replace("it is", "it\nis")
    outcome = await judged([say(YES), say(NO), say(f"```json\n{fenced}\n```")], ["a", "b", "c"])
    assert outcome.holds
    assert len(outcome.verdicts) == 3


async def test_run_that_fails_is_not_judged_and_the_others_go_on() -> None:
    bad = {**CASE, "name": "bad", "script": [{"fail": "no", "status": 400}]}
    model = ScriptedModel([], background={"judge": [say(YES)]})
    cases = [Case.model_validate(each) for each in (bad, CASE)]
    ended: list[tuple[str, int, int]] = []
    outcomes = await evaluate(
        Play(shop),
        cases,
        judges=["openai/j"],
        judge_model=model,
        progress=lambda outcome, count, total: ended.append((outcome.case, count, total)),
    )
    assert [outcome.holds for outcome in outcomes] == [False, True]
    assert ended == [("bad", 1, 2), ("kind", 2, 2)]


@pytest.mark.parametrize(
    ("kept", "total", "low", "high"),
    [(0, 1, 0.0, 0.793), (9, 10, 0.596, 0.982), (10, 10, 0.722, 1.0), (50, 100, 0.404, 0.596)],
)
def test_interval_is_wilsons(kept: int, total: int, low: float, high: float) -> None:
    assert interval(kept, total) == pytest.approx((low, high), abs=0.0005)


RUNS = [
    Outcome(case="a", repeat=1, status="success"),
    Outcome(case="a", repeat=2, failures=("tools: <none>\x00",)),
    Outcome(case="b", status="success", tokens=1200),
]


def test_report_says_the_share_with_its_interval_and_why() -> None:
    assert list(lines_of(RUNS)) == [
        "failed  a: 1 of 2, 50% (95 % interval 9% to 91%)",
        "        run 2: tools: <none>\x00",
        "held    b",
        "1 of 2 cases held, 3 runs, 1,200 tokens",
    ]


def test_junit_has_a_test_case_for_each_case_named_as_it_is() -> None:
    suite = ElementTree.fromstring(junit_of(RUNS, "shop", "support"))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    first, second = suite
    assert [first.get("name"), second.get("name")] == ["a", "b"]
    assert first[0].tag == "failure"
    assert first[0].text == "run 2: tools: <none>\ufffd"
    assert list(second) == []


def written(*outcomes: Outcome, model: str | None = "openai/m") -> Any:
    """Return the JSON of these runs of the cases a and b."""
    head = Head(
        file="evals/shop.yaml",
        ended_at=datetime(2026, 1, 1, tzinfo=UTC),
        commit="9a35d3983468-dirty",
        setup=Setup.of(shop, model, ["openai/j"]),
    )
    cases = [Case.model_validate({**CASE, "name": name}) for name in ("a", "b")]
    return json.loads(json_of(head, cases, outcomes))


def test_json_has_every_run() -> None:
    first, second = written(*RUNS)["cases"]
    assert (first["holds"], first["share"], len(first["runs"])) == (False, 0.5, 2)
    assert second["runs"][0]["tokens"] == 1200
    assert first["input"] == "hi"
    assert first["key"] != second["key"]


def test_json_says_what_the_evaluation_was() -> None:
    whole = written(*RUNS)
    assert whole["layover_eval"] == 1
    assert (whole["file"], whole["commit"]) == ("evals/shop.yaml", "9a35d3983468-dirty")
    assert whole["ended_at"] == "2026-01-01T00:00:00Z"
    assert whole["setup"]["agent"] == "shop"
    assert (whole["setup"]["model"], whole["setup"]["judges"]) == ("openai/m", ["openai/j"])
    assert list(whole["setup"]["definitions"]) == ["shop"]


def test_share_of_the_whole_counts_cases_of_which_all_runs_held() -> None:
    whole = written(*RUNS)
    assert (whole["held"], whole["share"]) == (1, 0.5)
    assert whole["interval"] == pytest.approx(interval(1, 2))


@pytest.mark.parametrize(
    ("costs", "total"), [(("0.1", "0.2"), "0.3"), (("0.1", None), None), ((None, None), None)]
)
def test_cost_of_the_whole_is_unknown_if_one_price_is(
    costs: tuple[str | None, str | None], total: str | None
) -> None:
    runs = [
        Outcome(case=name, tokens=7, seconds=0.5, cost_usd=cost and Decimal(cost))
        for name, cost in zip("ab", costs, strict=True)
    ]
    whole = written(*runs)
    assert whole["cost_usd"] == total
    assert (whole["tokens"], whole["seconds"]) == (14, 1.0)
