"""Sub-agents: what a run tells of them, what they wait for, what they cost, and how they end."""

import json
import math
from datetime import timedelta
from typing import Any

import pytest

from layover import (
    Agent,
    Hook,
    HookContext,
    Limits,
    Memory,
    ModelSettings,
    ToolContext,
    WorkingMemory,
    tool,
)
from layover.errors import DecisionAlreadyMade, DecisionInvalid, NotFound
from layover.inmemory.model import ScriptedModel, call, calls, fail, say
from layover.runs.cancel import cancel
from layover.threads import threads
from layover.values.message import Message, ToolResultPart
from layover.values.prompt import Prompt
from layover.values.runs.event import Event
from layover.values.runs.model_settings import RunChoice
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.examples import share
from support.worlds.runs import ANN, Bench, Crash, Ledger, answers_of, told, types

Script = dict[str, list[Any]]
"""Replies by the instructions of the agent that is asked."""


def result_of(message: Message) -> ToolResultPart:
    """The result that a tool message is."""
    (part,) = message.content
    assert isinstance(part, ToolResultPart)
    return part


def of(events: list[Event], *path: str) -> list[str]:
    """Types of one agent's events, by its path; the run's own have none, but for what waits."""
    return types(e for e in events if e.agent_path == path)


class Desk:
    """`top` has a sub-agent `desk` with the ledger's tools, some of which wait."""

    def __init__(self, script: Script, **options: Any) -> None:
        self.ledger = Ledger()
        tools: list[Any] = [self.ledger.pay, self.ledger.look, self.ledger.book]
        self.desk = Agent("desk", instructions="desk", tools=tools, **options.pop("desk", {}))
        self.top = Agent(
            "top", instructions="top", tools=[self.desk.as_tool("Pays.")], **options.pop("top", {})
        )
        self.bench = Bench(self.top, answers_of(script), **options)

    async def suspended(self) -> Run:
        run = await self.bench.go()
        assert run.status is Status.SUSPENDED, run.error
        return run


ASKED = call("desk", tool_call_id="d1", input="pay it", context="the lamp broke")
PLAIN: Script = {
    "top": [ASKED, say("all done")],
    "desk": [call("look", tool_call_id="l1", n=1), say("looked")],
}
APPROVED: Script = {
    "top": [ASKED, say("all done")],
    "desk": [call("pay", tool_call_id="p1", amount=3), say("paid")],
}


def crowd() -> Desk:
    """36 sub-agents side by side, each with a payment that waits: 72 calls that are not settled."""
    asks = [call("desk", tool_call_id=f"d{n}", input="pay it", context="") for n in range(36)]
    pay = call("pay", amount=3)
    return Desk(
        {"top": [calls(*asks), say("all done")], "desk": [pay]}, top={"tool_concurrency": 36}
    )


async def test_thread_of_a_run_with_many_waiting_sub_agents_can_be_erased() -> None:
    desk = crowd()
    run = await desk.suspended()
    await threads.delete(desk.bench.plain, ANN, run.thread_id)
    assert await desk.bench.plain.journal.runs.get(ANN, run.id) is None


async def test_run_with_many_waiting_sub_agents_is_cancelled_whole_whatever_dies_in_it() -> None:
    cut_at, was_cut = 1 - share(4), True
    while was_cut:
        desk, cut_at = crowd(), cut_at + share(4)
        run = await desk.suspended()
        power = desk.bench.power
        power.calls, power.cut_at = 0, cut_at
        try:
            await cancel(desk.bench.runtime, ANN, run.id, holder_has_s=0)
            was_cut = False
        except Crash:
            power.restore()
        await cancel(desk.bench.plain, ANN, run.id, holder_has_s=0)
        run = await desk.bench.run(run.id)
        assert (run.status, run.pending, run.unexecuted) == (Status.CANCELLED, (), ())
        events = await desk.bench.events(run.id)
        decided = [e.tool_call_id for e in events if e.type == "tool-call-decided"]
        assert len(decided) == len(set(decided)) == 36
        ended = [e.tool_call_id for e in events if e.type == "tool-execution-end"]
        assert len(ended) == len(set(ended)) == 72
        assert types(events).count("finish") == 1
    assert cut_at > 5


