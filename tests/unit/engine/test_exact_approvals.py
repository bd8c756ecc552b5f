"""A call runs exactly as a person approved it, though the code that runs it is not the code that asked."""

import hashlib
import itertools
from datetime import timedelta
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from layover import Agent, Approval, Suspend, ToolContext, tool
from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.declare.tools.tool import AnyTool
from layover.errors import DecisionInvalid, DefinitionError
from layover.inmemory.model import call, say
from layover.values.deployment.access import Actor
from layover.values.message import ToolResultPart
from layover.values.runs.run import Status
from layover.values.runs.views import Pending
from support.worlds.runs import ANN, Bench, seen, suspended

PAID: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_is_paid() -> None:
    PAID.clear()


def pay_to(default: str, **options: Any) -> AnyTool:
    @tool(**{"needs_approval": True, **options})
    async def pay(amount: float, account: str = default) -> str:
        """Pay."""
        PAID.append((amount, account))
        return f"paid {amount:g} to {account}"

    return pay


@tool(needs_approval=True)
async def pay_by(amount: float, account: str, method: Literal["bank", "card"]) -> str:
    """Pay, nowadays by a method."""
    raise AssertionError(f"ran with {amount}, {account}, {method}")


pay_by.name = "pay"


def bench_of(first: AnyTool, **agent: Any) -> Bench:
    return Bench(
        Agent("shop", model="m", tools=[first], **agent), [call("pay", amount=7), say("ok")]
    )


def deploy(bench: Bench, *tools: AnyTool) -> None:
    bench.agents["shop"] = Agent("shop", model="m", tools=tools)


async def pending_in(bench: Bench, run_id: str) -> Pending:
    (pending,) = (await bench.run(run_id)).pending
    return pending


async def starts(bench: Bench, run_id: str) -> list[Any]:
    return [e.args for e in await bench.events(run_id) if e.type == "tool-execution-start"]


async def test_a_default_that_a_deployment_changed_is_not_run_but_asked_for_again() -> None:
    bench = bench_of(pay_to("x"))
    run = await suspended(bench)
    deploy(bench, pay_to("somebody-else"))
    await bench.answer(run.id, "call_1", "approve")
    again = await pending_in(bench, run.id)
    assert PAID == []
    assert (again.attempt, again.asked_again) == (2, "definition")
    assert again.args == {"amount": 7.0, "account": "somebody-else"}
    assert again.payload["args"] == again.args
    await bench.answer(run.id, "call_1", "approve")
    assert PAID == [(7, "somebody-else")]
    assert (await bench.run(run.id)).status is Status.SUCCESS


async def test_a_request_that_is_made_again_can_be_denied() -> None:
    bench = bench_of(pay_to("x"))
    run = await suspended(bench)
    deploy(bench, pay_to("somebody-else"))
    await bench.answer(run.id, "call_1", "approve")
    await bench.answer(run.id, "call_1", "deny", reason="not to them")
    assert PAID == []
    assert "not to them" in seen(bench.model.prompts[1])[0]


async def test_arguments_that_no_longer_fit_are_a_tool_error_and_nothing_runs() -> None:
    bench = bench_of(pay_to("x"))
    run = await suspended(bench)
    deploy(bench, pay_by)
    await bench.answer(run.id, "call_1", "approve")
    (text,) = seen(bench.model.prompts[1])
    assert text.startswith("ToolChanged: a deployment changed the parameters of pay")
    assert "method" in text


async def test_a_parameter_of_another_type_is_asked_for_again() -> None:
    @tool(needs_approval=True)
    async def pay(amount: int, account: str = "x") -> str:
        """Pay whole amounts."""
        PAID.append((amount, account))
        return "paid"

    bench = bench_of(pay_to("x"))
    run = await suspended(bench)
    assert run.pending[0].args == {"amount": 7.0, "account": "x"}
    deploy(bench, pay)
    await bench.answer(run.id, "call_1", "approve")
    assert (await pending_in(bench, run.id)).args == {"amount": 7, "account": "x"}
    assert PAID == []


