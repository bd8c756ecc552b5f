"""An invocation that runs out of time yields; a fresh one goes on (docs/behaviour.md#yields)."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, ToolContext, tool
from layover.errors import AttemptsUsedUp
from layover.inmemory.model import call, calls, say
from layover.keys import META, Keys
from layover.ports.table import Update
from layover.values.runs.run import Status
from support.worlds.loops import LoopDeadline, played
from support.worlds.runs import ANN, Bench, answers, suspended, told, types

BRIEF = timedelta(seconds=4)
"""The engine keeps a second of it for the journal, and begins a tool with half of it left."""


def countdown(limit: timedelta = BRIEF) -> LoopDeadline:
    """A deadline that is so far away when it is made."""
    return LoopDeadline(asyncio.get_running_loop().time() + limit.total_seconds())


@dataclass
class Told:
    """A deadline that says what it is told to."""

    left: timedelta = timedelta(minutes=15)

    def remaining(self) -> timedelta:
        return self.left


@dataclass
class Slow:
    """A tool that goes on until it is let go."""

    idempotent: bool
    entered: list[str] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def bench(self) -> Bench:
        @tool(idempotent=self.idempotent)
        async def slow(ctx: ToolContext) -> str:
            """Wait."""
            self.entered.append(ctx.idempotency_key)
            await self.go.wait()
            return "slept"

        agent = Agent("helper", model="m", tools=[slow])
        return Bench(agent, answers(call("slow"), say("good morning")))


async def turn(bench: Bench, run_id: str, deadline: Any) -> str:
    answer = await asyncio.wait_for(bench.turn(run_id, deadline), 60)
    return str(answer["status"])


def test_a_run_that_yields_five_times_without_a_step_is_given_up() -> None:
    async def scene() -> None:
        slow = Slow(idempotent=True)
        bench = slow.bench()
        run_id = await bench.start()
        # The first attempt journals the step, so that it does not count.
        for _ in range(6):
            assert await turn(bench, run_id, countdown(timedelta(seconds=1))) == "yielded"
        with pytest.raises(AttemptsUsedUp):
            await bench.turn(run_id)
        assert await bench.settle(run_id, Error="AttemptsUsedUp") == "over"
        assert (await bench.run(run_id)).status is Status.FAILED
        assert types(await bench.events(run_id))[-2:] == ["error", "finish"]

    played(scene())


def test_a_long_call_that_must_not_run_twice_is_not_let_go() -> None:
    async def scene() -> None:
        slow = Slow(idempotent=False)
        bench = slow.bench()
        run_id = await bench.start()
        deadline = countdown()
        running = asyncio.create_task(bench.turn(run_id, deadline))
        while deadline.remaining() > timedelta(seconds=0.8):
            await asyncio.wait([running], timeout=0.05)
        assert not running.done()
        slow.go.set()
        # It is settled in the time that is left, and the run goes on in a fresh invocation.
        assert (await asyncio.wait_for(running, 60))["status"] == "yielded"
        assert await turn(bench, run_id, Told()) == "over"
        assert told((await bench.run(run_id)).messages)[1] == ("tool", "slept")
        assert len(slow.entered) == 1

    played(scene())


def test_a_long_call_that_may_run_twice_is_left_to_the_next_attempt() -> None:
    async def scene() -> None:
        slow = Slow(idempotent=True)
        bench = slow.bench()
        run_id = await bench.start()
        assert await turn(bench, run_id, countdown()) == "yielded"
        slow.go.set()
        assert await turn(bench, run_id, Told()) == "over"
        assert told((await bench.run(run_id)).messages)[1] == ("tool", "slept")
        first, second = slow.entered
        assert first == second
        found = types(await bench.events(run_id))
        assert (found.count("tool-execution-end"), found.count("agent-start")) == (1, 1)

    played(scene())


async def test_no_model_is_asked_without_the_time_for_its_answer() -> None:
    deadline = Told()

    @tool
    def late() -> str:
        """Time passes."""
        deadline.left = timedelta(seconds=60)
        return "late"

    bench = Bench(Agent("helper", model="m", tools=[late]), answers(call("late"), say("well")))
    run_id = await bench.start()
    assert await turn(bench, run_id, deadline) == "yielded"
    assert len(bench.model.prompts) == 1
    assert (await bench.run(run_id)).status is Status.RUNNING
    assert await turn(bench, run_id, Told()) == "over"
    assert (await bench.run(run_id)).text == "well"


async def test_what_an_invocation_begins_with_is_always_begun() -> None:
    """A step that is longer than any limit would be put off for ever otherwise."""
    bench = Bench(Agent("helper", model="m"), answers(say("at once")))
    run_id = await bench.start()
    assert await turn(bench, run_id, Told(timedelta(seconds=2))) == "over"


def test_after_very_many_turns_a_fresh_execution_goes_on() -> None:
    """The history of an execution has a limit (docs/behaviour.md#executions)."""

    async def scene() -> None:
        bench = Slow(idempotent=True).bench()
        run_id = await bench.start()
        many = Update(
            Keys(ANN).run(run_id), META, set={"history": bench.runtime.settings.max_history}
        )
        await bench._table.write(many)
        assert await turn(bench, run_id, countdown()) == "left"
        assert bench.callbacks.started == [(ANN, run_id, 1), (ANN, run_id, 2)]
        # The old one may do nothing more.
        assert await turn(bench, run_id, Told()) == "left"
        assert (await bench.meta(run_id)).execution == f"{run_id}-2"

    played(scene())


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_tool_begins_after_a_decided_call_only_where_there_is_time(
    concurrency: int,
) -> None:
    """It makes no difference whether the tool was decided as well, or comes in the next window."""
    deadline, done = Told(), list[int]()

    @tool(needs_approval=lambda args, _: args["n"] <= concurrency)
    def work(n: int) -> int:
        """Time passes."""
        deadline.left = timedelta(seconds=20)
        done.append(n)
        return n

    step = calls(*(call("work", n=n) for n in (1, 2)))
    agent = Agent("helper", model="m", tools=[work], tool_concurrency=concurrency)
    bench = Bench(agent, answers(step, say("well")))
    run = await suspended(bench)
    for waiting in run.pending:
        await bench.decide(run.id, waiting.tool_call_id, "approve")
    for begun in ([1], [1, 2]):
        deadline.left = timedelta(minutes=15)
        assert await turn(bench, run.id, deadline) == "yielded"
        assert done == begun
    assert await turn(bench, run.id, Told()) == "over"


async def test_a_decided_call_without_time_goes_on_at_once_though_its_sibling_waits() -> None:
    deadline, done = Told(), list[int]()

    @tool(needs_approval=True)
    def work(n: int) -> int:
        """Time passes."""
        deadline.left = timedelta(seconds=20)
        done.append(n)
        return n

    step = calls(*(call("work", n=n) for n in (1, 2, 3)))
    bench = Bench(Agent("helper", model="m", tools=[work], tool_concurrency=3), answers(step))
    run = await suspended(bench)
    for name in ("call_1", "call_2"):
        await bench.decide(run.id, name, "approve")
    assert await turn(bench, run.id, deadline) == "yielded"
    assert await turn(bench, run.id, deadline) == "suspended"
    assert done == [1, 2]


async def test_a_denied_call_is_settled_without_the_time_for_a_tool() -> None:
    @tool(needs_approval=True)
    def work(n: int) -> int:
        """Work."""
        deadline.left = timedelta(seconds=20)
        return n

    deadline = Told()
    step = calls(*(call("work", n=n) for n in (1, 2)))
    bench = Bench(Agent("helper", model="m", tools=[work], tool_concurrency=2), answers(step))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    await bench.decide(run.id, "call_2", "deny")
    assert await turn(bench, run.id, deadline) == "yielded"
    assert (await bench.call(run.id, "call_2")).result["declined"]