async def test_a_plain_sub_agent_is_one_call_of_its_run() -> None:
    desk = Desk(PLAIN)
    run = await desk.bench.go("hello")
    assert told(run.messages) == [
        ("assistant", ""),
        ("tool", {"result": "looked"}),
        ("assistant", "all done"),
    ]
    assert [m.model_output for m in run.messages if m.role == "tool"] == ['{"result": "looked"}']
    assert run.status is Status.SUCCESS
    assert [m.id for m in await desk.bench.stored()] == [
        run.input.id,
        *(m.id for m in run.messages),
    ]


async def test_events_of_a_sub_agent_are_in_the_runs_log_and_say_whose_they_are() -> None:
    desk = Desk(PLAIN)
    run = await desk.bench.go()
    events = await desk.bench.events(run.id)
    assert of(events) == [
        "agent-start",
        "turn-start",
        "tool-execution-start",
        "tool-execution-end",
        "turn-end",
        "turn-start",
        "turn-end",
        "finish",
        "agent-end",
    ]
    assert of(events, "top", "desk") == [
        "turn-start",
        "tool-execution-start",
        "tool-execution-end",
        "turn-end",
        "turn-start",
        "turn-end",
    ]
    inner = [e for e in events if e.agent_path]
    assert [e.step for e in inner if e.type == "turn-start"] == [1, 2]
    assert inner[0].model_dump(mode="json")["agent_path"] == ["top", "desk"]
    assert "agent_path" not in events[0].model_dump(mode="json")
    (child,) = run.children
    assert {e.message.run_id for e in inner if e.type == "message"} == {child.id}


async def test_a_sub_agent_sees_its_briefing_and_nothing_else() -> None:
    desk = Desk(PLAIN)
    await desk.bench.go("a secret of the conversation")
    first = next(p for p in desk.bench.model.prompts if p.system == "desk")
    assert [m.text for m in first.messages] == ["pay it\n\n<context>\nthe lamp broke\n</context>"]
    assert {t.name for t in first.tools} == {"pay", "look", "book"}


async def test_the_tree_of_a_run_shows_its_children_while_they_work_and_after() -> None:
    desk = Desk(APPROVED)
    run = await desk.suspended()
    (child,) = run.children
    assert (child.status, child.agent, child.text) == (Status.SUSPENDED, "desk", "")
    assert [p.tool_call_id for p in child.pending] == ["p1"]
    await desk.bench.answer(run.id, "p1", "approve")
    run = await desk.bench.run(run.id)
    (done,) = run.children
    assert (done.id, done.status, done.finish_reason) == (child.id, Status.SUCCESS, "stop")
    assert told(done.messages) == [("assistant", ""), ("tool", "paid 3"), ("assistant", "paid")]
    assert done.input.text.startswith("pay it")
    assert (done.pending, done.children) == ((), ())


async def test_an_approval_inside_is_a_pending_call_of_the_run_and_settles_that_call_alone() -> (
    None
):
    desk = Desk(APPROVED)
    run = await desk.suspended()
    (pending,) = run.pending
    assert (pending.tool_call_id, pending.agent_path) == ("p1", ("top", "desk"))
    (item,) = (await desk.bench.plain.journal.decisions.page_pending(ANN, None, 10, None)).items
    assert (item.run_id, item.agent, item.agent_path) == (run.id, "top", ("top", "desk"))
    await desk.bench.decide(run.id, "p1", "approve", args={"amount": 2})
    await desk.bench.branch(run.id, "p1")
    assert desk.ledger.done == [2]
    assert await desk.bench.drive(run.id) == "over"
    events = await desk.bench.events(run.id)
    assert of(events, "top", "desk") == [
        "turn-start",
        "tool-call-suspended",
        "tool-call-decided",
        "tool-execution-start",
        "tool-execution-end",
        "turn-end",
        "turn-start",
        "turn-end",
    ]
    assert (await desk.bench.run(run.id)).text == "all done"


