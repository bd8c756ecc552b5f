"""A denial holds for the rest of its run: what is asked for again, what is shown, what the model reads."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from layover import (
    Agent,
    Allow,
    Approval,
    Hook,
    RememberDecisions,
    Suspend,
    ToolCall,
    tool,
    tool_from_schema,
)
from layover.approvals.lists import list_approvals, list_for_approver
from layover.engine.tools.denials import MAX_SHOWN, MAX_SHOWN_ARGS
from layover.inmemory.model import call, calls, say
from layover.values.deployment.access import Actor
from layover.values.runs.run import CallState, Status, SuspensionKind
from layover.values.runs.views import Pending, Run
from support.examples import share
from support.worlds.runs import ANN, Bench, Ledger, Power, answers_of, seen, types

DONE: list[Any] = []
VOUCHER = "the customer already got a voucher"


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def refunding(needs_approval: Any = True, **options: Any) -> Any:
    @tool(needs_approval=needs_approval, **options)
    async def refund(order: str, amount: float, notify: bool = True) -> str:
        """Pay money back."""
        DONE.append((order, amount))
        return f"paid {amount:g}"

    return refund


def refund(amount: Any = 60, **more: Any) -> Any:
    return call("refund", order="A-1003", amount=amount, **more)


def shop(*tools: Any, **options: Any) -> Agent:
    return Agent("shop", model="m", instructions="shop", tools=[*tools] or [refunding()], **options)


async def answer_all(bench: Bench, run_id: str, verdict: str = "deny", **given: Any) -> Run:
    """Decide each call that waits, once."""
    for pending in (await bench.run(run_id)).pending:
        await bench.answer(run_id, pending.tool_call_id, verdict, **given)
    return await bench.run(run_id)


async def denied(bench: Bench, reason: str | None = VOUCHER) -> Run:
    """The run after the denial of its first request."""
    run = await bench.go()
    assert run.status is Status.SUSPENDED
    return await answer_all(bench, run.id, reason=reason)


def result_of(run: Run, at: int) -> Any:
    results = [p.result for m in run.messages for p in m.content if p.type == "tool_result"]
    return results[at]


async def asked(bench: Bench, run_id: str) -> list[Any]:
    return [e for e in await bench.events(run_id) if e.type == "tool-call-suspended"]


# What is not asked for again


@pytest.mark.parametrize(
    "again",
    [
        refund(60),
        refund(60.0),
        call("refund", amount=60, order="A-1003"),
        refund(60, notify=True),
        refund("60"),
        refund(60, notify=None),
    ],
    ids=["the same", "a float", "another order", "a default", "a text", "null for a default"],
)
async def test_an_equal_call_is_not_asked_for_and_gets_the_denial_with_its_reason(
    again: Any,
) -> None:
    bench = Bench(shop(), [refund(60), again, say("They have a voucher.")])
    run = await denied(bench)
    assert (run.status, run.text, DONE) == (Status.SUCCESS, "They have a voucher.", [])
    assert result_of(run, 1) == result_of(run, 0)
    assert (result_of(run, 1)["declined"], result_of(run, 1)["reason"]) == (True, VOUCHER)
    assert len(await asked(bench, run.id)) == 1
    ends = ["tool-execution-end", "turn-end"]
    asks = ["turn-start", "tool-call-suspended", "tool-call-decided", *ends]
    told = types(await bench.events(run.id))
    assert told[1:-2] == [*asks, "turn-start", *ends, "turn-start", "turn-end"]
    second = await bench.call(run.id, "call_2")
    assert (second.state, second.suspension, second.decision) == (CallState.SETTLED, None, None)
    assert (second.attempt, second.denial, second.is_error) == (0, "call_1", False)


async def test_a_number_of_any_kind_is_equal_to_itself() -> None:
    """A schema that an author gave leaves numbers as the model wrote them."""
    schema = {"type": "object", "properties": {"lines": {"type": "array"}, "on": {}}}

    async def pay(args: dict[str, Any]) -> str:
        DONE.append(args)
        return "paid"

    given = tool_from_schema("pay", "Pay.", schema, pay, needs_approval=True)
    script = [
        call("pay", lines=[{"n": 60}], on=True),
        call("pay", on=True, lines=[{"n": 60.0}]),
        call("pay", lines=[{"n": 60}], on=1),
    ]
    bench = Bench(shop(given), script)
    (pending,) = (await denied(bench)).pending
    assert (pending.tool_call_id, len(pending.denied_before), DONE) == ("call_3", 1, [])


async def test_the_model_is_told_not_to_ask_again() -> None:
    bench = Bench(shop(), [refund(60), refund(60), say("no")])
    await denied(bench)
    first, again = (json.loads(text) for text in seen(bench.model.prompts[2]))
    assert first == again
    assert "Do not ask for it again" in first["advice"]
    assert first["reason"] == VOUCHER


async def test_a_denial_without_a_reason_holds_as_well() -> None:
    bench = Bench(shop(), [refund(60), refund(60), say("no")])
    run = await denied(bench, None)
    assert (run.text, result_of(run, 1)["reason"]) == ("no", None)


async def test_a_model_that_repeats_what_was_denied_comes_to_its_end() -> None:
    bench = Bench(shop(), [refund(60)] * 20)
    run = await denied(bench)
    assert (run.status, run.finish_reason) == (Status.SUCCESS, "loop")
    assert len(await asked(bench, run.id)) == 1


async def test_the_next_run_of_the_thread_asks_anew_and_shows_no_denial() -> None:
    bench = Bench(shop(), [refund(60), say("no"), refund(60)])
    await denied(bench)
    run = await bench.go("The voucher came back.")
    assert [(p.args["amount"], p.denied_before) for p in run.pending] == [(60, ())]


@pytest.mark.parametrize("concurrency", [1, 40])
async def test_of_two_equal_calls_of_a_step_the_second_is_asked_for_only_where_both_wait_at_once(
    concurrency: int,
) -> None:
    bench = Bench(
        shop(tool_concurrency=concurrency), [calls(refund(60), refund(60)), refund(60), say("ok")]
    )
    run = await bench.go()
    both = concurrency > 1
    assert len(run.pending) == 1 + both
    await bench.answer(run.id, "call_1", "deny", reason=VOUCHER)
    if both:  # Each is decided for itself: a denial of one settles no other that waits already.
        assert [p.tool_call_id for p in (await bench.run(run.id)).pending] == ["call_2"]
        await bench.answer(run.id, "call_2", "approve")
    run = await bench.run(run.id)
    assert (run.text, DONE) == ("ok", [("A-1003", 60)] if both else [])
    # An approval of the other does not lift the denial.
    assert [c.denial for c in [await bench.call(run.id, "call_3")]] == ["call_1"]


async def test_what_a_person_approved_with_other_arguments_runs_whatever_was_denied() -> None:
    bench = Bench(shop(), [refund(60), refund(79.9), refund(60), say("ok")])
    run = await denied(bench)
    await bench.answer(run.id, "call_2", "approve", args={"order": "A-1003", "amount": 60})
    run = await bench.run(run.id)
    assert (run.text, DONE) == ("ok", [("A-1003", 60)])
    assert (await bench.call(run.id, "call_3")).denial == "call_1"


async def test_an_approval_is_no_denial() -> None:
    bench = Bench(shop(), [refund(60), refund(60)])
    run = await bench.go()
    await bench.answer(run.id, "call_1", "approve")
    (pending,) = (await bench.run(run.id)).pending
    assert pending.denied_before == ()


# What is shown


async def test_a_call_with_other_arguments_is_asked_for_and_shows_the_denials() -> None:
    bench = Bench(shop(), [refund(60), refund(79.9), refund(10), say("ok")])
    run = await denied(bench)
    denied_at = (await bench.call(run.id, "call_1")).decision.at
    (pending,) = run.pending
    before = {
        "args": {"order": "A-1003", "amount": 60.0, "notify": True},
        "reason": VOUCHER,
        "decided_by": ANN,
        "at": denied_at,
    }
    assert [each.model_dump() for each in pending.denied_before] == [before]
    (event,) = (await asked(bench, run.id))[1:]
    assert event.denied_before == pending.denied_before
    [listed] = (await list_approvals(bench.plain, Actor(sub=ANN), None, 10, None)).items
    assert listed.denied_before == pending.denied_before
    bench.clock.advance(timedelta(minutes=1))
    run = await answer_all(bench, run.id, reason="nor this")
    (pending,) = run.pending
    shown = [(each.args["amount"], each.reason) for each in pending.denied_before]
    assert shown == [(60, VOUCHER), (79.9, "nor this")]


async def test_the_request_on_the_bus_shows_the_denials() -> None:
    bench = Bench(shop(), [refund(60), refund(79.9)])
    run = await bench.go()
    await bench.wait(run.id, "call_1")
    await bench.answer(run.id, "call_1", "deny", reason=VOUCHER)
    await bench.wait(run.id, "call_2")
    first, second = (detail["denied_before"] for detail in bench.published)
    assert first == []
    assert [(d["args"]["amount"], d["reason"], d["decided_by"]) for d in second] == [
        (60, VOUCHER, ANN)
    ]
    assert isinstance(second[0]["at"], str)


async def test_a_backend_that_denied_for_a_person_is_shown_with_that_person() -> None:
    bench = Bench(shop(), [refund(60), refund(10)])
    run = await bench.go()
    service = Actor(sub="service", on_behalf_of=ANN)
    await bench.decide(run.id, "call_1", "deny", service)
    await bench.drive(
        run.id, call=await bench.item(run.id, "call_1"), output={"layover": "decided"}
    )
    (pending,) = (await bench.run(run.id)).pending
    (denial,) = pending.denied_before
    assert (denial.decided_by, denial.on_behalf_of) == ("service", ANN)


async def test_a_request_shows_the_newest_denials_and_no_more_than_a_record_takes() -> None:
    amounts = list(range(1, MAX_SHOWN + 4))
    bench = Bench(shop(max_iterations=40), [refund(n) for n in amounts])
    run = await bench.go()
    for n in amounts[:-1]:
        bench.clock.advance(timedelta(minutes=1))
        run = await answer_all(bench, run.id, reason=f"not {n}")
    (pending,) = run.pending
    newest = [f"not {n}" for n in amounts[:-1][-MAX_SHOWN:]]
    assert [each.reason for each in pending.denied_before] == newest


async def test_long_arguments_of_a_denied_call_are_shown_by_their_beginning() -> None:
    bench = Bench(shop(), [call("refund", order="x" * 9_000, amount=1), refund(60)])
    (pending,) = (await denied(bench)).pending
    (denial,) = pending.denied_before
    assert denial.args["_truncated"] is True
    assert len(denial.args["head"]) == MAX_SHOWN_ARGS
    assert denial.args["original_chars"] > 9_000


async def test_a_call_that_waits_since_an_earlier_release_is_shown_and_its_denial_holds() -> None:
    bench = Bench(shop(), [refund(60), refund(60), refund(10)])
    run = await bench.go()
    record = await bench.call(run.id, "call_1")
    old = json.loads(record.model_dump_json())
    assert "denied_before" not in old["suspension"]
    assert "denial" not in old
    assert Pending.of(type(record).model_validate(old), "shop").denied_before == ()
    run = await answer_all(bench, run.id, reason=VOUCHER)
    assert [p.args["amount"] for p in run.pending] == [10]


# Who denied


async def test_what_one_of_a_quorum_denied_holds() -> None:
    rule = Approval(by=["finance"], quorum=2)
    bench = Bench(shop(refunding(rule)), [refund(60), refund(60), refund(10), say("no")])
    run = await bench.go()
    approvers = [Actor(sub=name, groups=frozenset({"finance"})) for name in ("bea", "carl")]
    bea, carl = approvers
    item = await bench.item(run.id, "call_1")
    with pytest.raises(AssertionError):  # An approver sees no run, and the bench wants one.
        await bench.decide(run.id, "call_1", "approve", bea)
    with pytest.raises(AssertionError):
        await bench.decide(run.id, "call_1", "deny", carl, reason=VOUCHER)
    await bench.drive(run.id, call=item, output={"layover": "decided"})
    run = await bench.run(run.id)
    assert result_of(run, 1)["reason"] == VOUCHER
    (pending,) = run.pending
    assert [(d.args["amount"], d.decided_by) for d in pending.denied_before] == [(60, "carl")]
    [listed] = (await list_for_approver(bench.plain, bea, 10, None)).items
    assert listed.denied_before == pending.denied_before


async def test_a_denial_by_the_calls_token_holds() -> None:
    bench = Bench(shop(), [refund(60), refund(60), say("no")])
    run = await bench.go()
    no = {"Error": "Denied", "Cause": VOUCHER}
    await bench.drive(run.id, call=await bench.item(run.id, "call_1"), output=no)
    run = await bench.run(run.id)
    assert (run.text, result_of(run, 1)["reason"]) == ("no", VOUCHER)


async def test_an_expiry_is_no_persons_denial_and_says_that_nobody_answered() -> None:
    agent = shop(refunding(expires_after=timedelta(hours=1)))
    bench = Bench(agent, [refund(60), refund(60)])
    run = await bench.go()
    bench.clock.advance(timedelta(hours=2))
    late = {"Error": "States.Timeout"}
    await bench.drive(run.id, call=await bench.item(run.id, "call_1"), output=late)
    (pending,) = (await bench.run(run.id)).pending
    assert (pending.tool_call_id, pending.denied_before) == ("call_2", ())
    (text,) = seen(bench.model.prompts[1])
    assert "nobody has answered" in json.loads(text)["advice"]
    assert json.loads(text)["expired"] is True


# `after_denial`


def closed() -> Agent:
    def small(args: dict[str, Any], ctx: Any) -> bool:
        return bool(args["amount"] >= 5)

    rule = Approval(by=["finance"], requester=True, after_denial="refuse", when=small)
    return shop(refunding(rule))


async def denied_by_finance(bench: Bench) -> Run:
    run = await bench.go()
    item = await bench.item(run.id, "call_1")
    ann = Actor(sub=ANN, groups=frozenset({"finance"}))
    await bench.decide(run.id, "call_1", "deny", ann, reason=VOUCHER)
    await bench.drive(run.id, call=item, output={"layover": "decided"})
    return await bench.run(run.id)


async def test_after_a_denial_no_other_call_of_a_tool_that_refuses_is_asked_for() -> None:
    bench = Bench(closed(), [refund(60), refund(79.9), refund(10), say("no")])
    run = await denied_by_finance(bench)
    assert (run.status, run.text, DONE) == (Status.SUCCESS, "no", [])
    assert len(await asked(bench, run.id)) == 1
    assert [result_of(run, n)["reason"] for n in range(3)] == [VOUCHER] * 3
    other = json.loads(seen(bench.model.prompts[2])[-1])
    assert "no other call of it is asked for" in other["advice"]


async def test_a_call_that_needs_nobody_still_runs_after_a_denial() -> None:
    bench = Bench(closed(), [refund(60), refund(4), say("ok")])
    run = await denied_by_finance(bench)
    assert (run.text, DONE) == ("ok", [("A-1003", 4)])


async def test_a_tool_that_refuses_asks_again_in_the_next_run() -> None:
    bench = Bench(closed(), [refund(60), say("no"), refund(10)])
    await denied_by_finance(bench)
    run = await bench.go("And ten?")
    assert [p.args["amount"] for p in run.pending] == [10]


# Whoever would allow it


class Allowing(Hook):
    """Allows each refund but the first."""

    def before_tool(self, ctx: Any, call: ToolCall) -> Any:
        return Suspend("first") if call.tool_call_id == "call_1" else Allow(reason="policy")


async def test_a_hook_that_allows_does_not_lift_a_denial() -> None:
    agent = shop(refunding(False), hooks=[Allowing()])
    bench = Bench(agent, [refund(60), refund(60), refund(10), say("ok")])
    run = await denied(bench)
    assert (run.text, DONE) == ("ok", [("A-1003", 10)])
    assert result_of(run, 1)["reason"] == VOUCHER


async def test_a_predicate_that_no_longer_asks_does_not_lift_a_denial() -> None:
    times: list[int] = []

    def first(args: dict[str, Any], ctx: Any) -> bool:
        times.append(1)
        return len(times) == 1

    bench = Bench(shop(refunding(first)), [refund(60), refund(60), say("no")])
    run = await denied(bench)
    assert (run.text, DONE) == ("no", [])


async def test_a_remembered_approval_does_not_lift_a_denial_of_the_same_run() -> None:
    agent = shop(hooks=[RememberDecisions()])
    script = [refund(60), refund(10), refund(60), refund(20), say("ok"), refund(60), say("paid")]
    bench = Bench(agent, script)
    run = await denied(bench)
    await bench.answer(run.id, "call_2", "approve", reason="always: small ones")
    run = await bench.run(run.id)
    assert (run.text, DONE) == ("ok", [("A-1003", 10), ("A-1003", 20)])
    # It was remembered for the thread, and the denial for the run.
    assert (await bench.go("Now all of it.")).text == "paid"


class Suspending(Hook):
    """Lets each call wait."""

    def before_tool(self, ctx: Any, call: ToolCall) -> Any:
        return Suspend("look at it")


class Rounding(Hook):
    """Gives each refund a whole amount."""

    def before_tool(self, ctx: Any, call: ToolCall) -> Any:
        args = {**call.args, "amount": float(round(call.args["amount"]))}
        return call.model_copy(update={"args": args})


async def test_calls_that_hooks_suspended_are_denied_for_the_run_as_well() -> None:
    agent = shop(refunding(False), hooks=[Suspending()])
    bench = Bench(agent, [refund(60), refund(60), refund(10)])
    run = await denied(bench)
    (pending,) = run.pending
    assert pending.args["amount"] == 10
    assert [d.args["amount"] for d in pending.denied_before] == [60]
    assert pending.payload["reason"] == "look at it"


async def test_calls_that_hooks_make_equal_are_equal() -> None:
    bench = Bench(shop(hooks=[Rounding()]), [refund(59.8), refund(60.2), say("no")])
    run = await denied(bench)
    assert (run.text, result_of(run, 1)["reason"]) == ("no", VOUCHER)


async def test_a_handoff_that_was_denied_does_not_happen_when_it_is_asked_for_again() -> None:
    other = Agent("other", model="m")
    agent = Agent("shop", model="m", handoffs=[other], hooks=[Suspending()])
    bench = Bench(agent, [call("transfer_to_other"), call("transfer_to_other"), say("I stay.")])
    bench.agents["other"] = other
    run = await denied(bench)
    assert (run.agent, run.text) == ("shop", "I stay.")


# Calls that wait for something else


async def test_a_call_that_suspends_itself_is_not_asked_for_again_either() -> None:
    bench = Ledger().bench(call("book", day="mo"), call("book", day="mo"), call("book", day="tu"))
    run = await bench.go()
    no = {"Error": "Denied", "Cause": "not at all"}
    await bench.drive(run.id, call=await bench.item(run.id, "call_1"), output=no)
    run = await bench.run(run.id)
    (pending,) = run.pending
    assert (pending.kind, pending.args) == (SuspensionKind.INPUT, {"day": "tu"})
    shown = [(d.args, d.reason) for d in pending.denied_before]
    assert shown == [({"day": "mo"}, "not at all")]
    assert result_of(run, 1)["reason"] == "not at all"


async def test_a_call_that_asks_again_shows_what_was_denied_meanwhile() -> None:
    script = [calls(call("book", day="mo"), call("book", day="tu"))]
    bench = Ledger().bench(*script)
    run = await bench.go()
    await bench.branch(run.id, "call_1", {"Error": "Denied", "Cause": "never"})
    await bench.answer(run.id, "call_2", "resume", data={"slot": "full"})
    (pending,) = (await bench.run(run.id)).pending
    assert (pending.attempt, [d.reason for d in pending.denied_before]) == (2, ["never"])


async def test_a_call_that_would_begin_with_its_step_is_looked_at_as_well() -> None:
    """The tool needs nobody since a deployment; what was denied before it stays denied."""
    bench = Bench(shop(), [refund(60), refund(60), refund(10), say("ok")])
    run = await bench.go()
    bench.agents["shop"] = shop(refunding(False))
    run = await answer_all(bench, run.id, reason=VOUCHER)
    assert (run.text, DONE) == ("ok", [("A-1003", 10)])


# Sub-agents


def tree(**options: Any) -> tuple[Agent, Any]:
    helper = Agent("helper", model="m", instructions="helper", tools=[refunding()])
    agent = Agent(
        "shop",
        model="m",
        instructions="shop",
        tools=[helper.as_tool("Pays.", **options), refunding()],
        tool_concurrency=2,
    )
    return agent, helper


async def test_what_was_denied_in_a_sub_agent_is_denied_in_the_whole_run() -> None:
    agent, _ = tree()
    ask = call("helper", input="refund 60")
    helper = [call("refund", tool_call_id="h1", order="A-1003", amount=60), say("no")]
    script = {"shop": [ask, refund(60), refund(10)], "helper": helper}
    bench = Bench(agent, answers_of(script))
    run = await bench.go()
    assert [p.agent_path for p in run.pending] == [("shop", "helper")]
    run = await answer_all(bench, run.id, reason=VOUCHER)
    (pending,) = run.pending
    assert (pending.agent_path, pending.args["amount"]) == (("shop",), 10)
    assert [d.args["amount"] for d in pending.denied_before] == [60]


async def test_a_sub_agent_that_is_called_again_does_not_ask_again() -> None:
    agent, _ = tree()
    first = call("helper", tool_call_id="a", input="refund 60")
    again = call("helper", tool_call_id="b", input="refund 60, please")
    helper = [call("refund", order="A-1003", amount=60), say("no")]
    bench = Bench(agent, answers_of({"shop": [first, again, say("sorry")], "helper": helper}))
    run = await bench.go()
    run = await answer_all(bench, run.id, reason=VOUCHER)
    assert (run.text, len(await asked(bench, run.id))) == ("sorry", 1)
    assert [child.text for child in run.children] == ["no", "no"]


async def test_what_is_denied_while_others_go_on_is_read_before_they_ask() -> None:
    """A sub-agent waits in the background, and is decided before its caller's process asks the same."""
    agent, _ = tree(background=True)
    helper = [call("refund", tool_call_id="h1", order="A-1003", amount=60), say("no")]
    bench: Any = None
    steps: list[int] = []

    async def deny_meanwhile() -> None:
        for _ in range(1_000):
            await asyncio.sleep(0)
            if (await bench.run(run_id)).pending:
                break
        await bench.decide(run_id, "h1", "deny", reason=VOUCHER)

    @tool
    async def look() -> str:
        """Look, for so long that somebody decides."""
        await deny_meanwhile()
        steps.append(1)
        return "nothing"

    agent = Agent(
        "shop", model="m", instructions="shop", tools=[*agent.tools, look], tool_concurrency=2
    )
    shop_script = [
        call("helper", input="refund 60"),
        call("look"),
        refund(60),
        say("no"),
        say("no"),
    ]
    bench = Bench(agent, answers_of({"shop": shop_script, "helper": helper}))
    run_id = await bench.start()
    await bench.drive(run_id)
    assert steps == [1]
    assert (await bench.call(run_id, "call_3")).denial == "h1"


