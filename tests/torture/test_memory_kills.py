"""SIGKILL in `extract` and `compact`, at every point: what is remembered is as before or as after, never
between, and nothing is learned twice (docs/behaviour.md#extraction). The same for what another system brings
(docs/guides/memory.md#import)."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from support.kills.importing import (
    HALF_IMPORTED,
    IMPORTED,
    TALKS,
    WRITTEN,
    await_erasure,
)
from support.kills.learning import EMBEDDER, judge, live, teach
from support.kills.matrix import baselines, check, matrix
from support.kills.story import Line, Point, Scenario, spread
from support.kills.story import points as points_of
from support.kills.torture import Torture
from support.system.folders import folder
from support.system.system import Brain

AT_ONCE = 4
SAMPLE = 6
IMPORTS = (IMPORTED, HALF_IMPORTED)
IMPORTS_SAMPLE = {"imported": 6, "half imported": 3}
IMPORTS_AT_ONCE = 12
"""Most of the time, each waits until its user is erased."""


@pytest.fixture(scope="module")
def learning(brain: Brain) -> Iterator[Torture]:
    """A system whose agents learn."""
    teach(brain.provider)
    with folder("learning") as data, Torture(data, brain, **EMBEDDER) as system:
        yield system


def points(trace: list[Line]) -> list[Point]:
    """Every point of the two functions, and those at which a turn lets a compaction take effect."""
    passed = dict.fromkeys((x.function, x.point, x.k) for x in trace if x.mark == ">" and ours(x))
    return [Point(*key, when) for key in passed for when in ("before", "after")]


def ours(line: Line) -> bool:
    if line.function in ("extract", "compact"):
        return True
    about = ("activate", "compacted", "place_window")
    return line.function == "turn" and any(word in line.point for word in about)


@dataclass(frozen=True)
class Outcome:
    """One life with one kill."""

    point: Point
    killed: bool
    problem: str = ""


def try_point(system: Torture, point: Point) -> Outcome:
    with system.client() as client:
        system.order_death(client.name, point)
        try:
            judge(live(client, client.thread("learner")))
            problem = ""
        except Exception as error:
            problem = f"{type(error).__name__}: {error} [user {client.name}]"[:1500]
            print(f"\nFAILED {point}: {problem}", flush=True)
        killed = any(line.died == point for line in system.trace(client.name))
    return Outcome(point, killed, problem)


def kill(system: Torture, most: int | None = None) -> None:
    """Kill at every point that one of two lives came by, or at some of those that both did."""
    first, second = _lived(system), _lived(system)
    # What only one of them came by depends on the time: a third may do without it.
    both = set(first) & set(second)
    steady = [p for p in first if p in both]
    assert steady
    found = steady if most else list(dict.fromkeys(first + second))
    step = max(1, len(found) // most) if most else 1
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda p: try_point(system, p), found[::step]))
    killed, failed = sum(o.killed for o in outcomes), [o for o in outcomes if o.problem]
    sure = [o for o in outcomes if o.point in both]
    print(
        f"\npoints {len(outcomes)} of {len(found)}, killed {killed}, failed {len(failed)}, "
        f"{time.monotonic() - began:.0f} s; of {len(sure)} points that both lives came by, killed "
        f"{sum(o.killed for o in sure)}"
    )
    for point in (o.point for o in sure if not o.killed):
        print(f"not come by: {point}")
    assert not failed
    assert sum(o.killed for o in sure) > len(sure) / 2


def _lived(system: Torture) -> list[Point]:
    with system.client() as client:
        memory = live(client, client.thread("learner"))
    judge(memory)
    return points(memory.trace)


@pytest.mark.torture
def test_memory_survives_a_kill_at_every_point(learning: Torture) -> None:
    kill(learning)


def test_memory_survives_a_kill_at_points_all_over_it(learning: Torture) -> None:
    kill(learning, SAMPLE)


def kill_imports(system: Torture, scenario: Scenario, most: int | None = None) -> None:
    """Kill an import at every point, or at some of those that write."""
    stories = baselines(system, scenario, 2 if most else 3)
    found = points_of(*stories)
    writing = [p for p in found if re.search("write|import_", p.point)]
    chosen = spread(writing, most) if most else found
    began = time.monotonic()
    outcomes = matrix(system, scenario, chosen, stories, IMPORTS_AT_ONCE)
    check(outcomes, time.monotonic() - began)


@pytest.mark.torture
@pytest.mark.parametrize("scenario", IMPORTS, ids=lambda s: s.name)
def test_an_import_survives_a_kill_at_every_point(learning: Torture, scenario: Scenario) -> None:
    kill_imports(learning, scenario)


@pytest.mark.parametrize("scenario", IMPORTS, ids=lambda s: s.name)
def test_an_import_survives_a_kill_at_points_all_over_it(
    learning: Torture, scenario: Scenario
) -> None:
    kill_imports(learning, scenario, IMPORTS_SAMPLE[scenario.name])


def test_an_import_that_died_is_forgotten_with_its_user(learning: Torture) -> None:
    with learning.client() as client:
        learning.order_death(client.name, Point("api", WRITTEN, 1, "after"))
        assert client.caller.call("POST", "/threads", TALKS[0][0]).status == 502
        [(thread,)] = learning.sql("select id from threads where resource_id = %s", client.name)
        assert learning.saved(client.name, thread), "the messages were written"
        client.want(202, "DELETE", "/me")
        assert client.ask("GET", f"/threads/{thread}").status == 404
        await_erasure(client, [thread])
        assert client.want(200, "GET", "/threads")["items"] == []