async def test_an_edit_is_what_the_editor_saw_and_a_deployment_does_not_add_to_it() -> None:
    bench = bench_of(pay_to("x"))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve", args={"amount": 5})
    deploy(bench, pay_to("somebody-else"))
    await bench.branch(run.id, "call_1")
    again = await pending_in(bench, run.id)
    assert (PAID, again.args) == ([], {"amount": 5.0, "account": "somebody-else"})
    await bench.answer(run.id, "call_1", "approve")
    assert PAID == [(5, "somebody-else")]


async def test_an_edit_is_refused_while_no_deployed_code_knows_the_tool() -> None:
    """Nobody could show what the tool would get."""
    bench = bench_of(pay_to("x"))
    run = await suspended(bench)
    deploy(bench)
    with pytest.raises(DecisionInvalid, match="no deployed code") as refused:
        await bench.decide(run.id, "call_1", "approve", args={"amount": 5})
    assert [each["loc"] for each in refused.value.errors] == [["body", "args"]]
    assert (await pending_in(bench, run.id)).attempt == 1
    edit = {"approved": True, "args": {"amount": 5}}
    assert (await bench.branch(run.id, "call_1", edit)).status == "waiting"
    assert (await bench.call(run.id, "call_1")).undecided
    deploy(bench, pay_to("somebody-else"))
    await bench.answer(run.id, "call_1", "approve", args={"amount": 5, "account": "y"})
    assert PAID == [(5, "y")]


@pytest.mark.parametrize("gone", ["the agent", "its sub-agent"])
async def test_an_edit_is_refused_while_nobody_knows_whose_tool_it_is(gone: str) -> None:
    clerk = Agent("clerk", model="m", tools=[pay_to("x")])
    script = [call("clerk", input="pay"), call("pay", amount=7, tool_call_id="p1")]
    bench = Bench(Agent("shop", model="m", tools=[clerk.as_tool("Pays.")]), script)
    run = await suspended(bench)
    if gone == "the agent":
        bench.agents.clear()
    else:
        deploy(bench)
    with pytest.raises(DecisionInvalid, match="no deployed code"):
        await bench.decide(run.id, "p1", "approve", args={"amount": 5})


async def test_a_vote_for_other_arguments_is_refused_while_no_deployed_code_knows_the_tool() -> (
    None
):
    rule = Approval(by=["finance"], quorum=2)
    bench = bench_of(pay_to("x", needs_approval=rule))
    run = await suspended(bench)
    deploy(bench)
    bea = Actor(sub="bea", groups=frozenset({"finance"}))
    request = DecisionRequest(Verdict.APPROVE, args={"amount": 5})
    with pytest.raises(DecisionInvalid, match="no deployed code"):
        await decide(bench.runtime, bea, run.id, "call_1", request)
    assert (await bench.call(run.id, "call_1")).votes == ()


@pytest.mark.parametrize("back", ["x", "somebody-else", None])
async def test_a_call_that_was_approved_while_its_tool_was_gone_runs_only_as_it_was_shown(
    back: str | None,
) -> None:
    bench = bench_of(pay_to("x"))
    run = await suspended(bench)
    deploy(bench)
    await bench.decide(run.id, "call_1", "approve")
    deploy(bench, *([pay_to(back)] if back else []))
    await bench.hear(run.id, "call_1")
    ran = [(7, "x")] if back == "x" else []
    assert ran == PAID
    found = await bench.call(run.id, "call_1")
    if back is None:
        assert found.model_output == "Tool pay not found"
    assert found.undecided == (back == "somebody-else")


