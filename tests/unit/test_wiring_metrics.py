"""Metrics of an invocation: printed when it is over, whatever became of it."""

import json
import subprocess
import sys
from pathlib import Path

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


def printed(script: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT + script],
        env={"PYTHONPATH": str(LAYER)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return run.stdout.splitlines()


def test_an_invocation_that_fails_publishes_what_it_counted() -> None:
    (line,) = printed("wiring.run(work(1, ValueError('no')))")
    assert json.loads(line)["recall_scope_cut"] == [1.0]


def test_an_invocation_without_metrics_prints_nothing() -> None:
    assert printed("wiring.run(work(0))") == []


def test_each_invocation_publishes_its_own() -> None:
    lines = printed("wiring.run(work(1)); wiring.run(work(2))")
    assert [len(json.loads(line)["recall_scope_cut"]) for line in lines] == [1, 2]


def test_metrics_that_cannot_be_printed_cost_no_answer() -> None:
    closed = "import sys; out = sys.stdout; sys.stdout = open('/dev/full', 'w', buffering=1)\n"
    lines = printed(f"{closed}wiring.run(work(1)); print('answered', file=out, flush=True)")
    assert "answered" in lines
