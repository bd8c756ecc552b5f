"""The process dies at any port call; the next attempt goes on as if nothing had happened."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, ToolContext, tool
from layover.inmemory.model import call, calls, say
from layover.values.runs.event import Event
from layover.values.runs.run import Status
from layover.values.runs.usage import Usage
from layover.values.runs.views import Run
from support.examples import share
from support.worlds.journal import instead
from support.worlds.runs import Bench, Power, answers, answers_of, told, types

INTERRUPTED = "may or may not have taken effect"


class Offer(BaseModel):
    """The offer that a person is shown."""

    slots: list[str]


class Choice(BaseModel):
    """The choice that a person makes."""

    slot: str


@dataclass
class SideEffects:
    """An agent whose tools have side effects, and the switch that ends its process."""

    power: Power
    done: list[Any] = field(default_factory=list)

    def agent(self, account: str = "x") -> Agent:
        """`account`: a default, which a deployment may change."""

        @tool
        async def send(n: int) -> str:
            """Send something; twice is twice."""
            self.power.point()
            self.done.append(("send", n))
            self.power.point()
            return f"sent {n}"

        @tool(idempotent=True)
        async def put(ctx: ToolContext, n: int) -> str:
            """Put something under the call's key; twice is once."""
            self.power.point()
            self.done.append(("put", ctx.idempotency_key))
            return f"put {n}"

        @tool(needs_approval=True)
        async def pay(n: int, account: str = account) -> str:
            """Pay; twice is twice."""
            self.power.point()
            self.done.append(("pay", n))
            self.power.point()
            return f"paid {n} to {account}"

        @tool(suspend=Offer, resume=Choice)
        async def book(ctx: ToolContext) -> str:
            """Ask once, then again, then book."""
            if ctx.resume is None or ctx.resume.slot == "full":
                return ctx.suspend(Offer(slots=["a"]))
            self.power.point()
            self.done.append(("book", ctx.resume.slot))
            return f"booked {ctx.resume.slot}"

        tools: list[Any] = [send, put, pay, book]
        return Agent("helper", model="m", tools=tools, tool_concurrency=2)

    def top(self) -> Agent:
        """An agent that delegates to two others, side by side, one of which delegates again."""
        [send, put, pay, book] = self.agent().tools
        low = Agent("low", instructions="low", tools=[pay, put])
        one = Agent("one", instructions="one", tools=[send, low.as_tool("x")])
        two = Agent("two", instructions="two", tools=[book, send], tool_concurrency=2)
        tools = [one.as_tool("x"), two.as_tool("x"), put]
        return Agent("top", instructions="top", tools=tools, tool_concurrency=2)


async def plain(world: SideEffects, bench: Bench) -> str:
    """Two steps with tools, then an answer."""
    run_id = await bench.start(stream=True)
    assert await bench.drive(run_id) == "over"
    return run_id


PLAIN = [
    calls(call("send", n=1), call("put", n=2), call("send", n=3)),
    call("put", n=4),
    say("all is done"),
]


async def waiting(world: SideEffects, bench: Bench) -> str:
    """A step whose first call waits, a re-suspension, and calls that come after it."""
    run_id = await bench.start()
    assert await bench.drive(run_id) == "suspended"
    await bench.answer(run_id, "call_2", "resume", data={"slot": "full"})
    await bench.answer(run_id, "call_1", "approve")
    assert await bench.answer(run_id, "call_2", "resume", data={"slot": "b"}) == "over"
    return run_id


WAITING = [
    calls(
        call("pay", n=1, tool_call_id="call_1"),
        call("book", tool_call_id="call_2"),
        call("send", n=3, tool_call_id="call_3"),
    ),
    say("all is done"),
]


async def redeployed(world: SideEffects, bench: Bench) -> str:
    """A deployment changes what was approved: the call is asked for again, and runs as approved then."""
    run_id = await bench.start()
    assert await bench.drive(run_id) == "suspended"
    bench.agents["helper"] = world.agent("y")
    assert await bench.answer(run_id, "call_1", "approve") == "suspended"
    assert await bench.answer(run_id, "call_1", "approve") == "over"
    return run_id


REDEPLOYED = [
    calls(call("pay", n=1, tool_call_id="call_1"), call("send", n=2, tool_call_id="call_2")),
    say("all is done"),
]


async def nested(world: SideEffects, bench: Bench) -> str:
    """Sub-agents at two depths, of which two wait at once."""
    run_id = await bench.start(stream=True)
    assert await bench.drive(run_id) == "suspended"
    await bench.answer(run_id, "book_1", "resume", data={"slot": "full"})
    await bench.answer(run_id, "pay_1", "approve")
    assert await bench.answer(run_id, "book_1", "resume", data={"slot": "b"}) == "over"
    return run_id


