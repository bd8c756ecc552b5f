"""Calls that wait for a person: what is asked, what is decided, what the model is told."""

import asyncio
import json
from datetime import date, timedelta
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from layover import Agent, Limits, ToolContext, tool
from layover.errors import DecisionAlreadyMade, DecisionInvalid, NotFound
from layover.inmemory.model import call, calls, say
from layover.values.runs.run import Status
from support.worlds.runs import (
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


def _weekday(day: date) -> date:
    if day.isoweekday() > 5:
        raise ValueError("not a weekday")
    return day


class Day(BaseModel):
    """The choice that a person makes; the schema cannot express all of it."""

    day: Annotated[date, AfterValidator(_weekday)]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


async def test_a_call_that_needs_approval_does_not_run_and_shows_what_it_would_do(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(call("pay", amount=3))
    run = await suspended(bench)
    (pending,) = run.pending
    assert ledger.done == []
    assert pending.payload == {"type": "approval", "tool_name": "pay", "args": {"amount": 3}}
    assert pending.resume_schema["required"] == ["approved"]
    assert set(pending.resume_schema["properties"]) == {"approved", "args", "reason"}
    assert (pending.attempt, pending.agent_path) == (1, ("helper",))
    assert pending.expires_at == bench.clock.now() + timedelta(hours=1)
    (event,) = [e for e in await bench.events(run.id) if e.type == "tool-call-suspended"]
    told = pending.model_dump(exclude={"args_schema"})
    assert {**event.model_dump(), **told} == event.model_dump()


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_a_second_decision_is_refused_and_nothing_runs_twice(
    ledger: Ledger, verdict: str
) -> None:
    bench = ledger.bench(call("pay", amount=3), say("ok"))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    with pytest.raises(DecisionAlreadyMade):
        await bench.decide(run.id, "call_1", verdict, reason="second")
    await bench.branch(run.id, "call_1")
    with pytest.raises(DecisionAlreadyMade):
        await bench.decide(run.id, "call_1", verdict, reason="second")
    await bench.branch(run.id, "call_1")
    await bench.drive(run.id)
    assert ledger.done == [3]


async def test_of_two_decisions_at_once_one_wins(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=3), say("ok"))
    run = await suspended(bench)
    both = await asyncio.gather(
        bench.decide(run.id, "call_1", "approve"),
        bench.decide(run.id, "call_1", "deny"),
        return_exceptions=True,
    )
    assert [isinstance(b, DecisionAlreadyMade) for b in both].count(True) == 1
    decided = [e for e in await bench.events(run.id) if e.type == "tool-call-decided"]
    assert len(decided) == 1


@pytest.mark.parametrize(
    ("call_id", "verdict", "given", "error"),
    [
        ("call_9", "approve", {}, NotFound),
        ("call_1", "resume", {"data": {"slot": "x"}}, DecisionInvalid),
        ("call_1", "approve", {"args": {"amount": "much"}}, DecisionInvalid),
        ("call_1", "approve", {"attempt": 2}, DecisionAlreadyMade),
        ("call_2", "approve", {}, DecisionInvalid),
        ("call_2", "resume", {"data": {"slot": 3}}, DecisionInvalid),
        ("call_3", "approve", {}, DecisionAlreadyMade),
    ],
)
async def test_a_decision_that_does_not_fit_is_refused_and_changes_nothing(
    ledger: Ledger, call_id: str, verdict: str, given: Any, error: type[Exception]
) -> None:
    step = calls(call("pay", amount=3), call("book", day="mo"), call("look", n=1))
    bench = ledger.bench(step, concurrency=2)
    run = await suspended(bench)
    with pytest.raises(error):
        await bench.decide(run.id, call_id, verdict, **given)
    after = await bench.run(run.id)
    assert after == run
    assert [p.tool_call_id for p in after.pending] == ["call_1", "call_2"]
    assert [u.tool_call_id for u in after.unexecuted] == ["call_3"]
    assert types(await bench.events(run.id)).count("tool-call-decided") == 0


@tool(suspend=Offer, resume=Day)
async def meet(ctx: ToolContext) -> str:
    """Find a day."""
    return ctx.suspend(Offer(slots=[])) if ctx.resume is None else str(ctx.resume.day)


@pytest.mark.parametrize("day", ["banana", "2026-02-30", "2026-03-07"])
async def test_data_that_only_the_tools_own_type_refuses_leaves_the_call_waiting(day: str) -> None:
    bench = Bench(Agent("helper", model="m", tools=[meet]), [call("meet"), say("ok")])
    run = await suspended(bench)
    with pytest.raises(DecisionInvalid) as refusal:
        await bench.decide(run.id, "call_1", "resume", data={"day": day})
    (wrong,) = refusal.value.errors
    assert wrong["loc"] == ["body", "data", "day"]
    assert await bench.run(run.id) == run
    item = await bench.branch(run.id, "call_1", {"data": {"day": day}})
    assert (item.status, await bench.run(run.id)) == ("waiting", run)
    await bench.answer(run.id, "call_1", "resume", data={"day": "2026-03-06"})
    assert seen(bench.model.prompts[1]) == ["2026-03-06"]


async def test_limits_that_are_none_are_named_and_the_run_waits() -> None:
    agent = Agent("helper", model="m", tools=[meet], limits=Limits(tool_calls=0))
    bench = Bench(agent, [call("meet")])
    run = await suspended(bench)
    with pytest.raises(DecisionInvalid) as refusal:
        await bench.decide(run.id, "budget_1", "approve", args={"calls": 3})
    assert [e["loc"] for e in refusal.value.errors] == [["body", "args"]]
    assert await bench.run(run.id) == run


async def test_a_denied_call_does_not_run_and_the_model_goes_on(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=3), say("pity"))
    run = await suspended(bench)
    await bench.answer(run.id, "call_1", "deny", reason="too much")
    run = await bench.run(run.id)
    assert (run.text, ledger.done) == ("pity", [])
    said = {
        "declined": True,
        "message": 'Tool "pay" was not approved',
        "reason": "too much",
    }
    read = json.loads(seen(bench.model.prompts[1])[0])
    assert read.pop("advice").startswith("A person denied this call. Do not ask for it again")
    assert read == said
    assert told(run.messages)[1] == ("tool", said)
    ends = [e for e in await bench.events(run.id) if e.type == "tool-execution-end"]
    assert [e.is_error for e in ends] == [False]


