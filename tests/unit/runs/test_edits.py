"""A message that begins a branch takes back what waits on the branch that it leaves
(docs/behaviour.md#edits)."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, Approval, ToolContext, tool
from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.approvals.lists import ALL, list_approvals, list_for_approver
from layover.approvals.token_answer import DECIDED
from layover.errors import DecisionAlreadyMade
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.runs.accept import StartRun, start_run
from layover.runs.edits import TAKEN_BACK, withdraw_left
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.run import DecisionKind, OnBusy, Status
from support.worlds.runs import ANN, Bench, without_decisions

BEA = Actor(sub="bea", groups=frozenset({"finance"}))
PAID: list[tuple[int, str]] = []


@pytest.fixture(autouse=True)
def _nothing_is_paid() -> None:
    PAID.clear()


def pays(**rule: Any) -> Any:
    @tool(needs_approval=Approval(by=["finance"], **rule))
    async def pay(amount: int, to: str) -> str:
        """Pay."""
        PAID.append((amount, to))
        return f"paid {amount}"

    return pay


class Question(BaseModel):
    """What its user is asked."""

    question: str


@tool(suspend=Question, resume=Question)
async def ask(ctx: ToolContext) -> Any:
    """Ask its user."""
    return "answered" if ctx.resume else ctx.suspend(Question(question="sure?"))


def asks_for(prompt: Any) -> Any:
    """ "pay 9 bob 8 eve" pays both, "desk ..." lets a sub-agent do it; other words are repeated."""
    last = prompt.messages[-1]
    word, *words = last.text.split() or ["done"]
    if word == "pay":
        pairs = zip(words[::2], words[1::2], strict=True)
        wishes = (call("pay", amount=int(n), to=to, tool_call_id=f"{to}-{n}") for n, to in pairs)
        return calls(*wishes)
    if word == "desk":
        return call("desk", input=" ".join(words), tool_call_id=f"desk-{words[1]}")
    return call("ask", tool_call_id="ask") if word == "ask" else say(f"re {last.text}")


def bench_of(**rule: Any) -> Bench:
    desk = Agent("desk", model="m", tools=[pays(**rule)])
    tools = [pays(**rule), ask, desk.as_tool("Pays.")]
    return Bench(Agent("shop", model="m", tools=tools, tool_concurrency=3), ScriptedModel(asks_for))


async def waits(bench: Bench, text: str, **options: Any) -> str:
    run_id = await bench.start(text, **options)
    assert await bench.drive(run_id) == "suspended"
    return run_id


async def wanted(bench: Bench) -> list[str]:
    """The ids of the calls in the lists of the approver and of the owner."""
    theirs = await list_for_approver(bench.plain, BEA, 100, None, ALL)
    own = await list_approvals(bench.plain, Actor(sub=ANN), None, 100, None, ALL)
    return [each.tool_call_id for each in (*theirs.items, *own.items)]


async def approve(bench: Bench, run_id: str, call_id: str) -> None:
    request = DecisionRequest(Verdict.APPROVE, attempt=1)
    await decide(bench.plain, BEA, run_id, call_id, request)


async def carry_on(bench: Bench, run_id: str, call_id: str) -> str:
    """Let a run go on whose one call is decided."""
    item = await bench.item(run_id, call_id)
    return await bench.drive(run_id, call=item, output=DECIDED)


async def edit(runtime: Runtime, text: str) -> str:
    """Begin the thread anew, as the edit of its first message does."""
    return (await start_run(runtime, Actor(sub=ANN), "t1", StartRun(text, parent_id=None))).id


async def test_an_edit_withdraws_what_waits_and_approvers_are_told_why() -> None:
    bench = bench_of()
    first = await waits(bench, "pay 900 bob")
    second = await waits(bench, "pay 90 bob", parent_id=None)
    assert await wanted(bench) == ["bob-90"]
    taken_back = await bench.call(first, "bob-900")
    assert taken_back.decision is not None
    assert (taken_back.decision.kind, taken_back.decision.decided_by) == (
        DecisionKind.WITHDRAWN,
        ANN,
    )
    told = [d for kind, d in bench.callbacks.events if kind == "ApprovalDecided"]
    assert [(d["tool_call_id"], d["decision"]["reason"]) for d in told] == [("bob-900", TAKEN_BACK)]
    with pytest.raises(DecisionAlreadyMade):
        await approve(bench, first, "bob-900")
    await approve(bench, second, "bob-90")
    assert await carry_on(bench, second, "bob-90") == "over"
    assert PAID == [(90, "bob")]
    assert (await bench.stored())[0].text == "pay 90 bob"


async def test_a_run_whose_calls_were_taken_back_ends_and_leaves_its_thread_as_it_is() -> None:
    bench = bench_of()
    first = await waits(bench, "pay 900 bob")
    await bench.drive(await bench.start("weather", parent_id=None))
    assert (await bench.run(first)).status is Status.CANCELLED
    head = await bench.head()
    assert (head.active_run, head.waiting_runs, head.ready) == (None, (), ())
    assert [m.text for m in await bench.stored()] == ["weather", "re weather"]
    assert len(bench.model.turns) == 2, "the model is not asked about what was taken back"


@pytest.mark.parametrize("text", ["desk pay 900 bob", "ask", "pay 900 bob 800 eve"])
async def test_whatever_waits_is_taken_back(text: str) -> None:
    bench = bench_of()
    first = await waits(bench, text)
    assert await wanted(bench) != []
    await bench.drive(await bench.start("weather", parent_id=None))
    assert await wanted(bench) == []
    assert (await bench.run(first)).status is Status.CANCELLED


async def test_an_edit_of_an_earlier_message_takes_back_what_came_behind_it() -> None:
    bench = bench_of()
    greeting = await bench.go("hi")
    first = await waits(bench, "pay 900 bob")
    second = await waits(bench, "pay 800 eve")
    await bench.drive(await bench.start("hello", parent_id=greeting.input.parent_id))
    assert await wanted(bench) == []
    assert [(await bench.run(each)).status for each in (first, second)] == [Status.CANCELLED] * 2


async def test_a_message_without_a_branch_or_behind_the_call_takes_nothing_back() -> None:
    bench = bench_of()
    first = await waits(bench, "pay 900 bob")
    request = (await bench.run(first)).messages[-1].id
    await bench.drive(await bench.start("weather"))
    await bench.drive(await bench.start("thanks", parent_id=request))
    second = await waits(bench, "pay 800 eve")
    # An edit of the last message leaves the first call on its branch.
    parent_id = (await bench.meta(second)).input.parent_id
    await bench.drive(await bench.start("never mind", parent_id=parent_id))
    assert await wanted(bench) == ["bob-900"]
    assert (await bench.run(first)).status is Status.SUSPENDED


async def test_a_message_behind_the_wish_but_not_behind_its_call_takes_the_call_back() -> None:
    bench = bench_of()
    first = await waits(bench, "pay 900 bob")
    wish = (await bench.meta(first)).input.id
    await bench.drive(await bench.start("in two parts", parent_id=wish))
    assert await wanted(bench) == []


async def test_a_decision_that_came_first_stands_and_the_run_hears_that_the_rest_was_taken_back() -> (
    None
):
    bench = bench_of()
    first = await waits(bench, "pay 900 bob 800 eve")
    await bench.drive(await bench.start("weather"))
    await approve(bench, first, "bob-900")
    await bench.drive(await bench.start("other weather", parent_id=None))
    assert await wanted(bench) == []
    for call_id in ("bob-900", "eve-800"):
        await bench.branch(first, call_id)
    assert await bench.drive(first) == "over"
    assert (await bench.run(first)).status is Status.SUCCESS
    assert PAID == [(900, "bob")]
    results = [str(m.model_output) for m in bench.model.turns[-1].messages if m.model_output]
    assert "paid 900" in results[0]
    assert "Do not ask for it again" in results[1]
    assert TAKEN_BACK in results[1]


class Late:
    """Decisions that are written just after another one."""

    def __init__(self, decisions: Any, first: Callable[[], Awaitable[None]]) -> None:
        self._decisions = decisions
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decisions, name)

    async def decide(self, *given: Any, **more: Any) -> Any:
        await self._first()
        return await self._decisions.decide(*given, **more)


async def test_of_a_decision_and_an_edit_at_the_same_moment_the_first_counts() -> None:
    bench = bench_of()
    first = await waits(bench, "pay 900 bob")
    journal = bench.plain.journal
    late: Any = Late(journal.decisions, lambda: approve(bench, first, "bob-900"))
    raced = replace(bench.plain, journal=replace(journal, decisions=late))
    second = await edit(raced, "weather")
    assert await bench.drive(second) == "over"
    assert await carry_on(bench, first, "bob-900") == "over"
    assert PAID == [(900, "bob")]
    assert (await bench.run(first)).status is Status.SUCCESS


async def test_a_rule_may_keep_the_call_whose_request_then_says_so() -> None:
    bench = bench_of(when_edited="keep")
    first = await waits(bench, "pay 900 bob")
    at = bench.clock.now()
    second = await waits(bench, "pay 90 bob", parent_id=None)
    page = await list_for_approver(bench.plain, BEA, 100, None, ALL)
    assert [(each.args["amount"], each.taken_back_at) for each in page.items] == [
        (900, at),
        (90, None),
    ]
    [pending] = (await bench.run(first)).pending
    assert pending.taken_back_at == at
    bench.clock.advance(bench.plain.settings.sweep_patience)
    await bench.drive(await bench.start("pay 9 bob", parent_id=None))
    assert (await bench.call(first, "bob-900")).taken_back_at == at
    assert (await bench.call(second, "bob-90")).taken_back_at == bench.clock.now()


async def test_a_call_that_is_asked_again_was_still_taken_back() -> None:
    bench = bench_of(when_edited="keep")
    first = await waits(bench, "pay 900 bob")
    await bench.drive(await bench.start("weather", parent_id=None))

    @tool(needs_approval=Approval(by=["finance"], when_edited="keep"))
    async def pay(amount: int, to: str, fee: int = 7) -> str:
        """Pay."""
        raise AssertionError("nobody approved the fee")

    bench.agents["shop"] = Agent("shop", model="m", tools=[pay])
    await approve(bench, first, "bob-900")
    assert await carry_on(bench, first, "bob-900") == "suspended"
    [pending] = (await bench.run(first)).pending
    assert (pending.attempt, pending.asked_again) == (2, "definition")
    assert pending.taken_back_at is not None


async def test_an_edit_in_the_queue_takes_back_what_the_run_before_it_begins_to_wait_for() -> None:
    bench = bench_of()
    first = await bench.start("pay 900 bob")
    second = await bench.start("pay 90 bob", parent_id=None, on_busy=OnBusy.ENQUEUE)
    assert await bench.drive(first) == "suspended"
    assert await bench.drive(second) == "suspended"
    assert await wanted(bench) == ["bob-90"]
    assert (await bench.run(first)).status is Status.CANCELLED


async def test_what_could_not_be_withdrawn_at_once_is_withdrawn_when_the_run_begins() -> None:
    bench = bench_of()
    first = await waits(bench, "pay 900 bob")
    second = await edit(without_decisions(bench.plain), "weather")
    assert await wanted(bench) == ["bob-900"]
    assert await bench.drive(second) == "over"
    assert await wanted(bench) == []
    assert (await bench.run(first)).status is Status.CANCELLED
    assert [m.text for m in await bench.stored()] == ["weather", "re weather"]


async def test_what_comes_behind_an_edit_is_not_taken_back_by_it() -> None:
    bench = bench_of()
    await bench.go("hi")
    second = await bench.start("hello", parent_id=None)
    await bench.drive(second)
    await waits(bench, "pay 900 bob")
    await withdraw_left(bench.plain, await bench.meta(second))
    assert await wanted(bench) == ["bob-900"]
