"""Which points of a kill matrix a run may do without, and which it has to die at."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from support.kills import matrix
from support.kills.judge import judge_lists
from support.kills.scenarios import LOST, SERVED, UNSENT
from support.kills.story import Line, Point, Scenario, Story

ALIVE = "StepFunctions.alive (running, decided)"


def story(scenario: Scenario, *lines: tuple[str, str, str]) -> Story:
    """A run whose trace has these lines (mark, function, point)."""
    trace = [
        Line(m, function, point, 1, 7, float(at)) for at, (m, function, point) in enumerate(lines)
    ]
    return Story(scenario, "user", trace=trace)


class OneRun:
    """A system whose runs all go this way, and whose client is itself."""

    name = "ann"
    ordered = None

    def __init__(self, told: Story) -> None:
        self.told = told

    @contextmanager
    def client(self) -> Iterator["OneRun"]:
        yield self

    def order_death(self, _: str, point: Point) -> None:
        self.ordered = point

    def story(self, _: Scenario) -> Story:
        return self.told


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run ends as it should."""
    monkeypatch.setattr(matrix, "judge", lambda story, baseline: None)


def outcome(scenario: Scenario, point: Point, *lines: tuple[str, str, str]) -> matrix.Outcome:
    system: Any = OneRun(story(scenario, *lines))
    return matrix.try_point(system, scenario, point, [system.told])


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize(("when", "mark"), [("before", ">"), ("after", "<")])
def test_a_run_that_comes_by_its_point_has_to_die_there(when: str, mark: str) -> None:
    found = outcome(UNSENT, Point("sweep", ALIVE, 1, when), (mark, "sweep", ALIVE))
    assert found.problem == "a run came by this point, and nobody died"


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("point", [ALIVE, "DynamoTable.get META", "DynamoTable.transact STEP#1"])
def test_a_point_that_runs_do_without_is_missed_whatever_it_is(point: str) -> None:
    found = outcome(LOST, Point("turn", point, 2, "before"), (">", "turn", point))
    assert found.missed
    assert not found.problem


@pytest.mark.parametrize(("missed", "is_enough"), [(1, True), (2, False)])
def test_a_matrix_that_misses_most_of_its_points_proves_nothing(
    missed: int, is_enough: bool
) -> None:
    point = Point("turn", ALIVE, 1, "before")
    killed = matrix.Outcome("lost", point, True, "")
    outcomes = [*[replace(killed, killed=False, missed=True)] * missed, *[killed] * (4 - missed)]
    with nullcontext() if is_enough else pytest.raises(AssertionError):
        matrix.check(outcomes, 1.0)


STEP = "DynamoTable.transact STEP#0001 META EVENT"
LIST = "McpServers.list_tools shop"


def test_list_of_a_server_may_be_asked_for_again_until_the_first_step_is_journaled() -> None:
    judge_lists(story(SERVED, (">", "turn", LIST), ("x", "turn", LIST), (">", "turn", LIST)))
    judge_lists(story(SERVED, (">", "turn", LIST), (">", "turn", STEP), ("<", "turn", STEP)))


@pytest.mark.parametrize("mark", ["<", "X"])
def test_list_of_a_server_that_is_asked_for_after_the_first_step_is_a_failure(mark: str) -> None:
    with pytest.raises(AssertionError, match="asked for again"):
        judge_lists(story(SERVED, (mark, "turn", STEP), (">", "turn", LIST)))
