"""The process dies at any port call of a run with sub-agents in the background: nothing runs twice, and each
end is told once."""

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, RetryableError, ToolContext, tool
from layover.testing import ScriptedModel, call, calls, say
from layover.values.message import DataPart, Message, Role
from layover.values.prompt import Prompt
from layover.values.runs.event import Event
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.examples import choose_deaths, share
from support.worlds.runs import ANN, Bench, Power, told

INTERRUPTED = "may or may not have taken effect"
BELOW: dict[str, list[Any]] = {
    "one": [call("send", n=1), call("low", input="c"), say("one is done")],
    "low": [calls(call("put", n=2), call("pay", n=1, tool_call_id="pay_1")), say("low is done")],
    "two": [calls(call("book", tool_call_id="book_1"), call("send", n=2)), say("two is done")],
}


class Offer(BaseModel):
    """The offer that a person is shown."""

    slots: list[str]


class Choice(BaseModel):
    """The choice that a person makes."""

    slot: str


class World:
    """Agents whose tools have side effects, and the switch that ends their process."""

    def __init__(self, power: Power) -> None:
        self.power = power
        self.done: list[Any] = []

    def top(self) -> Agent:
        def acts(name: str, **options: Any) -> Any:
            async def act(ctx: ToolContext, n: int) -> str:
                """Act."""
                self.power.point()
                self.done.append((name, ctx.idempotency_key if name == "put" else n))
                self.power.point()
                return f"{name} {n}"

            return tool(name=name, **options)(act)

        @tool(suspend=Offer, resume=Choice)
        async def book(ctx: ToolContext) -> str:
            """Ask once, then again, then book."""
            if ctx.resume is None or ctx.resume.slot == "full":
                return ctx.suspend(Offer(slots=["a"]))
            self.power.point()
            self.done.append(("book", ctx.resume.slot))
            return f"book {ctx.resume.slot}"

        send, put = acts("send"), acts("put", idempotent=True)
        low = Agent("low", instructions="low", tools=[acts("pay", needs_approval=True), put])
        one = Agent("one", instructions="one", tools=[send, low.as_tool("x")])
        two = Agent("two", instructions="two", tools=[book, send], tool_concurrency=2)
        beside = [each.as_tool("x", background=True) for each in (one, two)]
        return Agent("top", instructions="top", tools=[*beside, send, put])


def reply(prompt: Prompt) -> Any:
    """Answer as the top agent by what it was told, which comes at another step when a process dies."""
    name = prompt.system or ""
    step = sum(m.role is Role.ASSISTANT for m in prompt.messages)
    if name != "top":
        return BELOW[name][step]
    first = calls(call("one", input="a"), call("two", input="b"), call("put", n=1))
    if step < 2:
        return [first, call("send", n=9)][step]
    seen = sum("<background-result" in m.text for m in prompt.messages)
    return say("all is done" if seen == 2 else "so far")


async def tell(power: Power) -> tuple[World, Bench, Run]:
    world = World(power)
    bench = Bench(world.top(), ScriptedModel(reply), power=power)
    run_id = await bench.start(stream=True)
    assert await bench.drive(run_id) == "suspended"
    await bench.answer(run_id, "book_1", "resume", data={"slot": "full"})
    await bench.answer(run_id, "pay_1", "approve")
    assert await bench.answer(run_id, "book_1", "resume", data={"slot": "b"}) == "over"
    return world, bench, await bench.run(run_id)


def tree(run: Run) -> list[Run]:
    """A run and all below it."""
    return [run, *(r for child in run.children for r in tree(child))]


def notices(run: Run) -> list[Any]:
    parts = [m.content[0] for m in run.messages if m.role is Role.CUSTOM]
    return [(p.data["agent"], p.data["result"]) for p in parts if isinstance(p, DataPart)]


async def check(where: str, world: World, bench: Bench, run: Run) -> None:
    assert (run.status, run.text) == (Status.SUCCESS, "all is done"), where
    assert sorted(notices(run), key=str) == [
        ("one", {"result": "one is done"}),
        ("two", {"result": "two is done"}),
    ], where
    assert [r.status for r in tree(run)] == [Status.SUCCESS] * 4, where
    stored = await bench.stored()
    assert [m.id for m in stored] == [run.input.id, *(m.id for m in run.messages)], where
    assert all(a.created_at < b.created_at for a, b in pairwise(stored)), where
    assert all(b.parent_id == a.id for a, b in pairwise(stored)), where
    check_effects(where, world, [m for each in tree(run) for m in each.messages])
    check_events(where, await bench.events(run.id), run)
    assert (await bench.head()).active_run is None
    waiting = await bench.plain.journal.decisions.page_pending(ANN, None, 100, None)
    assert waiting.items == (), where


def check_effects(where: str, world: World, messages: list[Message]) -> None:
    """Check the effects: a journaled call ran once, one in doubt at most once, an idempotent one under one
    key."""
    results = [str(said) for role, said in told(messages) if role == "tool"]
    doubts = sum(INTERRUPTED in said for said in results)
    once = Counter(done for done in world.done if done[0] != "put")
    wanted = {("send", 1), ("send", 2), ("send", 9), ("pay", 1), ("book", "b")}
    assert set(once) <= wanted, where
    assert set(once.values()) == {1}, where
    assert len(once) >= len(wanted) - doubts, where
    assert len({key for name, key in world.done if name == "put"}) == 2, where