@pytest.mark.parametrize(
    ("verdict", "given", "wrong"),
    [
        ("approve", {"args": {"amount": "much"}}, DecisionInvalid),
        ("resume", {"data": {}}, DecisionInvalid),
        ("approve", {"attempt": 2}, DecisionAlreadyMade),
    ],
)
async def test_a_decision_that_does_not_fit_a_sub_agents_call_changes_nothing(
    verdict: str, given: dict[str, Any], wrong: type[Exception]
) -> None:
    desk = Desk(APPROVED)
    run = await desk.suspended()
    with pytest.raises(wrong):
        await desk.bench.decide(run.id, "p1", verdict, **given)
    assert len((await desk.bench.run(run.id)).pending) == 1


async def test_a_child_has_no_address_of_its_own() -> None:
    desk = Desk(APPROVED)
    run = await desk.suspended()
    with pytest.raises(NotFound):
        await desk.bench.decide(run.children[0].id, "p1", "approve")
    with pytest.raises(DecisionAlreadyMade):
        await desk.bench.decide(run.id, "d1", "approve")


async def test_a_denial_and_an_expiry_inside_are_told_to_the_sub_agent() -> None:
    for output, key in ((None, "declined"), ({"Error": "States.Timeout"}, "expired")):
        desk = Desk(APPROVED)
        run = await desk.suspended()
        if output is None:
            await desk.bench.decide(run.id, "p1", "deny", reason="no")
            await desk.bench.branch(run.id, "p1")
        else:
            desk.bench.clock.advance(timedelta(hours=2))
            await desk.bench.branch(run.id, "p1", output)
        await desk.bench.drive(run.id)
        run = await desk.bench.run(run.id)
        assert result_of(run.children[0].messages[1]).result[key] is True
        assert (run.status, desk.ledger.done) == (Status.SUCCESS, [])


async def test_a_sub_agent_that_suspends_itself_is_resumed_with_data() -> None:
    script: Script = {**APPROVED, "desk": [call("book", tool_call_id="b1", day="mon"), say("ok")]}
    desk = Desk(script)
    run = await desk.suspended()
    await desk.bench.answer(run.id, "b1", "resume", data={"slot": "full"})
    (again,) = (await desk.bench.run(run.id)).pending
    assert (again.attempt, again.agent_path) == (2, ("top", "desk"))
    await desk.bench.answer(run.id, "b1", "resume", data={"slot": "mon-9"})
    assert desk.ledger.done == ["mon-9"]
    assert (await desk.bench.run(run.id)).status is Status.SUCCESS


def two_levels() -> tuple[Ledger, Bench]:
    ledger = Ledger()
    low = Agent("low", instructions="low", tools=[ledger.pay])
    mid = Agent("mid", instructions="mid", tools=[low.as_tool("Lower.")])
    top = Agent("top", instructions="top", tools=[mid.as_tool("Middle.")])
    script: Script = {
        "top": [call("mid", tool_call_id="c1", input="a"), say("top done")],
        "mid": [call("low", tool_call_id="c1", input="b"), say("mid done")],
        "low": [call("pay", tool_call_id="c1", amount=1), say("low done")],
    }
    return ledger, Bench(top, answers_of(script))


async def test_two_levels_down_a_call_is_decided_at_the_top_and_ids_stay_unique() -> None:
    ledger, bench = two_levels()
    run = await bench.go()
    (pending,) = run.pending
    assert pending.agent_path == ("top", "mid", "low")
    assert pending.tool_call_id.startswith("c1-")
    assert [c.status for c in (run.children[0], run.children[0].children[0])] == ["suspended"] * 2
    await bench.answer(run.id, pending.tool_call_id, "approve")
    run = await bench.run(run.id)
    assert (run.text, ledger.done) == ("top done", [1])
    (mid,) = run.children
    (low,) = mid.children
    assert (mid.text, low.text) == ("mid done", "low done")
    events = await bench.events(run.id)
    assert of(events, "top", "mid", "low")[-1] == "turn-end"
    started = {e.tool_call_id: e.tool_name for e in events if e.type == "tool-execution-start"}
    for event in events:
        below = event.agent_path[-1] if len(event.agent_path) > 1 else None
        assert started.get(event.parent_tool_call_id or "") == below, event


