"""A tool runs only if the model's request had it: a hook that takes it out, and a search that has not found
it, keep it from running, even if the model names it all the same."""

from typing import Any

import pytest

from layover import Agent, Hook, HookContext, ModelRequest, tool
from layover.inmemory.model import call, calls, say
from layover.values.runs.run import Status
from support.worlds.runs import Bench, Crash, told

SPENT: list[str] = []


@tool
def pay(to: str) -> str:
    """Pay money."""
    SPENT.append(to)
    return f"paid {to}"


@tool
def look(n: int) -> int:
    """Look."""
    return n


@tool(needs_approval=True)
def wire(to: str) -> str:
    """Wire money."""
    SPENT.append(to)
    return f"wired {to}"


class NoMoney(Hook):
    """Takes tools that move money out of every request but those after `open_at` steps."""

    def __init__(self, open_at: int = 99) -> None:
        self.open_at = open_at
        self.asked = 0

    def before_model(self, ctx: HookContext, request: ModelRequest) -> ModelRequest | None:
        self.asked += 1
        if self.asked > self.open_at:
            return None
        left = tuple(t for t in request.tools if t.name not in ("pay", "wire"))
        return request.model_copy(update={"tools": left})


@pytest.fixture(autouse=True)
def nothing_spent() -> None:
    SPENT.clear()


def results(run: Any) -> list[Any]:
    return [text for role, text in told(run.messages) if role == "tool"]


@pytest.mark.parametrize("name", ["pay", "wire"])
async def test_tool_that_a_hook_took_out_does_not_run_and_asks_nobody(name: str) -> None:
    agent = Agent("helper", model="m", tools=[pay, look, wire], hooks=[NoMoney()])
    script = [calls(call(name, to="me"), call("look", n=1)), say("done")]
    bench = Bench(agent, script)
    run = await bench.go()
    assert (run.status, SPENT) == (Status.SUCCESS, [])
    assert results(run) == [f"Tool {name} not found", 1]


async def test_tool_that_is_there_again_runs_in_the_next_step() -> None:
    agent = Agent("helper", model="m", tools=[pay], hooks=[NoMoney(open_at=1)])
    bench = Bench(agent, [call("pay", to="first"), call("pay", to="second"), say("done")])
    run = await bench.go()
    assert (results(run), SPENT) == (["Tool pay not found", "paid second"], ["second"])


@pytest.mark.parametrize("after", [False, True])
async def test_it_does_not_run_in_another_process_either(after: bool) -> None:
    """The process dies at each place in turn: the next one knows what the request had."""
    cut_at = 0
    while True:
        cut_at += 1
        SPENT.clear()
        agent = Agent("helper", model="m", tools=[pay, look], hooks=[NoMoney()])
        script: list[Any] = [calls(call("pay", to="me"), call("look", n=1))]
        bench = Bench(agent, [*script, *script, say("done"), say("done")])
        run_id = await bench.start()
        bench.power.calls, bench.power.cut_at, bench.power.after = 0, cut_at, after
        try:
            await bench.turn(run_id)
        except Crash:
            bench.power.restore()
            agent.hooks[0].asked = 0
            await bench.drive(run_id)
        assert SPENT == []
        if not bench.power.cuts:
            break
    assert cut_at > 5


async def test_tool_that_no_search_has_found_does_not_run() -> None:
    tools = [pay, *(_numbered(n) for n in range(40))]
    agent = Agent("helper", model="m", tools=tools, tool_search=True)
    script = [
        call("pay", to="early"),
        call("search_tools", query="pay money"),
        call("pay", to="found"),
        say("done"),
    ]
    run = await Bench(agent, script).go()
    assert SPENT == ["found"]
    assert [results(run)[0], results(run)[2]] == ["Tool pay not found", "paid found"]


def _numbered(n: int) -> Any:
    @tool(name=f"number_{n}")
    def one() -> int:
        """Return a number."""
        return n

    return one