async def test_approvers_of_a_namesake_do_not_read_what_others_denied() -> None:
    """Tools of two agents may have one name and other approvers."""
    of_hr = refunding(Approval(by=["hr"]))
    helper = Agent("helper", model="m", instructions="helper", tools=[of_hr])
    own = refunding(Approval(by=["finance"]))
    agent = Agent("shop", model="m", instructions="shop", tools=[helper.as_tool("Pays."), own])
    script = {
        "shop": [call("helper", input="pay"), refund(10)],
        "helper": [call("refund", tool_call_id="h1", order="salaries", amount=60), say("no")],
    }
    bench = Bench(agent, answers_of(script))
    run = await bench.go()
    hr = Actor(sub="hugo", groups=frozenset({"hr"}))
    with pytest.raises(AssertionError):
        await bench.decide(run.id, "h1", "deny", hr)
    await bench.drive(run.id, call=await bench.item(run.id, "h1"), output={"layover": "decided"})
    (pending,) = (await bench.run(run.id)).pending
    assert (pending.tool_call_id, pending.denied_before) == ("call_2", ())


# Deaths


@pytest.mark.parametrize("after", [False, True])
async def test_a_death_anywhere_changes_neither_what_is_asked_nor_what_is_shown(
    after: bool,
) -> None:
    script = [
        refund(60, tool_call_id="first"),
        calls(refund(60, tool_call_id="same"), refund(10, tool_call_id="ten")),
        refund(60.0, tool_call_id="again"),
        say("ok"),
    ]

    async def walk(power: Power) -> tuple[Any, ...]:
        DONE.clear()
        bench = Bench(shop(tool_concurrency=2), _by_step(script), power=power)
        run_id = await bench.start()
        await bench.drive(run_id)
        for reason in (VOUCHER, "nor ten"):
            (pending,) = (await bench.run(run_id)).pending
            await bench.answer(run_id, pending.tool_call_id, "deny", reason=reason)
        run = await bench.run(run_id)
        requests = [
            (e.tool_call_id, [(d.args["amount"], d.reason) for d in e.denied_before])
            for e in await asked(bench, run_id)
        ]
        reasons = [result_of(run, n)["reason"] for n in range(4)]
        return run.status, run.text, requests, reasons, list(DONE)

    calm = Power()
    wanted = await walk(calm)
    ten = [(60.0, VOUCHER)]
    assert wanted == (
        Status.SUCCESS,
        "ok",
        [("first", []), ("ten", ten)],
        [VOUCHER, VOUCHER, "nor ten", VOUCHER],
        [],
    )
    for cut_at in range(1 + after, calm.calls + 1, share(5)):
        assert await walk(Power(cut_at, after=after)) == wanted, cut_at


def _by_step(script: list[Any]) -> Any:
    """A model that says the same when it is asked again."""
    return answers_of({"shop": script})
