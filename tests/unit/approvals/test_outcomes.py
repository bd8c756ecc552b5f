"""Outcomes on the bus: after the record, before the wake, and never lost with a process."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest

from layover import Agent, Approval, tool
from layover.approvals import decide as approvals
from layover.approvals.decide import record_withdrawal
from layover.approvals.token_answer import DECIDED, UNTOLD
from layover.errors import RetryableError
from layover.inmemory.callbacks import InMemoryCallbacks
from layover.inmemory.metrics import InMemoryMetrics
from layover.inmemory.model import call, calls, say
from layover.ports import Callbacks
from layover.recovery.sweep import sweep
from layover.runs.cancel import cancel
from layover.runs.resume import resume
from layover.values.decision import WakeUp
from layover.values.deployment.access import Actor
from layover.values.metrics import Metric
from layover.values.runs.payload import ResumePayload
from layover.values.runs.run import Status
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

    async def wake(self, token: str, news: WakeUp = WakeUp.DECIDED) -> bool:
        self.asked.append(f"wake {token}")
        return await super().wake(token, news)


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


async def swept(bench: Bench, after: timedelta = timedelta(minutes=1)) -> dict[str, int]:
    """Sweep after this time, and return the counts."""
    bench.clock.advance(after)
    return await sweep(bench.plain)


async def told_by_sweeps(bench: Bench, bus: Bus) -> list[str]:
    """Kinds of the decisions that the bus knows after some sweeps."""
    for _ in range(3):
        await swept(bench)
    return [detail["decision"]["kind"] for detail in outcomes(bus)]


async def vote(bench: Bench, actor: Actor, run_id: str) -> None:
    request = approvals.DecisionRequest(approvals.Verdict.APPROVE, reason="seen")
    await approvals.decide(bench.runtime, actor, run_id, "call_1", request)


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
    for actor in (BEA, CARL):
        await vote(bench, actor, run.id)
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
async def test_an_answer_that_the_bus_does_not_take_holds_up_no_call(is_only: bool) -> None:
    bench, bus, run_id = await waiting()
    bus.away = True
    answer = {"answer": {"approved": False}}
    if is_only:
        # The run is over. Its execution comes back to tell the bus of that.
        assert (await bench.hear(run_id, "call_1", answer))["status"] == "paused"
        assert (await bench.run(run_id)).status == "success"
    else:
        assert (await bench.branch(run_id, "call_1", answer)).status == "done"
    bus.away = False
    assert await told_by_sweeps(bench, bus) == ["denied"]


async def test_a_bus_that_is_away_holds_up_no_call_and_is_told_once_it_is_back() -> None:
    bench, bus, run_id = await waiting()
    metrics = InMemoryMetrics()
    on(bench, bus, metrics=metrics)
    bus.away = True
    await bench.decide(run_id, "call_1", "approve")
    assert bus.news == {"tok": WakeUp.UNTOLD}
    assert [c.name for c in metrics.counted] == [Metric.PUBLISH_FAILED]
    assert (await bench.branch(run_id, "call_1", UNTOLD)).status == "done"
    await sweep(bench.plain)
    bus.away = False
    assert await told_by_sweeps(bench, bus) == ["approved"]


async def test_a_wake_up_that_says_that_the_bus_knows_pays_what_is_owed() -> None:
    bench, bus, run_id = await waiting()
    await bench.decide(run_id, "call_1", "approve")
    assert bus.news == {"tok": WakeUp.DECIDED}
    assert (await bench.meta(run_id)).owed
    await bench.branch(run_id, "call_1")
    assert not (await bench.meta(run_id)).owed
    assert len(outcomes(bus)) == 1


async def test_a_wake_up_of_an_earlier_attempt_says_nothing_of_this_one() -> None:
    asks = calls(call("book", day="mo", tool_call_id="a"), call("pay", amount=1, tool_call_id="b"))
    bus = Bus()
    bench = on(Ledger().bench(asks, say("done")), bus)
    run_id = (await suspended(bench)).id
    stale = await bench.item(run_id, "a")
    await bench.decide(run_id, "a", "resume", data={"slot": "full"})
    await bench.branch(run_id, "a")
    assert (await bench.call(run_id, "a")).attempt == 2
    bus.away = True
    await bench.decide(run_id, "a", "resume", data={"slot": "mo-2"})
    bus.away = False
    payload = bench.payload(run_id, ResumePayload, call=stale, output=DECIDED)
    assert (await resume(bench.runtime, payload)).status == "done"
    assert [d["attempt"] for d in outcomes(bus)] == [1, 2]


async def test_a_turn_that_settles_a_call_does_not_pay_what_it_does_not_know() -> None:
    """Another call's branch wakes it; the call's own decider has not come to the bus."""
    bench, bus, run_id = await waiting()
    bus.away = True
    await bench.decide(run_id, "call_1", "approve")
    bus.away = False
    bus.closed.add("tok")
    assert await bench.drive(run_id) == "over"
    assert await told_by_sweeps(bench, bus) == ["approved"]


async def test_the_end_of_a_run_leaves_what_the_bus_did_not_take() -> None:
    bench, bus, run_id = await waiting()
    bus.away = True
    await bench.decide(run_id, "call_1", "approve")
    await cancel(bench.plain, ANN, run_id, by=Actor(sub=ANN))
    meta = await bench.meta(run_id)
    assert meta.status is Status.CANCELLED
    assert meta.owed
    assert await swept(bench) == {"owing": 1}
    bus.away = False
    assert await told_by_sweeps(bench, bus) == ["approved"]
    assert not (await bench.meta(run_id)).owed
    assert await swept(bench) == {}


@pytest.mark.usefixtures("hurried_ends")
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("k", range(1, 12))
async def test_a_cancel_that_dies_tells_of_every_call_and_wakes_every_branch(
    k: int, after: bool
) -> None:
    asks = calls(call("pay", amount=1, tool_call_id="a"), call("book", day="mo", tool_call_id="b"))
    bus = Bus()
    bench = on(Ledger().bench(asks), bus)
    run = await suspended(bench)
    for each in "ab":
        await bench.wait(run.id, each, f"tok-{each}")
    power = Power(k, after=after)
    dying = replace(
        bench.plain,
        callbacks=cast(Callbacks, Powered(bus, power)),
        journal=powered_journal(bench.plain.journal, power),
    )
    try:
        await cancel(dying, ANN, run.id, by=Actor(sub=ANN), holder_has_s=0)
    except Crash:
        power.restore()
    if not (await bench.meta(run.id)).cancel:
        return
    for _ in range(4):
        await swept(bench)
    kinds = {d["tool_call_id"]: d["decision"]["kind"] for d in outcomes(bus)}
    assert kinds == {"a": "cancelled", "b": "cancelled"}
    assert {"tok-a", "tok-b"} <= set(bus.woken)
    assert not (await bench.meta(run.id)).owed


async def test_what_waits_for_a_wake_up_is_woken_before_its_run_is_retired() -> None:
    """The end of the run died before it woke the branch, whose execution waits."""
    bench, bus, run_id = await waiting()
    wake = bus.wake

    async def dies(*_: Any) -> bool:
        raise Crash

    bus.wake = dies  # type: ignore[method-assign, assignment]
    with pytest.raises(Crash):
        await cancel(bench.plain, ANN, run_id, by=Actor(sub=ANN))
    bus.wake = wake  # type: ignore[method-assign]
    assert bus.woken == []
    await swept(bench)
    assert bus.woken == ["tok"]
    assert not (await bench.meta(run_id)).owed


async def test_a_vote_that_the_bus_did_not_take_is_told_by_the_sweeper() -> None:
    bus = Bus()
    bench = on(Bench(Agent("bank", model="m", tools=[wire]), [call("wire", amount=9)]), bus)
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "tok")
    bus.away = True
    await vote(bench, BEA, run.id)
    bus.away = False
    await swept(bench, timedelta(hours=1))
    assert bus.asked == ["ApprovalRequested", "ApprovalVoted"]
    await swept(bench, timedelta(hours=1))
    assert bus.asked == ["ApprovalRequested", "ApprovalVoted"]


async def test_a_decision_pays_for_the_votes_before_it() -> None:
    bus = Bus()
    script = [call("wire", amount=9), say("done")]
    bench = on(Bench(Agent("bank", model="m", tools=[wire]), script), bus)
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "tok")
    for actor in (BEA, CARL):
        await vote(bench, actor, run.id)
    await bench.branch(run.id, "call_1")
    assert not (await bench.meta(run.id)).owed
    assert bus.asked == ["ApprovalRequested", "ApprovalVoted", "ApprovalDecided", "wake tok"]


async def test_the_sweeper_does_not_publish_again_what_it_has_told() -> None:
    bench, bus, run_id = await waiting()
    await bench.decide(run_id, "call_1", "approve")
    for _ in range(3):
        await swept(bench)
    assert len(outcomes(bus)) == 2


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


async def test_calls_that_a_cancel_cuts_are_published() -> None:
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
    # The decider of `a` may have died before it told the bus.
    assert [d["tool_call_id"] for d in outcomes(bus)] == ["a", "a", "b"]
    assert bus.asked.index("ApprovalDecided") < bus.asked.index("wake tok-b")


async def test_a_run_without_a_waiting_call_tells_the_bus_of_its_end_only() -> None:
    bus = Bus()
    bench = on(Ledger().bench(call("look", n=1), say("done")), bus)
    await bench.go()
    assert bus.asked == ["RunFinished"]