async def test_usage_counts_in_the_run_and_is_itemised_at_every_depth() -> None:
    _, bench = two_levels()
    run = await bench.go()
    await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
    run = await bench.run(run.id)
    assert run.usage.total_tokens == 6 * 15
    (mid,) = run.usage.sub_agents
    assert (mid["agent"], mid["total_tokens"], mid["run_id"]) == ("mid", 60, run.children[0].id)
    (low,) = mid["sub_agents"]
    assert (low["agent"], low["total_tokens"], low["sub_agents"]) == ("low", 30, [])
    finish = next(e for e in await bench.events(run.id) if e.type == "finish")
    assert finish.usage == run.usage
    rows = [row for _, row in bench.threads.usage_rows.values()]
    paid = sorted((r.agent, r.usage.total_tokens) for r in rows)
    assert paid == [("low", 30), ("mid", 30), ("top", 30)]


def side_by_side(script: list[Any], concurrency: float = math.inf) -> tuple[Ledger, Bench]:
    ledger = Ledger()
    tools: list[Any] = [ledger.pay, ledger.look]
    desks = [Agent(name, instructions=name, tools=tools) for name in ("one", "two")]
    top = Agent(
        "top",
        instructions="top",
        tools=[d.as_tool("Pays.") for d in desks],
        tool_concurrency=concurrency,
    )
    both = calls(
        call("one", tool_call_id="d1", input="a"), call("two", tool_call_id="d2", input="b")
    )
    return ledger, Bench(top, answers_of({"top": [both, say("end")], "one": script, "two": script}))


async def test_sub_agents_side_by_side_wait_at_once_and_are_decided_in_any_order() -> None:
    ledger, bench = side_by_side([call("pay", tool_call_id="p", amount=1), say("paid")])
    run = await bench.go()
    first, second = run.pending
    assert [first.agent_path, second.agent_path] == [("top", "one"), ("top", "two")]
    assert first.tool_call_id != second.tool_call_id
    assert await bench.answer(run.id, second.tool_call_id, "approve") == "suspended"
    run = await bench.run(run.id)
    assert [p.tool_call_id for p in run.pending] == [first.tool_call_id]
    assert await bench.answer(run.id, first.tool_call_id, "deny") == "over"
    assert ledger.done == [1]
    run = await bench.run(run.id)
    assert [c.status for c in run.children] == ["success", "success"]
    assert [m.role for m in run.messages] == ["assistant", "tool", "tool", "assistant"]


async def test_a_sub_agent_behind_one_that_waits_does_not_begin() -> None:
    _, bench = side_by_side([call("pay", amount=1), say("paid")], concurrency=1)
    run = await bench.go()
    assert [c.agent for c in run.children] == ["one"]
    assert [u.tool_call_id for u in run.unexecuted] == ["d2"]
    await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
    assert [c.agent for c in (await bench.run(run.id)).children] == ["one", "two"]


async def test_many_sub_agents_share_the_calls_that_may_wait_at_once() -> None:
    ledger = Ledger()
    desk = Agent("desk", instructions="desk", tools=[ledger.pay], tool_concurrency=40)
    top = Agent("top", instructions="top", tools=[desk.as_tool("Pays.")], tool_concurrency=math.inf)
    asked = [call("desk", tool_call_id=f"d{i}", input="pay") for i in range(3)]
    pays = [call("pay", tool_call_id=f"p{i}", amount=i) for i in range(40)]
    script: Script = {"top": [calls(*asked), say("end")], "desk": [calls(*pays), say("paid")]}
    bench = Bench(top, answers_of(script))
    run = await bench.go()
    assert len(run.pending) == 39  # 13 of each: 40 branches wait at once


