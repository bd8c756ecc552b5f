"""Calls that nothing has to be asked about are opened with their step; all others behind it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Hook, Limits, ToolCall, tool
from layover.inmemory.model import call, calls, say
from layover.ports.table import Action, Put
from layover.values.deployment.settings import Settings
from layover.values.runs.run import CallState
from layover.values.runs.views import Run
from support.worlds.runs import Bench, Ledger, answers, told
from support.worlds.writes import Proceed, around_writes


class Watching(Hook):
    """Is asked before a call, and has nothing to say."""

    async def before_tool(self, ctx: Any, call: ToolCall) -> None:
        return None


@tool(max_calls=1)
async def once(n: int) -> int:
    """Be called once."""
    return n


@tool
async def blow(n: int) -> int:
    """Blow up."""
    raise ValueError(n)


class Short:
    """A deadline that leaves time for a model, and for no tool."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def remaining(self) -> timedelta:
        return timedelta(seconds=1 if self.bench.model.prompts else 600)


def writes(bench: Bench) -> list[list[str]]:
    """Record the puts of each write from now on: `STEP`, or a call's id with its state."""
    found: list[list[str]] = []

    async def note(actions: Sequence[Action], proceed: Proceed) -> None:
        await proceed()
        puts = [a for a in actions if isinstance(a, Put) and a.sk.startswith("STEP")]
        names = [
            f"{p.sk.rpartition('#')[2]}={p.item['state']}" if "#CALL#" in p.sk else "STEP"
            for p in puts
        ]
        if names:
            found.append(names)

    around_writes(bench, note)
    return found


def bench_of(*script: Any, tools: Sequence[Any], **given: Any) -> Bench:
    settings = given.pop("settings", None)
    agent = Agent("helper", model="m", tools=[*tools], **given)
    return Bench(agent, answers(*script, say("done")), settings=settings)


async def journaled(bench: Bench) -> list[list[str]]:
    found = writes(bench)
    await bench.go()
    return found


async def test_a_step_opens_the_calls_that_begin_at_once() -> None:
    ledger = Ledger()
    asked = calls(call("look", n=1, tool_call_id="a"), call("look", n=2, tool_call_id="b"))
    found = await journaled(bench_of(asked, tools=[ledger.look], tool_concurrency=2))
    assert found[0] == ["STEP", "a=open", "b=open"]
    assert sorted(found[1] + found[2]) == ["a=settled", "b=settled"]
    assert found[3] == ["STEP"]
    assert sorted(ledger.done) == [("look", 1), ("look", 2)]


async def test_a_step_opens_its_first_window_alone() -> None:
    asked = calls(call("look", n=1, tool_call_id="a"), call("look", n=2, tool_call_id="b"))
    found = await journaled(bench_of(asked, tools=[Ledger().look], tool_concurrency=1))
    assert found[:4] == [["STEP", "a=open"], ["a=settled"], ["b=open"], ["b=settled"]]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("look", {"hooks": [Watching()]}),
        ("look", {"limits": Limits(tool_calls=5)}),
        ("look", {"settings": Settings(daily_tokens=1_000_000)}),
        ("once", {}),
    ],
    ids=["a hook", "a budget", "a day's limit", "a tool's limit"],
)
async def test_a_call_that_something_is_asked_about_is_opened_behind_its_step(
    name: str, given: dict[str, Any]
) -> None:
    asked = call(name, n=1, tool_call_id="a")
    found = await journaled(bench_of(asked, tools=[Ledger().look, once], **given))
    assert found[:3] == [["STEP"], ["a=open"], ["a=settled"]]


@pytest.mark.parametrize("other", ["pay", "look", "nothing"])
async def test_a_step_opens_no_call_beside_one_that_does_not_run(other: str) -> None:
    """One that needs approval, one with wrong arguments, one of no tool."""
    ledger = Ledger()
    wrong = call(other, amount=1, tool_call_id="b")
    asked = calls(call("look", n=1, tool_call_id="a"), wrong)
    found = await journaled(bench_of(asked, tools=[ledger.look, ledger.pay], tool_concurrency=2))
    assert found[0] == ["STEP"]
    assert ledger.done == [("look", 1)]


async def test_a_step_opens_no_call_that_there_is_no_time_for() -> None:
    bench = bench_of(call("look", n=1, tool_call_id="a"), tools=[Ledger().look])
    found = writes(bench)
    run_id = await bench.start()
    assert (await bench.turn(run_id, Short(bench)))["status"] == "yielded"
    assert found == [["STEP"]]
    assert await bench.drive(run_id) == "over"
    assert (await bench.call(run_id, "a")).state is CallState.SETTLED


async def test_a_tool_that_fails_is_closed_as_any_other() -> None:
    bench = bench_of(call("blow", n=1, tool_call_id="a"), tools=[blow])
    found = await journaled(bench)
    assert found[:2] == [["STEP", "a=open"], ["a=settled"]]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_call_is_in_doubt_only_behind_the_write_that_opens_it(after: bool) -> None:
    """Wherever the process dies, the tool has run once, or the model knows that it may have."""
    seen = set()
    for cut_at in range(1, 60):
        ledger = Ledger()
        bench = bench_of(call("look", n=1, tool_call_id="a"), tools=[ledger.look])
        bench.power.cut_at, bench.power.after = cut_at, after
        run: Run = await bench.go()
        assert run.status.value == "success"
        [result] = [r for role, r in told(run.messages) if role == "tool"]
        in_doubt = result == "Interrupted: look may or may not have taken effect"
        assert in_doubt or ledger.done == [("look", 1)]
        seen.add((in_doubt, len(ledger.done)))
        if not bench.power.cuts:
            break
    assert {done for _, done in seen} <= {0, 1}
    assert (True, 0) in seen if after else (False, 1) in seen
