"""The runs behind the recorded logs: the real engine in this process, with scripted models. Ids and times are
the same every time, and so are the logs."""

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from layover import (
    Agent,
    Allow,
    Answer,
    Approval,
    BlockTopics,
    Hook,
    HookContext,
    ModelRequest,
    Refuse,
    ToolCall,
    ToolContext,
    tool,
)
from layover.approvals import decide as approvals
from layover.approvals.extend import extend
from layover.approvals.token_answer import DECIDED
from layover.declare.tools.tool import AnyTool
from layover.ids import SequentialIds
from layover.inmemory.model import ScriptedModel, broken, call, calls, fail, say
from layover.ports import ChatModel, OnDelta, send_deltas
from layover.recovery.redrive import redrive
from layover.recovery.sweep import sweep
from layover.runs.accept import make_message_key, send_message
from layover.runs.cancel import cancel
from layover.values.deployment.access import Actor
from layover.values.message import DataPart
from layover.values.prompt import Delta, Prompt, Reply
from support.worlds.runs import ANN, Bench, Ledger, answers_of, with_tools

APPROVE, DENY, RESUME = approvals.Verdict.APPROVE, approvals.Verdict.DENY, approvals.Verdict.RESUME
Json = dict[str, Any]
Scenario = Callable[[], Coroutine[Any, Any, list[Json]]]

SCENARIOS: dict[str, Scenario] = {}
"""By the name of the log."""


def _scenario(make: Scenario) -> Scenario:
    SCENARIOS[make.__name__] = make
    return make


class Offer(BaseModel):
    """A structured output."""

    name: str
    price: int = 0


@tool
async def draw(ctx: ToolContext, shape: str) -> str:
    """Draw, and tell how far it is."""
    ctx.emit({"done": 0.5})
    ctx.emit({"done": 1})
    return f"a {shape}"


@tool
async def breaks() -> str:
    """Break."""
    raise ValueError("it broke")


@tool(to_message=lambda result: {"name": "card", "data": {"drawn": result}})
async def report(ctx: ToolContext) -> Any:
    """Write a file, and show a card."""
    return await ctx.save_file("report.csv", "text/csv", b"1,2\n")


@tool(needs_approval=Approval(by=["finance"], remind_after=timedelta(hours=1)))
async def pay_back(amount: int) -> str:
    """Pay back, if finance says so."""
    return f"paid back {amount}"


@tool(needs_approval=Approval(by=["finance"], quorum=2))
async def pay_out(amount: int) -> str:
    """Pay out what two people of finance approve."""
    return f"paid out {amount}"


def bench(agent: Agent, script: Any, **options: Any) -> Bench:
    """A bench with ids that count."""
    return Bench(agent, script, ids=SequentialIds(), **options)


def helper(*tools: Any, **options: Any) -> Agent:
    """An agent with these tools."""
    return Agent(
        "helper", **{"model": "m", "tools": list(tools), "tool_concurrency": 40, **options}
    )


async def _told(world: Bench, run_id: str) -> list[Json]:
    return [event.model_dump(mode="json") for event in await world.events(run_id)]


async def _ended(world: Bench, **options: Any) -> list[Json]:
    """The log of a run from its beginning to where it ends or waits."""
    run_id = await world.start(**{"stream": True, **options})
    await world.drive(run_id)
    return await _told(world, run_id)


@_scenario
async def text() -> list[Json]:
    """Words, piece by piece."""
    return await _ended(bench(helper(), [say("Roses are red, and so on.")]))


@_scenario
async def reasoning() -> list[Json]:
    """Thoughts before words, in two steps."""
    script = [
        calls(call("look", n=1)).model_copy(update={"reasoning": "I have to look."}),
        say("It is one.", reasoning="So it is one."),
    ]
    return await _ended(bench(helper(Ledger().look), script))


@_scenario
async def without_deltas() -> list[Json]:
    """The same without deltas: only messages."""
    script = [
        calls(call("look", n=1), text="One moment.").model_copy(update={"reasoning": "Look."}),
        say("It is one.", reasoning="So it is one."),
    ]
    return await _ended(bench(helper(Ledger().look), script), stream=False)


