"""A person declines to answer a call that waits for input: it is over, and its tool does not run again."""

import json
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, ToolContext, tool
from layover.approvals.decide import record_withdrawal
from layover.inmemory.model import call, calls, say
from layover.values.deployment.access import Actor
from layover.values.runs.run import CallState, DecisionKind, Status, SuspensionKind
from layover.values.runs.views import Run
from support.worlds.runs import ANN, Bench, Choice, Ledger, Offer, seen

WHY = "that is private"
RAN: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool(suspend=Offer, resume=Choice, expires_after=timedelta(hours=1))
async def choose(ctx: ToolContext, day: str, note: str = "none") -> str:
    """Choose a slot, and confirm it."""
    RAN.append("asked" if ctx.resume is None else f"chose {ctx.resume.slot}")
    if ctx.resume is None or ctx.resume.slot == "full":
        return ctx.suspend(Offer(slots=[day]))
    return f"booked {ctx.resume.slot}"


def clerk(*tools: Any) -> Agent:
    return Agent("clerk", model="m", instructions="clerk", tools=[*tools] or [choose])


def choosing(day: str = "mo", **more: Any) -> Any:
    return call("choose", day=day, **more)


async def declined(bench: Bench, reason: str | None = WHY, call_id: str = "call_1") -> Run:
    """The run after the first question of its call was declined."""
    run = await bench.go()
    assert run.status is Status.SUSPENDED
    await bench.answer(run.id, call_id, "deny", reason=reason)
    return await bench.run(run.id)


def results(run: Run) -> list[Any]:
    return [p.result for m in run.messages for p in m.content if p.type == "tool_result"]


@pytest.mark.parametrize("reason", [WHY, None])
async def test_a_declined_question_ends_its_call_and_the_run_goes_on(reason: str | None) -> None:
    bench = Bench(clerk(), [choosing(), say("Which day, then?")])
    run = await declined(bench, reason)
    assert (run.status, run.text, RAN) == (Status.SUCCESS, "Which day, then?", ["asked"])
    message = 'Tool "choose" was not answered'
    assert results(run) == [{"declined": True, "message": message, "reason": reason}]
    record = await bench.call(run.id, "call_1")
    assert (record.state, record.is_error) == (CallState.SETTLED, False)
    assert record.decision.kind is DecisionKind.DENIED


async def test_the_model_reads_that_nobody_will_answer_and_what_to_do_instead() -> None:
    bench = Bench(clerk(), [choosing(), say("I go on.")])
    await declined(bench)
    (text,) = seen(bench.model.prompts[1])
    told = json.loads(text)
    assert told["reason"] == WHY
    assert told["advice"].startswith("A person declined to answer")
    assert "Do not ask again" in told["advice"]
    assert "go on without it, or say what is missing" in told["advice"]
    assert "denied this call" not in told["advice"]


async def test_the_question_is_not_asked_again_in_the_run_and_its_tool_does_not_begin() -> None:
    again = choosing(note="none")
    bench = Bench(clerk(), [choosing(), again, choosing("tu")])
    run = await declined(bench)
    first, second = results(run)
    assert first == second
    advice = [json.loads(text)["advice"] for text in seen(bench.model.prompts[2])]
    assert advice[0] == advice[1]
    (pending,) = run.pending
    assert (pending.kind, RAN) == (SuspensionKind.INPUT, ["asked", "asked"])
    assert [(d.args["day"], d.reason) for d in pending.denied_before] == [("mo", WHY)]


async def test_the_next_run_of_the_thread_asks_anew() -> None:
    bench = Bench(clerk(), [choosing(), say("as you like"), choosing()])
    await declined(bench)
    (pending,) = (await bench.go("again")).pending
    assert (pending.denied_before, RAN) == ((), ["asked", "asked"])


async def test_a_later_question_of_a_call_is_declined_like_its_first() -> None:
    bench = Bench(clerk(), [choosing(), say("no")])
    run = await bench.go()
    await bench.answer(run.id, "call_1", "resume", data={"slot": "full"})
    await bench.answer(run.id, "call_1", "deny", reason=WHY)
    run = await bench.run(run.id)
    assert (run.text, RAN) == ("no", ["asked", "chose full"])
    record = await bench.call(run.id, "call_1")
    assert [each["kind"] for each in record.past] == ["resumed"]


async def test_siblings_of_a_declined_question_go_on_waiting() -> None:
    bench = Bench(clerk(), [calls(choosing(), choosing("tu")), say("one")])
    run = await declined(bench)
    assert [p.tool_call_id for p in run.pending] == ["call_2"]
    await bench.answer(run.id, "call_2", "resume", data={"slot": "tu-1"})
    run = await bench.run(run.id)
    assert [isinstance(r, dict) for r in results(run)] == [True, False]


