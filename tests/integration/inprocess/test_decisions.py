"""Decisions that an author may give."""

from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, ToolContext, tool
from layover.adapters.inmemory.model import ScriptedModel, call, calls, say
from layover.clock import ManualClock
from layover.errors import DecisionAlreadyMade, DecisionInvalid, ThreadBusy
from layover.values.runs.run import OnWaiting
from layover.wiring import in_memory_runtime
from support.worlds.runs import nested, told


class Offer(BaseModel):
    """The offer that a person is shown."""

    days: list[date]


class Choice(BaseModel):
    """The choice that a person makes."""

    day: date


@tool(needs_approval=True)
async def plan(on: date) -> str:
    """Plan a day."""
    return on.isoformat()


@tool(needs_approval=True, expires_after=timedelta(hours=1))
async def soon(on: date) -> str:
    """Plan a day that comes soon."""
    return on.isoformat()


@tool(suspend=Offer, resume=Choice)
async def book(ctx: ToolContext) -> str:
    """Book."""
    if ctx.resume is None:
        return ctx.suspend(Offer(days=[date(2026, 1, 3)]))
    return f"booked {ctx.resume.day}"


async def test_decisions_are_made_with_the_authors_own_types() -> None:
    helper = Agent("helper", tools=[plan, book], tool_concurrency=40)
    script = [calls(call("plan", on="2026-01-01"), call("book")), say("done")]
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel(script))
    first = await helper.generate("hi")
    one, two = [p.tool_call_id for p in first.pending]
    await helper.approve(first.run_id, one, {"on": date(2026, 1, 2)})
    last = await helper.resume(first.run_id, two, Choice(day=date(2026, 1, 3)))
    results = [said for role, said in told(last.messages) if role == "tool"]
    assert results == ["2026-01-02", "booked 2026-01-03"]


@pytest.mark.parametrize("levels", [101, 150, 300])
async def test_a_decision_that_is_nested_too_deep_is_refused_and_the_call_waits(
    levels: int,
) -> None:
    helper = Agent("helper", tools=[plan])
    script = [call("plan", on="2026-01-01"), say("done")]
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel(script))
    first = await helper.generate("hi")
    one = first.pending[0].tool_call_id
    with pytest.raises(DecisionInvalid):
        await helper.approve(first.run_id, one, {"on": nested(levels)})
    assert (await helper.approve(first.run_id, one)).status == "success"


def impatient(*script: Any) -> tuple[Agent, ManualClock]:
    clock = ManualClock()
    helper = Agent("helper", tools=[soon, plan], tool_concurrency=40)
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel(script), clock=clock)
    return helper, clock


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_a_decision_that_comes_too_late_is_refused_and_the_run_goes_on_as_denied(
    verdict: str,
) -> None:
    helper, clock = impatient(call("soon", on="2026-01-01"), say("a pity"))
    first = await helper.generate("hi", thread_id="t")
    heard: list[Any] = []
    helper.on("tool-call-decided", heard.append)
    clock.advance(timedelta(hours=1))
    with pytest.raises(DecisionAlreadyMade, match="expired"):
        await getattr(helper, verdict)(first.run_id, first.pending[0].tool_call_id)
    state = helper.state()
    assert (state.status, state.messages[-1].text) == ("success", "a pity")
    assert [(e.decision, e.decided_by) for e in heard] == [("expired", "system")]
    with pytest.raises(DecisionAlreadyMade, match="over"):
        await getattr(helper, verdict)(first.run_id, first.pending[0].tool_call_id)


async def test_a_thread_that_only_an_expired_call_holds_takes_another_run() -> None:
    helper, clock = impatient(call("soon", on="2026-01-01"), say("a pity"), say("hello"))
    helper.on_waiting = OnWaiting.REFUSE
    first = await helper.generate("hi", thread_id="t")
    with pytest.raises(ThreadBusy):
        await helper.generate("again", thread_id="t")
    clock.advance(timedelta(hours=1))
    assert (await helper.generate("again", thread_id="t")).text == "hello"
    with pytest.raises(DecisionAlreadyMade, match="over"):
        await helper.approve(first.run_id, first.pending[0].tool_call_id)


async def test_where_one_call_expired_the_other_one_waits_on() -> None:
    asked = calls(call("soon", on="2026-01-01"), call("plan", on="2026-01-02"))
    helper, clock = impatient(asked, say("one of two"))
    helper.on_waiting = OnWaiting.REFUSE
    first = await helper.generate("hi", thread_id="t")
    one, two = [p.tool_call_id for p in first.pending]
    clock.advance(timedelta(hours=1))
    with pytest.raises(DecisionAlreadyMade, match="expired"):
        await helper.approve(first.run_id, one)
    assert [p.tool_call_id for p in helper.state().pending] == [two]
    with pytest.raises(ThreadBusy):
        await helper.generate("again", thread_id="t")
    assert (await helper.approve(first.run_id, two)).text == "one of two"
