"""Calls of one step that run together: how many, and in which order they are told and kept."""

import asyncio
import math
import random

import pytest

from layover import Agent, tool
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import call, calls, say
from support.worlds.runs import Bench, told, types


async def test_one_failure_cancels_no_sibling_of_its_window() -> None:
    failed = asyncio.Event()

    @tool
    async def work(n: int) -> int:
        """Work."""
        if n == 1:
            failed.set()
            raise ValueError("one")
        await asyncio.wait_for(failed.wait(), 60)
        await asyncio.sleep(0)
        return n

    step = calls(*(call("work", n=n) for n in range(3)))
    bench = Bench(Agent("helper", model="m", tools=[work], tool_concurrency=3), [step, say("done")])
    run = await bench.go()
    assert [r for role, r in told(run.messages) if role == "tool"] == [0, "ValueError: one", 2]


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (2, 2), (math.inf, 5)])
async def test_a_window_runs_as_many_calls_together_as_the_agent_says(
    concurrency: float, most: int
) -> None:
    running, together = 0, 0

    @tool
    async def work(n: int) -> int:
        """Work."""
        nonlocal running, together
        running += 1
        together = max(together, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        return n

    step = calls(*(call("work", n=n) for n in range(5)))
    agent = Agent("helper", model="m", tools=[work], tool_concurrency=concurrency)
    bench = Bench(agent, [step, say("done")])
    run = await bench.go()
    assert together == most
    assert [r for role, r in told(run.messages) if role == "tool"] == [0, 1, 2, 3, 4]


async def test_a_window_has_at_most_forty_calls() -> None:
    running, together = 0, 0

    @tool
    async def work(n: int) -> int:
        """Work."""
        nonlocal running, together
        running += 1
        together = max(together, running)
        for _ in range(200):
            await asyncio.sleep(0)
        running -= 1
        return n

    step = calls(*(call("work", n=n) for n in range(45)))
    agent = Agent("helper", model="m", tools=[work], tool_concurrency=math.inf)
    run = await Bench(agent, [step, say("done")]).go()
    assert together == 40
    assert len([r for role, r in told(run.messages) if role == "tool"]) == 45


async def test_the_first_result_of_a_window_to_come_is_told_first_and_stored_in_its_place() -> None:
    second = asyncio.Event()

    @tool
    async def work(n: int) -> int:
        """Work."""
        if n == 1:
            await asyncio.wait_for(second.wait(), 60)
        else:
            asyncio.get_running_loop().call_later(0.02, second.set)
        return n

    step = calls(call("work", n=1), call("work", n=2))
    agent = Agent("helper", model="m", tools=[work], tool_concurrency=2)
    bench = Bench(agent, [step, say("done")])
    run = await bench.go()
    events = await bench.events(run.id)
    assert [e.result for e in events if e.type == "tool-execution-end"] == [2, 1]
    assert [r for role, r in told(run.messages) if role == "tool"] == [1, 2]
    (first, _) = [e for e in events if e.type == "turn-end"]
    assert [r for _, r in told(first.tool_results)] == [1, 2]


async def test_a_step_ends_after_its_last_call_is_journaled_however_slow_the_store_is() -> None:
    class SlowBlobs(InMemoryBlobs):
        async def put(self, key: str, data: bytes, content_type: str) -> None:
            await asyncio.sleep(0.05)
            await super().put(key, data, content_type)

    @tool
    async def work(size: int) -> str:
        """Make something of this size that nothing compresses."""
        return random.Random(1).randbytes(size).hex()

    step = calls(call("work", size=500_000), call("work", size=1))
    agent = Agent("helper", model="m", tools=[work], tool_concurrency=2)
    bench = Bench(agent, [step, say("done")], blobs=SlowBlobs())
    run = await bench.go()
    events = types(await bench.events(run.id))
    assert events[4:7] == ["tool-execution-end", "tool-execution-end", "turn-end"]
    assert len(told(run.messages)[1][1]) == 1_000_000
