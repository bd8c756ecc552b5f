"""Hooks suspend Layover's own tools: the turn makes such a call, alone or beside other calls that wait."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from layover import (
    Agent,
    EpisodicMemory,
    Hook,
    Memory,
    ModelSettings,
    Suspend,
    ToolCall,
    WorkingMemory,
    tool,
)
from layover.inmemory.model import call, calls, say
from layover.plugins.memory.reads.profile.notes import working_key
from layover.recovery.sweep import sweep
from layover.testing import ScriptedModel
from layover.values.runs.run import CallState, Status
from layover.values.runs.views import Run
from support.examples import choose_deaths
from support.worlds.runs import ANN, Bench, Power, answers, seen, types

ARGS: dict[str, dict[str, Any]] = {
    "update_working_memory": {"memory": "likes tea"},
    "recall_memory": {"query": "tea"},
    "plan": {"goal": "tea"},
    "search_tools": {"query": "number seven"},
    "read_result": {},
}


class LooksFirst(Hook):
    """Suspends calls of Layover's own tools."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def before_tool(self, ctx: Any, call: ToolCall) -> Suspend | None:
        self.asked.append(call.tool_name)
        return Suspend("look first") if call.tool_name in ARGS else None


class Desk:
    """An agent with all of Layover's own tools and one that needs an approval."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.hook = LooksFirst()

        @tool(needs_approval=True)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        memory = Memory(
            working_memory=WorkingMemory(),
            episodic=EpisodicMemory(),
            plan=True,
            result_tokens=1_000,
        )
        tools = [pay, *(_numbered(n) for n in range(40))]
        self.agent = Agent(
            "shop",
            model="m",
            tools=tools,
            memory=memory,
            hooks=[self.hook],
            tool_concurrency=4,
            tool_search=True,
            # Of many tools, a request has the one that is to be called without a search for it.
            model_settings=ModelSettings(tool_choice="pay"),
        )


def _numbered(n: int) -> Any:
    @tool(name=f"number_{n}")
    def look() -> int:
        """Look."""
        return n

    return look


def script(name: str) -> list[Any]:
    """The model asks for a call of the built-in tool beside one that needs an approval."""
    own = call(name, tool_call_id="own", **ARGS[name])
    return [calls(own, call("pay", amount=3, tool_call_id="pay")), say("ok")]


async def two_wait(name: str) -> tuple[Desk, Bench, Run]:
    desk = Desk()
    bench = Bench(desk.agent, script(name))
    run = await bench.go(stream=True)
    assert [p.tool_call_id for p in run.pending] == ["own", "pay"]
    return desk, bench, run


async def note(bench: Bench) -> Any:
    key = working_key(bench.agent, "t1")
    assert key is not None
    [found] = await bench.plain.memory.read_notes(ANN, [key])
    return found.value


@pytest.mark.parametrize("name", ARGS)
@pytest.mark.parametrize("first", ["own", "pay"])
async def test_an_approved_call_of_a_built_in_tool_beside_another_is_made(
    name: str, first: str
) -> None:
    desk, bench, run = await two_wait(name)
    for call_id in sorted(("own", "pay"), key=lambda each: each != first):
        await bench.decide(run.id, call_id, "approve")
        assert (await bench.branch(run.id, call_id)).status == "done"
    assert await bench.drive(run.id) == "over"
    own, paid = seen(bench.model.prompts[-1])
    assert (paid, desk.paid) == ("paid 3", [3])
    assert "not found" not in own
    assert not (await bench.call(run.id, "own")).is_error


async def test_its_branch_leaves_the_call_to_the_turn() -> None:
    _, bench, run = await two_wait("update_working_memory")
    await bench.decide(run.id, "own", "approve", args={"memory": "likes coffee"})
    await bench.branch(run.id, "own")
    assert (await bench.call(run.id, "own")).state is CallState.WAITING
    assert await note(bench) is None
    await bench.answer(run.id, "pay", "approve")
    assert await note(bench) == "likes coffee"


async def test_a_denied_one_is_settled_by_its_branch() -> None:
    _, bench, run = await two_wait("update_working_memory")
    await bench.decide(run.id, "own", "deny", reason="no")
    await bench.branch(run.id, "own")
    own = await bench.call(run.id, "own")
    assert (own.state, own.result["reason"]) == (CallState.SETTLED, "no")


async def test_the_sweeper_has_it_made_while_the_other_call_waits_on() -> None:
    _, bench, run = await two_wait("update_working_memory")
    for call_id in ("own", "pay"):
        await bench.wait(run.id, call_id, f"token-{call_id}")
    await bench.decide(run.id, "own", "approve")
    await bench.branch(run.id, "own")
    bench.callbacks.closed = {"token-own"}
    bench.clock.advance(timedelta(seconds=121))
    assert await sweep(bench.plain) == {"succeeded": 1}
    again = await bench.turn(run.id, execution=f"{run.id}-2")
    assert (again["status"], await note(bench)) == ("suspended", "likes tea")
    assert [p.tool_call_id for p in (await bench.run(run.id)).pending] == ["pay"]
    bench.clock.advance(timedelta(hours=2))
    assert await sweep(bench.plain) == {"driven": 1}


async def test_in_process_it_is_made_as_well() -> None:
    desk = Desk()
    with desk.agent.override(model=ScriptedModel(script("update_working_memory"))) as model:
        run = await desk.agent.generate("hi", thread_id="t1")
        await desk.agent.approve(run.run_id, "own")
        done = await desk.agent.approve(run.run_id, "pay")
    assert (done.status, desk.paid) == ("success", [3])
    assert seen(model.prompts[-1]) == ['{"success":true}', "paid 3"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_port_call_leaves_one_decision_and_one_outcome(after: bool) -> None:
    for k in choose_deaths(after):
        power = Power(k, after=after)
        desk = Desk()
        bench = Bench(desk.agent, answers(*script("update_working_memory")), power=power)
        run_id = await bench.start(stream=True)
        assert await bench.drive(run_id) == "suspended"
        await asyncio.wait_for(bench.answer(run_id, "own", "approve"), 60)
        await asyncio.wait_for(bench.answer(run_id, "pay", "approve"), 60)
        run = await bench.run(run_id)
        assert (run.status, await note(bench)) == (Status.SUCCESS, "likes tea"), k
        told = types(await bench.events(run_id))
        assert told.count("tool-call-decided") == 2, k
        own = [e for e in await bench.events(run_id) if e.type == "tool-execution-end"]
        assert sorted(e.tool_call_id for e in own) == ["own", "pay"], k
        if not power.cuts:
            break
    assert k > 20