@pytest.mark.parametrize("words", [{"amount": 5}, {"amount": 5.0, "account": "x"}])
async def test_an_edit_of_a_tool_that_only_the_run_knows_runs_as_it_is_written_or_not_at_all(
    words: dict[str, Any],
) -> None:
    """No code before the run's own knows the tools that a function gives."""
    agent = Agent("shop", model="m", tools=lambda ctx: [pay_to("x")])
    bench = Bench(agent, [call("pay", amount=7), say("ok")])
    run = await suspended(bench)
    await bench.answer(run.id, "call_1", "approve", args=words)
    if "account" in words:
        assert PAID == [(5, "x")]
        return
    again = await pending_in(bench, run.id)
    assert (PAID, again.args) == ([], {"amount": 5.0, "account": "x"})
    await bench.answer(run.id, "call_1", "approve")
    assert PAID == [(5, "x")]


async def test_a_call_of_unchanged_code_runs_after_one_approval_with_all_that_was_shown() -> None:
    bench = bench_of(pay_to("x"))
    run = await suspended(bench)
    (pending,) = run.pending
    assert pending.args == pending.payload["args"] == {"amount": 7.0, "account": "x"}
    assert pending.asked_again is None
    deploy(bench, pay_to("x"))
    await bench.answer(run.id, "call_1", "approve")
    assert PAID == [(7, "x")]
    assert await starts(bench, run.id) == [pending.args]
    (waits,) = [e for e in await bench.events(run.id) if e.type == "tool-call-suspended"]
    assert waits.args == pending.args
    # The model's own words stay as they were.
    assert (await bench.run(run.id)).messages[0].tool_calls[0].args == {"amount": 7}


async def test_a_value_that_is_made_anew_at_each_validation_is_the_one_that_was_shown() -> None:
    numbers = itertools.count(1)

    class Payment(BaseModel):
        key: str = Field(default_factory=lambda: f"key-{next(numbers)}")
        amount: float

    @tool(needs_approval=True)
    async def pay(payment: Payment) -> str:
        """Pay once for each key."""
        PAID.append((payment.amount, payment.key))
        return "paid"

    script = [call("pay", payment={"amount": 7}), say("ok")]
    bench = Bench(Agent("shop", model="m", tools=[pay]), script)
    run = await suspended(bench)
    shown = run.pending[0].args["payment"]["key"]
    await bench.answer(run.id, "call_1", "approve")
    assert [(7, shown)] == PAID


async def test_the_rule_that_a_request_was_made_with_holds_when_it_is_made_again() -> None:
    finance = Approval(by=["finance"], requester=True, quorum=2)
    bench = bench_of(pay_to("x", needs_approval=finance, expires_after=timedelta(hours=1)))
    run = await suspended(bench)
    deploy(bench, pay_to("somebody-else", expires_after=timedelta(hours=2)))
    bench.clock.advance(timedelta(minutes=1))
    for person in (ANN, "bob"):
        voter = Actor(sub=person, groups=frozenset({"finance"}))
        await decide(bench.runtime, voter, run.id, "call_1", DecisionRequest(Verdict.APPROVE))
    await bench.branch(run.id, "call_1")
    again = await pending_in(bench, run.id)
    assert again.approval is not None
    assert (again.approval.by, again.approval.quorum, again.approval.given) == (("finance",), 2, ())
    assert again.requested_at == bench.clock.now()
    assert again.expires_at == again.requested_at + timedelta(hours=2)


async def test_a_hooks_request_shows_the_defaults_and_is_made_again() -> None:
    class Ask:
        async def before_tool(self, ctx: Any, call: Any) -> Suspend:
            return Suspend("a large order")

    plain = pay_to("x", needs_approval=False)
    bench = Bench(
        Agent("shop", model="m", tools=[plain], hooks=[Ask()]), [call("pay", amount=7), say("ok")]
    )
    run = await suspended(bench)
    assert run.pending[0].args == {"amount": 7.0, "account": "x"}
    bench.agents["shop"] = Agent(
        "shop", model="m", tools=[pay_to("y", needs_approval=False)], hooks=[Ask()]
    )
    await bench.answer(run.id, "call_1", "approve")
    again = await pending_in(bench, run.id)
    assert (PAID, again.args["account"]) == ([], "y")
    assert again.payload["reason"] == "a large order"


