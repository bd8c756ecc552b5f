"""Calls that wait for a person: what is asked, what is decided, what the model is told."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, ToolContext, tool
from layover.adapters.inmemory.model import ScriptedModel, call, calls, say
from layover.errors import DecisionAlreadyMade, DecisionInvalid, NotFound
from layover.services.cancel import cancel
from layover.values.run import CallState, FinishReason, Run, Status
from run_kit import ANN, Bench, seen, told, types, with_tools


class Offer(BaseModel):
    """What a person is shown."""

    slots: list[str]


class Choice(BaseModel):
    """What a person says."""

    slot: str


class Ledger:
    """Tools with side effects, and what became of them."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.offered = 0

        @tool(needs_approval=True, expires_after=timedelta(hours=1))
        async def pay(amount: int) -> str:
            """Pay."""
            self.done.append(amount)
            return f"paid {amount}"

        @tool
        async def look(n: int) -> int:
            """Look."""
            self.done.append(("look", n))
            return n

        @tool(suspend=Offer, resume=Choice)
        async def book(ctx: ToolContext, day: str) -> str:
            """Book a slot; "full" is offered something else."""
            if ctx.resume is None or ctx.resume.slot == "full":
                self.offered += 1
                return ctx.suspend(Offer(slots=[f"{day}-{self.offered}"]))
            self.done.append(ctx.resume.slot)
            return f"booked {ctx.resume.slot}"

        self.pay, self.look, self.book = pay, look, book

    def bench(self, *script: Any, concurrency: int = 40) -> Bench:
        tools: list[Any] = [self.pay, self.look, self.book]
        agent = Agent("helper", model="m", tools=tools, tool_concurrency=concurrency)
        return Bench(agent, ScriptedModel(script))


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


async def suspended(bench: Bench) -> Run:
    run = await bench.go()
    assert run.status is Status.SUSPENDED
    return run


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
    assert {**event.model_dump(), **pending.model_dump()} == event.model_dump()


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_a_second_decision_is_refused_and_nothing_runs_twice(
    ledger: Ledger, verdict: str
) -> None:
    bench = ledger.bench(call("pay", amount=3), say("ok"))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    with pytest.raises(DecisionAlreadyMade):
        await bench.decide(run.id, "call_1", verdict)
    await bench.branch(run.id, "call_1")
    with pytest.raises(DecisionAlreadyMade):
        await bench.decide(run.id, "call_1", verdict)
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
    assert json.loads(seen(bench.model.prompts[1])[0]) == said
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
    from layover.services.payloads import ResumePayload, WaitingCall
    from layover.services.resume import resume

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


# -- through the task token ---------------------------------------------------------------------


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
    (detail,) = bench.callbacks.published
    assert detail["task_token"] == "tok"
    assert (detail["run_id"], detail["thread_id"], detail["agent"]) == (run.id, "t1", "helper")
    assert (detail["tool_name"], detail["args"]) == ("pay", {"amount": 1})
    await bench.decide(run.id, "call_1", "approve")
    assert bench.callbacks.woken == ["tok"]


@pytest.mark.parametrize(
    "output",
    [
        {"layover": "decided"},
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


@pytest.mark.parametrize("output", [{"data": {"slot": 3}}, {"data": {}}, {"approved": True}, {}])
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


async def test_a_callback_resumes_with_data(ledger: Ledger) -> None:
    bench = ledger.bench(call("book", day="mo"), say("ok"))
    run = await suspended(bench)
    await bench.branch(run.id, "call_1", {"data": {"slot": "b"}})
    assert ledger.done == ["b"]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"approved": False, "reason": "no"}, "no"),
        ({"Error": "Denied", "Cause": "not today"}, "not today"),
        ({"Error": "Denied", "Cause": ""}, "Denied"),
        ({"Error": "Denied", "Cause": "nul\0"}, "nul�"),
    ],
)
async def test_a_callback_denies_with_its_cause(ledger: Ledger, output: Any, reason: str) -> None:
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