async def test_a_sub_agent_that_fails_is_a_tool_error_and_the_next_attempt_reads_of_it() -> None:
    attempts = iter([fail("away", status=400), say("better")])
    script: Script = {
        "top": [
            call("desk", tool_call_id="d1", input="try"),
            call("desk", tool_call_id="d2", input="again"),
            say("k"),
        ]
    }
    desk = Desk(script)
    top = desk.bench.model

    async def reply(prompt: Prompt) -> Any:
        return next(attempts) if prompt.system == "desk" else await top.complete(prompt, print)

    desk.bench = Bench(desk.top, ScriptedModel(reply))
    run = await desk.bench.go()
    first, second = run.children
    assert first.status is Status.FAILED
    assert first.error is not None
    # The model, and so the user, reads no word of the provider either.
    assert run.id in first.error.message
    assert "away" not in first.error.message
    part = result_of(run.messages[1])
    assert part.is_error
    assert part.result == f"{first.error.type}: {first.error.message}"
    assert second.input.text.splitlines()[-2] == f"Attempt 1: try → error: {part.result}"
    assert (run.status, second.text) == (Status.SUCCESS, "better")


async def test_a_sub_agent_has_its_own_iterations_and_output() -> None:
    script: Script = {**PLAIN, "desk": [call("look", n=i) for i in range(9)]}
    run = await Desk(script, desk={"max_iterations": 2}).bench.go()
    assert run.children[0].finish_reason == "max-iterations"
    assert (run.finish_reason, run.text) == ("stop", "all done")


async def test_the_limits_of_the_run_reach_down() -> None:
    desk = Desk(PLAIN, top={"limits": Limits(tokens=20, on_reached="fail")})
    run = await desk.bench.go()
    assert run.error is not None
    assert (run.status, run.error.type) == (Status.FAILED, "LimitReached")
    assert run.children[0].status is Status.CANCELLED
    assert desk.ledger.done == []


async def test_a_limit_that_waits_for_a_person_is_asked_for_once_and_extended() -> None:
    desk = Desk(PLAIN, top={"limits": Limits(tokens=20)})
    run = await desk.suspended()
    (pending,) = run.pending
    assert (pending.tool_name, pending.agent_path) == ("layover.budget", ("top",))
    await desk.bench.answer(run.id, pending.tool_call_id, "approve", args={"tokens": None})
    assert (await desk.bench.run(run.id)).status is Status.SUCCESS


async def test_a_sub_agents_own_limit_is_its_own_failure_or_its_own_question() -> None:
    desk = Desk(PLAIN, desk={"limits": Limits(tool_calls=0, on_reached="fail")})
    run = await desk.bench.go()
    assert (run.status, result_of(run.messages[1]).is_error) == (Status.SUCCESS, True)
    asks = Desk(PLAIN, desk={"limits": Limits(tool_calls=0)})
    run = await asks.suspended()
    (pending,) = run.pending
    assert (pending.tool_name, pending.agent_path) == ("layover.budget", ("top", "desk"))
    await asks.bench.answer(run.id, pending.tool_call_id, "approve", args={"tool_calls": 3})
    run = await asks.bench.run(run.id)
    assert (run.status, asks.ledger.done) == (Status.SUCCESS, [("look", 1)])


async def test_a_cancelled_run_takes_its_sub_agents_with_it() -> None:
    desk = Desk(APPROVED)
    run = await desk.suspended()
    await cancel(desk.bench.plain, ANN, run.id, holder_has_s=0)
    run = await desk.bench.run(run.id)
    (child,) = run.children
    assert (run.status, child.status, child.finish_reason) == ("cancelled",) * 3
    assert told(child.messages)[1:] == [("tool", "Cancelled: pay was not run")]
    assert told(run.messages)[1:] == [("tool", "Cancelled: desk was not finished")]
    events = await desk.bench.events(run.id)
    assert of(events, "top", "desk")[-2:] == ["tool-call-decided", "tool-execution-end"]
    assert of(events)[-2:] == ["tool-execution-end", "finish"]
    assert desk.ledger.done == []


