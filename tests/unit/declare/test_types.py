"""A sample of an author's code: `mypy --strict` reads it with the rest of the tests, and it runs. Each
`ignore` is an error that a type checker has to find: mypy reports the one that is not needed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, assert_type

from pydantic import BaseModel

from layover import (
    Agent,
    HookContext,
    ListedTool,
    Result,
    RunContext,
    RunStream,
    ToolCall,
    ToolContext,
    mcp,
    tool,
)
from layover.testing import ScriptedModel, call, say


class Offer(BaseModel):
    """The agent's answer."""

    price: float


class Refusal(BaseModel):
    """The agent's other answer."""

    why: str


class Slots(BaseModel):
    """The slots that a person is shown."""

    slots: list[str]


class Slot(BaseModel):
    """The slot that a person chooses."""

    slot: str


class Shop:
    """The dependencies that tools work with."""

    name = "shop"


@tool(suspend=Slots, resume=Slot)
async def book(ctx: ToolContext[Shop, Slot], day: str) -> str:
    """Book a slot of a day."""
    assert_type(ctx.deps, Shop)
    if ctx.resume is None:
        return ctx.suspend(Slots(slots=[day]))
    assert_type(ctx.resume, Slot)
    return f"{ctx.deps.name} at {ctx.resume.slot}"


@tool
def plain(ctx: ToolContext, n: int) -> int:
    """Needs nothing of all that."""
    assert_type(ctx.deps, Any)
    return n


@asynccontextmanager
async def make_shop(settings: object) -> AsyncGenerator[Shop, None]:
    """The shop, while the process lives."""
    yield Shop()


def greeting(ctx: RunContext[Shop]) -> str:
    """The instructions of a run."""
    return f"You sell at {ctx.deps.name}."


class Looks:
    """A hook needs no base."""

    async def before_tool(self, ctx: HookContext[Shop], call: ToolCall) -> None:
        """Look."""
        assert_type(ctx.deps, Shop)


seller = Agent[Shop, Offer](
    name="seller",
    instructions=greeting,
    tools=[book, plain],
    output=Offer,
    deps=make_shop,
    hooks=[Looks()],
)
either = Agent[Shop, Offer | Refusal](name="either", output=Offer | Refusal, deps=Shop)
lister = Agent(name="lister", output=list[Offer])
talker = Agent(name="talker")


def approve(listed: ListedTool) -> bool:
    """Have a person approve what changes something."""
    return not listed.read_only


def headers(ctx: RunContext[Shop]) -> dict[str, str]:
    """The credentials of a run."""
    return {"authorization": ctx.deps.name}


server = mcp("https://mcp.example.com/mcp", headers=headers, approve=approve, include=["find"])
asker = Agent[Shop, Any](name="asker", tools=[plain, *server], deps=Shop)
either_way = Agent[Shop, Any](name="either_way", tools=lambda ctx: [plain, *server], deps=Shop)


async def check(run_id: str) -> None:
    """For the type checker alone."""
    result = await seller.generate("hi")
    assert_type(result, Result[Offer])
    assert_type(result.output, Offer | None)
    assert_type(await seller.approve(run_id, "c1"), Result[Offer])
    assert_type(await seller.deny(run_id, "c1"), Result[Offer])
    assert_type(await seller.resume(run_id, "c1", Slot(slot="a")), Result[Offer])
    assert_type(seller.run_sync("hi"), Result[Offer])
    stream = seller.stream("hi")
    assert_type(stream, RunStream[Offer])
    assert_type(await stream.result(), Result[Offer])
    assert_type(await seller.stream_approve(run_id, "c1").result(), Result[Offer])
    async for event in stream:
        assert_type(event.run_id, str)
    assert_type((await either.generate("hi")).output, Offer | Refusal | None)
    assert_type((await lister.generate("hi")).output, list[Offer] | None)
    assert_type((await talker.generate("hi")).output, Any | None)
    _ = result.output.price  # type: ignore[union-attr]
    if result.output is not None:
        _ = result.output.prize  # type: ignore[attr-defined]
    Agent[Shop, Offer](name="wrong", output=Refusal)  # type: ignore[arg-type]
    Agent[int, Offer](name="wrong", instructions=greeting)  # type: ignore[arg-type]
    Agent(name="wrong", hooks=[Shop()])  # type: ignore[list-item]
    Agent(name="wrong", runtime="in memory")  # type: ignore[arg-type]
    mcp("https://mcp.example.com/mcp", approve=greeting)  # type: ignore[arg-type]


async def test_the_sample_runs() -> None:
    model = ScriptedModel([call("book", day="mo", tool_call_id="c1"), say('{"price": 3}')])
    with seller.override(model=model):
        waiting = await seller.generate("hi")
        assert (waiting.status, waiting.output) == ("suspended", None)
        done = await seller.resume(waiting.run_id, "c1", Slot(slot="a"))
    assert done.output == Offer(price=3)
    assert "shop at a" in str(done.messages)