async def test_an_approved_call_runs_with_the_models_arguments(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=3), say("ok"))
    run = await suspended(bench)
    await bench.answer(run.id, "call_1", "approve")
    assert (ledger.done, seen(bench.model.prompts[1])) == ([3], ["paid 3"])


async def test_edited_arguments_are_run_and_told_to_the_model(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=300), say("ok"))
    run = await suspended(bench)
    await bench.answer(run.id, "call_1", "approve", args={"amount": 5})
    assert ledger.done == [5]
    (text,) = seen(bench.model.prompts[1])
    assert "changed the arguments" in text
    assert '{"amount": 5}' in text
    assert text.endswith("paid 5")
    run = await bench.run(run.id)
    assert run.messages[0].tool_calls[0].args == {"amount": 300}
    assert told(run.messages)[1] == ("tool", "paid 5")
    starts = [e for e in await bench.events(run.id) if e.type == "tool-execution-start"]
    assert [e.args for e in starts] == [{"amount": 5}]


async def test_a_handler_that_fails_with_edited_arguments_is_told_with_them() -> None:
    @tool(needs_approval=True)
    async def divide(by: int) -> float:
        """Divide."""
        return 1 / by

    bench = Bench(Agent("helper", model="m", tools=[divide]), [call("divide", by=2), say("ok")])
    run = await suspended(bench)
    await bench.answer(run.id, "call_1", "approve", args={"by": 0})
    (text,) = seen(bench.model.prompts[1])
    assert text.startswith('A person changed the arguments to {"by": 0}. Result: ZeroDivisionError')
    assert told((await bench.run(run.id)).messages)[1] == (
        "tool",
        "ZeroDivisionError: division by zero",
    )


