"""The writes of a run, in DynamoDB's units: nothing that a step writes grows with the input."""

import os
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Approval, tool
from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.inmemory.model import call, calls, say
from layover.runs.accept import StartRun, start_run
from layover.runs.cancel import cancel
from layover.values.deployment.access import Actor
from layover.values.thread import ThreadHead
from support.worlds.runs import ANN, Bench
from support.worlds.write_units import CountingTable

THREAD = "thread_01m81yrtnpamkj44mtp30hwxd2"
"""An id as long as they are."""
QUESTION = "What is the weather like in Paris today and do I need an umbrella? (question 1)"
"""It does not fit into META."""
Counted = tuple[CountingTable, int, int]


@tool
def get_weather(city: str) -> str:
    """Get the weather for a city."""
    return "Sunny, 21 C, light breeze from the west, humidity 40 percent."


async def counted(text: str, *groups: str) -> Counted:
    """A table, with what accepting and driving a turn with a tool wrote there: (accept, turn). `groups`: the
    caller's."""
    table = CountingTable()
    agent = Agent("weather", model="m", instructions="Be helpful.", tools=[get_weather])
    script = [call("get_weather", city="Berlin"), say("It is sunny in Berlin. " * 10)]
    bench = Bench(agent, script, table=table)
    now = bench.clock.now()
    head = ThreadHead(id=THREAD, owner=ANN, agent=agent.name, created_at=now, updated_at=now)
    await bench.plain.journal.heads.put(head.model_copy(update={"title": "a title"}))
    before = table.total
    bench.clock.advance(timedelta(seconds=1))
    actor = Actor(sub=ANN, groups=frozenset(groups), scopes=frozenset({"openid", "layover/use"}))
    run = await start_run(bench.plain, actor, THREAD, StartRun(text))
    accepted = table.total
    bench.clock.advance(timedelta(seconds=1))
    assert (await bench.turn(run.id))["status"] == "over"
    return table, accepted - before, table.total - accepted


@pytest.mark.parametrize(
    ("text", "least"), [("What is the weather in Berlin?", 36), (QUESTION, 38)]
)
async def test_turn_with_a_tool_costs_no_more_than_this(text: str, least: int) -> None:
    _, accept, turn = await counted(text)
    assert accept + turn <= least


async def test_turn_costs_no_more_for_an_input_of_20_kb() -> None:
    _, accept, turn = await counted(os.urandom(10_000).hex())
    assert accept <= 32
    assert turn <= 28


async def test_a_caller_in_a_hundred_groups_costs_no_step_more() -> None:
    _, accept, turn = await counted("hello", *(f"{n}-{'x' * 120}" for n in range(100)))
    _, few, same = await counted("hello", "finance", "berlin")
    # It keeps something in S3, so the sweeper retires it, and not its last transaction.
    assert turn == same - 2
    assert accept <= few + 30


async def test_writes_of_a_step_do_not_touch_the_owners_index() -> None:
    table, _, _ = await counted("hello")
    for sk, _, size, spent in table.log:
        if sk.startswith(("STEP", "EVENT")):
            assert spent <= 2 * -(-size // 1024)


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(needs_approval=Approval(by=["finance"], quorum=2))
async def wire(amount: int) -> str:
    """Wire."""
    return f"wired {amount}"


async def waiting(ask: Any, *names: str) -> tuple[Bench, CountingTable, str]:
    """A run whose calls of these ids wait, each on its token."""
    table = CountingTable()
    asks = calls(*(call(ask.name, amount=1, tool_call_id=name) for name in names))
    bench = Bench(
        Agent("shop", model="m", tools=[ask], tool_concurrency=2), [asks, say("ok")], table=table
    )
    run_id = await bench.start()
    await bench.turn(run_id)
    for name in names:
        assert await bench.wait(run_id, name, f"token of {name}") == "waiting"
    return bench, table, run_id


def is_within(table: CountingTable, before: tuple[int, int], units: int, writes: int) -> bool:
    """Whether no more was spent since then."""
    return table.total - before[0] <= units and len(table.log) - before[1] <= writes


def so_far(table: CountingTable) -> tuple[int, int]:
    return table.total, len(table.log)


async def test_what_a_decision_owes_costs_no_write_and_no_unit() -> None:
    bench, table, run_id = await waiting(pay, "a")
    before = so_far(table)
    await bench.decide(run_id, "a", "approve")
    assert is_within(table, before, units=10, writes=5)
    before = so_far(table)
    assert (await bench.hear(run_id, "a"))["status"] == "over"
    assert is_within(table, before, units=26, writes=13)
    assert not (await bench.meta(run_id)).owed


async def test_what_a_vote_owes_costs_no_write_and_no_unit() -> None:
    bench, table, run_id = await waiting(wire, "a")
    for voter, costs in (("bea", (12, 5)), ("carl", (12, 4))):
        before = so_far(table)
        actor = Actor(sub=voter, groups=frozenset({"finance"}))
        request = DecisionRequest(Verdict.APPROVE)
        await decide(bench.plain, actor, run_id, "a", request)
        assert is_within(table, before, *costs)
    before = so_far(table)
    await bench.hear(run_id, "a")
    assert is_within(table, before, units=30, writes=13)
    assert not (await bench.meta(run_id)).owed


async def test_what_a_cancel_owes_costs_no_write_and_no_unit() -> None:
    bench, table, run_id = await waiting(pay, "a", "b")
    before = so_far(table)
    await cancel(bench.plain, ANN, run_id, by=Actor(sub=ANN))
    await bench.turn(run_id)
    assert is_within(table, before, units=40, writes=21)
    assert not (await bench.meta(run_id)).owed
