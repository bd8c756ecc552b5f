"""A user who holds all the waiting requests that one user may have takes nothing from another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover.errors import RetryableError
from layover.runs import read as runs
from layover.runs.long_polls import Pace
from layover.runs.places import WAIT_LEASE
from layover.threads import threads
from layover.values.lease import LeaseKind
from layover.values.page import Page
from layover.values.runs.views import Run
from layover.values.thread import Thread
from support.worlds.services import ANN, BOB, ManualPace, ServiceBench

ENVIRONMENTS = 40
POLLS = 60
MOST = 10


@pytest.fixture
def world() -> ServiceBench:
    return ServiceBench()


class Gateway:
    """So many environments; requests queue for them as for a function's."""

    def __init__(self, world: ServiceBench) -> None:
        self.world = world
        self.free = asyncio.Semaphore(ENVIRONMENTS)
        self.waiting = 0
        self.over = asyncio.Event()

    @property
    def pace(self) -> Pace:
        """A pace at which a waiting request waits until the end of the test."""
        return Pace(sleep=self._sleep, now=lambda: 0.0)

    async def _sleep(self, _: float) -> None:
        self.waiting += 1
        await self.over.wait()
        raise TimeoutError

    async def poll(self, owner: str, run_id: str) -> Run:
        """`GET /runs/{id}?wait=25`."""
        async with self.free:
            return await runs.get(self.world.runtime, owner, run_id, 25, self.pace)

    async def threads(self, owner: str) -> Page[Thread]:
        """`GET /threads`."""
        async with self.free:
            return await threads.list_threads(self.world.runtime, owner, 20, None)


@asynccontextmanager
async def polled(gateway: Gateway, run_id: str) -> AsyncIterator[list[asyncio.Task[Run]]]:
    """Sixty long polls of ANN's that have come as far as they can."""
    polls = [asyncio.create_task(gateway.poll(ANN, run_id)) for _ in range(POLLS)]
    try:
        while sum(p.done() for p in polls) + gateway.waiting < POLLS:
            await asyncio.sleep(0)
        yield polls
    finally:
        gateway.over.set()
        await asyncio.gather(*polls, return_exceptions=True)


async def test_sixty_long_polls_of_one_user_leave_room_for_another(world: ServiceBench) -> None:
    gateway = Gateway(world)
    run = await world.run((await world.thread()).id)
    async with asyncio.timeout(30), polled(gateway, run.id) as polls:
        assert (gateway.waiting, sum(p.done() for p in polls)) == (MOST, POLLS - MOST)
        assert {p.result().id for p in polls if p.done()} == {run.id}
        assert not gateway.free.locked()
        assert (await gateway.threads(BOB)).items == ()
        bobs = await threads.create(world.runtime, BOB, "support", None, {})
        assert (await gateway.threads(BOB)).items[0].id == bobs.id


@pytest.mark.parametrize(("most", "waits"), [(MOST, 0), (MOST + 1, 25)])
async def test_another_user_may_wait_as_long_as_not_all_places_are_taken(
    world: ServiceBench, most: int, waits: float
) -> None:
    """If one user holds the last place, others are answered at once."""
    world.runtime = replace(
        world.runtime, settings=world.runtime.settings.model_copy(update={"max_waits": most})
    )
    run = await world.run((await world.thread()).id)
    bobs = await world.run((await world.thread(BOB)).id, owner=BOB)
    during, after = ManualPace(), ManualPace()
    async with asyncio.timeout(30), polled(Gateway(world), run.id):
        page = await runs.events(world.runtime, BOB, bobs.id, 100, 10, 25, during.pace)
    assert (page.done, sum(during.slept)) == (False, waits)
    await runs.events(world.runtime, BOB, bobs.id, 100, 10, 25, after.pace)
    assert sum(after.slept) == 25


async def test_a_place_comes_back_however_the_request_ends(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)

    async def breaks(_: float) -> None:
        raise KeyError("the request ends here")

    for _ in range(2 * MOST):
        with pytest.raises(KeyError):
            await runs.get(world.runtime, ANN, run.id, 5, Pace(sleep=breaks, now=lambda: 0.0))
    held = world.runtime.leases.list_leases
    assert await held(ANN, LeaseKind.WAIT, world.clock.now()) == ()


async def test_a_place_of_a_process_that_died_comes_back_by_itself(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    paced = ManualPace()
    async with asyncio.timeout(30), polled(Gateway(world), run.id):
        for passed, waits in ((timedelta(0), False), (WAIT_LEASE, True)):
            world.clock.advance(passed)
            await runs.get(world.runtime, ANN, run.id, 5, paced.pace)
            assert bool(paced.slept) is waits


async def test_whoever_finds_what_they_wait_for_takes_no_place(world: ServiceBench) -> None:
    run, _ = await world.suspended()

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("nothing is written")

    world.runtime = replace(world.runtime, leases=Broken())
    assert (await runs.get(world.runtime, ANN, run.id, 5)).status.value == "suspended"


async def test_a_table_that_is_away_answers_at_once(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    paced = ManualPace()

    class Away:
        async def take(self, *_: object) -> bool:
            raise RetryableError("throttled")

    world.runtime = replace(world.runtime, leases=Away())  # type: ignore[arg-type]
    await runs.get(world.runtime, ANN, run.id, 5, paced.pace)
    assert paced.slept == []
