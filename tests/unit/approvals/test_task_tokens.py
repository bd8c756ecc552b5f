"""Decisions that come through a task token: awaited, validated, expired, declined."""

import json
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Approval, ToolContext, tool
from layover.approvals.extend import extend
from layover.clock import rfc3339
from layover.errors import DecisionAlreadyMade
from layover.inmemory.model import call, calls, say
from layover.values.deployment.access import Actor
from layover.values.runs.run import Status
from support.aws.faults import ALL
from support.worlds.runs import (
    ANN,
    Bench,
    Choice,
    Ledger,
    Offer,
    seen,
    suspended,
    told,
    types,
    with_tools,
)

OTHERS = ["denied", "Rejected", "States.Timeout", "ResourceNotReadyException", "", None]
"""Other errors that callers and platforms send; a time-out long before the expiry is a caller's."""


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


async def test_awaiting_a_call_that_is_decided_already_wakes_the_branch_at_once(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    assert bench.callbacks.woken == []
    assert await bench.wait(run.id, "call_1", "late") == "woken"
    assert bench.callbacks.woken == ["late"]


async def test_a_decision_wakes_the_token_that_waits_and_the_request_was_published(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    assert await bench.wait(run.id, "call_1", "tok") == "waiting"
    (detail,) = bench.published
    assert detail["task_token"] == "tok"
    assert (detail["run_id"], detail["thread_id"], detail["agent"]) == (run.id, "t1", "helper")
    assert (detail["tool_name"], detail["args"]) == ("pay", {"amount": 1})
    await bench.decide(run.id, "call_1", "approve")
    assert bench.callbacks.woken == ["tok"]


@pytest.mark.parametrize(
    "output",
    [
        {"layover": "decided"},
        {"answer": {"layover": "decided"}},
        {"answer": {"Error": "Denied", "Cause": "not today"}},
        {"answer": {"answer": {"approved": True}}},
        {"answer": None},
        {"approved": "yes"},
        {"approved": True, "args": {"amount": "much"}},
        {"approved": True, "extra": 1},
        {"data": {"slot": "a"}},
        "approved",
        None,
        [],
    ],
)
async def test_a_callback_that_is_no_decision_leaves_the_call_waiting(
    ledger: Ledger, output: Any
) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    assert (await bench.branch(run.id, "call_1", output)).status == "waiting"
    assert (await bench.call(run.id, "call_1")).undecided
    assert ledger.done == []


def _deep() -> Any:
    deep: Any = "b"
    for _ in range(200):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "output", [{"data": {"slot": 3}}, {"data": {}}, {"data": _deep()}, {"approved": True}, {}]
)
async def test_a_callback_with_data_that_does_not_fit_leaves_the_call_waiting(
    ledger: Ledger, output: Any
) -> None:
    bench = ledger.bench(call("book", day="mo"))
    run = await suspended(bench)
    assert (await bench.branch(run.id, "call_1", output)).status == "waiting"


async def test_a_callback_approves_with_other_arguments(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=100), say("ok"))
    run = await suspended(bench)
    output = {"approved": True, "args": {"amount": 4}, "reason": "less"}
    assert (await bench.branch(run.id, "call_1", output)).status == "done"
    record = await bench.call(run.id, "call_1")
    assert (record.decision.decided_by, record.decision.reason) == ("callback", "less")
    assert ledger.done == [4]


@pytest.mark.parametrize("output", [{"answer": {"data": {"slot": "b"}}}, {"data": {"slot": "b"}}])
async def test_a_callback_resumes_with_data_under_the_old_state_machine_too(
    ledger: Ledger, output: Any
) -> None:
    bench = ledger.bench(call("book", day="mo"), say("ok"))
    run = await suspended(bench)
    await bench.branch(run.id, "call_1", output)
    assert ledger.done == ["b"]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"approved": False, "reason": "no"}, "no"),
        ({"Error": "Denied", "Cause": "not today"}, "not today"),
        ({"Error": "Denied", "Cause": ""}, "Denied"),
        ({"Error": "Denied", "Cause": "nul\0"}, "nul�"),
        ({"Error": "Denied"}, "Denied"),
        ({"Error": "Denied", "Cause": None}, "Denied"),
        ({"Error": "Denied", "Cause": {"answer": 1}}, "{'answer': 1}"),
        ({"answer": {"approved": False, "reason": "no"}}, "no"),
    ],
)
async def test_a_callback_denies_with_its_cause(
    ledger: Ledger, output: Any, reason: str | None
) -> None:
    bench = ledger.bench(call("pay", amount=1), say("ok"))
    run = await suspended(bench)
    await bench.branch(run.id, "call_1", output)
    record = await bench.call(run.id, "call_1")
    assert (record.decision.kind.value, record.decision.reason) == ("denied", reason)
    assert (record.result["declined"], ledger.done) == (True, [])


