"""The list of agents."""

from operator import not_

from pydantic import Field

from layover.runtime import Runtime
from layover.values.base import Value, is_none


class ToolInfo(Value):
    """A tool as callers see it. `needs_approval`: always, or depending on its arguments."""

    name: str
    description: str
    needs_approval: bool
    suspends: bool = Field(
        default=False,
        exclude_if=not_,
        description="There, and true, where the tool may stop and ask a person.",
    )


class AgentInfo(Value):
    """An agent as callers see it."""

    name: str
    description: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="What it is for, in its author's words.",
    )
    model: str
    tools: tuple[ToolInfo, ...]
    remembers: bool = Field(
        default=False,
        exclude_if=not_,
        description="There, and true, where it keeps entries or a profile of its users.",
    )


async def list_agents(runtime: Runtime, owner: str) -> tuple[AgentInfo, ...]:
    """Return all agents, by name. They are the same for every caller."""
    return tuple(
        AgentInfo(
            name=name,
            description=agent.description,
            model=agent.model or runtime.settings.model,
            tools=tuple(
                ToolInfo(
                    name=tool.name,
                    description=tool.description,
                    needs_approval=bool(getattr(tool, "needs_approval", False)),
                    suspends=bool(getattr(tool, "suspends", False)),
                )
                for tool in agent.tools
            ),
            remembers=agent.memory.episodic is not None or agent.memory.profile,
        )
        for name, agent in sorted(runtime.agents().items())
    )
