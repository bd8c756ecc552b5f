"""The time that running tools have when their run is to end, to the tenth of a second: time is skipped."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, tool
from layover.inmemory.model import call, calls, say
from layover.runs.cancel import cancel
from layover.values.deployment.access import Actor
from layover.values.runs.run import OnBusy, Status
from layover.values.runs.views import Run
from support.worlds.loops import LoopClock, played
from support.worlds.runs import ANN, Bench, told


class Stage:
    """A run with a tool that goes on until it is released; `beside`: another call of its step waits."""

    def __init__(self, *, needs_approval: bool = False, beside: bool = False) -> None:
        self.running, self.release = asyncio.Event(), asyncio.Event()

        @tool(needs_approval=needs_approval)
        async def slow() -> str:
            """Take long."""
            self.running.set()
            await self.release.wait()
            return "kept"

        @tool(needs_approval=True)
        async def ask() -> str:
            """Ask."""
            return "asked"

        agent = Agent("helper", model="m", tools=[slow, ask], tool_concurrency=2)
        step = calls(call("ask"), call("slow")) if beside else call("slow")
        self.clock = LoopClock()
        self.bench = Bench(agent, [step, say("next")], clock=self.clock)

    async def ended(self, phase: float, takes: float, end: Callable[[str], Any]) -> Run:
        """The run, ended `phase` seconds after a look at the flag by `end`; its tool is through `takes`
        seconds later."""
        loop = asyncio.get_running_loop()
        run_id = await self.bench.start()
        turn = asyncio.create_task(self.bench.turn(run_id))
        await self.running.wait()
        await asyncio.sleep(phase)
        loop.call_later(takes, self.release.set)
        await end(run_id)
        self.release.set()
        await turn
        return await self.bench.run(run_id)


def kept(run: Run) -> bool:
    assert run.status is Status.CANCELLED
    return told(run.messages)[1] == ("tool", "kept")


@pytest.mark.parametrize("phase", [0.0, 0.2, 0.45])
@pytest.mark.parametrize(("takes", "stays"), [(1.45, True), (1.6, False)])
def test_a_cancel_leaves_a_tool_a_second_and_a_half_and_answers_within_two(
    phase: float, takes: float, stays: bool
) -> None:
    async def scene() -> None:
        stage, time = Stage(), asyncio.get_running_loop().time

        async def end(run_id: str) -> None:
            asked = time()
            meta = await cancel(stage.bench.plain, ANN, run_id)
            assert meta.status is Status.CANCELLED
            assert time() - asked < 1.9

        assert kept(await stage.ended(phase, takes, end)) is stays

    played(scene())


@pytest.mark.parametrize("phase", [0.0, 0.2, 0.45])
@pytest.mark.parametrize(("takes", "stays"), [(1.95, True), (2.1, False)])
def test_an_interrupted_tool_has_two_seconds_to_finish_and_be_kept(
    phase: float, takes: float, stays: bool
) -> None:
    async def scene() -> None:
        stage, time = Stage(), asyncio.get_running_loop().time

        async def end(_: str) -> None:
            asked = time()
            await stage.bench.start("next", on_busy=OnBusy.INTERRUPT)
            assert time() - asked < 2.4

        assert kept(await stage.ended(phase, takes, end)) is stays

    played(scene())


def test_an_interrupted_tool_has_its_time_while_another_call_of_its_step_waits() -> None:
    async def scene() -> None:
        stage = Stage(beside=True)

        async def end(run_id: str) -> None:
            assert (await stage.bench.run(run_id)).status is Status.SUSPENDED
            await stage.bench.start("next", on_busy=OnBusy.INTERRUPT)

        run = await stage.ended(0.2, 1.2, end)
        assert run.status is Status.CANCELLED
        assert told(run.messages)[1:] == [
            ("tool", "Cancelled: ask was not run"),
            ("tool", "kept"),
        ]

    played(scene())


@pytest.mark.parametrize("way", ["cancel", "interrupt"])
def test_a_call_that_waits_beside_a_running_tool_is_cancelled_by_the_person_who_ends_the_run(
    way: str,
) -> None:
    """The turn that ends the run has read it before the request came."""

    async def scene() -> None:
        stage = Stage(beside=True)

        async def end(run_id: str) -> None:
            if way == "cancel":
                await cancel(stage.bench.plain, ANN, run_id, by=Actor(sub=ANN))
            else:
                await stage.bench.start("next", on_busy=OnBusy.INTERRUPT)

        run = await stage.ended(0.2, 0.5, end)
        decided = [
            (e.tool_call_id, e.decision.value, e.decided_by)
            for e in await stage.bench.events(run.id)
            if e.type == "tool-call-decided"
        ]
        assert decided == [("call_1", "cancelled", ANN)]

    played(scene())


def test_a_clock_that_is_ahead_takes_a_tool_no_more_than_the_time_between_two_looks() -> None:
    async def scene() -> None:
        stage, loop = Stage(), asyncio.get_running_loop()

        async def end(run_id: str) -> None:
            loop.call_later(0.01, setattr, stage.clock, "wrong", timedelta(hours=1))
            await cancel(stage.bench.plain, ANN, run_id)

        assert kept(await stage.ended(0.2, 0.95, end))

    played(scene())


def test_a_database_that_does_not_answer_holds_no_cancel_up() -> None:
    async def scene() -> None:
        stage, time = Stage(needs_approval=True), asyncio.get_running_loop().time
        run = await stage.bench.go()
        assert run.status is Status.SUSPENDED

        async def asleep(_: Any) -> None:
            await asyncio.Event().wait()

        stage.bench.threads.save_turn = asleep  # type: ignore[method-assign, assignment]
        asked = time()
        meta = await cancel(stage.bench.plain, ANN, run.id)
        assert (meta.status, meta.saved) == (Status.CANCELLED, False)
        assert time() - asked < 0.6
        assert (await stage.bench.head()).unsaved == (run.id,)

    played(scene())
