"""Who may act on a run, as stories: a call runs or is said not to have run, never both; a run that works
keeps its thread; of several processes that end a run one does (docs/run-lifecycle.md#phases)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, Hook, Result, ToolContext, tool
from layover.errors import ThreadBusy
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.inmemory.table import InMemoryTable
from layover.ports.table import Action, Put
from layover.runs.accept import send_message
from layover.runs.cancel import cancel
from layover.runs.seizure import ENDS_WITHIN_S
from layover.threads.messages import list_messages
from layover.values.deployment.access import Actor
from layover.values.prompt import Prompt
from layover.values.runs.run import CallState, OnBusy, Phase, Status
from support.worlds.loops import skipping
from support.worlds.runs import ANN, Bench, Crash

ACTOR = Actor(sub=ANN)


class Between(InMemoryTable):
    """A table where something happens right before calls get into a state."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        states = {str(a.item.get("state")) for a in actions if isinstance(a, Put)}
        for state in states & {*self.before}:
            await self.before.pop(state)()
        await super().transact(actions, token)


class Till:
    """An agent that pays twice once somebody approved, over such a table."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.started, self.goes_on = asyncio.Event(), asyncio.Event()

        @tool(needs_approval=True)
        async def pay(amount: int) -> str:
            """Pay."""
            self.started.set()
            await self.goes_on.wait()
            self.paid.append(amount)
            return f"paid {amount}"

        asked = calls(
            call("pay", amount=1, tool_call_id="c1"), call("pay", amount=2, tool_call_id="c2")
        )
        self.table = Between()
        agent = Agent("shop", model="m", tools=[pay], tool_concurrency=2)
        self.bench = Bench(agent, [asked, say("done")], table=self.table)

    async def approved(self) -> str:
        """Return a run with two calls that wait, of which the first is approved."""
        run_id = await self.bench.start("pay")
        assert await self.bench.drive(run_id) == "suspended"
        await self.bench.decide(run_id, "c1", "approve")
        return run_id

    async def result(self, run_id: str) -> str:
        """Return what the record of the first call says."""
        record = await self.bench.call(run_id, "c1")
        assert record.state is CallState.SETTLED
        return str(record.result)


async def test_a_call_that_is_woken_while_its_run_is_cancelled_does_not_run() -> None:
    till = Till()
    till.goes_on.set()
    run_id = await till.approved()
    till.table.before["settled"] = lambda: till.bench.branch(run_id, "c1")
    assert (await cancel(till.bench.plain, ANN, run_id)).status is Status.CANCELLED
    assert till.table.before == {}
    assert await till.result(run_id) == "Cancelled: pay was not run"
    assert till.paid == []


async def test_a_result_that_comes_while_its_run_is_cancelled_is_recorded() -> None:
    till = Till()
    run_id = await till.approved()
    branch = asyncio.create_task(till.bench.branch(run_id, "c1"))
    await till.started.wait()

    async def pays() -> None:
        till.goes_on.set()
        await branch

    till.table.before["settled"] = pays
    ended = await cancel(till.bench.plain, ANN, run_id, holder_has_s=0)
    assert ended.status is Status.CANCELLED
    assert await till.result(run_id) == "paid 1"
    assert till.paid == [1]


async def test_a_result_that_comes_after_its_run_was_cancelled_is_in_doubt() -> None:
    till = Till()
    run_id = await till.approved()
    branch = asyncio.create_task(till.bench.branch(run_id, "c1"))
    await till.started.wait()
    await cancel(till.bench.plain, ANN, run_id, holder_has_s=0)
    till.goes_on.set()
    await branch
    assert till.paid == [1]
    assert await till.result(run_id) == "Cancelled: pay may or may not have taken effect"


@pytest.mark.parametrize("call_id", ["c1", "c2"])
async def test_a_token_that_comes_while_a_run_is_cancelled_is_answered(call_id: str) -> None:
    """Whoever ends the run reads it again: what it settles is as it read it."""
    till = Till()
    run_id = await till.approved()
    till.table.before["settled"] = lambda: till.bench.wait(run_id, call_id, "late")
    await cancel(till.bench.plain, ANN, run_id)
    woken = till.bench.callbacks.woken
    assert woken == ["late"]


async def test_the_queue_goes_on_when_the_last_branch_waits_again() -> None:
    """No turn looks until then: the other branches are done."""

    class Receipt(BaseModel):
        number: int

    @tool(suspend=Receipt, resume=Receipt)
    async def file(number: int, ctx: ToolContext) -> str:
        """File a receipt."""
        if ctx.resume is None or ctx.resume.number != number:
            if ctx.resume is not None:
                await bench.start("weather?", on_busy=OnBusy.ENQUEUE)
            return ctx.suspend(Receipt(number=number))
        return f"filed {number}"

    asked = calls(*(call("file", number=n, tool_call_id=f"c{n}") for n in (1, 2)))
    agent = Agent("shop", model="m", tools=[file], tool_concurrency=2)
    bench = Bench(agent, [asked, say("It rains.")])
    first = await bench.start("file")
    assert await bench.drive(first) == "suspended"
    for call_id in ("c2", "c1"):
        await bench.decide(first, call_id, "resume", data={"number": 2})
        await bench.branch(first, call_id)
    head = await bench.head()
    assert (head.waiting_runs, head.queue) == ((first,), ())
    assert head.active_run == bench.callbacks.started[-1][1] != first


async def test_a_run_that_answers_a_message_is_not_set_aside() -> None:
    """Its background sub-agent waits for an approval, and its newest step has no call."""
    asked, goes_on = asyncio.Event(), asyncio.Event()

    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    async def reply(prompt: Prompt) -> Any:
        last = prompt.messages[-1].text
        if (prompt.system or "").startswith("aide"):
            return call("pay", amount=1, tool_call_id="c1") if last == "pay 1" else say("paid")
        if last == "pay later":
            return call("aide", input="pay 1", tool_call_id="a1")
        if last == "and the invoice?":
            asked.set()
            await goes_on.wait()
        return say(f"re {last}")

    aide = Agent("aide", model="m", instructions="aide", tools=[pay])
    agent = Agent("shop", model="m", tools=[aide.as_tool("Pays.", background=True)])
    bench = Bench(agent, ScriptedModel(reply))
    first = await bench.start("pay later")
    assert await bench.drive(first) == "suspended"
    await send_message(bench.plain, ACTOR, first, "and the invoice?")
    turn = asyncio.create_task(bench.drive(first))
    await asked.wait()
    with pytest.raises(ThreadBusy):
        await bench.start("what is the weather?")
    goes_on.set()
    assert await turn == "suspended"
    second = await bench.start("what is the weather?")
    assert await bench.drive(second) == "over"
    page = await list_messages(bench.plain, ANN, "t1", None, 100, None)
    texts = [m.text for m in page.items if m.text]
    assert texts[-4:] == [
        "and the invoice?",
        "re and the invoice?",
        "what is the weather?",
        "re what is the weather?",
    ]


# Several processes end one run


class Slow(Hook):
    """Is asked at the end, and takes its time."""

    def __init__(self) -> None:
        self.ends = 0

    async def at_end(self, ctx: Any, result: Result) -> Result:
        self.ends += 1
        await asyncio.sleep(0.9)
        return result


@tool(needs_approval=True)
async def refund(amount: int) -> str:
    """Pay back."""
    raise AssertionError("nobody approved")


async def one_waits(*hooks: Hook) -> tuple[Bench, str]:
    agent = Agent("shop", model="m", tools=[refund], hooks=list(hooks))
    bench = Bench(agent, [call("refund", amount=1, tool_call_id="c1"), say("done")])
    run_id = await bench.start("refund")
    assert await bench.drive(run_id) == "suspended"
    return bench, run_id


@skipping
async def test_of_many_that_end_a_run_at_once_one_does() -> None:
    hook = Slow()
    bench, run_id = await one_waits(hook)
    before = await bench.meta(run_id)
    ends = [cancel(bench.plain, ANN, run_id, by=Actor(sub=f"p{n}")) for n in range(4)]
    ends += [cancel(bench.plain, ANN, run_id, holder_has_s=0)]
    settling = asyncio.create_task(bench.settle(run_id, Error="AttemptsUsedUp"))
    metas, settled = await asyncio.gather(*ends), await settling
    assert {meta.status for meta in metas} == {Status.CANCELLED}
    assert settled in ("again", "left")
    after = await bench.meta(run_id)
    assert (after.epoch, after.takes) == (before.epoch + 1, before.takes + 1)
    assert hook.ends == 1
    events = await bench.events(run_id)
    assert [e.type for e in events].count("finish") == 1


@skipping
async def test_who_ends_a_run_and_dies_is_followed_by_another() -> None:
    bench, run_id = await one_waits()
    dead = await bench.plain.journal.writers.seize(ANN, run_id)
    assert dead is not None
    time = asyncio.get_running_loop().time
    began = time()
    meta = await cancel(bench.plain, ANN, run_id, holder_has_s=0)
    assert meta.status is Status.CANCELLED
    assert ENDS_WITHIN_S / 2 <= time() - began <= 2 * ENDS_WITHIN_S


@skipping
async def test_a_cancel_that_dies_in_the_middle_is_finished_by_a_second_one() -> None:
    bench, run_id = await one_waits()
    threads = bench.threads.save_turn

    async def dies(record: Any) -> None:
        raise Crash

    bench.threads.save_turn = dies  # type: ignore[method-assign]
    with pytest.raises(Crash):
        await cancel(bench.plain, ANN, run_id)
    assert (await bench.meta(run_id)).phase is Phase.ENDING
    # No turn goes on with the run meanwhile.
    assert (await bench.turn(run_id))["status"] == "left"
    bench.threads.save_turn = threads  # type: ignore[method-assign]
    assert (await cancel(bench.plain, ANN, run_id)).status is Status.CANCELLED
    assert await bench.settle(run_id, Error="AttemptsUsedUp") == "left"
