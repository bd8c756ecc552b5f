"""Blocking functions beside the loop."""

import asyncio
import threading

import pytest

from layover.declare.blocking import count_abandoned, in_thread


async def test_a_given_up_thread_is_counted_until_it_ends() -> None:
    go, gone = threading.Event(), threading.Event()

    def slow() -> None:
        go.wait(60)
        gone.set()

    before = count_abandoned()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(in_thread(slow), 0.01)
    assert count_abandoned() == before + 1
    go.set()
    for thread in threading.enumerate():
        if thread.name == "layover-tool":
            await asyncio.to_thread(thread.join, 20)
    assert gone.is_set()
    assert count_abandoned() == before


async def test_a_result_that_nobody_waits_for_is_dropped() -> None:
    go = threading.Event()
    task = asyncio.create_task(in_thread(go.wait, 20))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()


def test_a_thread_that_outlives_its_loop_ends_quietly() -> None:
    go, done = threading.Event(), threading.Event()

    def slow() -> None:
        go.wait(60)
        done.set()

    async def give_up() -> None:
        await asyncio.wait_for(in_thread(slow), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    go.set()
    assert done.wait(60)
