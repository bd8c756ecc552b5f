"""The harness itself: figures that tell good from bad, and no claim about a model that was not asked."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eval.cases import (
    KEPT,
    Observed,
    Transcript,
    every_transcript,
    known_in,
    observed,
    shown,
    transcripts,
)
from eval.extraction import Held
from eval.run import NO_KEY, deviation
from eval.scores import Score, judged, table, total
from layover.plugins.memory.learns.text.redaction import redact
from support.providers.openai import FakeOpenAI, Reply, fail, say

TESTS = Path(__file__).parents[1]
LAYER = TESTS.parent / "layers" / "shared" / "python"
ALONE = ("OPENAI_", "LAYOVER_")


def case(name: str) -> Transcript:
    return next(c for c in transcripts() if c.id == name)


def evaluate(server: FakeOpenAI | None = None, *topics: str) -> subprocess.CompletedProcess[str]:
    """`make eval` with this provider, or with none."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(ALONE)}
    environment["PYTHONPATH"] = f"{TESTS}:{LAYER}"
    if server is not None:
        environment |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none"}
        environment["LAYOVER_EXTRACTOR_MODEL"] = "openai/gpt-5-nano"
        environment["LAYOVER_EMBEDDER_MODEL"] = "hashing/256"
    command = [sys.executable, "-m", "eval.run", *topics]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.evaluation
def test_without_a_provider_it_says_that_no_model_was_asked() -> None:
    run = evaluate()
    assert (run.returncode, run.stderr) == (0, "")
    assert f"scripted: {len(every_transcript())} transcripts, 0 not as expected, " in run.stdout
    assert NO_KEY in run.stdout
    assert "precision" not in run.stdout


@pytest.mark.evaluation
def test_a_provider_that_is_down_is_a_failure_and_no_figure() -> None:
    with FakeOpenAI() as server:
        for task in ("extractor", "observer"):
            server.respond_with(lambda _: fail(401, "no such key"), task)
        run = evaluate(server, "advice", "observer")
    assert run.returncode == 1
    assert figures(run.stdout, "all")[-1] == "2"
    assert figures(run.stdout, "observer")[-1] == str(len(observed()))
    assert figures(run.stdout, "all")[1:-1] == ["0", "0", "-", "0", "0", "-", "0"]
    assert "no answer" in run.stdout


@pytest.mark.evaluation
def test_an_unknown_topic_is_refused() -> None:
    run = evaluate(None, "poetry")
    assert (run.returncode, run.stdout[:22]) == (2, "no such topic: poetry;")


@pytest.mark.evaluation
def test_a_model_without_fault_gets_full_marks() -> None:
    with FakeOpenAI() as server:
        server.respond_with(flawless, "extractor")
        server.respond_with(flawless_observer, "observer")
        run = evaluate(server, "--set", "main", "extractor", "observer")
    jobs = len(transcripts()) + len(observed())
    assert run.returncode == 0
    assert len(run.stderr.splitlines()) == jobs
    assert f"{jobs} cases, all with a result" in run.stdout
    _, _, wrong, precision, facts, found, _, stale, failed = figures(run.stdout, "all")
    assert (wrong, precision, stale, failed) == ("0", "1.00", "0", "0")
    assert int(facts) - int(found) == sum(len(c.must) for c in transcripts() if c.awaits)
    assert "cost: 0." in run.stdout
    assert "must not be there" not in run.stdout


@pytest.mark.evaluation
def test_a_model_that_keeps_everything_the_user_says_loses_precision() -> None:
    with FakeOpenAI() as server:
        server.respond_with(parrot, "extractor")
        run = evaluate(server, "debugging", "preferences", "secrets")
    precision = float(figures(run.stdout, "all")[3])
    assert 0.2 < precision < 0.9
    assert figures(run.stdout, "preferences")[3] == "0.00"
    assert "preference-units: must not be there: I prefer metric units" in run.stdout


def test_a_missed_fact_and_a_forbidden_one_are_named() -> None:
    pool = case("debug-pool-exhausted")
    score = judged(pool, ["The checkout answers 504, and RDS Proxy did not help."])
    assert (score.facts, score.found, score.stored, score.wrong) == (2, 1, 1, 1)
    assert score.remarks == [
        "debug-pool-exhausted: missed: the outcome",
        "debug-pool-exhausted: must not be there: "
        "The checkout answers 504, and RDS Proxy did not help.",
    ]


def test_a_fact_that_is_spread_over_two_texts_is_not_found() -> None:
    pool = case("debug-pool-exhausted")
    assert judged(pool, ["the checkout", "answers 504"]).found == 0


def test_where_nothing_is_worth_keeping_all_that_is_kept_is_wrong() -> None:
    score = judged(case("task-of-this-thread"), ["Dana works with the user."])
    assert (score.wrong, score.precision, score.recall) == (1, 0.0, None)


@pytest.mark.parametrize(
    "found",
    [
        Held(new=[("other", True)], asked=[None, None]),  # type: ignore[list-item]
        Held(asked=[None, None]),  # type: ignore[list-item]
        Held(new=[("right", False)], asked=[None, None]),  # type: ignore[list-item]
        Held(new=[("right", True)]),
    ],
    ids=["another text", "nothing", "unverified", "not asked"],
)
def test_a_transcript_that_goes_another_way_is_reported(found: Held) -> None:
    scripted = [[], [{"evidence": "x", "content": "right"}]]
    data = case("debug-pool-exhausted").model_dump(by_alias=True) | {"scripted": scripted}
    assert deviation(Transcript.model_validate(data), found) != ""


def test_figures_add_up() -> None:
    good, bad = Score(facts=2, found=2, stored=3), Score(facts=2, found=1, stored=1, wrong=1)
    whole = total([good, bad])
    assert (whole.transcripts, whole.precision, whole.recall) == (2, 0.75, 0.75)
    assert figures(table([("a", good), ("b", bad)]), "all") == figures_of(whole)


def figures(text: str, row: str) -> list[str]:
    """The cells of the first row of this name."""
    return next(line.split()[1:] for line in text.splitlines() if line.split()[:1] == [row])


def figures_of(score: Score) -> list[str]:
    return ["2", "4", "1", "0.75", "4", "3", "0.75", "0", "0"]


def flawless(body: Any) -> Reply:
    """Answer with the proposals that the transcript's script would keep."""
    texts = said(body)
    for known in (c for c in transcripts() if not c.awaits):
        for turn, answer in zip(known.turns, known.scripted, strict=True):
            if redact(turn.user) in texts and not isinstance(answer, str):
                kept = (*KEPT, "superseded")
                numbers = known_in(body["messages"][-1]["content"])
                return say(shown([p for p in answer if p.outcome in kept], numbers))
    return say('{"entries": []}')


def flawless_observer(body: Any) -> Reply:
    asked = body["messages"][-1]["content"]
    scripts = (c.scripted for c in observed() if only_one(c, asked))
    return say(next(scripts))


def only_one(known: Observed, asked: str) -> bool:
    return bool(known.must) and known.must[0].evidence in asked


def parrot(body: Any) -> Reply:
    """All that the user says, as facts."""
    entries = [{"evidence": t, "kind": "symptom", "content": t} for t in said(body)]
    return say(json.dumps({"entries": entries}))


def said(body: Any) -> list[str]:
    """The user's texts in a request of the extractor."""
    turn = json.loads(body["messages"][-1]["content"])["turn"]
    return [m["text"] for m in turn if m["role"] == "user"]
