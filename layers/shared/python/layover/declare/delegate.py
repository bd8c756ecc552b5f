"""`Agent.as_tool`: an agent as a tool of another (docs/sub-agents.md)."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from layover.declare.result import Result
from layover.errors import DefinitionError

MAX_DEPTH = 5
"""Levels of sub-agents below the top agent."""
_MAX_TOOL_NAME = 64
_INPUT = "The task, complete: nothing of this conversation is known to whoever does it."
_CONTEXT = "What else has to be known for it: facts, constraints, what was found so far."


@dataclass(frozen=True)
class Delegate:
    """The agent that a tool stands for. `memory`: its own Memory settings apply to it."""

    agent: Any
    """An `Agent`; its module imports this one."""
    memory: bool = False


def delegate_name(name: str) -> str:
    """The name of an agent's tool: the agent's own, with `_` where a provider would refuse a character."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_MAX_TOOL_NAME]


def sub_agents(tools: Iterable[Any]) -> list[Any]:
    """The agents that these tools stand for."""
    return [t.delegate.agent for t in tools if t.delegate is not None]


def check_sub_agents(name: str, tools: Iterable[Any]) -> None:
    """Raises DefinitionError where the agent of this name, with these tools, would come back to itself, or
    go too deep."""
    _check((name,), sub_agents(tools))


def _check(path: tuple[str, ...], agents: Sequence[Any]) -> None:
    for each in agents:
        way = (*path, each.name)
        if each.name in path:
            raise DefinitionError(
                f"agent {path[0]!r}: sub-agents go round in a circle: {' → '.join(way)}. No agent may be "
                "its own sub-agent, at any depth, nor have the name of one that leads to it"
            )
        if len(path) > MAX_DEPTH:
            raise DefinitionError(
                f"agent {path[0]!r}: sub-agents are at most {MAX_DEPTH} levels below the top agent: "
                f"{' → '.join(way)}"
            )
        _check(way, sub_agents(each.tools))


def runner(generate: Callable[[str], Awaitable[Result]]) -> Any:
    """The function of the tool. A run drives the agent itself, from its own journal; called directly, as
    in an author's unit test, it runs the agent in this process."""

    async def delegate(
        input: Annotated[str, Field(description=_INPUT)],
        context: Annotated[str | None, Field(description=_CONTEXT)] = None,
    ) -> dict[str, Any]:
        result = await generate(input if context is None else f"{input}\n\n{context}")
        return {"result": result.text if result.output is None else result.output}

    return delegate