async def test_a_time_out_before_the_expiry_leaves_the_call_waiting(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    timeout = {"Error": "States.Timeout", "Cause": ""}
    item = await bench.branch(run.id, "call_1", timeout)
    assert (item.status, item.timeout_s) == ("waiting", 3600)


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
    await bench.branch(run.id, "call_1", {"Error": "Nobody", "Cause": "nobody is there"})
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
    from layover.services.payloads import ResumePayload, WaitingCall
    from layover.services.resume import resume

    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    found = await bench.call(run.id, "call_1")
    item = WaitingCall(key=found.key, attempt=1, timeout_s=1)
    payload = ResumePayload(owner=ANN, run_id=run.id, execution="another", call=item)
    assert (await resume(bench.runtime, payload)).status == "done"
    assert ledger.done == []


# -- cancel -------------------------------------------------------------------------------------


async def test_cancelling_a_suspended_run_settles_each_waiting_call_and_wakes_it(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(calls(call("pay", amount=1), call("book", day="mo"), call("look", n=1)))
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "one")
    await bench.wait(run.id, "call_2", "two")
    meta = await cancel(bench.plain, ANN, run.id)
    assert (meta.status, meta.finish_reason) == (Status.CANCELLED, FinishReason.CANCELLED)
    assert bench.callbacks.woken == ["one", "two"]
    events = await bench.events(run.id)
    decided = [(e.tool_call_id, e.decision.value) for e in events if e.type == "tool-call-decided"]
    assert decided == [("call_1", "cancelled"), ("call_2", "cancelled")]
    assert types(events)[-1] == "finish"
    run = await bench.run(run.id)
    assert [r for role, r in told(run.messages) if role == "tool"] == [
        "Cancelled: pay was not run",
        "Cancelled: book was not run",
        1,
    ]
    assert (run.pending, run.unexecuted) == ((), ())
    with pytest.raises(DecisionAlreadyMade):
        await bench.decide(run.id, "call_1", "approve")
    assert (await bench.branch(run.id, "call_1", {"approved": True})).status == "done"
    assert ledger.done == [("look", 1)]
    assert (await bench.head()).active_run is None


async def test_a_decided_call_that_a_cancel_overtakes_was_not_run(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")

    async def no_time(_: float) -> None:
        bench.clock.advance(timedelta(seconds=1))

    await cancel(bench.plain, ANN, run.id, holder_has_s=0, sleep=no_time)
    record = await bench.call(run.id, "call_1")
    assert (record.state, record.result) == (CallState.SETTLED, "Cancelled: pay was not run")
    assert record.decision.kind.value == "approved"
    assert types(await bench.events(run.id)).count("tool-call-decided") == 1


async def test_a_cancelled_queued_run_leaves_nothing_in_the_thread(ledger: Ledger) -> None:
    from layover.values.run import OnBusy

    bench = ledger.bench(call("pay", amount=1))
    first = await suspended(bench)
    queued = await bench.start("later", on_busy=OnBusy.ENQUEUE)
    meta = await cancel(bench.plain, ANN, queued)
    assert meta.status is Status.CANCELLED
    assert types(await bench.events(queued)) == ["finish"]
    assert (await bench.run(first.id)).status is Status.SUSPENDED


async def test_a_finished_run_stays_as_it_is() -> None:
    bench = Bench(Agent("helper", model="m"), [say("done")])
    run = await bench.go()
    await cancel(bench.plain, ANN, run.id)
    assert await bench.run(run.id) == run
    with pytest.raises(NotFound):
        await cancel(bench.plain, ANN, "run_unknown")


async def test_the_thread_goes_on_after_a_cancel_without_what_was_not_answered(
    ledger: Ledger,
) -> None:
    step = calls(call("pay", amount=1), call("look", n=1))
    bench = ledger.bench(step, say("fresh"), concurrency=1)
    run = await suspended(bench)
    await cancel(bench.plain, ANN, run.id)
    again = await bench.go("again")
    assert (again.status, again.text) == (Status.SUCCESS, "fresh")
    prompt = bench.model.prompts[-1]
    named = [c.tool_call_id for m in prompt.messages for c in m.tool_calls]
    assert named == ["call_1"]


@pytest.mark.parametrize("sibling_waits", [True, False])
async def test_a_cancel_overtakes_a_decided_call_that_is_running(sibling_waits: bool) -> None:
    running, release = asyncio.Event(), asyncio.Event()

    @tool(needs_approval=True)
    async def slow(n: int) -> str:
        """Take long."""
        running.set()
        await release.wait()
        return "late"

    agent = Agent("helper", model="m", tools=[slow], tool_concurrency=2)
    script = calls(*(call("slow", n=n) for n in range(2 if sibling_waits else 1)))
    bench = Bench(agent, [script])
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    settling = asyncio.create_task(bench.branch(run.id, "call_1"))
    await asyncio.wait_for(running.wait(), 5)
    began = asyncio.get_running_loop().time()
    meta = await asyncio.wait_for(cancel(bench.plain, ANN, run.id), 5)
    assert asyncio.get_running_loop().time() - began < 2.5
    assert meta.status is Status.CANCELLED
    assert (await asyncio.wait_for(settling, 5)).status == "done"
    release.set()
    ended = await bench.run(run.id)
    assert told(ended.messages)[1] == (
        "tool",
        "Cancelled: slow may or may not have taken effect",
    )
    events = types(await bench.events(run.id))
    assert (events[-1], events.count("finish")) == ("finish", 1)


async def test_a_branch_that_dies_in_its_tool_leaves_its_siblings_to_finish(
    ledger: Ledger,
) -> None:
    died = asyncio.Event()

    @tool(needs_approval=True)
    async def send(n: int) -> str:
        """Send."""
        if n == 1:
            died.set()
            await asyncio.Event().wait()
        await asyncio.wait_for(died.wait(), 5)
        ledger.done.append(n)
        return f"sent {n}"

    agent = Agent("helper", model="m", tools=[send], tool_concurrency=3)
    step = calls(*(call("send", n=n) for n in (1, 2, 3)))
    bench = Bench(agent, [step, say("ok")])
    run = await suspended(bench)
    for n in (1, 2, 3):
        await bench.decide(run.id, f"call_{n}", "approve")
    dying = asyncio.create_task(bench.branch(run.id, "call_1"))
    await asyncio.wait_for(died.wait(), 5)
    await asyncio.gather(bench.branch(run.id, "call_2"), bench.branch(run.id, "call_3"))
    dying.cancel()
    await asyncio.wait({dying}, timeout=5)
    assert await bench.drive(run.id) == "over"
    assert sorted(ledger.done) == [2, 3]
    results = [r for role, r in told((await bench.run(run.id)).messages) if role == "tool"]
    assert results == ["Interrupted: send may or may not have taken effect", "sent 2", "sent 3"]
    events = types(await bench.events(run.id))
    assert (events.count("tool-execution-end"), events.count("turn-end")) == (3, 2)
