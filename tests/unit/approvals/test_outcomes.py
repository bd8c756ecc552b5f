"""Outcomes on the bus: after the record, before the wake, and never lost with a process."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from layover import Agent, Approval, tool
from layover.adapters.inmemory.callbacks import InMemoryCallbacks
from layover.adapters.inmemory.metrics import InMemoryMetrics
from layover.adapters.inmemory.model import call, calls, say
from layover.approvals.decide import record_withdrawal
from layover.errors import RetryableError
from layover.ports import Callbacks
from layover.recovery.stalled_branches import UNTOLD
from layover.recovery.sweep import sweep
from layover.runs.cancel import cancel
from layover.values.deployment.access import Actor
from layover.values.metrics import Metric
from support.worlds.runs import (
    ANN,
    Bench,
    Crash,
    Ledger,
    Power,
    Powered,
    powered_journal,
    suspended,
)

BEA = Actor(sub="bea", groups=frozenset({"finance"}))
CARL = Actor(sub="carl", groups=frozenset({"finance"}))


@dataclass
class Bus(InMemoryCallbacks):
    """An orchestrator that notes the order of what it is asked, and whose bus can be away."""

    away: bool = False
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        if self.away:
            raise RetryableError("PutEvents failed")
        self.asked.append(detail_type)
        await super().publish(detail_type, detail)

    async def wake(self, token: str) -> bool:
        self.asked.append(f"wake {token}")
        return await super().wake(token)


def on(bench: Bench, bus: Bus, **ports: Any) -> Bench:
    """The bench with this orchestrator."""
    bench.callbacks = bus
    bench.plain = replace(bench.plain, callbacks=bus, **ports)
    bench.runtime = replace(bench.runtime, callbacks=bus, **ports)
    return bench


async def waiting(*script: Any) -> tuple[Bench, Bus, str]:
    """A run whose call waits on its token."""
    bus = Bus()
    bench = on(Ledger().bench(call("pay", amount=1), *script, say("done")), bus)
    run = await suspended(bench)
    assert await bench.wait(run.id, "call_1", "tok") == "waiting"
    return bench, bus, run.id


def outcomes(bus: InMemoryCallbacks) -> list[Mapping[str, Any]]:
    return [detail for kind, detail in bus.events if kind == "ApprovalDecided"]


@tool(needs_approval=Approval(by=["finance"], quorum=2))
async def wire(amount: int) -> str:
    """Wire money."""
    return f"wired {amount}"


async def test_a_decision_is_published_before_the_branch_is_woken() -> None:
    bench, bus, run_id = await waiting()
    await bench.decide(run_id, "call_1", "deny", reason="too much")
    assert bus.asked == ["ApprovalRequested", "ApprovalDecided", "wake tok"]
    (detail,) = outcomes(bus)
    assert "task_token" not in detail
    assert (detail["owner"], detail["run_id"], detail["tool_call_id"]) == (ANN, run_id, "call_1")
    assert (detail["tool_name"], detail["args"], detail["votes"]) == ("pay", {"amount": 1}, [])
    decision = detail["decision"]
    assert {k: decision[k] for k in ("kind", "decided_by", "via", "reason")} == {
        "kind": "denied",
        "decided_by": ANN,
        "via": "api",
        "reason": "too much",
    }
    assert decision["at"]


async def test_a_request_names_the_owner_of_its_run() -> None:
    bench, _, _ = await waiting()
    assert bench.published[0]["owner"] == ANN


async def test_votes_are_published_as_such_and_the_last_one_as_the_decision() -> None:
    bus = Bus()
    bench = on(Bench(Agent("bank", model="m", tools=[wire]), [call("wire", amount=9)]), bus)
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "tok")
    from layover.approvals import decide as approvals

    for actor in (BEA, CARL):
        request = approvals.DecisionRequest(approvals.Verdict.APPROVE, reason="seen")
        await approvals.decide(bench.runtime, actor, run.id, "call_1", request)
    assert bus.asked == ["ApprovalRequested", "ApprovalVoted", "ApprovalDecided", "wake tok"]
    voted, decided = bus.events[1][1], bus.events[2][1]
    assert voted["decision"] is None
    assert [v["by"] for v in voted["votes"]] == ["bea"]
    assert [v["by"] for v in decided["votes"]] == ["bea", "carl"]
    assert decided["decision"]["decided_by"] == "carl"


async def test_a_withdrawal_is_an_outcome() -> None:
    bench, bus, run_id = await waiting()
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run_id)
    assert snapshot is not None
    await record_withdrawal(bench.plain, Actor(sub=ANN), snapshot, snapshot.calls[0])
    assert [d["decision"]["kind"] for d in outcomes(bus)] == ["withdrawn"]
    assert bus.asked[-1] == "wake tok"


@pytest.mark.parametrize("is_only", [True, False])
async def test_a_decision_in_a_tokens_answer_is_published(is_only: bool) -> None:
    bench, bus, run_id = await waiting()
    answer = {"answer": {"approved": False, "reason": "no"}}
    if is_only:
        assert (await bench.hear(run_id, "call_1", answer))["status"] == "over"
    else:
        assert (await bench.branch(run_id, "call_1", answer)).status == "done"
    (detail,) = outcomes(bus)
    assert (detail["decision"]["via"], detail["decision"]["reason"]) == ("callback", "no")


async def test_an_expiry_is_published() -> None:
    bench, bus, run_id = await waiting()
    bench.clock.advance(timedelta(hours=2))
    await bench.branch(run_id, "call_1", {"Error": "States.Timeout"})
    assert [d["decision"]["kind"] for d in outcomes(bus)] == ["expired"]


@pytest.mark.parametrize("is_only", [True, False])
async def test_an_answer_that_the_bus_was_not_told_of_waits_on_a_new_token(is_only: bool) -> None:
    bench, bus, run_id = await waiting()
    bus.away = True
    answer = {"answer": {"approved": False}}
    if is_only:
        assert (await bench.hear(run_id, "call_1", answer))["status"] == "suspended"
    else:
        assert (await bench.branch(run_id, "call_1", answer)).status == "waiting"
    bus.away = False
    assert await bench.wait(run_id, "call_1", "next") == "woken"
    assert bus.asked[-2:] == ["ApprovalDecided", "wake next"]
    if is_only:
        assert (await bench.hear(run_id, "call_1"))["status"] == "over"
    else:
        assert (await bench.branch(run_id, "call_1")).status == "done"
    assert len(outcomes(bus)) == 1


async def test_a_bus_that_is_away_leaves_the_wake_to_the_sweeper_and_costs_no_decision() -> None:
    bench, bus, run_id = await waiting()
    metrics = InMemoryMetrics()
    on(bench, bus, metrics=metrics)
    bus.away = True
    await bench.decide(run_id, "call_1", "approve")
    assert (await bench.call(run_id, "call_1")).decision is not None
    assert bus.woken == []
    assert [c.name for c in metrics.counted] == [Metric.PUBLISH_FAILED]
    await sweep(bench.plain)
    assert bus.woken == []
    bus.away = False
    bench.clock.advance(timedelta(minutes=1))
    await sweep(bench.plain)
    assert bus.asked[-2:] == ["ApprovalDecided", "wake tok"]


async def test_a_bus_that_stays_away_does_not_hold_up_the_call_for_ever() -> None:
    bench, bus, run_id = await waiting()
    bus.away = True
    await bench.decide(run_id, "call_1", "approve")
    bench.clock.advance(UNTOLD)
    await sweep(bench.plain)
    assert bus.woken == ["tok"]


async def test_the_sweeper_does_not_publish_again_once_no_branch_waits() -> None:
    bench, bus, run_id = await waiting()
    await bench.decide(run_id, "call_1", "approve")
    bus.closed.add("tok")
    for _ in range(3):
        await sweep(bench.plain)
        bench.clock.advance(timedelta(minutes=1))
    assert len(outcomes(bus)) == 2
    assert bus.woken == ["tok", "tok"]


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("k", range(1, 9))
async def test_a_decider_that_dies_loses_no_outcome(k: int, after: bool) -> None:
    bench, bus, run_id = await waiting()
    power = Power(k, after=after)
    bench.runtime = replace(
        bench.runtime,
        callbacks=cast(Callbacks, Powered(bus, power)),
        journal=powered_journal(bench.plain.journal, power),
    )
    try:
        await bench.decide(run_id, "call_1", "approve")
    except Crash:
        power.restore()
    await sweep(bench.plain)
    if (await bench.call(run_id, "call_1")).decision is not None:
        assert 1 <= len(outcomes(bus)) <= 2
        assert "tok" in bus.woken
        assert bus.asked.index("ApprovalDecided") < bus.asked.index("wake tok")


async def test_a_decision_that_came_before_the_token_is_published_by_the_branch() -> None:
    bus = Bus()
    bench = on(Ledger().bench(call("pay", amount=1), say("done")), bus)
    run = await suspended(bench)
    bus.away = True
    await bench.decide(run.id, "call_1", "approve")
    bus.away = False
    assert await bench.wait(run.id, "call_1", "late") == "woken"
    assert bus.asked == ["ApprovalDecided", "wake late"]


async def test_calls_that_a_cancel_cuts_are_published_once_each() -> None:
    bus = Bus()
    asks = calls(call("pay", amount=1, tool_call_id="a"), call("book", day="mo", tool_call_id="b"))
    bench = on(Ledger().bench(asks), bus)
    run = await suspended(bench)
    for each in "ab":
        await bench.wait(run.id, each, f"tok-{each}")
    await bench.decide(run.id, "a", "approve")
    await cancel(bench.plain, ANN, run.id, by=Actor(sub=ANN))
    kinds = {d["tool_call_id"]: d["decision"]["kind"] for d in outcomes(bus)}
    assert kinds == {"a": "approved", "b": "cancelled"}
    assert len(outcomes(bus)) == 2
    assert bus.asked.index("ApprovalDecided") < bus.asked.index("wake tok-b")


async def test_a_run_without_a_waiting_call_asks_the_bus_for_nothing() -> None:
    bus = Bus()
    bench = on(Ledger().bench(call("look", n=1), say("done")), bus)
    await bench.go()
    assert bus.asked == []