class Slot(BaseModel):
    """What a person chooses."""

    slot: str


def book_in(default: str) -> AnyTool:
    @tool(suspend=Slot, resume=Slot)
    async def book(ctx: ToolContext, day: str, room: str = default) -> Any:
        """Book a room."""
        if ctx.resume is None:
            return ctx.suspend(Slot(slot="any"))
        PAID.append((day, room, ctx.resume.slot))
        return "booked"

    return book


async def test_a_call_that_was_resumed_does_not_go_on_with_other_arguments() -> None:
    script = [call("book", day="mo"), say("ok")]
    bench = Bench(Agent("shop", model="m", tools=[book_in("red")]), script)
    run = await suspended(bench)
    assert run.pending[0].args == {"day": "mo", "room": "red"}
    deploy(bench, book_in("blue"))
    await bench.answer(run.id, "call_1", "resume", data={"slot": "a"})
    again = await pending_in(bench, run.id)
    assert (PAID, again.args, again.payload) == (
        [],
        {"day": "mo", "room": "blue"},
        {"slot": "any"},
    )
    await bench.answer(run.id, "call_1", "resume", data={"slot": "a"})
    assert PAID == [("mo", "blue", "a")]


async def test_a_sub_agents_call_is_exact_as_well() -> None:
    def boss(default: str) -> Agent:
        clerk = Agent("clerk", model="m", tools=[pay_to(default)])
        return Agent("shop", model="m", tools=[clerk.as_tool("Pays.")])

    script = [call("clerk", input="pay"), call("pay", amount=7), say("done"), say("ok")]
    bench = Bench(boss("x"), script)
    run = await suspended(bench)
    (pending,) = run.pending
    assert pending.args == {"amount": 7.0, "account": "x"}
    bench.agents["shop"] = boss("somebody-else")
    await bench.answer(run.id, pending.tool_call_id, "approve")
    again = await pending_in(bench, run.id)
    assert (PAID, again.asked_again) == ([], "definition")
    assert again.args["account"] == "somebody-else"