@pytest.mark.parametrize("deployed", ["another type", "no question", "another argument", "gone"])
async def test_a_deployment_that_changed_the_tool_changes_nothing_of_a_decline(
    deployed: str,
) -> None:
    bench = Bench(clerk(), [choosing(), say("no")])
    run = await bench.go()

    @tool(name="choose")
    async def plain(day: str) -> str:
        """Choose a slot."""
        RAN.append("new code")
        return day

    @tool(name="choose", suspend=Offer, resume=int)
    async def numbered(ctx: ToolContext, day: str) -> str:
        """Choose a slot."""
        RAN.append("new code")
        return day

    @tool(name="choose", suspend=Offer, resume=Choice)
    async def timed(ctx: ToolContext, hour: int) -> str:
        """Choose a slot."""
        RAN.append("new code")
        return str(hour)

    @tool
    async def other() -> str:
        """Do something else."""
        return "other"

    tools = {"another type": numbered, "no question": plain, "another argument": timed}
    bench.agents["clerk"] = clerk(tools.get(deployed, other))
    await bench.answer(run.id, "call_1", "deny", reason=WHY)
    run = await bench.run(run.id)
    assert (run.text, RAN, results(run)[0]["reason"]) == ("no", ["asked"], WHY)


async def test_a_question_in_a_sub_agent_is_declined_for_the_whole_run() -> None:
    helper = Agent("helper", model="m", instructions="helper", tools=[choose])
    agent = clerk(helper.as_tool("Chooses."), choose)
    script = [
        call("helper", input="choose"),
        choosing(),
        say("They would not say."),
        choosing(),
        say("Nobody says."),
    ]
    bench = Bench(agent, script)
    run = await bench.go()
    (pending,) = run.pending
    await bench.answer(run.id, pending.tool_call_id, "deny", reason=WHY)
    run = await bench.run(run.id)
    assert (run.status, run.text, RAN) == (Status.SUCCESS, "Nobody says.", ["asked"])
    assert results(run)[-1]["reason"] == WHY


async def test_a_question_that_expired_or_was_withdrawn_was_not_answered_either() -> None:
    bench = Bench(clerk(), [choosing(), choosing("tu"), say("never mind")])
    run = await bench.go()
    bench.clock.advance(timedelta(hours=2))
    late = {"Error": "States.Timeout"}
    await bench.drive(run.id, call=await bench.item(run.id, "call_1"), output=late)
    item = await bench.item(run.id, "call_2")
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    record = await bench.call(run.id, "call_2")
    await record_withdrawal(bench.plain, Actor(sub=ANN), snapshot, record)
    await bench.drive(run.id, call=item, output={"layover": "decided"})
    expired, withdrawn = results(await bench.run(run.id))
    assert expired["message"] == withdrawn["message"] == 'Tool "choose" was not answered'
    assert (expired["expired"], withdrawn["withdrawn"]) == (True, True)
    advice = [json.loads(text)["advice"] for text in seen(bench.model.prompts[2])]
    assert "declined" not in str(advice)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"approved": False, "reason": "no"}, "no"),
        ({"answer": {"approved": False}}, None),
        ({"Error": "Denied", "Cause": "not today"}, "not today"),
        ({"Error": "Denied"}, "Denied"),
    ],
)
async def test_a_callback_declines(output: Any, reason: str | None) -> None:
    ledger = Ledger()
    bench = ledger.bench(call("book", day="mo"), say("ok"))
    run = await bench.go()
    await bench.branch(run.id, "call_1", output)
    record = await bench.call(run.id, "call_1")
    assert (record.decision.kind, record.decision.reason) == (DecisionKind.DENIED, reason)
    assert (record.result["message"], ledger.done) == ('Tool "book" was not answered', [])


@pytest.mark.parametrize(
    "output",
    [
        {"approved": False, "data": {"slot": "a"}},
        {"approved": False, "reason": 5},
        {"approved": "no"},
        {"approved": None},
        {"approved": True, "reason": "yes"},
        {"reason": "no"},
    ],
)
async def test_a_callback_that_is_neither_an_answer_nor_a_decline_leaves_the_call_waiting(
    output: Any,
) -> None:
    bench = Ledger().bench(call("book", day="mo"))
    run = await bench.go()
    assert (await bench.branch(run.id, "call_1", output)).status == "waiting"
    assert (await bench.call(run.id, "call_1")).undecided
