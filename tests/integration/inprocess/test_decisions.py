"""Decisions that an author may give."""

from datetime import date, timedelta
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from layover import Agent, Limits, ToolContext, tool
from layover.clock import ManualClock
from layover.errors import DecisionAlreadyMade, DecisionInvalid, ThreadBusy
from layover.inmemory.model import ScriptedModel, call, calls, say
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


@tool(needs_approval=True)
async def send(to: Literal["ann", "bob"], copies: int = 1) -> str:
    """Send something."""
    return f"{copies} to {to}"


async def test_waiting_calls_say_which_arguments_they_may_be_approved_with() -> None:
    deputy = Agent("deputy", tools=[send])
    delegate = deputy.as_tool("Sends.")
    helper = Agent("helper", tools=[send, book, delegate], tool_concurrency=40)
    delegates = call("deputy", input="send it")
    script = [calls(call("send", to="ann"), call("book"), delegates), call("send", to="bob")]
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel(script))
    first = await helper.generate("hi")
    expected = {
        "type": "object",
        "properties": {
            "to": {"type": "string", "enum": ["ann", "bob"]},
            "copies": {"type": "integer", "default": 1},
        },
        "required": ["to"],
        "additionalProperties": False,
    }
    shown = {tuple(p.agent_path): p.args_schema for p in first.pending if p.tool_name == "send"}
    assert shown == {("helper",): expected, ("helper", "deputy"): expected}
    assert [p.args_schema for p in first.pending if p.tool_name == "book"] == [None]
    assert helper.state().pending == first.pending


@pytest.mark.parametrize(
    "limits",
    [
        *({}, {"tokens": None}, {"tokens": 5, "cost_usd": 0.5, "tool_calls": 0}, {"cost_usd": 2}),
        *({"tokens": 0}, {"tokens": 0.5}, {"cost_usd": 0}, {"tool_calls": -1}, {"steps": 4}),
        *({"stale_steps": 4}, {"tokens": "5"}, {"tool_calls": [1]}),
    ],
    ids=str,
)
async def test_schema_of_a_reached_limit_takes_the_limits_that_are_taken(
    limits: dict[str, Any],
) -> None:
    helper = Agent("helper", tools=[send], limits=Limits(tool_calls=0))
    script = [call("send", to="ann"), say("done")]
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel(script))
    first = await helper.generate("hi")
    (pending,) = first.pending
    assert pending.tool_name == "layover.budget"
    assert pending.args_schema is not None
    fits = Draft202012Validator(pending.args_schema).is_valid(limits)
    refused = False
    try:
        await helper.approve(first.run_id, pending.tool_call_id, limits)
    except DecisionInvalid:
        refused = True
    assert fits is not refused


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


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_question_is_declined_by_its_author_with_a_reason(streamed: bool) -> None:
    helper = Agent("helper", tools=[book])
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel([call("book"), say("not then")]))
    first = await helper.generate("hi")
    (pending,) = first.pending
    with pytest.raises(DecisionInvalid, match="takes deny or resume"):
        await helper.approve(first.run_id, pending.tool_call_id)
    if streamed:
        stream = helper.stream_deny(first.run_id, pending.tool_call_id, reason="private")
        decided = [e.decision async for e in stream if e.type == "tool-call-decided"]
        assert decided == ["denied"]
        last = await stream.result()
    else:
        last = await helper.deny(first.run_id, pending.tool_call_id, reason="private")
    assert (last.status, last.text) == ("success", "not then")
    with pytest.raises(DecisionAlreadyMade):
        await helper.resume(first.run_id, pending.tool_call_id, Choice(day=date(2026, 1, 3)))
    with pytest.raises(DecisionAlreadyMade, match="the same decision was made before"):
        await helper.deny(first.run_id, pending.tool_call_id, reason="private")
