"""The journal is away for a while, while a tool runs or a model answers. Time is skipped."""

import asyncio
from typing import Any

import pytest

from layover import Agent, tool
from layover.engine.supervise import FAULTS_S
from layover.errors import RetryableError
from layover.inmemory.model import call, say
from layover.inmemory.table import InMemoryTable
from layover.runs.cancel import cancel
from layover.values.runs.run import CallState, Status
from support.worlds.loops import LoopClock, played
from support.worlds.runs import ANN, Bench, told


class Away:
    """A table that answers nothing from one moment of the loop's time to another."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.since = self.until = 0.0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.since <= asyncio.get_running_loop().time() < self.until:
                raise RetryableError("throttled")
            return await method(*args, **kwargs)

        return call


class Stage:
    """A run whose tool takes `takes` seconds. From its first second on, the journal is away for a while."""

    def __init__(
        self, takes: float, away_s: float, *, idempotent: bool = False, asks: bool = False
    ) -> None:
        self.paid = 0
        table: Any = Away(InMemoryTable())

        @tool(idempotent=idempotent, needs_approval=asks)
        async def pay() -> str:
            """Pay."""
            table.since = asyncio.get_running_loop().time() + 1
            table.until = table.since + away_s
            await asyncio.sleep(takes)
            self.paid += 1
            return "paid"

        agent = Agent("helper", model="m", tools=[pay])
        script = [call("pay", tool_call_id="c1"), say("done"), say("done")]
        self.bench = Bench(agent, script, clock=LoopClock(), table=table)

    async def turn(self) -> str:
        """The id of the run, once one process has turned it as far as it could."""
        run_id = await self.bench.start()
        await self.bench.turn(run_id)
        return run_id


PHASES = [(n / 8, idempotent) for n in range(1, 9) for idempotent in (False, True)]


@pytest.mark.parametrize(("share", "idempotent"), PHASES)
def test_looks_that_fail_for_seconds_cut_no_tool(share: float, idempotent: bool) -> None:
    async def scene() -> None:
        stage = Stage(takes=20, away_s=(FAULTS_S - 1) * share, idempotent=idempotent)
        run = await stage.bench.run(await stage.turn())
        assert (run.status, stage.paid) == (Status.SUCCESS, 1)
        assert told(run.messages)[1] == ("tool", "paid")

    played(scene())


def test_tool_that_may_not_run_twice_is_waited_for_however_long_the_journal_is_away() -> None:
    async def scene() -> None:
        stage = Stage(takes=60, away_s=50)
        run_id = await stage.bench.start()
        with pytest.raises(RetryableError):
            await stage.bench.turn(run_id)
        assert stage.paid == 1
        # Its outcome is known: nothing is in doubt.
        assert (await stage.bench.call(run_id, "c1")).state is CallState.SETTLED
        await stage.bench.turn(run_id)
        run = await stage.bench.run(run_id)
        assert told(run.messages) == [("assistant", ""), ("tool", "paid"), ("assistant", "done")]
        assert stage.paid == 1

    played(scene())


def test_tool_that_may_run_again_is_let_go_when_the_journal_stays_away() -> None:
    async def scene() -> None:
        stage = Stage(takes=60, away_s=1_000, idempotent=True)
        run_id = await stage.bench.start()
        began = asyncio.get_running_loop().time()
        with pytest.raises(RetryableError):
            await stage.bench.turn(run_id)
        assert stage.paid == 0
        assert FAULTS_S < asyncio.get_running_loop().time() - began < FAULTS_S + 5

    played(scene())


def test_cancel_behind_looks_that_failed_is_heard() -> None:
    async def scene() -> None:
        stage = Stage(takes=60, away_s=3)
        run_id = await stage.bench.start()
        turn = asyncio.create_task(stage.bench.turn(run_id))
        await asyncio.sleep(6)
        began = asyncio.get_running_loop().time()
        await cancel(stage.bench.plain, ANN, run_id)
        await turn
        assert (await stage.bench.run(run_id)).status is Status.CANCELLED
        assert asyncio.get_running_loop().time() - began < 2

    played(scene())


def test_approved_tool_that_may_not_run_twice_is_waited_for_as_well() -> None:
    async def scene() -> None:
        stage = Stage(takes=60, away_s=50, asks=True)
        run_id = await stage.turn()
        await stage.bench.wait(run_id, "c1")
        await stage.bench.decide(run_id, "c1", "approve")
        with pytest.raises(RetryableError):
            await stage.bench.branch(run_id, "c1")
        assert stage.paid == 1
        assert (await stage.bench.call(run_id, "c1")).state is CallState.SETTLED

    played(scene())