@pytest.mark.parametrize("same", [{"amount": 3}, {"amount": 3.0}])
async def test_arguments_that_a_person_sent_back_as_they_were_are_not_told_as_changed(
    ledger: Ledger, same: Any
) -> None:
    bench = ledger.bench(call("pay", amount=3), say("ok"))
    run = await suspended(bench)
    await bench.answer(run.id, "call_1", "approve", args=same)
    assert (ledger.done, seen(bench.model.prompts[1])) == ([3], ["paid 3"])


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
async def test_decisions_come_in_any_order_and_each_settles_its_call_at_once(
    ledger: Ledger, order: tuple[int, ...]
) -> None:
    step = calls(call("pay", amount=1), call("pay", amount=2), call("pay", amount=3))
    bench = ledger.bench(step, say("ok"))
    run = await suspended(bench)
    for done, n in enumerate(order, start=1):
        assert await bench.drive(run.id) == "suspended"
        await bench.decide(run.id, f"call_{n}", "approve")
        await bench.branch(run.id, f"call_{n}")
        assert ledger.done == list(order[:done])
        assert len(bench.model.prompts) == 1
    await bench.drive(run.id)
    run = await bench.run(run.id)
    assert [r for role, r in told(run.messages) if role == "tool"] == ["paid 1", "paid 2", "paid 3"]
    assert [m.parent_id for m in run.messages[1:]] == [m.id for m in run.messages[:-1]]
    ends = types(await bench.events(run.id))
    assert (ends.count("turn-end"), ends.count("tool-execution-end")) == (2, 3)


async def test_calls_decided_at_once_are_settled_beside_each_other(ledger: Ledger) -> None:
    step = calls(*(call("pay", amount=n) for n in range(10)))
    bench = ledger.bench(step, say("ok"))
    run = await suspended(bench)

    async def settle(n: int) -> None:
        await bench.decide(run.id, f"call_{n}", "approve")
        await bench.branch(run.id, f"call_{n}")

    await asyncio.gather(*(settle(n) for n in range(1, 11)))
    await bench.drive(run.id)
    assert sorted(ledger.done) == list(range(10))
    events = types(await bench.events(run.id))
    assert (events.count("tool-execution-end"), events.count("turn-end")) == (10, 2)
    assert (await bench.run(run.id)).status is Status.SUCCESS


async def test_later_windows_do_not_start_while_a_call_waits(ledger: Ledger) -> None:
    step = calls(call("pay", amount=1), call("look", n=1), call("look", n=2))
    bench = ledger.bench(step, say("ok"), concurrency=2)
    run = await suspended(bench)
    assert ledger.done == [("look", 1)]
    assert [u.tool_call_id for u in run.unexecuted] == ["call_3"]
    await bench.answer(run.id, "call_1", "deny")
    assert ledger.done == [("look", 1), ("look", 2)]
    assert types(await bench.events(run.id)).count("turn-end") == 2


async def test_a_decided_call_whose_branch_died_is_settled_by_the_turn(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1), say("ok"))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    assert await bench.drive(run.id) == "over"
    assert ledger.done == [1]


async def test_a_call_may_suspend_again_under_the_same_id(ledger: Ledger) -> None:
    bench = ledger.bench(call("book", day="mo"), say("ok"))
    run = await suspended(bench)
    assert run.pending[0].payload == {"slots": ["mo-1"]}
    await bench.wait(run.id, "call_1", "old token")
    await bench.decide(run.id, "call_1", "resume", data={"slot": "full"})
    item = await bench.branch(run.id, "call_1")
    assert (item.status, item.attempt) == ("waiting", 2)
    (pending,) = (await bench.run(run.id)).pending
    assert (pending.attempt, pending.payload) == (2, {"slots": ["mo-2"]})
    record = await bench.call(run.id, "call_1")
    assert (record.token, record.decision) == (None, None)
    assert [(p["attempt"], p["kind"], p["data"]) for p in record.past] == [
        (1, "resumed", {"slot": "full"})
    ]
    with pytest.raises(DecisionAlreadyMade):
        await bench.decide(run.id, "call_1", "resume", data={"slot": "a"}, attempt=1)
    await bench.answer(run.id, "call_1", "resume", data={"slot": "a"}, attempt=2)
    run = await bench.run(run.id)
    assert (run.status, ledger.done) == (Status.SUCCESS, ["a"])