async def test_a_sub_agent_that_is_gone_after_a_deployment_is_told_to_the_model() -> None:
    desk = Desk(APPROVED)
    run = await desk.suspended()
    desk.bench.agents["top"] = Agent("top", instructions="top")
    await desk.bench.answer(run.id, "p1", "approve")
    run = await desk.bench.run(run.id)
    assert told(run.messages)[1] == ("tool", "Tool desk not found")
    assert (run.status, desk.ledger.done) == (Status.SUCCESS, [])


async def test_a_tool_of_a_sub_agent_knows_the_run_that_is_decided_and_its_own_agent() -> None:
    seen: list[ToolContext] = []

    @tool
    def note(ctx: ToolContext) -> str:
        """Notes."""
        ctx.emit({"n": 1})
        seen.append(ctx)
        return "noted"

    desk = Agent("desk", instructions="desk", tools=[note])
    top = Agent("top", instructions="top", tools=[desk.as_tool("x")])
    script: Script = {**PLAIN, "desk": [call("note"), say("ok")]}
    bench = Bench(top, answers_of(script))
    run = await bench.go()
    (ctx,) = seen
    assert (ctx.run_id, ctx.agent_name) == (run.id, "desk")
    (data,) = [e for e in await bench.events(run.id) if e.type == "data"]
    assert data.agent_path == ("top", "desk")


async def test_model_settings_are_inherited_where_a_sub_agent_sets_none() -> None:
    above = ModelSettings(temperature=0.1, max_tokens=100, tool_choice="required")
    desk = Desk(
        PLAIN,
        top={"model_settings": above, "overridable": ["model", "max_tokens", "reasoning"]},
        desk={"model_settings": ModelSettings(max_tokens=9), "model": "own"},
    )
    await desk.bench.go(choice=RunChoice(model="chosen", max_tokens=50, reasoning="low"))
    top, child = desk.bench.model.prompts[:2]
    assert (top.model, top.settings.max_tokens, top.settings.tool_choice) == (
        "chosen",
        50,
        "required",
    )
    assert (child.model, child.settings.max_tokens, child.settings.tool_choice) == ("own", 9, None)
    assert (child.settings.temperature, child.settings.reasoning) == (0.1, "low")
    plain = Desk(PLAIN, top={"overridable": ["model"]})
    await plain.bench.go(choice=RunChoice(model="chosen"))
    assert {p.model for p in plain.bench.model.prompts} == {"chosen"}


async def test_a_sub_agent_with_memory_knows_its_earlier_calls_in_the_thread_and_its_notes() -> (
    None
):
    memory = Memory(working_memory=WorkingMemory(), last_messages=2)
    desk = Agent("desk", instructions="desk", memory=memory)
    top = Agent("top", instructions="top", tools=[desk.as_tool("x", memory=True)])

    def reply(prompt: Prompt) -> Any:
        if prompt.system == "top":
            done = prompt.messages[-1].role == "tool"
            return say("end") if done else call("desk", input=f"do {prompt.messages[-1].text}")
        texts = [m.text for m in prompt.messages if m.role == "user"]
        if prompt.messages[-1].role == "user" and texts[-1] == "do one":
            return call("update_working_memory", memory="likes oak")
        return say(f"saw {len(texts)}")

    bench = Bench(top, ScriptedModel(reply))
    first = await bench.go("one")
    assert first.children[0].text == "saw 1"
    second = await bench.go("two")
    assert second.children[0].text == "saw 2"
    newest = bench.model.prompts[-2]
    assert [m.text for m in newest.messages] == ["do one", "saw 1", "do two"]
    assert "likes oak" in newest.system
    assert {t.name for t in newest.tools} == {"update_working_memory"}


async def test_a_sub_agent_without_memory_has_none_of_its_memorys_settings() -> None:
    memory = Memory(working_memory=WorkingMemory(), query_template="Q: {{query}}")
    desk = Agent("desk", instructions="desk", memory=memory)
    top = Agent("top", instructions="top", tools=[desk.as_tool("x")])
    script: Script = {"top": [call("desk", input="go"), say("end")], "desk": [say("done")]}
    bench = Bench(top, answers_of(script))
    await bench.go()
    child = bench.model.prompts[1]
    assert (child.tools, [m.text for m in child.messages]) == ((), ["go"])


