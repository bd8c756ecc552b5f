"""An abort whose loop was so busy that the cancel takes the run from its drive by force. Whoever waits for
the run learns of its end, and not of a state in between."""

import asyncio
from typing import Any

import pytest

from layover import Agent, tool
from layover.inprocess import driver
from layover.runs import cancel as cancels
from layover.runs import turn as turns
from layover.runs.cancel import cancel
from layover.runs.finish import end_even_unsaved
from layover.testing import ScriptedModel, call, say
from layover.wiring import in_memory_runtime


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Overtaken:
    """A drive that is about to write its run's end when the cancel seizes the run. The cancel then takes its
    time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_ending = asyncio.Event()
        self.is_seized = asyncio.Event()

        async def cancel_late(*args: Any, **kwargs: Any) -> Any:
            await self.is_ending.wait()
            return await cancel(*args, holder_has_s=0, **kwargs)

        async def end_late(*args: Any, **kwargs: Any) -> Any:
            self.is_seized.set()
            for _ in range(500):
                await asyncio.sleep(0)
            return await end_even_unsaved(*args, **kwargs)

        async def ask_no_hooks(*_: Any) -> None:
            self.is_ending.set()
            await self.is_seized.wait()

        monkeypatch.setattr(driver, "cancel", cancel_late)
        monkeypatch.setattr(cancels, "end_even_unsaved", end_late)
        monkeypatch.setattr(turns, "run_cancel_hooks", ask_no_hooks)


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Overtaken:
    return Overtaken(monkeypatch)


def aborts_itself(*before: Any) -> Agent:
    """Return an agent that is aborted while its model answers, after `before`."""

    async def abort(_: Any) -> Any:
        agent.abort()
        await asyncio.Event().wait()

    agent = Agent("a", model="m", tools=[pay])
    model = ScriptedModel([*before, abort, say("hello")])
    agent.runtime = in_memory_runtime(agent, model=model)
    return agent


async def test_generate_returns_the_run_as_the_cancel_ended_it(overtaken: Overtaken) -> None:
    agent = aborts_itself()
    result = await agent.generate("hi")
    assert overtaken.is_seized.is_set()
    assert result.status == agent.state().status == "cancelled"


async def test_decision_returns_the_run_as_the_cancel_ended_it(overtaken: Overtaken) -> None:
    agent = aborts_itself(call("pay", amount=3))
    waiting = await agent.generate("hi")
    result = await agent.approve(waiting.run_id, waiting.pending[0].tool_call_id)
    assert overtaken.is_seized.is_set()
    assert result.status == "cancelled"


async def test_stream_ends_with_the_end_that_the_cancel_wrote(overtaken: Overtaken) -> None:
    stream = aborts_itself().stream("hi")
    types = [event.type async for event in stream]
    assert overtaken.is_seized.is_set()
    assert types[-1] == "finish"
    assert (await stream.result()).status == "cancelled"


async def test_stream_of_a_decision_ends_with_it_as_well(overtaken: Overtaken) -> None:
    agent = aborts_itself(call("pay", amount=3))
    waiting = await agent.generate("hi")
    stream = agent.stream_approve(waiting.run_id, waiting.pending[0].tool_call_id)
    types = [event.type async for event in stream]
    assert overtaken.is_seized.is_set()
    assert types[-1] == "finish"
    assert (await stream.result()).status == "cancelled"


async def test_thread_is_free_once_an_aborted_run_has_returned(overtaken: Overtaken) -> None:
    agent = aborts_itself()
    await agent.generate("hi", thread_id="t")
    assert overtaken.is_seized.is_set()
    assert (await agent.generate("again", thread_id="t")).text == "hello"
