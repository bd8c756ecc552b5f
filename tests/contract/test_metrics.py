"""Counts arrive: in memory, and as lines of CloudWatch's embedded metric format."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from layover.adapters.metrics.emf import EmfMetrics
from layover.inmemory.metrics import InMemoryMetrics
from layover.ports import Metrics
from layover.values.metrics import NAMESPACE, Metric

CUT = Metric.RECALL_SCOPE_CUT
Read = Callable[..., float]
"""(name, **dimensions) -> the sum of what was counted by them."""


@pytest.fixture(params=["memory", "emf"])
def counting(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> tuple[Metrics, Read]:
    if request.param == "memory":
        memory = InMemoryMetrics()
        return memory, memory.total
    emf = EmfMetrics()

    def total(name: Metric, **dimensions: str) -> float:
        emf.flush()
        found = read(capsys.readouterr().out)
        return found.get((name.value, tuple(sorted(dimensions.items()))), 0)

    return emf, total


def read(lines: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Sums by name and dimensions, as CloudWatch extracts them."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for line in map(json.loads, lines.splitlines()):
        for directive in line["_aws"]["CloudWatchMetrics"]:
            assert directive["Namespace"] == NAMESPACE
            for names in directive["Dimensions"]:
                by = tuple(sorted((n, line[n]) for n in names if n != "service"))
                for metric in directive["Metrics"]:
                    key = (metric["Name"], by)
                    found[key] = found.get(key, 0) + sum(line[metric["Name"]])
    return found


def test_what_was_never_counted_is_zero(counting: tuple[Metrics, Read]) -> None:
    _, total = counting
    assert total(CUT) == 0


def test_values_add_up_in_all(counting: tuple[Metrics, Read]) -> None:
    metrics, total = counting
    metrics.count(CUT)
    metrics.count(CUT, 2, agent="support")
    metrics.count(CUT, 4, agent="shop")
    assert total(CUT) == 7


def test_values_add_up_by_their_dimensions(counting: tuple[Metrics, Read]) -> None:
    metrics, total = counting
    metrics.count(CUT)
    metrics.count(CUT, 2, agent="support")
    metrics.count(CUT, 4, agent="support")
    metrics.count(CUT, 8, agent="shop")
    assert total(CUT, agent="support") == 6


def test_hundreds_of_values_all_arrive(counting: tuple[Metrics, Read]) -> None:
    metrics, total = counting
    for _ in range(300):
        metrics.count(CUT, agent="support")
    assert total(CUT, agent="support") == 300


def emitted(emf: EmfMetrics, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    emf.flush()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_an_invocation_that_counted_nothing_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert emitted(EmfMetrics(), capsys) == []


def test_values_are_published_once(capsys: pytest.CaptureFixture[str]) -> None:
    emf = EmfMetrics()
    emf.count(CUT)
    assert len(emitted(emf, capsys)) == 1
    assert emitted(emf, capsys) == []


def test_an_invocation_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    emf = EmfMetrics()
    emf.count(CUT, 1, agent="support")
    emf.count(CUT, 2, agent="support")
    (line,) = emitted(emf, capsys)
    assert line[CUT.value] == [1.0, 2.0]
    assert line["agent"] == "support"
    assert line["_aws"]["CloudWatchMetrics"][0]["Metrics"] == [{"Name": CUT, "Unit": "Count"}]


def test_values_with_and_without_dimensions_share_the_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emf = EmfMetrics()
    emf.count(CUT)
    emf.count(CUT, agent="support")
    emf.flush()
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    assert read(out) == {(CUT.value, ()): 2, (CUT.value, (("agent", "support"),)): 1}


def test_times_are_in_milliseconds_since_1970(capsys: pytest.CaptureFixture[str]) -> None:
    emf = EmfMetrics()
    emf.count(CUT)
    (line,) = emitted(emf, capsys)
    assert math.log10(line["_aws"]["Timestamp"]) > 12
