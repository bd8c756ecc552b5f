"""A provider that is away, and many runs in one process meanwhile."""

import asyncio
from collections import Counter

import pytest

from layover.engine.models.away import pause_s
from layover.errors import ModelError
from layover.plugins.models.circuit import Circuit
from layover.plugins.models.faults import ProviderFault
from layover.plugins.models.retrying import Requests, retrying
from simulation.faults import Faults, Features, Story
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