async def test_a_callback_that_loses_to_an_earlier_decision_is_ignored(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1), say("ok"))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "deny")
    await bench.branch(run.id, "call_1", {"approved": True})
    assert ledger.done == []
    assert (await bench.call(run.id, "call_1")).decision.decided_by == ANN


async def test_a_time_out_just_before_the_expiry_leaves_the_call_waiting(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    bench.clock.advance(timedelta(minutes=59, seconds=58))
    timeout = {"Error": "States.Timeout", "Cause": ""}
    item = await bench.branch(run.id, "call_1", timeout)
    assert (item.status, item.timeout_s) == ("waiting", 2)


async def test_a_call_with_more_time_waits_on_after_the_state_machines_time_out(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """The state machine knows only the time that it was told first."""
    bench = ledger.bench(call("pay", amount=1), say("ok"))
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "first")
    later = bench.clock.now() + timedelta(hours=3)
    await extend(bench.plain, Actor(sub=ANN), run.id, "call_1", later, attempt=1)
    bench.clock.advance(timedelta(hours=1))
    timeout = {"Error": "States.Timeout", "Cause": ""}
    item = await bench.branch(run.id, "call_1", timeout)
    assert (item.status, item.timeout_s) == ("waiting", 2 * 3600)
    assert caplog.records == []
    await bench.wait(run.id, "call_1", "second")
    published = [(p["task_token"], p["expires_at"]) for p in bench.published]
    assert published[1] == ("second", rfc3339(later)) > published[0]
    bench.clock.advance(timedelta(hours=2))
    await bench.branch(run.id, "call_1", timeout)
    assert (await bench.call(run.id, "call_1")).decision.kind.value == "expired"


async def test_the_only_call_with_more_time_waits_on_after_the_time_out_and_is_then_approved(
    ledger: Ledger,
) -> None:
    """A turn hears the token of the only call, without a branch."""
    bench = ledger.bench(call("pay", amount=1), say("ok"))
    run = await suspended(bench)
    later = bench.clock.now() + timedelta(hours=3)
    await extend(bench.plain, Actor(sub=ANN), run.id, "call_1", later, attempt=1)
    bench.clock.advance(timedelta(hours=1))
    answer = await bench.hear(run.id, "call_1", {"Error": "States.Timeout", "Cause": ""})
    assert answer["status"] == "suspended"
    assert (await bench.call(run.id, "call_1")).undecided
    await bench.answer(run.id, "call_1", "approve")
    assert ledger.done == [1]


async def test_a_call_that_waits_anew_has_its_own_time(ledger: Ledger) -> None:
    @tool(suspend=Offer, resume=Choice, expires_after=timedelta(hours=1))
    async def reserve(ctx: ToolContext) -> str:
        """Reserve."""
        return ctx.suspend(Offer(slots=["a"]))

    bench = Bench(with_tools(ledger.bench().agent, reserve), [call("reserve"), say("ok")])
    run = await suspended(bench)
    later = bench.clock.now() + timedelta(days=3)
    await extend(bench.plain, Actor(sub=ANN), run.id, "call_1", later, attempt=1)
    await bench.answer(run.id, "call_1", "resume", data={"slot": "full"})
    again = await bench.call(run.id, "call_1")
    assert (again.attempt, again.undecided, again.extended_to) == (2, True, None)


@pytest.mark.parametrize("error", [*sorted(ALL), *OTHERS], ids=str)
async def test_an_error_that_is_no_denial_leaves_the_call_waiting_on_a_new_token(
    ledger: Ledger, error: str | None
) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "first")
    item = await bench.branch(run.id, "call_1", {"Error": error, "Cause": "Denied"})
    assert (item.status, item.attempt) == ("waiting", 1)
    assert (await bench.call(run.id, "call_1")).undecided
    await bench.wait(run.id, "call_1", "second")
    assert [p["task_token"] for p in bench.published] == ["first", "second"]


