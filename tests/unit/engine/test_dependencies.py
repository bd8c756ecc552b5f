"""Dependencies are made once in a process, seen wherever there is a context, and closed at its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from layover import (
    Agent,
    DefinitionError,
    Hook,
    HookContext,
    RetryableError,
    RunContext,
    ToolCall,
    ToolContext,
    tool,
)
from layover.engine.dependencies import get_resource
from layover.testing import ScriptedModel, call, calls, say
from layover.values.deployment.settings import Settings
from layover.values.runs.run import Status
from support.worlds.runs import Bench, words_of


class Shop:
    """A client of something."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = True


@tool
async def price(ctx: ToolContext[Shop], item: str) -> str:
    """The price of an item."""
    return f"{ctx.deps.name}: {item} is open {ctx.deps.is_open}"


class Makes:
    """A factory of each kind, and how often it was called."""

    def __init__(self) -> None:
        self.made: list[Shop] = []
        self.given: list[Any] = []

    def _new(self) -> Shop:
        self.made.append(Shop(f"shop {len(self.made) + 1}"))
        return self.made[-1]

    def plain(self, settings: Settings) -> Shop:
        self.given.append(settings)
        return self._new()

    def bare(self) -> Shop:
        return self._new()

    async def waits(self, settings: Settings) -> Shop:
        await asyncio.sleep(0)
        return self._new()

    @asynccontextmanager
    async def closes(self, settings: Settings) -> AsyncIterator[Shop]:
        shop = self._new()
        try:
            yield shop
        finally:
            await asyncio.sleep(0)
            shop.is_open = False


@pytest.mark.parametrize("kind", ["plain", "bare", "waits", "closes"])
async def test_a_factory_of_any_kind_is_called_once_for_all_runs(kind: str) -> None:
    makes = Makes()
    make = getattr(makes, kind)
    agent = Agent("a", model="m", tools=[price], deps=make)
    for _ in range(2):
        bench = Bench(agent, [call("price", item="lamp"), say("ok")])
        run = await bench.go()
        [result] = [p for m in run.messages for p in m.content if p.type == "tool_result"]
        assert result.result == "shop 1: lamp is open True"
    assert len(makes.made) == 1


async def test_runs_that_begin_together_share_what_is_being_made() -> None:
    makes = Makes()
    agent = Agent("a", model="m", deps=makes.waits)
    benches = [Bench(agent, [say("ok")]) for _ in range(3)]
    await asyncio.gather(*(bench.go() for bench in benches))
    assert len(makes.made) == 1


def test_what_a_context_manager_gave_is_closed_when_the_loop_ends() -> None:
    makes = Makes()

    async def main() -> None:
        agent = Agent("a", model="m", tools=[price], deps=makes.closes)
        with agent.override(model=ScriptedModel([call("price", item="x"), say("ok")])):
            assert (await agent.generate("hi")).status == "success"
        assert [shop.is_open for shop in makes.made] == [True]

    asyncio.run(main())
    assert [shop.is_open for shop in makes.made] == [False]
    # A loop has dependencies of its own: connections belong to one.
    asyncio.run(main_again(makes))
    assert [shop.is_open for shop in makes.made] == [False, False]


async def main_again(makes: Makes) -> None:
    agent = Agent("a", model="m", deps=makes.closes)
    with agent.override(model=ScriptedModel([say("ok")])):
        await agent.generate("hi")


async def test_a_factory_gets_the_settings() -> None:
    makes = Makes()
    bench = Bench(
        Agent("a", deps=makes.plain), [say("ok")], settings=Settings(model="openai/other")
    )
    await bench.go()
    [given] = makes.given
    assert given.model == "openai/other"


async def test_a_factory_that_raises_fails_the_run_and_is_called_again_by_the_next() -> None:
    tries: list[int] = []

    def make(settings: Settings) -> Shop:
        tries.append(1)
        if len(tries) == 1:
            raise LookupError("no such shop")
        return Shop("late")

    agent = Agent("a", model="m", tools=[price], deps=make)
    bench = Bench(agent, [call("price", item="x"), say("ok")])
    run = await bench.go()
    assert run.error is not None
    assert (run.error.type, words_of(run)) == (
        "LookupError",
        "the deps of agent 'a' could not be made: no such shop",
    )
    assert (await bench.go()).status is Status.SUCCESS


async def test_a_factory_that_says_retryable_costs_an_attempt_and_no_run() -> None:
    tries: list[int] = []

    async def make() -> Shop:
        tries.append(1)
        if len(tries) == 1:
            raise RetryableError("the shop wakes up")
        return Shop("awake")

    run = await Bench(Agent("a", model="m", deps=make), [say("ok")]).go()
    assert (run.status, len(tries)) == (Status.SUCCESS, 2)


