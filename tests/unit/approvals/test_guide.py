"""The payout of docs/guides/approvals.md, told with its people: the page's own agent, two of finance, the
board, and a clock that moves."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from layover import Agent
from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.approvals.lists import list_for_approver
from layover.approvals.token_answer import DECIDED
from layover.errors import DecisionInvalid, NotAnApprover, NotFound
from layover.inmemory.model import call, say
from layover.recovery.sweep import sweep
from layover.values.deployment.access import Actor
from layover.values.runs.views import ApproverItem
from support.pages import Page
from support.worlds.runs import ANN, Bench, suspended

GUIDE = Page(Path(__file__).parents[3] / "docs" / "guides" / "approvals.md")
ASKER = Actor(sub=ANN, groups=frozenset({"finance"}))
BEA, CARL = (Actor(sub=name, groups=frozenset({"finance"})) for name in ("bea", "carl"))
ZOE = Actor(sub="zoe", groups=frozenset({"board"}))
PAYOUT = call("pay_out", seller="Nora", euros=900)


def payouts() -> Agent:
    """The agent that the page builds first."""
    module: dict[str, Any] = {"__name__": "user_agents"}
    exec(GUIDE.python[0].compiled, module)
    agent = module["payouts"]
    assert isinstance(agent, Agent)
    return agent


async def waiting() -> tuple[Bench, str]:
    """The payout of 900 euros, which waits on its token."""
    bench = Bench(payouts(), [PAYOUT, say("Nora has her money.")])
    run = await suspended(bench)
    await bench.wait(run.id, "call_1")
    return bench, run.id


async def later(bench: Bench, **time: float) -> list[str]:
    """Types of the events on the bus, after sweeps in this much more time."""
    for _ in range(2):
        bench.clock.advance(timedelta(**time) / 2)
        await sweep(bench.plain)
    return [kind for kind, _ in bench.callbacks.events]


async def inbox(bench: Bench, who: Actor) -> list[ApproverItem]:
    return list((await list_for_approver(bench.plain, who, 10, None)).items)


async def vote(bench: Bench, run_id: str, who: Actor, reason: str = "invoice 12") -> None:
    request = DecisionRequest(Verdict.APPROVE, reason=reason)
    await decide(bench.plain, who, run_id, "call_1", request)


async def test_whoever_asked_does_not_decide_and_learns_who_does() -> None:
    bench, run_id = await waiting()
    with pytest.raises(NotAnApprover, match="finance"):
        await vote(bench, run_id, ASKER)


async def test_vote_without_a_reason_does_not_count() -> None:
    bench, run_id = await waiting()
    with pytest.raises(DecisionInvalid, match="needs a reason"):
        await vote(bench, run_id, BEA, reason=" ")
    assert (await bench.call(run_id, "call_1")).votes == ()


async def test_four_eyes_see_the_summary_and_pay() -> None:
    bench, run_id = await waiting()
    (item,) = await inbox(bench, BEA)
    assert (item.summary, item.risk) == ("Pay 900.00 euros to Nora", "medium")
    await vote(bench, run_id, BEA)
    assert (await bench.call(run_id, "call_1")).undecided
    await vote(bench, run_id, CARL, "checked")
    await bench.drive(run_id, call=await bench.item(run_id, "call_1"), output=DECIDED)
    assert (await bench.run(run_id)).text == "Nora has her money."


async def test_finance_is_reminded_and_the_board_may_decide_in_the_end() -> None:
    bench, run_id = await waiting()
    assert "ApprovalReminder" not in await later(bench, hours=3)
    assert "ApprovalReminder" in await later(bench, hours=2)
    with pytest.raises(NotFound):
        await vote(bench, run_id, ZOE)
    assert "ApprovalEscalated" in await later(bench, days=2)
    await vote(bench, run_id, BEA)
    (item,) = await inbox(bench, ZOE)
    assert item.approval is not None
    assert [given.by for given in item.approval.given] == ["bea"]
    await vote(bench, run_id, ZOE, "the board agrees")
    assert not (await bench.call(run_id, "call_1")).undecided
