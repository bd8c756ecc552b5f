"""`at_end` of runs that are cancelled: asked once, by whichever process ends the run, and never in the way of
the end."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Hook, Result, RetryableError, tool
from layover.recovery.sweep import sweep
from layover.runs.cancel import cancel
from layover.testing import call, say
from layover.values.runs.run import Status
from support.worlds.loops import skipping
from support.worlds.runs import ANN, Bench, Crash, Power


class Ends(Hook):
    """Keeps what it was told, then does what it is made to do."""

    def __init__(self, then: Callable[[], Any] | None = None) -> None:
        self.ends: list[Result] = []
        self._then = then

    async def at_end(self, ctx: Any, result: Result) -> Result:
        self.ends.append(result)
        if self._then is not None:
            await self._then()
        return result.model_copy(update={"output": "the hook's"})


@tool(needs_approval=True)
async def refund(amount: int) -> str:
    """Pay back."""
    raise AssertionError("nobody approved")


HAVE = timedelta(seconds=1)
REFUND = call("refund", amount=1, tool_call_id="c1")


def bench(hook: Ends, *script: Any, power: Power | None = None, **options: Any) -> Bench:
    agent = Agent("shop", model="m", tools=[refund], hooks=[hook], **options)
    return Bench(agent, list(script or (REFUND, say("done"))), power=power)


async def journaled(world: Bench, run_id: str) -> list[Any]:
    """Return the journal's records of the hooks at the end."""
    snapshot = await world.plain.journal.runs.snapshot(ANN, run_id)
    assert snapshot is not None
    return [c.result for c in snapshot.calls if c.args == {"point": "at_end"}]


async def fails() -> None:
    raise LookupError("no ledger")


async def is_away() -> None:
    raise RetryableError("later")


async def hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("then", "type"), [(fails, "LookupError"), (is_away, "RetryableError"), (hangs, "TimeoutError")]
)
@skipping
async def test_a_hook_that_fails_or_hangs_is_recorded_and_the_cancel_stands(
    then: Any, type: str, caplog: pytest.LogCaptureFixture
) -> None:
    hook = Ends(then)
    world = bench(hook)
    run = await world.go()
    with caplog.at_level(logging.WARNING, "layover"):
        meta = await cancel(world.plain, ANN, run.id)
    assert (meta.status, meta.error, len(hook.ends)) == (Status.CANCELLED, None, 1)
    [record] = await journaled(world, run.id)
    assert record["failure"]["type"] == type
    [line] = [r for r in caplog.records if "at the end of a cancelled run" in r.getMessage()]
    assert line.__dict__["cause"] == type
    assert (await world.head()).active_run is None


async def test_deps_that_cannot_be_made_are_recorded_and_the_cancel_stands() -> None:
    def breaks(settings: Any) -> Any:
        raise OSError("no database")

    hook = Ends()
    world = bench(hook, deps=breaks)
    run_id = await world.start()
    meta = await cancel(world.plain, ANN, run_id, holder_has_s=0)
    assert (meta.status, hook.ends) == (Status.CANCELLED, [])
    [record] = await journaled(world, run_id)
    assert record["failure"]["type"] == "OSError"


async def test_a_suspended_run_that_is_cancelled_tells_its_hooks_once_and_keeps_no_output() -> None:
    hook = Ends()
    world = bench(hook)
    run = await world.go()
    assert hook.ends == []
    await cancel(world.plain, ANN, run.id)
    await cancel(world.plain, ANN, run.id)
    [end] = hook.ends
    assert (end.status, end.run_id, end.error) == (Status.CANCELLED, run.id, None)
    run = await world.run(run.id)
    assert (run.status, run.output) == (Status.CANCELLED, None)
    assert [m.role for m in run.messages] == ["assistant", "tool"]


async def test_the_holder_of_a_flagged_run_tells_its_hooks() -> None:
    hook = Ends()
    world = bench(hook)
    run_id = await world.start()
    meta = await world.meta(run_id)
    await world.plain.journal.commands.request_cancel(ANN, meta.id, HAVE)
    assert await world.drive(run_id) == "over"
    assert [end.status for end in hook.ends] == [Status.CANCELLED]


async def test_a_queued_run_and_one_that_the_sweeper_ends_tell_none() -> None:
    hook = Ends()
    world = bench(hook)
    first = await world.start()
    queued = await world.start(on_busy="enqueue")
    await cancel(world.plain, ANN, queued)
    await world.drive(first)
    await world.plain.journal.commands.request_cancel(ANN, first, HAVE)
    world.clock.advance(HAVE * 10)
    await sweep(world.plain)
    assert (await world.meta(first)).status is Status.CANCELLED
    assert hook.ends == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("holder", [False, True], ids=["by force", "by its holder"])
@skipping
async def test_a_death_anywhere_asks_again_only_what_was_not_journaled(
    after: bool, holder: bool
) -> None:
    asked_more = 0
    for k in range(1, 100):
        power = Power()
        hook = Ends()
        world = bench(hook, power=power)
        run_id = await world.start()
        if holder:
            await world.plain.journal.commands.request_cancel(ANN, run_id, HAVE)
        else:
            assert await world.drive(run_id) == "suspended"
        power.calls, power.cut_at, power.after = 0, k, after
        try:
            await (world.turn(run_id) if holder else cancel(world.runtime, ANN, run_id))
        except Crash:
            power.restore()
        power.cut_at = 0
        if holder:
            await world.drive(run_id)
        else:
            await cancel(world.runtime, ANN, run_id)
        assert (await world.meta(run_id)).status is Status.CANCELLED
        assert len(await journaled(world, run_id)) == 1
        assert len(hook.ends) <= 2
        asked_more += len(hook.ends) - 1
        if not power.cuts:
            break
    assert (k > 5, asked_more) == (True, 1 if after is False else 0), (k, asked_more)
