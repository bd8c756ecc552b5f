"""Tools and memories that store much: more than an item of a table, more than a model reads."""

import asyncio
import random

from layover import Agent, Memory, ObservationalMemory, SemanticRecall, ToolContext, tool

THOUGHT_S = 2.0
PLENTY = 800_000
"""Characters: even compressed, more than an item of a table holds."""


def plenty(seed: str) -> str:
    """Text that nothing makes shorter than half."""
    return random.Random(seed).randbytes(PLENTY // 2).hex()


@tool
def pile(key: str) -> str:
    """Answers more than a model can read."""
    return plenty(key)


@tool
async def keep(ctx: ToolContext, key: str) -> str:
    """Adds to its own node, and forgets the previous one."""
    node = ctx.node_memory("notes")
    await node.add([{"role": "user", "content": key}])
    await node.flush()
    await ctx.node_memory("other").clear()
    return "kept"


@tool(needs_approval=True)
async def keep_more(ctx: ToolContext, key: str) -> str:
    """The same, once somebody says so; answers more than a model can read."""
    node = ctx.node_memory("more")
    await node.add([{"role": "user", "content": key}])
    await node.flush()
    await ctx.node_memory("other").clear()
    await ctx.log_attempt("keep", key, error="no room", diagnosis="it is full")
    return plenty(key)


@tool(needs_approval=True)
async def ponder() -> str:
    """Takes its time, once somebody says so."""
    await asyncio.sleep(THOUGHT_S)
    return "42"


archivist = Agent(
    name="archivist",
    tools=[keep, keep_more, pile, ponder],
    tool_concurrency=2,
    memory=Memory(
        session=True,
        plan=True,
        semantic_recall=SemanticRecall(),
        compaction=ObservationalMemory(),
    ),
)
hoarder = Agent(
    name="hoarder",
    tools=[pile],
    memory=Memory(compaction=ObservationalMemory(message_tokens=2_000, observation_tokens=4_000)),
)
