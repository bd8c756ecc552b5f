"""Hand-offs: an agent gives the conversation to another one."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from layover import Agent, Hook, HookContext, ModelSettings, Refuse, ToolCall, tool
from layover.errors import DefinitionError, ModelError
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.values.deployment.settings import Settings
from layover.values.prompt import Prompt
from layover.values.runs.model_settings import OVERRIDABLE, Overridable, RunChoice
from layover.values.runs.run import OnBusy, OnWaiting, Status
from layover.values.runs.views import Run
from support.examples import choose_deaths
from support.worlds.runs import Bench, Power, answers_of, seen, types

SCRIPT: dict[str, list[Any]] = {
    "front": [call("transfer_to_billing", tool_call_id="t1"), say("never")],
    "billing": [say("never"), call("pay", tool_call_id="p1", amount=1), say("paid"), say("more")],
}


def made(paid: list[int], power: Power | None = None) -> Bench:
    @tool(needs_approval=True, idempotent=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "ok"

    billing = Agent("billing", instructions="billing", tools=[pay])
    front = Agent("front", instructions="front", handoffs=[billing])
    bench = Bench(front, answers_of(SCRIPT), power=power)
    bench.agents["billing"] = billing
    return bench


async def ended(bench: Bench) -> Run:
    run_id = await bench.start()
    assert await bench.drive(run_id) == "suspended"
    assert await bench.answer(run_id, "p1", "approve") == "over"
    return await bench.run(run_id)


async def test_the_run_and_its_thread_are_the_other_agents_from_there_on() -> None:
    paid: list[int] = []
    bench = made(paid)
    run_id = await bench.start()
    assert await bench.drive(run_id) == "suspended"
    assert (await bench.head()).agent == "billing"
    (pending,) = (await bench.run(run_id)).pending
    assert pending.agent_path == ("billing",)
    await bench.answer(run_id, "p1", "approve")
    run = await bench.run(run_id)
    assert (run.status, run.agent, run.text, paid) == (Status.SUCCESS, "billing", "paid", [1])
    events = await bench.events(run_id)
    (handoff,) = [e for e in events if e.type == "handoff"]
    shown = handoff.model_dump(mode="json")
    assert (shown["from"], shown["to"]) == ("front", "billing")
    assert types(events)[:6] == [
        "agent-start",
        "turn-start",
        "tool-execution-start",
        "tool-execution-end",
        "turn-end",
        "handoff",
    ]
    assert "definition-changed" not in types(events)
    first, second = bench.model.prompts[:2]
    assert (first.system, second.system) == ("front", "billing")
    assert second.messages[0].text == "hello"
    rows = [(r.agent, r.usage.total_tokens) for _, r in bench.threads.usage_rows.values()]
    assert rows == [("front", 15), ("billing", 30)]


async def test_the_next_run_of_the_thread_begins_with_the_agent_that_has_it() -> None:
    bench = made([])
    await ended(bench)
    run_id = await bench.start("again")
    assert (await bench.meta(run_id)).agent == "billing"


async def test_a_conversation_changes_hands_once_whatever_dies() -> None:
    for after in (False, True):
        for k in choose_deaths(after):
            paid: list[int] = []
            power = Power(k, after=after)
            run = await ended(bench := made(paid, power))
            assert (run.agent, run.text, set(paid)) == ("billing", "paid", {1}), (k, after)
            events = await bench.events(run.id)
            assert [e.type for e in events].count("handoff") == 1, (k, after)
            if not power.cuts:
                break


async def test_two_agents_may_name_each_other() -> None:
    billing, front = Agent("billing"), Agent("front")
    front.handoffs, billing.handoffs = [billing], [front]
    assert [t.name for t in billing.tools] == ["transfer_to_front"]
    script = ScriptedModel([call("transfer_to_billing"), call("transfer_to_front"), say("back")])
    with front.override(model=script):
        result = await front.generate("hi", thread_id="t")
    assert (result.status, result.text) == ("success", "back")


async def test_a_thread_that_was_given_away_goes_on_in_process() -> None:
    billing = Agent("billing", instructions="billing")
    front = Agent("front", instructions="front", handoffs=[billing])
    script = [call("transfer_to_billing"), say("billing here"), say("still billing")]
    with front.override(model=ScriptedModel(script)) as model:
        await front.generate("hi", thread_id="t")
        again = await front.generate("and now?", thread_id="t")
    assert again.text == "still billing"
    assert [p.system for p in model.prompts if p.task == "turn"] == ["front", "billing", "billing"]


async def test_a_sub_agent_answers_and_gives_no_conversation_away() -> None:
    other = Agent("other")
    sub = Agent("sub", instructions="sub", handoffs=[other])
    top = Agent("top", instructions="top", tools=[sub.as_tool("x")])
    script = {"top": [call("sub", input="a"), say("end")], "sub": [say("done")]}
    bench = Bench(top, answers_of(script))
    run = await bench.go()
    assert run.text == "end"
    assert bench.model.prompts[1].tools == ()


async def test_other_calls_of_the_step_are_settled_first() -> None:
    seen: list[str] = []

    @tool
    def note() -> str:
        """Note."""
        seen.append("noted")
        return "noted"

    billing = Agent("billing", instructions="billing")
    front = Agent("front", instructions="front", tools=[note], handoffs=[billing])
    step = calls(call("transfer_to_billing"), call("note"))
    with front.override(model=ScriptedModel([step, say("hi")])):
        result = await front.generate("hi")
    assert (seen, result.text) == (["noted"], "hi")


def test_an_agent_hands_nothing_to_itself() -> None:
    agent = Agent("a")
    with pytest.raises(DefinitionError, match="handoffs"):
        agent.handoffs = [agent]


async def test_a_run_that_was_queued_before_is_the_other_agents() -> None:
    bench = made([])
    for agent in bench.agents.values():
        agent.on_waiting = OnWaiting.REFUSE
    run_id = await bench.start()
    queued = await bench.start("and this?", on_busy=OnBusy.ENQUEUE)
    assert (await bench.meta(queued)).agent == "front"
    await bench.drive(run_id)
    assert await bench.answer(run_id, "p1", "approve") == "over"
    assert await bench.drive(queued) == "over"
    run = await bench.run(queued)
    assert (run.agent, bench.model.prompts[-1].system) == ("billing", "billing")
    assert "definition-changed" not in types(await bench.events(queued))


def choosers(mine: Sequence[Overridable], script: Mapping[str, Sequence[Any]] = SCRIPT) -> Bench:
    """`front` leaves every choice to its runs, `billing` these."""
    settings = ModelSettings(max_tokens=50, reasoning="high")
    billing = Agent(
        "billing",
        model="openai/own",
        instructions="billing",
        model_settings=settings,
        overridable=mine,
    )
    front = Agent("front", instructions="front", handoffs=[billing], overridable=OVERRIDABLE)
    bench = Bench(front, answers_of(script))
    bench.agents["billing"] = billing
    return bench


CHOICE = RunChoice(model="openai/expensive", reasoning="low", max_tokens=9)


@pytest.mark.parametrize(
    ("mine", "asked"),
    [
        ((), ("openai/own", "high", 50)),
        (("max_tokens",), ("openai/own", "high", 9)),
        (OVERRIDABLE, ("openai/expensive", "low", 9)),
    ],
)
async def test_what_a_run_chose_holds_for_the_other_agent_where_it_allows_that(
    mine: Sequence[Overridable], asked: tuple[str, str, int]
) -> None:
    bench = choosers(mine, {"front": SCRIPT["front"], "billing": [say("never"), say("hi")]})
    run = await bench.go(choice=CHOICE)
    assert run.text == "hi"
    first, second = [(p.model, p.settings.reasoning, p.settings.max_tokens) for p in turns(bench)]
    assert (first, second) == (("openai/expensive", "low", 9), asked)


async def test_the_other_agents_own_fallbacks_hold_where_a_choice_does_not() -> None:
    script = {"front": SCRIPT["front"], "billing": [say("never"), ModelError("down", status=503)]}
    bench = choosers((), script)
    bench.agents["billing"].fallbacks = ("openai/second",)
    await bench.go(choice=CHOICE)
    assert [p.model for p in turns(bench)][1:] == ["openai/own", "openai/second"]


async def test_what_a_queued_run_chose_holds_for_the_other_agent_where_it_allows_that() -> None:
    bench = choosers(("max_tokens",), {"front": SCRIPT["front"], "billing": [say("hi")] * 4})
    first = await bench.start()
    queued = await bench.start("and this?", on_busy=OnBusy.ENQUEUE, choice=CHOICE)
    assert await bench.drive(first) == "over"
    assert await bench.drive(queued) == "over"
    asked = turns(bench)[-1]
    assert (asked.system, asked.model, asked.settings.max_tokens) == ("billing", "openai/own", 9)


async def test_sub_agents_of_the_other_agent_get_what_is_left_of_a_choice() -> None:
    sub = Agent("sub", instructions="sub")
    script = {
        "front": SCRIPT["front"],
        "billing": [say("never"), call("sub", input="a"), say("end")],
        "sub": [say("done")],
    }
    bench = choosers(("max_tokens",), script)
    bench.agents["billing"].tools = [sub.as_tool("x")]
    await bench.go(choice=CHOICE)
    asked = next(p for p in turns(bench) if p.system == "sub")
    assert (asked.model, asked.settings.max_tokens) == (Settings().model, 9)


def turns(bench: Bench) -> list[Prompt]:
    """The prompts of agents."""
    return [p for p in bench.model.prompts if p.task == "turn"]


@pytest.mark.parametrize("width", [1, 2])
async def test_of_two_hand_offs_in_one_step_the_second_is_not_done(width: int) -> None:
    one, two = Agent("one", instructions="one"), Agent("two", instructions="two")
    front = Agent("front", instructions="front", handoffs=[one, two], tool_concurrency=width)
    step = calls(call("transfer_to_two"), call("transfer_to_one"))
    bench = Bench(front, answers_of({"front": [step], "two": [say("never"), say("hi")]}))
    bench.agents |= {"one": one, "two": two}
    run = await bench.go()
    first, second = seen(bench.model.prompts[1])
    assert (run.text, run.agent) == ("hi", "two")
    assert first == "two has the conversation from here on"
    assert "Not done" in second
    assert "transfer_to_two" in second


@tool
def note() -> str:
    """Note."""
    return "noted"


class Refuses(Hook):
    """Refuses the hand-off to `two`."""

    async def before_tool(self, ctx: HookContext, call: ToolCall) -> Refuse | None:
        return Refuse("not two") if call.tool_name == "transfer_to_two" else None


async def test_a_second_hand_off_takes_nothing_where_the_first_was_refused() -> None:
    one, two = Agent("one", instructions="one"), Agent("two", instructions="two")
    front = Agent("front", instructions="front", handoffs=[one, two], hooks=[Refuses()])
    step = calls(call("transfer_to_two"), call("transfer_to_one"))
    script = [step, call("transfer_to_one"), say("hi")]
    with front.override(model=ScriptedModel(script)) as model:
        await front.generate("hi")
    assert [p.system for p in model.turns] == ["front", "front", "one"]
    assert "Not done" in seen(model.turns[1])[1]


def test_tools_that_are_set_later_leave_the_hand_offs() -> None:
    billing = Agent("billing")
    front = Agent("front", handoffs=[billing])
    front.tools = [note]
    assert [t.name for t in front.tools] == ["note", "transfer_to_billing"]
    front.tools = front.tools[:1]
    assert [t.name for t in front.tools] == ["note", "transfer_to_billing"]
    billing.tools = front.tools
    assert [t.name for t in billing.tools] == ["note"]
    front.handoffs = []
    assert [t.name for t in front.tools] == ["note"]


def test_hand_offs_that_cannot_be_leave_the_agent_as_it_was() -> None:
    other = Agent("other")
    front = Agent("front", handoffs=[Agent("billing")], tools=[note])
    with pytest.raises(DefinitionError, match="another tool"):
        front.handoffs = [other, Agent("other")]
    assert [a.name for a in front.handoffs] == ["billing"]
    assert [t.name for t in front.tools] == ["note", "transfer_to_billing"]


async def test_a_hand_off_may_be_the_call_that_is_forced() -> None:
    billing = Agent("billing")
    forced = ModelSettings(tool_choice="transfer_to_billing")
    front = Agent("front", handoffs=[billing], model_settings=forced)
    with front.override(model=ScriptedModel([call("transfer_to_billing"), say("hi")])) as model:
        await front.generate("hi")
    assert model.turns[0].settings.tool_choice == "transfer_to_billing"
    with pytest.raises(DefinitionError, match="tool_choice"):
        front.handoffs = []


async def test_a_sub_agent_is_not_forced_to_hand_over() -> None:
    forced = ModelSettings(tool_choice="transfer_to_other", seed=7)
    sub = Agent("sub", instructions="sub", handoffs=[Agent("other")], model_settings=forced)
    top = Agent("top", instructions="top", tools=[sub.as_tool("x")])
    script = {"top": [call("sub", input="a"), say("end")], "sub": [say("done")]}
    bench = Bench(top, answers_of(script))
    assert (await bench.go()).text == "end"
    asked = turns(bench)[1].settings
    assert (asked.tool_choice, asked.seed) == (None, 7)