NESTED = {
    "top": [
        calls(call("one", input="a"), call("two", input="b"), call("put", n=1)),
        say("all is done"),
    ],
    "one": [call("send", n=1), call("low", input="c"), say("one is done")],
    "low": [calls(call("put", n=2), call("pay", n=1, tool_call_id="pay_1")), say("low is done")],
    "two": [calls(call("book", tool_call_id="book_1"), call("send", n=2)), say("two is done")],
}
STORIES: dict[str, tuple[Any, Any]] = {
    "plain": (plain, PLAIN),
    "waiting": (waiting, WAITING),
    "nested": (nested, NESTED),
    "redeployed": (redeployed, REDEPLOYED),
}

STRIDES = {"nested": 2}
"""A long story dies at every other call before it took effect, and at those between them after it."""


def stride_of(story: str) -> int:
    """Return the calls from one death to the next: five times as many in `make test`."""
    return STRIDES.get(story, 1) * share(5)


async def tell(story: str, power: Power) -> tuple[SideEffects, Bench, str]:
    act, script = STORIES[story]
    world = SideEffects(power)
    if isinstance(script, dict):
        bench = Bench(world.top(), answers_of(script), power=power)
    else:
        bench = Bench(world.agent(), answers(*script), power=power)
    return world, bench, await act(world, bench)


async def test_a_crash_before_the_first_event_does_not_lose_agent_start() -> None:
    power = Power(1)
    _, bench, run_id = await tell("plain", power)
    assert power.cuts == 1
    assert types(await bench.events(run_id))[0] == "agent-start"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("story", STORIES)
