"""SIGKILL at every point: whatever dies, wherever it dies, the run ends as if nothing had happened."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from torture_kit import (
    STREAMED,
    WINDING,
    Outcome,
    Point,
    Scenario,
    Story,
    Torture,
    judge,
    points,
    report,
    spread,
    try_point,
)

AT_ONCE = 5
SAMPLE = {"winding": 8, "streamed": 4}


def baselines(system: Torture, scenario: Scenario, count: int = 3) -> list[Story]:
    """Runs that nothing happens to; they agree with each other."""
    stories = []
    for _ in range(count):
        with system.client() as client:
            stories.append(client.story(scenario))
    for story in stories:
        judge(story, stories[0])
    return stories


def matrix(
    system: Torture, scenario: Scenario, wanted: Sequence[Point], stories: Sequence[Story]
) -> list[Outcome]:
    """A run for each point, several at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda p: told(try_point(system, scenario, p, stories)), wanted))


def told(outcome: Outcome) -> Outcome:
    """A failure is said at once: the matrix takes minutes."""
    if outcome.problem:
        print(f"\nFAILED {outcome.point}: {outcome.problem}", flush=True)
    return outcome


def check(outcomes: Sequence[Outcome], seconds: float) -> None:
    """None failed; all were killed, but for points that a run may do without."""
    said = report(outcomes, seconds)
    print("\n" + said)
    assert not [o for o in outcomes if o.problem or not (o.killed or o.missed)], said


@pytest.mark.torture
@pytest.mark.parametrize("scenario", [WINDING, STREAMED], ids=lambda s: s.name)
def test_a_run_survives_a_kill_at_every_point(system: Torture, scenario: Scenario) -> None:
    stories = baselines(system, scenario)
    began = time.monotonic()
    check(matrix(system, scenario, points(*stories), stories), time.monotonic() - began)


def test_a_run_survives_a_kill_at_points_all_over_it(system: Torture) -> None:
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for scenario in (WINDING, STREAMED):
        stories = baselines(system, scenario, 2)
        by_function = sorted(points(*stories), key=lambda p: p.function)
        sample = spread(by_function, SAMPLE[scenario.name])
        outcomes += matrix(system, scenario, sample, stories)
    check(outcomes, time.monotonic() - began)
