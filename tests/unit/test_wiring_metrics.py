"""Metrics of an invocation: printed when it is over, whatever became of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forks import Prepared, prepared

LAYER = Path(__file__).parents[2] / "layers" / "shared" / "python"
SCRIPT = """
from layover import wiring
from layover.values.metrics import Metric

async def work(times, error=None):
    for _ in range(times):
        wiring.runtime().metrics.count(Metric.RECALL_SCOPE_CUT, agent="support")
    if error:
        raise error

"""


@pytest.fixture(scope="module")
def started() -> Iterator[Prepared]:
    with prepared(SCRIPT, PYTHONPATH=str(LAYER)) as process:
        yield process


def test_an_invocation_that_fails_publishes_what_it_counted(started: Prepared) -> None:
    run = started.run("wiring.run(work(1, ValueError('no')))")
    assert run.stderr.endswith("ValueError: no\n")
    (line,) = run.stdout.splitlines()
    assert json.loads(line)["recall_scope_cut"] == [1.0]


def test_an_invocation_without_metrics_prints_nothing(started: Prepared) -> None:
    assert started.printed("wiring.run(work(0))") == []


def test_each_invocation_publishes_its_own(started: Prepared) -> None:
    lines = started.printed("wiring.run(work(1)); wiring.run(work(2))")
    assert [len(json.loads(line)["recall_scope_cut"]) for line in lines] == [1, 2]


def test_metrics_that_cannot_be_printed_cost_no_answer(started: Prepared) -> None:
    closed = "import sys; out = sys.stdout; sys.stdout = open('/dev/full', 'w', buffering=1)\n"
    run = started.run(f"{closed}wiring.run(work(1)); print('answered', file=out, flush=True)")
    assert "answered" in run.stdout.splitlines()