@_scenario
async def parallel_calls() -> list[Json]:
    """Three calls in one step, one of which breaks and one tells how far it is; and an unknown tool."""
    script = [
        calls(call("look", n=1), call("draw", shape="circle"), call("breaks"), text="Both, then."),
        call("nothing", x=1),
        say("Done."),
    ]
    return await _ended(bench(helper(Ledger().look, draw, breaks), script))


@_scenario
async def files_and_data() -> list[Json]:
    """A tool's file and card, and named data of a reply."""
    data = DataPart(name="sources", data=["a", "b"])
    script = [call("report"), say("Here it is.").model_copy(update={"data": (data,)})]
    return await _ended(bench(helper(report), script))


@_scenario
async def approved() -> list[Json]:
    """A call that was approved with other arguments, and one that was approved unchanged."""
    ledger = Ledger()
    script = [call("pay", amount=60), call("pay", amount=5), say("Paid.")]
    world = bench(helper(ledger.pay), script)
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await world.answer(run_id, "call_1", APPROVE, args={"amount": 40}, reason="less")
    await world.answer(run_id, "call_2", APPROVE)
    return await _told(world, run_id)


@_scenario
async def denied() -> list[Json]:
    """Two calls wait; one is denied, one approved."""
    world = bench(
        helper(Ledger().pay),
        [calls(call("pay", amount=60), call("pay", amount=5), text="Both."), say("One of two.")],
    )
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await world.answer(run_id, "call_1", DENY, reason="too much")
    await world.answer(run_id, "call_2", APPROVE)
    return await _told(world, run_id)


@_scenario
async def waiting() -> list[Json]:
    """A call ran, and two wait for a person: the log has no end yet."""
    ledger = Ledger()
    asked = calls(call("look", n=1), call("pay", amount=60), call("book", day="monday"))
    return await _ended(bench(helper(ledger.look, ledger.pay, ledger.book), [asked]))


