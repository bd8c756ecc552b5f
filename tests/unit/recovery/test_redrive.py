"""Driving a run on by hand: at most once a minute."""

import asyncio
from datetime import timedelta

import pytest

from layover.errors import LimitReached
from layover.recovery.redrive import PAUSE, redrive
from support.worlds.services import ANN, ServiceBench


async def test_a_second_redrive_within_a_minute_is_refused_and_starts_nothing(
    world: ServiceBench,
) -> None:
    run, _ = await world.suspended()
    await redrive(world.runtime, ANN, run.id)
    world.clock.advance(timedelta(seconds=18))
    with pytest.raises(LimitReached) as refused:
        await redrive(world.runtime, ANN, run.id)
    assert refused.value.retry_after == timedelta(seconds=42)
    assert world.callbacks.started == [f"{run.id}-1", f"{run.id}-2"]
    assert world.callbacks.stopped == [f"{run.id}-1"]


async def test_of_many_at_once_one_drives_the_run(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    many = (redrive(world.runtime, ANN, run.id) for _ in range(5))
    answers = await asyncio.gather(*many, return_exceptions=True)
    assert [isinstance(a, LimitReached) for a in answers].count(True) == 4, answers
    assert world.callbacks.started == [f"{run.id}-1", f"{run.id}-2"]


async def test_after_a_minute_a_run_is_driven_on_again(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    await redrive(world.runtime, ANN, run.id)
    world.clock.advance(PAUSE)
    await redrive(world.runtime, ANN, run.id)
    assert world.callbacks.started[-1] == f"{run.id}-3"


async def test_the_pause_of_one_run_is_not_anothers(world: ServiceBench) -> None:
    one, _ = await world.suspended()
    other, _ = await world.suspended()
    await redrive(world.runtime, ANN, one.id)
    await redrive(world.runtime, ANN, other.id)
    assert world.callbacks.started[-1] == f"{other.id}-2"
