"""A run for each point, killed there; and the figures of it all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from support.kills.judge import judge
from support.kills.story import Point, Scenario, Story, is_calm, passes
from support.kills.torture import Client, Torture

TRIES = 3
"""Attempts to bring a run to its point: some points depend on the time (a flush, a poll)."""
MAX_MISSED = 0.25
"""The share of points that no run may have come by: what goes by the clock, and who of two comes first."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one kill."""

    scenario: str
    point: Point
    killed: bool
    problem: str
    missed: bool = False
    seconds: float = 0.0
    recovery_s: float = 0.0
    pause_s: float = 0.0


def baselines(system: Torture, scenario: Scenario, count: int = 3) -> list[Story]:
    """Runs that nothing happens to but what the scenario says; they agree with each other."""

    def one(_: int) -> Story:
        with system.client() as client:
            story = client.story(scenario)
            _check(client, story)
            return story

    with ThreadPoolExecutor(count) as pool:
        stories = list(pool.map(one, range(count)))
    for story in stories:
        judge(story, stories[0])
        died = {line.function for line in story.trace if line.died}
        assert died == {death.point.function for death in scenario.deaths}, died
    return stories


def matrix(
    system: Torture,
    scenario: Scenario,
    wanted: Sequence[Point],
    stories: Sequence[Story],
    at_once: int,
) -> list[Outcome]:
    """A run for each point, several at once."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda p: told(try_point(system, scenario, p, stories)), wanted))


def try_point(
    system: Torture, scenario: Scenario, point: Point, stories: Sequence[Story]
) -> Outcome:
    """A run of a new user that dies at the point. Never raises: the outcome says what went wrong. Runs that
    end as they should without the point show that it is `missed`: no list says which ones a run may do
    without."""
    outcome = Outcome(scenario.name, point, False, "")
    alive: list[Story] = []
    for _ in range(1 if is_calm(point) else TRIES):
        with system.client() as client:
            system.order_death(client.name, point)
            try:
                story = client.story(scenario)
                judge(story, stories[0])
                _check(client, story)
            except Exception as error:
                about = f"{type(error).__name__}: {error} [user {client.name}]"
                killed = any(line.died == point for line in system.trace(client.name))
                return replace(outcome, killed=killed, problem=about[:1500])
        if story.killed_at(point):
            return replace(
                outcome,
                killed=True,
                seconds=story.seconds,
                recovery_s=story.recovery_s(point),
                pause_s=story.longest_pause_s,
            )
        alive.append(story)
    if any(passes(story, point) for story in alive):
        return replace(outcome, problem="a run came by this point, and nobody died")
    return replace(outcome, missed=True)


def _check(client: Client, story: Story) -> None:
    if story.scenario.check:
        story.scenario.check(client, story)


def told(outcome: Outcome) -> Outcome:
    """A failure is said at once: the matrix takes minutes."""
    if outcome.problem:
        print(f"\nFAILED {outcome.scenario} {outcome.point}: {outcome.problem}", flush=True)
    return outcome


def check(outcomes: Sequence[Outcome], seconds: float) -> None:
    """None failed; all were killed, but for points that runs did without."""
    said = report(outcomes, seconds)
    print("\n" + said)
    assert not [o for o in outcomes if o.problem or not (o.killed or o.missed)], said
    assert sum(o.missed for o in outcomes) <= MAX_MISSED * len(outcomes), said


def report(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The figures of a matrix."""
    failed = [o for o in outcomes if o.problem]
    missed = [o for o in outcomes if o.missed]
    functions = Counter(o.point.function for o in outcomes)
    recovery = sorted(o.recovery_s for o in outcomes if o.killed and not o.problem)
    pause = sorted(o.pause_s for o in outcomes if o.killed and not o.problem)
    lines = [
        f"points {len(outcomes)} {dict(functions)}, killed {sum(o.killed for o in outcomes)}, "
        f"failed {len(failed)}, not come by {len(missed)}, {seconds:.0f} s",
        f"taken up again after (s): {_quantiles(recovery)}; longest pause: {_quantiles(pause)}",
        *(f"not come by: {o.scenario} {o.point}" for o in missed),
        *(f"FAILED {o.scenario} {o.point}: {o.problem}" for o in failed),
    ]
    return "\n".join(lines)


def _quantiles(values: Sequence[float]) -> Mapping[str, float]:
    if not values:
        return {}
    at = {"median": 0.5, "p90": 0.9, "max": 1.0}
    return {k: round(values[min(len(values) - 1, int(q * len(values)))], 2) for k, q in at.items()}