@_scenario
async def quorum() -> list[Json]:
    """A call that two people of a group approve."""
    world = bench(helper(pay_out), [call("pay_out", amount=900), say("Paid out.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    for name in ("bea", "carl"):
        actor = Actor(sub=name, groups=frozenset({"finance"}))
        request = approvals.DecisionRequest(APPROVE)
        await approvals.decide(world.runtime, actor, run_id, "call_1", request)
    await world.drive(run_id, call=await world.item(run_id, "call_1"), output=DECIDED)
    return await _told(world, run_id)


@_scenario
async def votes_apart() -> list[Json]:
    """People of a group approve different arguments, one of them twice: the call still waits."""
    world = bench(helper(pay_out), [call("pay_out", amount=900), say("Paid out.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    votes: tuple[tuple[Actor, Json], ...] = (
        (Actor(sub="bea"), {"args": {"amount": 800}, "reason": "it is enough"}),
        (Actor(sub="shop", on_behalf_of="carl"), {}),
        (Actor(sub="bea"), {"args": {"amount": 700}}),
        (Actor(sub="shop", on_behalf_of="dora"), {"args": {"amount": 800}}),
    )
    for actor, vote in votes:
        actor = actor.model_copy(update={"groups": frozenset({"finance"})})
        request = approvals.DecisionRequest(APPROVE, **vote)
        await approvals.decide(world.runtime, actor, run_id, "call_1", request)
    return await _told(world, run_id)


@_scenario
async def denied_again() -> list[Json]:
    """A call is denied and made again, and another call of its tool shows the denial."""
    script = [call("pay", amount=60), calls(call("pay", amount=60), call("pay", amount=5))]
    world = bench(helper(Ledger().pay), [*script, say("Five.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await world.answer(run_id, "call_1", DENY, reason="too much")
    await world.answer(run_id, "call_3", APPROVE)
    return await _told(world, run_id)


@_scenario
async def asked_twice() -> list[Json]:
    """A tool that asks a person, and asks again."""
    world = bench(helper(Ledger().book), [call("book", day="monday"), say("Booked.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await world.answer(run_id, "call_1", RESUME, data={"slot": "full"})
    await world.answer(run_id, "call_1", RESUME, data={"slot": "monday-2"})
    return await _told(world, run_id)


@_scenario
async def asked_of_new_code() -> list[Json]:
    """A deployment changes what an approved call would run with: it waits anew, next to another."""

    def refund_to(default: str) -> AnyTool:
        @tool(needs_approval=True)
        async def refund(amount: int, account: str = default) -> str:
            """Pay back."""
            return f"paid {amount} to {account}"

        return refund

    asked = calls(call("refund", amount=60), call("refund", amount=5))
    world = bench(helper(refund_to("x")), [asked, say("Paid.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    world.agents["helper"] = helper(refund_to("somebody else"))
    await world.decide(run_id, "call_1", APPROVE)
    await world.branch(run_id, "call_1")
    return await _told(world, run_id)


@_scenario
async def expired() -> list[Json]:
    """A call that nobody decided in time."""
    world = bench(helper(Ledger().pay), [call("pay", amount=60), say("Nobody answered.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    world.clock.advance(timedelta(hours=2))
    late = {"Error": "States.Timeout"}
    await world.drive(run_id, call=await world.item(run_id, "call_1"), output=late)
    return await _told(world, run_id)


@_scenario
async def reminded() -> list[Json]:
    """A call of which people were reminded twice before one denied it."""
    world = bench(helper(pay_back), [call("pay_back", amount=60), say("Not paid back.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await world.wait(run_id, "call_1")
    for _ in range(2):
        world.clock.advance(timedelta(hours=1))
        await sweep(world.plain)
    actor = Actor(sub="bea", groups=frozenset({"finance"}))
    request = approvals.DecisionRequest(DENY, reason="too late")
    await approvals.decide(world.runtime, actor, run_id, "call_1", request)
    await world.drive(run_id, call=await world.item(run_id, "call_1"), output=DECIDED)
    return await _told(world, run_id)


@tool(
    needs_approval=Approval(
        by=["finance"], escalate_after=timedelta(hours=1), escalate_to=["board"]
    )
)
async def lend(amount: int) -> str:
    """Lend money, if finance says so, or in the end the board."""
    return f"lent {amount}"


@_scenario
async def escalated() -> list[Json]:
    """A call that nobody decided for an hour, and that other people then approved."""
    world = bench(helper(lend), [call("lend", amount=500), say("Lent.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await world.wait(run_id, "call_1")
    world.clock.advance(timedelta(hours=1))
    await sweep(world.plain)
    actor = Actor(sub="zoe", groups=frozenset({"board"}))
    await approvals.decide(
        world.runtime, actor, run_id, "call_1", approvals.DecisionRequest(APPROVE)
    )
    await world.drive(run_id, call=await world.item(run_id, "call_1"), output=DECIDED)
    return await _told(world, run_id)


@_scenario
async def extended() -> list[Json]:
    """A call that got more time, and was approved after its first expiry."""
    world = bench(helper(Ledger().pay), [call("pay", amount=60), say("Paid.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    later = world.clock.now() + timedelta(days=2)
    await extend(world.plain, Actor(sub=ANN), run_id, "call_1", later, attempt=1)
    world.clock.advance(timedelta(days=1))
    await world.answer(run_id, "call_1", APPROVE)
    return await _told(world, run_id)


def desk() -> Bench:
    ledger = Ledger()
    desk = Agent("desk", instructions="desk", tools=[ledger.pay, ledger.look])
    top = Agent("top", instructions="top", tools=[desk.as_tool("Pays."), ledger.look])
    asked = call("desk", tool_call_id="d1", input="pay it", context="the lamp broke")
    script = {
        "top": [asked, say("All done.")],
        "desk": [
            calls(call("look", tool_call_id="l1", n=1), text="Looking."),
            call("pay", tool_call_id="p1", amount=3),
            say("Paid it."),
        ],
    }
    return bench(top, answers_of(script))


@_scenario
async def sub_agent() -> list[Json]:
    """A sub-agent with a call that waits, and one that does not."""
    world = desk()
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await world.answer(run_id, "p1", APPROVE, args={"amount": 2})
    return await _told(world, run_id)


@_scenario
async def sub_agent_waiting() -> list[Json]:
    """The same, while its call waits."""
    return await _ended(desk())


@_scenario
async def background() -> list[Json]:
    """A sub-agent in the background, whose end is a notice."""
    ledger = Ledger()
    desk = Agent("desk", instructions="desk", tools=[ledger.look])
    tools: list[Any] = [desk.as_tool("Looks.", background=True)]
    top = Agent("top", instructions="top", tools=tools)
    script = {
        "top": [call("desk", tool_call_id="d1", input="look"), say("It looks."), say("It is one.")],
        "desk": [call("look", tool_call_id="l1", n=1), say("I see one.")],
    }
    return await _ended(bench(top, answers_of(script)))


@_scenario
async def handoff() -> list[Json]:
    """A conversation that another agent takes over."""
    billing = Agent("billing", instructions="billing", tools=[Ledger().look])
    front = Agent("front", instructions="front", handoffs=[billing])
    script = {
        "front": [call("transfer_to_billing", tool_call_id="t1")],
        "billing": [say("never"), call("look", tool_call_id="l1", n=2), say("It is two.")],
    }
    world = bench(front, answers_of(script))
    world.agents["billing"] = billing
    return await _ended(world)


@_scenario
async def fallback() -> list[Json]:
    """A model that is down, and the one that answers instead."""

    def answer(prompt: Prompt) -> Any:
        return fail("down", status=503) if "first" in prompt.model else say("Here I am.")

    agent = helper(model=["openai/first", "deepseek/second"])
    return await _ended(bench(agent, ScriptedModel(answer)))


@_scenario
async def provider_away() -> list[Json]:
    """A provider that is away for a while."""
    error = fail("overloaded", status=503, passes=True)
    error.retry_after = 60
    world = bench(helper(model="openai/small"), [error, say("Here I am.")])
    run_id = await world.start(stream=True)
    assert (await world.turn(run_id))["pause_s"] == error.retry_after
    world.clock.advance(timedelta(seconds=60))
    await world.drive(run_id)
    return await _told(world, run_id)


@_scenario
async def redriven() -> list[Json]:
    """A run that failed, and goes on with another key."""
    world = bench(helper(), [fail("bad key", status=401), say("Here I am.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await redrive(world.plain, ANN, run_id)
    await world.drive(run_id)
    return await _told(world, run_id)


@_scenario
async def tools_left_out() -> list[Json]:
    """A provider that refuses a tool by name, and is asked again without it."""

    def answer(prompt: Prompt) -> Any:
        refusal = fail("Invalid schema for function 'look'", status=400)
        return refusal if any(t.name == "look" for t in prompt.tools) else say("Here I am.")

    return await _ended(bench(helper(Ledger().look), ScriptedModel(answer)))


@_scenario
async def loop() -> list[Json]:
    """A model that makes the same call again and again."""
    script = [call("look", tool_call_id=f"l{n}", n=1) for n in range(9)]
    return await _ended(bench(helper(Ledger().look), script))


@_scenario
async def broken_step() -> list[Json]:
    """An answer that breaks off after a few words, and begins again."""
    script = [broken("Roses are"), calls(call("look", n=1), text="Let me see."), say("Red.")]
    return await _ended(bench(helper(Ledger().look), script))


class AnswersLate(ChatModel):
    """A model whose provider does not answer the first two attempts."""

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return an answer, after the faults were told."""
        faults = ("InternalServerError", "RateLimitError")
        await send_deltas(on_delta, *(Delta(kind="retry", text=fault) for fault in faults))
        return await ScriptedModel([say("Here I am.")]).complete(prompt, on_delta)


@_scenario
async def asked_again() -> list[Json]:
    """A provider that does not answer at first, and is asked again."""
    return await _ended(bench(helper(), AnswersLate()))


class BreaksOnce(ChatModel):
    """A model whose first answer breaks off in the arguments of its second call."""

    def __init__(self, *script: Any) -> None:
        self._model = ScriptedModel(script)
        self._is_broken = False

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return the script's next step."""
        if not self._is_broken:
            self._is_broken = True
            pieces = [("call_1", "look", 0, '{"n": 1}'), ("call_2", "look", 1, '{"n"')]
            told = [
                Delta(kind="tool-call", tool_call_id=id, tool_name=name, call=at, text=piece)
                for id, name, at, piece in pieces
            ]
            await send_deltas(on_delta, *told, Delta(kind="restart"))
        return await self._model.complete(prompt, on_delta)


@_scenario
async def broken_calls() -> list[Json]:
    """Calls whose arguments break off, and come again under the same ids."""
    script = [calls(call("look", n=1), call("look", n=2)), say("One and two.")]
    return await _ended(bench(helper(Ledger().look), BreaksOnce(*script)))


@_scenario
async def broken_sub_agent() -> list[Json]:
    """A sub-agent's answer that breaks off, and begins again."""
    desk = Agent("desk", instructions="desk", tools=[])
    top = Agent("top", instructions="top", tools=[desk.as_tool("Answers.")])
    script = [
        call("desk", tool_call_id="d1", input="answer"),
        broken("I am"),
        say("I am here."),
        say("It is there."),
    ]
    return await _ended(bench(top, script))


@_scenario
async def outputs() -> list[Json]:
    """A structured output as it arrives."""
    text = '{"name": "a lamp that flickers whenever it is dimmed", "price": 30}'
    return await _ended(bench(helper(output=Offer), [say(text)]))


class Hours(Hook):
    """Knows when the shop opens."""

    once_per_input = True

    def before_model(self, ctx: HookContext, request: ModelRequest) -> Answer:
        return Answer("We open at nine.")


class Guard(Hook):
    """Changes one call, and refuses another."""

    async def before_tool(self, ctx: HookContext, call: ToolCall) -> Any:
        """Decide about a call."""
        if call.args.get("n") == 1:
            return Allow(args={"n": 10}, reason="ten at least")
        return Refuse("not today")


@_scenario
async def hooks() -> list[Json]:
    """Calls that a hook changes and refuses."""
    script = [calls(call("look", n=1), call("look", n=2)), say("One of two.")]
    return await _ended(bench(helper(Ledger().look, hooks=[Guard()]), script))


@_scenario
async def refused() -> list[Json]:
    """A message on the way that a hook refuses, after words and a call."""
    script = [calls(call("pay", amount=3), text="One moment.")]
    world = bench(helper(Ledger().pay, hooks=[BlockTopics(["weapons"], reply="No.")]), script)
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    key = make_message_key("k", run_id, "And weapons?", world.clock.now())
    await send_message(world.plain, Actor(sub=ANN), run_id, "And weapons?", key)
    await world.answer(run_id, "call_1", APPROVE)
    return await _told(world, run_id)


@_scenario
async def answered_by_hook() -> list[Json]:
    """A sub-agent whose hook answers in its model's place."""
    clerk = Agent("clerk", model="m", hooks=[Hours()])
    script = [call("clerk", input="When?"), say("At nine.")]
    return await _ended(bench(helper(clerk.as_tool("Knows the hours.")), script))


@_scenario
async def definition_changed() -> list[Json]:
    """A deployment between a question and its decision."""
    ledger = Ledger()
    world = bench(helper(ledger.pay, ledger.look), [call("pay", amount=3), say("Paid.")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    world.agents["helper"] = with_tools(world.agent, ledger.pay)
    await world.answer(run_id, "call_1", APPROVE)
    return await _told(world, run_id)


@_scenario
async def failed() -> list[Json]:
    """A model that refuses in the second step."""
    script = [calls(call("look", n=1), text="One moment."), fail("no credit", status=401)]
    return await _ended(bench(helper(Ledger().look), script))


@_scenario
async def cancelled() -> list[Json]:
    """A run that was cancelled while a call waited."""
    world = bench(helper(Ledger().pay), [calls(call("pay", amount=60), text="May I?")])
    run_id = await world.start(stream=True)
    await world.drive(run_id)
    await cancel(world.plain, ANN, run_id)
    return await _told(world, run_id)


@_scenario
async def unknown() -> list[Json]:
    """A log that a newer version wrote: with a field and two types of events that this one does not know."""
    events = await sub_agent()
    for event in events:
        event["mood"] = "calm"
    place = {"agent_path": ["top", "desk"], "parent_tool_call_id": "d1"}
    later = {"run_id": events[0]["run_id"], "at": events[0]["at"]}
    delegated = {**later, "type": "approval-delegated", **place, "tool_call_id": "p1", "to": "bea"}
    fork = {**later, "type": "forked", "thread_id": "t2"}
    asked = next(n for n, e in enumerate(events) if e["type"] == "tool-call-suspended")
    events[asked + 1 : asked + 1] = [delegated]
    events[-2:-2] = [fork]
    return [{**event, "seq": n} for n, event in enumerate(events, start=1)]
