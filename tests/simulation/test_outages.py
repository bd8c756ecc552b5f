"""A provider that is away, and many runs in one process meanwhile."""

import asyncio
from collections import Counter

import pytest

from layover.engine.models.away import pause_s
from layover.errors import ModelError
from layover.plugins.models.circuit import Circuit
from layover.plugins.models.faults import ProviderFault
from layover.plugins.models.retrying import Requests, retrying
from layover.values.message import Role
from layover.values.runs.run import Status
from simulation.faults import Faults, Features, Story
from simulation.troubles import FAILURES, TOLD, TROUBLES, TroubledDays
from simulation.world import World, live, loop_time

MOST_A_MINUTE = 20
STORY = Story(1, "calm", Faults(), Features(), (), 0.0)


class Provider:
    """A provider that is back after so many seconds. `asked`: its requests, by the minute."""

    def __init__(self, away_s: float) -> None:
        self._back_at = loop_time() + away_s
        self._begins = loop_time()
        self.asked = Counter[int]()

    @property
    def is_away(self) -> bool:
        return loop_time() < self._back_at

    async def answer(self) -> str:
        if self.is_away:
            self.asked[int(loop_time() - self._begins) // 60] += 1
        await asyncio.sleep(0.2)
        if self.is_away:
            error = ModelError("overloaded", status=503, type="InternalServerError")
            raise ProviderFault(error, is_transient=True)
        return "Hello."


async def run_of(world: World, provider: Provider, circuit: Circuit, begins_s: float) -> str:
    """Ask as a run does, invocation after invocation, until there is an answer."""
    await asyncio.sleep(begins_s)
    attempt = 0
    while True:
        try:
            return await retrying(provider.answer, asyncio.sleep, Requests(), circuit)
        except ProviderFault:
            attempt += 1
            await asyncio.sleep(pause_s(attempt, None, world.dice.random()))


@pytest.mark.parametrize(
    ("away_s", "count"),
    [(30, 1_000), (1_200, 1_000), (7_200, 200), (86_400, 30)],
    ids=["30 s", "20 min", "2 h", "a day"],
)
def test_a_process_with_many_runs_asks_a_provider_that_is_away_20_times_a_minute(
    away_s: float, count: int
) -> None:
    world, answers = World(STORY), list[str]()

    async def scene() -> None:
        provider, circuit = Provider(away_s), Circuit()
        runs = (run_of(world, provider, circuit, n * 0.05 + 1) for n in range(count))
        answers.extend(await asyncio.gather(*runs))
        assert max(provider.asked.values()) <= MOST_A_MINUTE, provider.asked

    live(world, scene)
    assert answers == ["Hello."] * count
    assert not world.complaints


ANSWERED = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


@pytest.fixture(scope="module")
def days() -> TroubledDays:
    """Two days with an outage of each length, a wrong key for an hour, and no quota until midnight."""
    played = TroubledDays(runs_each=5)
    played.play()
    return played


def test_runs_fail_only_where_waiting_does_not_help_or_is_too_long(days: TroubledDays) -> None:
    failed = {name: len(ids) for name, ids in days.failed.items() if ids}
    assert failed == {trouble.name: 5 for trouble in FAILURES}


def test_every_run_of_troubled_days_ends_as_if_nothing_had_been(days: TroubledDays) -> None:
    assert not days.world.complaints
    assert [run.meta.status for run in days.runs] == [Status.SUCCESS] * 5 * len(TROUBLES)
    assert days.roles == [ANSWERED] * len(days.runs)


def test_nothing_of_troubled_days_is_done_twice(days: TroubledDays) -> None:
    assert days.effects == dict.fromkeys((run.meta.id for run in days.runs), 1)


@pytest.mark.parametrize("channel", ["slack", "mail"])
def test_operators_get_one_message_for_each_outage_and_one_when_it_is_over(
    days: TroubledDays, channel: str
) -> None:
    assert days.told(channel) == TOLD