# What a caller's model reads of an end that is none


async def test_a_sub_agent_at_its_last_iteration_says_so() -> None:
    script: Script = {
        "top": [ASKED, say("all done")],
        "desk": [call("look", tool_call_id=f"l{n}", n=n) for n in range(5)],
    }
    desk = Desk(script, desk={"max_iterations": 2})
    run = await desk.bench.go()
    assert run.text == "all done"
    expected = {"result": "", "finish_reason": "max-iterations"}
    assert result_of(run.messages[1]).result == expected
    assert json.loads(run.messages[1].model_output or "") == expected


@pytest.mark.parametrize("reason", ["length", "content-filter"])
async def test_a_sub_agents_answer_that_was_cut_says_so(reason: Any) -> None:
    desk = Desk({"top": [ASKED, say("all done")], "desk": [say("half", finish_reason=reason)]})
    run = await desk.bench.go()
    assert result_of(run.messages[1]).result == {"result": "half", "finish_reason": reason}


async def test_called_directly_a_sub_agent_says_so_too() -> None:
    desk = Agent("desk", tools=[Ledger().look], max_iterations=1)
    with desk.override(model=ScriptedModel([call("look", n=1)])):
        assert await desk.as_tool("Pays.")(input="x") == {
            "result": "",
            "finish_reason": "max-iterations",
        }


async def test_an_output_that_a_sub_agents_hook_sets_is_its_result() -> None:
    class Sets(Hook):
        def at_end(self, ctx: HookContext, result: Any) -> Any:
            return result.model_copy(update={"output": {"text": result.text, "by": "hook"}})

    desk = Desk({"top": [ASKED, say("all done")], "desk": [say("paid")]}, desk={"hooks": [Sets()]})
    run = await desk.bench.go()
    assert result_of(run.messages[1]).result == {"result": {"text": "paid", "by": "hook"}}


async def test_a_sub_agent_without_memory_is_not_made_to_call_a_tool_of_memory() -> None:
    script: Script = {"top": [ASKED, say("all done")], "desk": [say("paid")]}
    forced = {"memory": Memory(plan=True), "model_settings": ModelSettings(tool_choice="plan")}
    desk = Desk(script, desk=forced)
    await desk.bench.go()
    [prompt] = [p for p in desk.bench.model.prompts if p.system == "desk"]
    assert "plan" not in [t.name for t in prompt.tools]
    assert prompt.settings.tool_choice is None


async def test_a_sub_agent_keeps_a_choice_among_the_tools_that_it_has() -> None:
    script: Script = {
        "top": [ASKED, say("all done")],
        "desk": [call("look", tool_call_id="l1", n=1), say("paid")],
    }
    desk = Desk(script, desk={"model_settings": ModelSettings(tool_choice="look")})
    await desk.bench.go()
    first = next(p for p in desk.bench.model.prompts if p.system == "desk")
    assert first.settings.tool_choice == "look"


async def test_a_sub_agent_keeps_a_choice_among_the_tools_that_a_function_gives_it() -> None:
    ledger = Ledger()
    settings = ModelSettings(tool_choice="look")
    desk = Agent(
        "desk", instructions="desk", tools=lambda ctx: [ledger.look], model_settings=settings
    )
    top = Agent("top", instructions="top", tools=[desk.as_tool("Pays.")])
    script: Script = {
        "top": [ASKED, say("all done")],
        "desk": [call("look", tool_call_id="l1", n=1), say("paid")],
    }
    bench = Bench(top, answers_of(script))
    assert (await bench.go()).text == "all done"
    first = next(p for p in bench.model.prompts if p.system == "desk")
    assert first.settings.tool_choice == "look"


@pytest.mark.parametrize("task", ["", "  "])
async def test_a_sub_agent_without_a_task_is_not_begun(task: str) -> None:
    script: Script = {"top": [call("desk", tool_call_id="d1", input=task), say("all done")]}
    desk = Desk({**script, "desk": []})
    run = await desk.bench.go()
    result = result_of(run.messages[1])
    assert result.is_error
    assert "input" in str(result.result)
    assert run.children == ()