async def test_an_answer_to_an_earlier_attempt_leaves_the_new_one_waiting(ledger: Ledger) -> None:
    bench = ledger.bench(call("book", day="mo"), say("ok"))
    run = await suspended(bench)
    first = await bench.call(run.id, "call_1")
    await bench.decide(run.id, "call_1", "resume", data={"slot": "full"})
    await bench.branch(run.id, "call_1")
    from layover.runs.resume import resume
    from layover.values.runs.payload import ResumePayload, WaitingCall

    stale = WaitingCall(key=first.key, attempt=1, timeout_s=1)
    output = {"data": {"slot": "a"}}
    payload = bench.payload(run.id, ResumePayload, call=stale, output=output)
    item = await resume(bench.runtime, payload)
    assert (item.status, item.attempt, ledger.done) == ("waiting", 2, [])


async def test_a_tool_that_is_gone_when_the_decision_comes_is_told_to_the_model(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(calls(call("pay", amount=1), call("book", day="mo")), say("ok"))
    run = await suspended(bench)
    bench.agents["helper"] = with_tools(bench.agent, ledger.look)
    await bench.answer(run.id, "call_1", "approve")
    await bench.answer(run.id, "call_2", "resume", data={"slot": "a"})
    assert seen(bench.model.prompts[1]) == ["Tool pay not found", "Tool book not found"]


async def test_new_code_that_takes_no_resume_data_is_a_tool_error(ledger: Ledger) -> None:
    @tool
    async def book(day: str) -> str:
        """Book, nowadays without asking."""
        return day

    bench = ledger.bench(call("book", day="mo"), say("ok"))
    run = await suspended(bench)
    bench.agents["helper"] = with_tools(bench.agent, book)
    await bench.answer(run.id, "call_1", "resume", data={"slot": "a"})
    assert seen(bench.model.prompts[1])[0].startswith("ConfigurationError: ")


async def test_data_is_asked_for_as_the_call_was_suspended_though_new_code_wants_other_data(
    ledger: Ledger,
) -> None:
    @tool(suspend=Offer, resume=Day)
    async def book(ctx: ToolContext, day: str) -> str:
        """Book a day, nowadays."""
        assert ctx.resume is not None
        return str(ctx.resume.day)

    bench = ledger.bench(call("book", day="mo"), say("ok"))
    run = await suspended(bench)
    bench.agents["helper"] = with_tools(bench.agent, book)
    await bench.answer(run.id, "call_1", "resume", data={"slot": "a"})
    assert seen(bench.model.prompts[1])[0].startswith("ValidationError: ")


async def test_a_wait_is_counted_from_the_suspension_and_not_from_the_start_of_the_tool() -> None:
    @tool(suspend=Offer, resume=Choice, expires_after=timedelta(minutes=1))
    async def slow(ctx: ToolContext) -> str:
        """Take an hour, then ask."""
        bench.clock.advance(timedelta(hours=1))
        return ctx.suspend(Offer(slots=[]))

    bench = Bench(Agent("helper", model="m", tools=[slow]), [call("slow")])
    run = await suspended(bench)
    assert run.pending[0].expires_at == bench.clock.now() + timedelta(minutes=1)


async def test_a_predicate_decides_call_by_call() -> None:
    async def large(args: dict[str, Any], ctx: ToolContext) -> bool:
        return bool(args["amount"] > 10)

    @tool(needs_approval=large)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    agent = Agent("helper", model="m", tools=[pay], tool_concurrency=2)
    bench = Bench(agent, [calls(call("pay", amount=5), call("pay", amount=50)), say("ok")])
    run = await suspended(bench)
    assert [p.tool_call_id for p in run.pending] == ["call_2"]
    assert told(run.messages)[1:] == [("tool", "paid 5")]
