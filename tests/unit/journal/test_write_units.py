"""The writes of a run, in DynamoDB's units: nothing that a step writes grows with the input."""

import os
from datetime import timedelta

import pytest

from layover import Agent, tool
from layover.adapters.inmemory.model import call, say
from layover.runs.accept import StartRun, start_run
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