async def test_the_audit_has_the_hash_of_what_was_shown_and_of_an_edit_as_it_runs() -> None:
    def digest(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    for edit, exact in (
        (None, '{"account":"x","amount":7.0}'),
        ({"amount": 5}, '{"account":"x","amount":5.0}'),
    ):
        bench = bench_of(pay_to("x"))
        run = await suspended(bench)
        await bench.answer(run.id, "call_1", "approve", args=edit)
        rows = await bench.plain.journal.audit.page_rows(None, None, 10, None)
        assert [row.args_sha256 for row in rows.items] == [digest(exact)]


async def test_an_edit_can_be_read_where_the_decision_is() -> None:
    for edit, note in ((None, None), ({"amount": 5}, {"amount": 5.0, "account": "x"})):
        bench = bench_of(pay_to("x"))
        run = await suspended(bench)
        await bench.answer(run.id, "call_1", "approve", args=edit)
        (decided,) = [e for e in await bench.events(run.id) if e.type == "tool-call-decided"]
        assert decided.args == note
        for messages in ((await bench.run(run.id)).messages, await bench.stored()):
            parts = [p for m in messages for p in m.content if isinstance(p, ToolResultPart)]
            assert [p.decision and p.decision.args for p in parts] == [note]


# What is said about a call


def says(args: dict[str, Any], ctx: ToolContext) -> str:
    return f"Pay {args['amount']:.2f} euros to {args['account']} for {ctx.resource_id}"


def rates(args: dict[str, Any], ctx: ToolContext) -> str:
    return "high" if args["amount"] > 5 else "low"


@pytest.mark.parametrize("wrong", ["summary", "risk"])
async def test_a_call_that_cannot_be_described_is_a_tool_error_and_nobody_is_asked(
    wrong: str,
) -> None:
    async def fails(args: dict[str, Any], ctx: ToolContext) -> str:
        raise LookupError("no such account")

    bench = bench_of(pay_to("x", **{wrong: fails}))
    run = await bench.go()
    assert (run.status, PAID) == (Status.SUCCESS, [])
    assert seen(bench.model.prompts[1]) == ["LookupError: no such account"]
    assert "tool-call-suspended" not in [e.type for e in await bench.events(run.id)]


@pytest.mark.parametrize("options", [{"summary": lambda args, ctx: 7}, {"risk": lambda a, c: "x"}])
async def test_a_description_of_another_kind_is_a_tool_error(options: dict[str, Any]) -> None:
    bench = bench_of(pay_to("x", **options))
    run = await bench.go()
    assert (run.status, PAID) == (Status.SUCCESS, [])
    assert seen(bench.model.prompts[1])[0].split(":")[0] in ("TypeError", "ValueError")


@pytest.mark.parametrize(
    "options", [{"summary": "pays"}, {"summary": lambda args: ""}, {"risk": "extreme"}, {"risk": 1}]
)
def test_a_summary_or_a_risk_that_makes_no_sense_is_refused_when_the_tool_is_made(
    options: dict[str, Any],
) -> None:
    with pytest.raises(DefinitionError, match=next(iter(options))):
        pay_to("x", **options)


async def test_a_request_says_what_the_call_would_do_and_how_risky_it_is() -> None:
    bench = bench_of(pay_to("x", summary=says, risk=rates))
    run = await suspended(bench)
    (pending,) = run.pending
    assert (pending.summary, pending.risk) == ("Pay 7.00 euros to x for ann", "high")
    (event,) = [e for e in await bench.events(run.id) if e.type == "tool-call-suspended"]
    assert (event.summary, event.risk) == (pending.summary, pending.risk)
    await bench.wait(run.id, "call_1")
    (published,) = bench.published
    assert (published["summary"], published["risk"]) == (pending.summary, "high")
    assert published["args"] == {"amount": 7.0, "account": "x"}
    await bench.answer(run.id, "call_1", "approve")
    rows = await bench.plain.journal.audit.page_rows(None, None, 10, None)
    assert [row.risk for row in rows.items] == ["high"]


async def test_a_request_that_is_made_again_is_described_anew() -> None:
    bench = bench_of(pay_to("x", summary=says, risk="low"))
    run = await suspended(bench)
    deploy(bench, pay_to("somebody-else", summary=says, risk="high"))
    await bench.answer(run.id, "call_1", "approve")
    again = await pending_in(bench, run.id)
    assert (again.summary, again.risk) == ("Pay 7.00 euros to somebody-else for ann", "high")


async def test_a_long_summary_is_cut_and_a_tool_without_one_says_nothing() -> None:
    bench = bench_of(pay_to("x", summary=lambda args, ctx: "é" * 501))
    run = await suspended(bench)
    assert (run.pending[0].summary, run.pending[0].risk) == ("é" * 500, None)
    run = await suspended(bench_of(pay_to("x")))
    assert (run.pending[0].summary, run.pending[0].risk) == (None, None)


async def test_a_tool_that_asks_for_itself_is_described_as_well() -> None:
    @tool(suspend=Slot, resume=Slot, summary=lambda args, ctx: f"Book {args['day']}", risk="low")
    async def book(ctx: ToolContext, day: str) -> Any:
        """Book a room."""
        return "booked" if ctx.resume else ctx.suspend(Slot(slot="any"))

    bench = Bench(Agent("shop", model="m", tools=[book]), [call("book", day="mo"), say("ok")])
    run = await suspended(bench)
    assert (run.pending[0].summary, run.pending[0].risk) == ("Book mo", "low")