def check_events(where: str, events: list[Event], run: Run) -> None:
    said = [e.message.id for e in events if e.type == "message"]
    assert sorted(said) == sorted(m.id for each in tree(run) for m in each.messages), where
    own = [e.message.id for e in events if e.type == "message" and not e.agent_path]
    assert [i for i in own if i in {m.id for m in run.messages if m.role is not Role.TOOL}] == [
        m.id for m in run.messages if m.role is not Role.TOOL
    ], where
    ended = [(e.agent_path, e.step) for e in events if e.type == "turn-end"]
    assert len(ended) == len(set(ended)), where
    calls_ended = [e.tool_call_id for e in events if e.type == "tool-execution-end"]
    assert len(calls_ended) == len(set(calls_ended)), where
    assert [e.type for e in events][-2:] == ["finish", "agent-end"], where


async def test_without_a_crash_the_story_is_told() -> None:
    world, bench, run = await tell(Power())
    await check("calm", world, bench, run)
    assert len(run.messages) == 11


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_port_call_loses_nothing_and_doubles_nothing(after: bool) -> None:
    # At every fourth call before it took effect, and at those between them after it.
    for k in range(1 + 2 * after, 1_000, 4 * share(5)):
        power = Power(k, after=after)
        world, bench, run = await asyncio.wait_for(tell(power), 60)
        if not power.cuts:
            break
        await check(f"crash {k}", world, bench, run)
    assert k > 60


class Twice(Power):
    """Cut a second time, soon after the first."""

    def restore(self) -> None:
        super().restore()
        if self.cuts == 1:
            self.cut_at = self.calls + 1 + self.cut_at % 7


async def test_two_crashes_lose_nothing_and_double_nothing() -> None:
    for k in range(1, 1_000, 5 * share(5)):
        power = Twice(k)
        world, bench, run = await asyncio.wait_for(tell(power), 60)
        if power.cuts < 2:
            break
        await check(f"crashes {k}", world, bench, run)


async def quick(power: Power) -> tuple[Bench, Run]:
    """A child that is done before its run's next step is asked for."""
    desk = Agent("desk", instructions="desk")
    top = Agent("top", instructions="top", tools=[desk.as_tool("x", background=True)])
    run_ids: list[str] = []

    async def reply(prompt: Prompt) -> Any:
        if prompt.system == "desk":
            return say("ready")
        if not any(m.role is Role.ASSISTANT for m in prompt.messages):
            return call("desk", input="a")
        while not power.dead and not (await bench.run(run_ids[0])).children[0].status.over:
            await asyncio.sleep(0)
        return say("done" if "<background-result" in prompt.messages[-1].text else "so far")

    bench = Bench(top, ScriptedModel(reply), power=power)
    run_ids.append(await bench.start())
    assert await bench.drive(run_ids[0]) == "over"
    return bench, await bench.run(run_ids[0])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_an_end_stored_before_the_next_step_ends_no_step_twice(after: bool) -> None:
    for k in choose_deaths(after):
        power = Power(k, after=after)
        bench, run = await asyncio.wait_for(quick(power), 60)
        assert (run.status, run.text, len(notices(run))) == (Status.SUCCESS, "done", 1), k
        events = await bench.events(run.id)
        ended = [e.step for e in events if e.type == "turn-end" and not e.agent_path]
        assert ended == list(range(1, len(ended) + 1)), k
        if not power.cuts:
            break
    assert k > 15


async def test_what_fails_in_the_run_cuts_no_tool_beside_it_and_begins_nothing_more() -> None:
    at_work, release = asyncio.Event(), asyncio.Event()
    asked: list[str] = []
    ran: list[int] = []

    @tool
    async def slow() -> str:
        """Take long."""
        at_work.set()
        await release.wait()
        ran.append(1)
        return "through"

    async def reply(prompt: Prompt) -> Any:
        asked.append(prompt.system or "")
        step = sum(m.role is Role.ASSISTANT for m in prompt.messages)
        if prompt.system == "desk":
            return [call("slow"), say("ready")][step]
        if step == 1 and asked.count("top") == 2:
            await at_work.wait()
            asyncio.get_running_loop().call_soon(release.set)
            raise RetryableError("the provider is away")
        return [call("desk", input="a"), say("so far"), say("done")][step]

    desk = Agent("desk", instructions="desk", tools=[slow])
    top = Agent("top", instructions="top", tools=[desk.as_tool("x", background=True)])
    bench = Bench(top, ScriptedModel(reply))
    run_id = await bench.start()
    with pytest.raises(RetryableError):
        await asyncio.wait_for(bench.turn(run_id), 60)
    assert (ran, asked) == ([1], ["top", "desk", "top"])
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert (run.text, ran) == ("done", [1])
    assert told(run.children[0].messages)[1] == ("tool", "through")


class Short:
    """An invocation that has time for what it begins first."""

    def __init__(self) -> None:
        self._asked = 0

    def remaining(self) -> timedelta:
        """Enough once."""
        self._asked += 1
        return timedelta(seconds=900 if self._asked == 1 else 20)


async def test_invocations_that_have_to_yield_go_on_with_all_that_was_begun() -> None:
    world = World(Power())
    bench = Bench(world.top(), ScriptedModel(reply))
    run_id = await bench.start()
    yields = 0
    while (answer := await bench.turn(run_id, Short()))["status"] == "yielded":
        yields += 1
        assert yields < 50
    assert (answer["status"], yields > 4) == ("suspended", True)
    assert {c["key"].rpartition("#")[2] for c in answer["waiting"]} == {"pay_1", "book_1"}
    assert Counter(world.done) == Counter(set(world.done))