async def test_a_denial_without_its_reason_leaves_the_call_waiting_where_one_is_due() -> None:
    @tool(needs_approval=Approval(by=["finance"], reason_required=True))
    async def refund(amount: int) -> str:
        """Refund."""
        return f"refunded {amount}"

    bench = Bench(Agent("helper", model="m", tools=[refund]), [call("refund", amount=1), say("ok")])
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "first")
    for cause in (None, "", " "):
        item = await bench.branch(run.id, "call_1", {"Error": "Denied", "Cause": cause})
        assert item.status == "waiting"
    assert (await bench.call(run.id, "call_1")).undecided
    await bench.branch(run.id, "call_1", {"Error": "Denied", "Cause": "too much"})
    assert (await bench.call(run.id, "call_1")).decision.reason == "too much"


async def test_a_branch_rests_longer_and_longer_after_what_was_no_decision(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    fault = {"Error": "Lambda.ResourceNotReadyException", "Cause": ""}
    rests, pause_s = [], 0
    for output in [fault, {"answer": "no decision"}, *[fault] * 6]:
        pause_s = (await bench.branch(run.id, "call_1", output, pause_s=pause_s)).pause_s
        rests.append(pause_s)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]
    assert (await bench.branch(run.id, "call_1", pause_s=pause_s)).pause_s == 0


async def test_a_call_that_expired_is_as_denied_and_says_so(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1), say("ok"))
    run = await suspended(bench)
    bench.clock.advance(timedelta(hours=1))
    with pytest.raises(DecisionAlreadyMade):
        await bench.decide(run.id, "call_1", "approve")
    await bench.branch(run.id, "call_1", {"Error": "States.Timeout", "Cause": ""})
    await bench.drive(run.id)
    said = json.loads(seen(bench.model.prompts[1])[0])
    assert (said["declined"], said["expired"], ledger.done) == (True, True, [])
    decided = [e for e in await bench.events(run.id) if e.type == "tool-call-decided"]
    assert [(e.decision.value, e.decided_by) for e in decided] == [("expired", "system")]


async def test_a_decision_before_the_time_out_wins_over_it(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1), say("ok"))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    bench.clock.advance(timedelta(hours=2))
    await bench.branch(run.id, "call_1", {"Error": "States.Timeout", "Cause": ""})
    assert ledger.done == [1]


async def test_a_failure_through_the_callback_declines_a_call_that_asked_for_data(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(call("book", day="mo"), say("ok"))
    run = await suspended(bench)
    await bench.branch(run.id, "call_1", {"Error": "Denied", "Cause": "nobody is there"})
    await bench.drive(run.id)
    said = json.loads(seen(bench.model.prompts[1])[0])
    assert (said["declined"], said["reason"], ledger.offered) == (True, "nobody is there", 1)


async def test_an_agent_that_is_gone_when_the_decision_comes_fails_the_run_and_cancels_the_calls(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(calls(call("pay", amount=1), call("pay", amount=2)), say("ok"))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    bench.agents.clear()
    assert (await bench.branch(run.id, "call_1")).status == "done"
    assert await bench.drive(run.id) == "over"
    ended = await bench.run(run.id)
    assert ended.error is not None
    assert (ended.status, ended.error.type, ledger.done) == (Status.FAILED, "UnknownAgent", [])
    events = await bench.events(run.id)
    decided = [(e.tool_call_id, e.decision.value) for e in events if e.type == "tool-call-decided"]
    assert decided == [("call_1", "approved"), ("call_2", "cancelled")]
    assert types(events)[-2:] == ["error", "finish"]
    assert [r for role, r in told(ended.messages) if role == "tool"] == [
        "Cancelled: pay was not run",
        "Cancelled: pay was not run",
    ]


async def test_another_execution_settles_nothing(ledger: Ledger) -> None:
    from layover.runs.resume import resume
    from layover.values.runs.payload import ResumePayload, WaitingCall

    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    found = await bench.call(run.id, "call_1")
    item = WaitingCall(key=found.key, attempt=1, timeout_s=1)
    payload = ResumePayload(owner=ANN, run_id=run.id, execution="another", call=item)
    assert (await resume(bench.runtime, payload)).status == "done"
    assert ledger.done == []