async def test_a_crash_at_any_port_call_changes_neither_result_nor_effects(
    story: str, after: bool
) -> None:
    calm, undisturbed, run_id = await tell(story, Power())
    expected = await undisturbed.run(run_id)
    stride = stride_of(story)
    for k in range(1 + after * (stride // 2), 1_000, stride):
        power = Power(k, after=after)
        world, bench, run_id = await asyncio.wait_for(tell(story, power), 60)
        if not power.cuts:
            break
        await check(k, calm, world, bench, await bench.run(run_id), expected)
    assert k > 20


@pytest.mark.parametrize("story", STORIES)
async def test_two_crashes_change_neither_result_nor_effects(story: str) -> None:
    calm, undisturbed, run_id = await tell(story, Power())
    expected = await undisturbed.run(run_id)
    for k in range(1, 1_000, 3 * stride_of(story) * STRIDES.get(story, 1)):
        power = Twice(k, 1 + k % 7)
        world, bench, run_id = await asyncio.wait_for(tell(story, power), 60)
        if power.cuts < 2:
            break
        await check(k, calm, world, bench, await bench.run(run_id), expected)


class Twice(Power):
    """Cut a second time, soon after the first."""

    def __init__(self, first: int, later: int) -> None:
        super().__init__(first)
        self._later = later

    def restore(self) -> None:
        super().restore()
        if self.cuts == 1:
            self.cut_at = self.calls + self._later


async def check(
    k: int, calm: SideEffects, world: SideEffects, bench: Bench, run: Run, expected: Run
) -> None:
    where = f"crash {k}"
    doubts: set[str] = set()
    for found, meant in zip(tree(run), tree(expected), strict=True):
        assert (found.status, found.text) == (Status.SUCCESS, meant.text), where
        doubts |= compare(where, told(found.messages), told(meant.messages))
        assert used(found.usage) == used(meant.usage), where
    compare(where, told(await bench.stored())[1:], told(expected.messages))
    check_effects(where, calm, world, doubts)
    assert (await bench.head()).active_run is None
    check_events(where, await bench.events(run.id), run)
    ids = [m.id for m in await bench.stored()]
    assert ids == [run.input.id, *(m.id for m in run.messages)], where


def tree(run: Run) -> list[Run]:
    """A run and all below it."""
    return [run, *(r for child in run.children for r in tree(child))]


def used(usage: Usage) -> tuple[int, list[Any]]:
    """Tokens, and those of each sub-agent: ids are another run's."""
    return usage.total_tokens, [(s["agent"], s["total_tokens"]) for s in usage.sub_agents]


def compare(where: str, found: list[Any], expected: list[Any]) -> set[str]:
    """The same messages, but for calls in doubt; returns what they would have answered."""
    assert len(found) == len(expected), where
    doubts: set[str] = set()
    for (role, said), (other, meant) in zip(found, expected, strict=True):
        assert role == other, where
        if role == "tool" and INTERRUPTED in str(said):
            doubts.add(meant)
        else:
            assert said == meant, where
    return doubts


def check_effects(where: str, calm: SideEffects, world: SideEffects, doubts: set[str]) -> None:
    """Check the effects: a journaled call ran once, one in doubt at most once, an idempotent one under one
    key."""
    assert len(doubts) <= 4, where  # a window of two, and in sub-agents two of them
    known = {"sent": "send", "paid": "pay", "booked": "book"}
    unsure = {(known[d.split()[0]], d.split()[1]) for d in doubts}
    for name, times in Counter((n, str(x)) for n, x in world.done if n != "put").items():
        assert times == 1, (where, name)
    once = {(n, str(x)) for n, x in calm.done if n != "put"}
    found = {(n, str(x)) for n, x in world.done if n != "put"}
    assert once - unsure <= found <= once, where
    keys = {x for n, x in calm.done if n == "put"}
    assert len({x for n, x in world.done if n == "put"}) == len(keys), where


def check_events(where: str, events: list[Event], run: Run) -> None:
    messages = [m for each in tree(run) for m in each.messages]
    found = types(events)
    assert (found[0], found.count("agent-start")) == ("agent-start", 1), where
    assert (found[-2:], found.count("finish")) == (["finish", "agent-end"], 1), where
    ended = {(e.agent_path, e.step) for e in events if e.type == "turn-end"}
    assert found.count("turn-end") == len(ended), where
    assert found.count("turn-end") == sum(m.role == "assistant" for m in messages), where
    told_once = [e.message.id for e in events if e.type == "message"]
    assert sorted(told_once) == sorted(m.id for m in messages), where
    ends = [e.tool_call_id for e in events if e.type == "tool-execution-end"]
    assert len(ends) == len(set(ends)), where
    for end in (e for e in events if e.type == "turn-end"):
        results = [m.id for m in end.tool_results]
        assert set(results) <= {m.id for m in messages}, where
        texts = {m.id: m for m in messages}
        assert all(texts[m.id].content == m.content for m in end.tool_results), where


async def test_an_interrupted_call_is_told_to_the_model_and_never_run_again() -> None:
    power = Power()
    ran: list[int] = []

    @tool
    async def send(n: int) -> str:
        """Send."""
        ran.append(n)
        if len(ran) == 1:
            power.cut()
        return "sent"

    agent = Agent("helper", model="m", tools=[send])
    bench = Bench(agent, answers(call("send", n=1), say("hm")), power=power)
    run = await bench.go()
    assert ran == [1]
    assert told(run.messages)[1] == (
        "tool",
        "Interrupted: send may or may not have taken effect",
    )
    assert run.status is Status.SUCCESS


async def test_an_interrupted_call_that_is_idempotent_runs_again_under_its_key() -> None:
    power = Power()
    keys: list[str] = []

    @tool(idempotent=True)
    async def put(ctx: ToolContext) -> str:
        """Put."""
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            power.cut()
        return "put"

    agent = Agent("helper", model="m", tools=[put])
    bench = Bench(agent, answers(call("put"), say("fine")), power=power)
    run = await bench.go()
    assert told(run.messages)[1] == ("tool", "put")
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_an_attempt_that_lost_its_run_writes_nothing_more() -> None:
    entered, release = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    @tool
    async def slow() -> str:
        """Wait."""
        entered.set()
        await release.wait()
        ran.append("slow")
        return "late"

    agent = Agent("helper", model="m", tools=[slow])
    bench = Bench(agent, answers(call("slow"), say("fine")))
    run_id = await bench.start()
    first = asyncio.create_task(bench.turn(run_id))
    await asyncio.wait_for(entered.wait(), 60)
    assert await bench.drive(run_id) == "over"
    release.set()
    assert (await asyncio.wait_for(first, 60))["status"] in ("left", "over")
    run = await bench.run(run_id)
    assert told(run.messages)[1][1] == "Interrupted: slow may or may not have taken effect"
    events = types(await bench.events(run_id))
    assert (events.count("tool-execution-end"), events.count("finish")) == (1, 1)


async def test_a_run_whose_older_attempt_closed_its_call_late_goes_on_at_once() -> None:
    running, release = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Take long."""
        running.set()
        await release.wait()
        return "late"

    bench = Bench(
        Agent("helper", model="m", tools=[slow]), [call("slow"), say("lost"), say("done")]
    )
    run_id = await bench.start()
    older = asyncio.create_task(bench.turn(run_id))
    await running.wait()
    take = bench.plain.journal.writers.acquire

    async def overtaken(*run: str) -> Any:
        log = await take(*run)
        release.set()
        assert (await older)["status"] == "left"
        return log

    writers = instead(bench.plain.journal.writers, acquire=overtaken)
    bench.runtime = replace(bench.runtime, journal=replace(bench.plain.journal, writers=writers))
    assert (await bench.turn(run_id))["status"] == "yielded"
    bench.runtime = replace(bench.runtime, journal=bench.plain.journal)
    assert (await bench.turn(run_id))["status"] == "over"
    assert told((await bench.run(run_id)).messages)[1] == ("tool", "late")