async def test_every_context_has_them() -> None:
    seen: list[Any] = []

    def note(ctx: Any) -> bool:
        seen.append((type(ctx).__name__, ctx.deps.name))
        return False

    class Looks(Hook):
        def before_tool(self, ctx: HookContext[Shop], call: ToolCall) -> None:
            note(ctx)

    @tool(needs_approval=lambda args, ctx: note(ctx))
    async def look(ctx: ToolContext[Shop]) -> str:
        """Look."""
        note(ctx)
        return "seen"

    def tools(ctx: RunContext[Shop]) -> list[Any]:
        note(ctx)
        return [look]

    def instructions(ctx: RunContext[Shop]) -> str:
        note(ctx)
        return "look"

    agent = Agent(
        "a",
        model="m",
        instructions=instructions,
        tools=tools,
        hooks=[Looks()],
        deps=lambda: Shop("here"),
    )
    await Bench(agent, [call("look"), say("ok")]).go()
    assert seen == [
        ("RunContext", "here"),
        ("RunContext", "here"),
        ("HookContext", "here"),
        ("ToolContext", "here"),
        ("ToolContext", "here"),
    ]


async def test_a_sub_agent_has_its_own_and_a_decided_call_has_them_too() -> None:
    @tool(needs_approval=True)
    async def pay(ctx: ToolContext[Shop]) -> str:
        """Pay."""
        return f"paid at {ctx.deps.name}"

    @tool
    async def name(ctx: ToolContext[Shop]) -> str:
        """The name."""
        return ctx.deps.name

    both = calls(call("pay", tool_call_id="p1"), call("pay", tool_call_id="p2"))
    low = Agent("low", tools=[pay], deps=lambda: Shop("low"), tool_concurrency=2)
    top = Agent("top", tools=[low.as_tool("x"), name], deps=lambda: Shop("top"))
    bench = Bench(top, [call("low", input="a"), both, say("below"), call("name"), say("ok")])
    run = await bench.go()
    await bench.answer(run.id, "p1", "approve")
    assert await bench.answer(run.id, "p2", "approve") == "over"
    run = await bench.run(run.id)
    told = [
        p.result for m in run.children[0].messages for p in m.content if p.type == "tool_result"
    ]
    assert told == ["paid at low", "paid at low"]
    assert [p.result for m in run.messages for p in m.content if p.type == "tool_result"] == [
        {"result": "below"},
        "top",
    ]


async def test_an_override_gives_a_value_instead() -> None:
    agent = Agent("a", tools=[price], deps=Makes().plain)
    model = ScriptedModel([call("price", item="x"), say("ok")])
    with agent.override(model=model, deps=Shop("fake")):
        result = await agent.generate("hi")
    assert "fake: x" in str(result.messages)
    with agent.override(model=ScriptedModel([call("price", item="x"), say("ok")])):
        assert "shop 1: x" in str((await agent.generate("hi")).messages)


def test_what_makes_nothing_is_refused() -> None:
    with pytest.raises(DefinitionError, match="agent 'a': deps"):
        Agent("a", deps=Shop("made already"))  # type: ignore[arg-type]


@dataclass
class Address:
    url: str = "http://db"
    pool: int = 2


@dataclass
class Tuned:
    pool: int = 2
    settings: Settings | None = None


class Model(BaseModel):
    url: str = "http://db"


def later(*, settings: Settings) -> Settings:
    return settings


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (Address, Address()),
        (Tuned, Tuned(settings=Settings())),
        (Model, Model()),
        (dict, {}),
        (later, Settings()),
        (lambda *anything: anything, ()),
        (lambda settings=None: settings, Settings()),
        (lambda s: s, Settings()),
    ],
    ids=["defaults", "by-name", "pydantic", "builtin", "keyword", "any", "named", "required"],
)
async def test_settings_go_where_they_are_wanted(make: Any, expected: Any) -> None:
    assert await get_resource(make, Settings()) == expected


async def test_none_replaces_what_a_factory_makes() -> None:
    def fails() -> None:
        raise AssertionError("it is replaced")

    seen: list[Any] = []

    @tool
    def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(ctx.deps)
        return "x"

    agent = Agent("a", tools=[look], deps=fails)
    with agent.override(model=ScriptedModel([call("look"), say("ok")]), deps=None):
        result = await agent.generate("hi")
    assert (result.text, seen) == ("ok", [None])
    assert agent.deps is fails
