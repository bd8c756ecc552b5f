"""SIGKILL at every point: whatever dies, wherever it dies, the run ends as if nothing had happened."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.kills.matrix import Outcome, baselines, check, matrix
from support.kills.outages import Outages
from support.kills.proxy import PostgresProxy
from support.kills.scenarios import (
    ASIDE,
    BESIDE,
    CHATTED,
    CONNECTED,
    DELETED,
    DENIED,
    DOOMED,
    FOLLOWED,
    FORGOTTEN,
    GUARDED,
    HALF_DELETED,
    HALF_FORGOTTEN,
    HANDED_OVER,
    LEFT,
    LINKED,
    LOST,
    NESTED,
    OPERATED,
    PAUSED,
    PAUSED_BEHIND,
    QUORUM,
    REDRIVEN,
    REFUSED,
    SERVED,
    STREAMED,
    STREAMED_OUT,
    TOLD,
    TOLD_CHANNELS,
    UNSAVED,
    WATCHED,
    WINDING,
)
from support.kills.story import Scenario, points, spread
from support.kills.torture import Torture
from support.system.folders import folder
from support.system.system import Brain

BUSY, IDLE, PAUSING, WAITING = 5, 6, 10, 20
"""Runs at once: of those that compute, of those that kill the one sweeper that all wait for, of those that
mostly wait for their provider, and of those that kill nothing while they wait until a deleted thread is
emptied once more."""
DRIVEN = (
    WINDING,
    STREAMED,
    FOLLOWED,
    STREAMED_OUT,
    QUORUM,
    DENIED,
    OPERATED,
    ASIDE,
    NESTED,
    BESIDE,
    HANDED_OVER,
    REFUSED,
    GUARDED,
    CHATTED,
    SERVED,
    CONNECTED,
)
"""Those whose runs are brought to their end by their own execution."""
PEOPLED = (LINKED, TOLD)
"""Those that need people in the configuration of channels."""
PAUSES = (PAUSED, PAUSED_BEHIND)
"""Those whose provider is away for some time."""
MENDED = (*PAUSES, REDRIVEN)
"""Those that move the clock of their system."""
SAMPLE = {
    "winding": 8,
    "streamed": 4,
    "followed": 4,
    "streamed out": 4,
    "quorum": 3,
    "linked": 4,
    "told": 6,
    "denied": 3,
    "operated": 4,
    "aside": 4,
    "nested": 5,
    "beside": 4,
    "handed over": 5,
    "refused": 3,
    "guarded": 3,
    "chatted": 3,
    "served": 4,
    "connected": 4,
    "lost": 2,
    "doomed": 2,
    "half deleted": 2,
    "half forgotten": 2,
    "left": 6,
    "paused": 2,
    "paused behind a payment": 3,
    "redriven": 4,
}


@pytest.fixture(scope="module")
def cut(brain: Brain) -> Iterator[Torture]:
    """A system that can be cut off its database."""
    with folder("cut") as data:
        postgres = PostgresProxy(data / "control" / "behind-LAYOVER_DATABASE_URL")
        proxies = json.dumps({"LAYOVER_DATABASE_URL": postgres.url})
        try:
            with Torture(data, brain, LAYOVER_TORTURE_PROXIES=proxies) as system:
                system.outages = Outages(postgres)
                yield system
        finally:
            postgres.stop()


@pytest.fixture(scope="module")
def peopled(brain: Brain) -> Iterator[Torture]:
    """A system with people who are told of calls, and decide by links and presses."""
    channels = json.dumps(TOLD_CHANNELS)
    with folder("peopled") as data, Torture(data, brain, LAYOVER_CHANNELS=channels) as system:
        yield system


@pytest.fixture(scope="module")
def moved(brain: Brain) -> Iterator[Torture]:
    """A system of those whose stories move its clock."""
    with folder("moved") as data, Torture(data, brain) as system:
        yield system


def kill_everywhere(system: Torture, scenario: Scenario, at_once: int) -> None:
    """The whole matrix of a scenario."""
    stories = baselines(system, scenario)
    began = time.monotonic()
    check(matrix(system, scenario, points(*stories), stories, at_once), time.monotonic() - began)


def kill_here_and_there(system: Torture, scenario: Scenario, at_once: int) -> list[Outcome]:
    """At some points of each function."""
    stories = baselines(system, scenario, 2)
    by_function = sorted(points(*stories), key=lambda p: p.function)
    sample = spread(by_function, SAMPLE[scenario.name])
    return matrix(system, scenario, sample, stories, at_once)


@pytest.mark.torture
@pytest.mark.parametrize("scenario", DRIVEN, ids=lambda s: s.name)
def test_a_run_survives_a_kill_at_every_point(system: Torture, scenario: Scenario) -> None:
    kill_everywhere(system, scenario, BUSY)


@pytest.mark.torture
@pytest.mark.parametrize("scenario", WATCHED, ids=lambda s: s.name)
def test_who_watches_over_runs_survives_a_kill_at_every_point(
    system: Torture, scenario: Scenario
) -> None:
    kill_everywhere(system, scenario, WAITING if scenario in (DELETED, FORGOTTEN, LEFT) else IDLE)


@pytest.mark.torture
def test_settle_and_sweep_survive_kills_while_the_database_is_away(cut: Torture) -> None:
    kill_everywhere(cut, UNSAVED, IDLE)


def test_a_run_survives_a_kill_at_points_all_over_it(system: Torture) -> None:
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for scenario in DRIVEN:
        outcomes += kill_here_and_there(system, scenario, BUSY)
    check(outcomes, time.monotonic() - began)


def test_settle_and_sweep_survive_a_kill_at_points_all_over_them(system: Torture) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        found = pool.map(
            lambda s: kill_here_and_there(system, s, IDLE),
            (LOST, DOOMED, HALF_DELETED, HALF_FORGOTTEN, LEFT),
        )
        outcomes = [outcome for each in found for outcome in each]
    check(outcomes, time.monotonic() - began)


@pytest.mark.torture
@pytest.mark.parametrize("scenario", PEOPLED, ids=lambda s: s.name)
def test_people_of_channels_decide_despite_a_kill_at_every_point(
    peopled: Torture, scenario: Scenario
) -> None:
    kill_everywhere(peopled, scenario, BUSY)


def test_people_of_channels_decide_despite_a_kill_at_some_points(peopled: Torture) -> None:
    began = time.monotonic()
    outcomes: list[Outcome] = []
    for scenario in PEOPLED:
        outcomes += kill_here_and_there(peopled, scenario, BUSY)
    check(outcomes, time.monotonic() - began)


@pytest.mark.torture
@pytest.mark.parametrize("scenario", MENDED, ids=lambda s: s.name)
def test_a_run_that_pauses_or_is_redriven_survives_a_kill_at_every_point(
    moved: Torture, scenario: Scenario
) -> None:
    kill_everywhere(moved, scenario, PAUSING if scenario in PAUSES else BUSY)


def test_a_run_that_pauses_or_is_redriven_survives_a_kill_at_some_points(moved: Torture) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda s: kill_here_and_there(moved, s, BUSY), PAUSES)
        outcomes = [outcome for each in found for outcome in each]
    outcomes += kill_here_and_there(moved, REDRIVEN, BUSY)
    check(outcomes, time.monotonic() - began)
