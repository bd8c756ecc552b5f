"""One story of an approval, as a deployment and as a process of one's own live through it."""

from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Approval, tool
from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.approvals.token_answer import DECIDED
from layover.declare.tools.tool import AnyTool
from layover.inmemory.model import ScriptedModel, call, say
from layover.recovery.sweep import sweep
from layover.values.decision import RUN_FINISHED
from layover.values.deployment.access import Actor
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench, types

PAID: list[Any] = []
BEA = Actor(sub="bea", groups=frozenset({"finance"}))


@pytest.fixture(autouse=True)
def _nothing_is_paid() -> None:
    PAID.clear()


def pay_to(default: str) -> AnyTool:
    @tool(
        needs_approval=Approval(by=["finance"], remind_after=timedelta(hours=4)),
        summary=lambda args, ctx: f"Pay {args['euros']:g} euros to {args['account']}",
        risk="high",
    )
    async def pay(euros: float, account: str = default) -> str:
        """Pay."""
        PAID.append((euros, account))
        return f"paid {euros:g} to {account}"

    return pay


def script() -> list[Any]:
    return [call("pay", euros=7), say("It rains."), say("Paid; it rains, so by bank.")]


async def approve(bench: Bench, run_id: str) -> str:
    """Bea approves, and the turn that follows settles the call."""
    item = await bench.item(run_id, "call_1")
    await decide(bench.plain, BEA, run_id, "call_1", DecisionRequest(Verdict.APPROVE))
    return await bench.drive(run_id, call=item, output=DECIDED)


async def test_a_payout_is_asked_for_talked_over_reminded_of_changed_and_paid() -> None:
    bench = Bench(Agent("shop", model="m", tools=[pay_to("x")]), script())
    run_id = await bench.start("pay 7")
    assert await bench.drive(run_id) == "suspended"
    await bench.wait(run_id, "call_1")
    other = await bench.start("weather?")
    assert await bench.drive(other) == "over"
    bench.clock.advance(timedelta(hours=5))
    await sweep(bench.plain)
    bench.agents["shop"] = Agent("shop", model="m", tools=[pay_to("somebody-else")])
    assert await approve(bench, run_id) == "suspended"
    assert PAID == []
    (again,) = (await bench.run(run_id)).pending
    assert (again.attempt, again.asked_again) == (2, "definition")
    assert again.summary == "Pay 7 euros to somebody-else"
    assert (await bench.head()).active_run == run_id
    assert await approve(bench, run_id) == "over"
    run = await bench.run(run_id)
    assert (run.status, run.text) == (Status.SUCCESS, "Paid; it rains, so by bank.")
    assert PAID == [(7, "somebody-else")]
    assert "It rains." in str(bench.model.turns[2].messages)
    assert types(await bench.events(run_id)) == [
        "agent-start",
        "turn-start",
        "tool-call-suspended",
        "approval-reminder",
        "tool-call-decided",
        "definition-changed",
        "tool-call-suspended",
        "tool-call-decided",
        "tool-execution-start",
        "tool-execution-end",
        "turn-end",
        "turn-start",
        "turn-end",
        "finish",
        "agent-end",
    ]
    assert types(await bench.events(other)) == [
        "agent-start",
        "turn-start",
        "turn-end",
        "finish",
        "agent-end",
    ]
    asked = [kind for kind, _ in bench.callbacks.events if kind != RUN_FINISHED]
    assert asked == [
        "ApprovalRequested",
        "ApprovalReminder",
        "ApprovalDecided",
        "ApprovalDecided",
    ]
    assert [m.text for m in await bench.stored() if m.text] == [
        "pay 7",
        "weather?",
        "It rains.",
        "Paid; it rains, so by bank.",
    ]
    assert (await bench.meta(run_id)).owner == ANN


async def test_the_same_payout_in_a_process_of_ones_own() -> None:
    shop = Agent("shop", model="m", tools=[pay_to("x")])
    with shop.override(model=ScriptedModel(script())) as model:
        waiting = await shop.generate("pay 7", thread_id="t")
        assert (await shop.generate("weather?", thread_id="t")).text == "It rains."
        shop.tools = [pay_to("somebody-else")]
        again = await shop.approve(waiting.run_id, waiting.pending[0].tool_call_id)
        assert (again.status, PAID) == (Status.SUSPENDED, [])
        (pending,) = again.pending
        assert pending.summary == "Pay 7 euros to somebody-else"
        done = await shop.approve(waiting.run_id, pending.tool_call_id)
    assert (done.status, done.text) == (Status.SUCCESS, "Paid; it rains, so by bank.")
    assert PAID == [(7, "somebody-else")]
    assert "It rains." in str(model.turns[2].messages)
