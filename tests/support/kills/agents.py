"""Agents of the torture tests. Whatever a tool does to the world stands in its owner's ledger."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from layover import (
    Agent,
    EpisodicMemory,
    Memory,
    ObservationalMemory,
    SemanticRecall,
    ToolContext,
    tool,
)
from layover.keys import Keys

HELD_LIMIT_S = 30.0


def note(ctx: ToolContext, what: str) -> None:
    """One line in the ledger, in one write."""
    facts = {"what": what, "call": ctx.tool_call_id, "run": ctx.run_id, "key": ctx.idempotency_key}
    line = json.dumps({**facts, "pid": os.getpid()}) + "\n"
    path = _folder() / f"{Keys(ctx.resource_id or '').hash}.ledger"
    ledger = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)


def _folder() -> Path:
    return Path(os.environ["LAYOVER_TORTURE_FOLDER"])


class Offer(BaseModel):
    """What a booking asks for."""

    slots: list[str]


class Choice(BaseModel):
    """What a person answers."""

    slot: str


@tool(idempotent=True)
async def look_up(ctx: ToolContext, order: str) -> str:
    """May be repeated."""
    note(ctx, "look_up")
    await asyncio.sleep(0.01)
    return f"{order} is on its way"


@tool
def charge(ctx: ToolContext, order: str) -> str:
    """Must not be repeated."""
    note(ctx, "charge")
    return f"{order} charged"


@tool(needs_approval=True)
def refund(ctx: ToolContext, order: str) -> str:
    """Must not be repeated, and needs approval."""
    note(ctx, "refund")
    return f"{order} paid back"


@tool(suspend=Offer, resume=Choice)
def book(ctx: ToolContext, order: str) -> Any:
    """Asks once more if the answer is `other`."""
    if ctx.resume is None:
        return ctx.suspend(Offer(slots=["10:00", "11:00"]))
    if ctx.resume.slot == "other":
        return ctx.suspend(Offer(slots=["12:00"]))
    note(ctx, "book")
    return f"{order} booked at {ctx.resume.slot}"


@tool
async def hold(ctx: ToolContext, order: str) -> str:
    """Must not be repeated, and lasts until the test lets it go."""
    note(ctx, "hold")
    for _ in range(int(HELD_LIMIT_S / 0.02)):
        if (_folder() / f"go-{order}").exists():
            break
        await asyncio.sleep(0.02)
    note(ctx, "held")
    return f"{order} held"


TOOLS: list[Any] = [look_up, charge, refund, book, hold]

torture = Agent(
    name="torture",
    model="openai/fake-1",
    instructions="You are deterministic.",
    tools=TOOLS,
    tool_concurrency=2,
)


@tool
def read_note(ctx: ToolContext, page: int) -> str:
    """One short page: about 300 tokens."""
    note(ctx, f"page {page}")
    return f"page {page}: the code is K-{page * 7919}. " + "words of a page " * 75


learner = Agent(
    name="learner",
    model="openai/fake-1",
    tools=[read_note],
    memory=Memory(
        last_messages=4,
        compaction=ObservationalMemory(message_tokens=1_500, observation_tokens=120),
        episodic=EpisodicMemory(),
        semantic_recall=SemanticRecall(),
        profile=True,
        session=True,
    ),
)
