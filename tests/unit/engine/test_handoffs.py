"""Hand-offs: an agent gives the conversation to another one."""

from typing import Any

import pytest

from layover import Agent, tool
from layover.adapters.inmemory.model import ScriptedModel, call, calls, say
from layover.errors import DefinitionError
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.worlds.runs import Bench, Power, answers_of, types

SCRIPT: dict[str, list[Any]] = {
    "front": [call("transfer_to_billing", tool_call_id="t1"), say("never")],
    "billing": [say("never"), call("pay", tool_call_id="p1", amount=1), say("paid")],
}


def made(paid: list[int], power: Power | None = None) -> Bench:
    @tool(needs_approval=True, idempotent=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "ok"

    billing = Agent("billing", instructions="billing", tools=[pay])
    front = Agent("front", instructions="front", handoffs=[billing])
    bench = Bench(front, answers_of(SCRIPT), power=power)
    bench.agents["billing"] = billing
    return bench


async def ended(bench: Bench) -> Run:
    run_id = await bench.start()
    assert await bench.drive(run_id) == "suspended"
    assert await bench.answer(run_id, "p1", "approve") == "over"
    return await bench.run(run_id)


async def test_the_run_and_its_thread_are_the_other_agents_from_there_on() -> None:
    paid: list[int] = []
    bench = made(paid)
    run_id = await bench.start()
    assert await bench.drive(run_id) == "suspended"
    assert (await bench.head()).agent == "billing"
    (pending,) = (await bench.run(run_id)).pending
    assert pending.agent_path == ("billing",)
    await bench.answer(run_id, "p1", "approve")
    run = await bench.run(run_id)
    assert (run.status, run.agent, run.text, paid) == (Status.SUCCESS, "billing", "paid", [1])
    events = await bench.events(run_id)
    (handoff,) = [e for e in events if e.type == "handoff"]
    shown = handoff.model_dump(mode="json")
    assert (shown["from"], shown["to"]) == ("front", "billing")
    assert types(events)[:6] == [
        "agent-start",
        "turn-start",
        "tool-execution-start",
        "tool-execution-end",
        "turn-end",
        "handoff",
    ]
    assert "definition-changed" not in types(events)
    first, second = bench.model.prompts[:2]
    assert (first.system, second.system) == ("front", "billing")
    assert second.messages[0].text == "hello"
    rows = [row.agent for _, row in bench.threads.usage_rows.values()]
    assert rows == ["front", "billing", "billing"]


async def test_the_next_run_of_the_thread_begins_with_the_agent_that_has_it() -> None:
    bench = made([])
    await ended(bench)
    run_id = await bench.start("again")
    assert (await bench.meta(run_id)).agent == "billing"


async def test_a_conversation_changes_hands_once_whatever_dies() -> None:
    for after in (False, True):
        for k in range(1, 80):
            paid: list[int] = []
            power = Power(k, after=after)
            run = await ended(bench := made(paid, power))
            assert (run.agent, run.text, set(paid)) == ("billing", "paid", {1}), (k, after)
            events = await bench.events(run.id)
            assert [e.type for e in events].count("handoff") == 1, (k, after)
            if not power.cuts:
                break


async def test_two_agents_may_name_each_other() -> None:
    billing, front = Agent("billing"), Agent("front")
    front.handoffs, billing.handoffs = [billing], [front]
    assert [t.name for t in billing.tools] == ["transfer_to_front"]
    script = ScriptedModel([call("transfer_to_billing"), call("transfer_to_front"), say("back")])
    with front.override(model=script):
        result = await front.generate("hi", thread_id="t")
    assert (result.status, result.text) == ("success", "back")


async def test_a_thread_that_was_given_away_goes_on_in_process() -> None:
    billing = Agent("billing", instructions="billing")
    front = Agent("front", instructions="front", handoffs=[billing])
    script = [call("transfer_to_billing"), say("billing here"), say("still billing")]
    with front.override(model=ScriptedModel(script)) as model:
        await front.generate("hi", thread_id="t")
        again = await front.generate("and now?", thread_id="t")
    assert again.text == "still billing"
    assert [p.system for p in model.prompts if p.task == "turn"] == ["front", "billing", "billing"]


async def test_a_sub_agent_answers_and_gives_no_conversation_away() -> None:
    other = Agent("other")
    sub = Agent("sub", instructions="sub", handoffs=[other])
    top = Agent("top", instructions="top", tools=[sub.as_tool("x")])
    script = {"top": [call("sub", input="a"), say("end")], "sub": [say("done")]}
    bench = Bench(top, answers_of(script))
    run = await bench.go()
    assert run.text == "end"
    assert bench.model.prompts[1].tools == ()


async def test_other_calls_of_the_step_are_settled_first() -> None:
    seen: list[str] = []

    @tool
    def note() -> str:
        """Note."""
        seen.append("noted")
        return "noted"

    billing = Agent("billing", instructions="billing")
    front = Agent("front", instructions="front", tools=[note], handoffs=[billing])
    step = calls(call("transfer_to_billing"), call("note"))
    with front.override(model=ScriptedModel([step, say("hi")])):
        result = await front.generate("hi")
    assert (seen, result.text) == (["noted"], "hi")


def test_an_agent_hands_nothing_to_itself() -> None:
    agent = Agent("a")
    with pytest.raises(DefinitionError, match="handoffs"):
        agent.handoffs = [agent]
