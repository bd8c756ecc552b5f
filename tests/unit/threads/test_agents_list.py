"""The list of agents: what callers learn of each before they ask it."""

from typing import Any

from pydantic import BaseModel

from layover import Agent, EpisodicMemory, Memory, ToolContext, tool
from layover.threads.agents import list_agents
from support.worlds.builder import build_runtime


class Offer(BaseModel):
    """A payload."""

    slots: list[str]


@tool(suspend=Offer, resume=str)
def book(ctx: ToolContext[Any, str]) -> Any:
    """Book a slot."""
    return ctx.suspend(Offer(slots=[])) if ctx.resume is None else ctx.resume


@tool
def look_up(key: str) -> str:
    """Look up."""
    return key


async def test_tool_that_asks_a_person_by_itself_is_marked_and_no_other_one() -> None:
    (agent,) = await list_agents(build_runtime(Agent("a", tools=[book, look_up])), "ann")
    assert [(each.name, each.suspends) for each in agent.tools] == [
        ("book", True),
        ("look_up", False),
    ]


async def test_agent_that_learns_of_its_users_is_marked_and_no_other_one() -> None:
    memories = {
        "plain": Memory(),
        "learns": Memory(episodic=EpisodicMemory()),
        "profiles": Memory(profile=True),
    }
    agents = [Agent(name, memory=memory) for name, memory in memories.items()]
    found = await list_agents(build_runtime(*agents), "ann")
    assert {each.name: each.remembers for each in found} == {
        "plain": False,
        "learns": True,
        "profiles": True,
    }
