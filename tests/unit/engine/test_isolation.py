"""An author's code in a task of its own."""

import asyncio
from datetime import timedelta

import pytest

from layover.engine.isolation import TimedOut, count_abandoned, isolate

SOON = timedelta(seconds=0.02)


async def test_what_the_work_raises_is_raised() -> None:
    async def breaks() -> None:
        raise LookupError("x")

    with pytest.raises(LookupError):
        await isolate(breaks())


async def test_work_that_cancels_itself_is_an_exception_and_cancels_nobody() -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    with pytest.raises(Exception, match="cancelled itself"):
        await isolate(cancels())


async def test_work_that_takes_too_long_is_cancelled_and_may_clean_up() -> None:
    cleaned: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    with pytest.raises(TimedOut):
        await isolate(slow(), SOON)
    assert cleaned == ["up"]
    assert count_abandoned() == 0


async def test_a_time_out_of_the_works_own_is_its_own() -> None:
    async def times_out() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await isolate(times_out(), timedelta(seconds=30))


async def test_who_is_cancelled_while_waiting_cancels_the_work() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    caller = asyncio.ensure_future(isolate(slow()))
    await asyncio.wait_for(begun.wait(), 60)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()


async def test_work_that_will_not_end_is_left_behind_and_counted() -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(TimedOut):
        await isolate(stubborn(), SOON)
    assert count_abandoned() == 1
    release.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert count_abandoned() == 0


async def test_the_result_is_the_works() -> None:
    assert await isolate(asyncio.sleep(0, "x"), timedelta(seconds=30)) == "x"
