"""`Agent.as_tool`: an agent as a tool of another (docs/sub-agents.md)."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from layover.declare.result import Result
from layover.declare.schemas import checks
from layover.declare.tools.options import Delegate, Options
from layover.declare.tools.signature import read
from layover.declare.tools.tool import AnyTool, Tool
from layover.errors import DefinitionError
from layover.values.runs.run import FinishReason

MAX_DEPTH = 5
"""Levels of sub-agents below the top agent."""
_INPUT = "The task, complete: nothing of this conversation is known to whoever does it."
_CONTEXT = "What else has to be known for it: facts, constraints, what was found so far."


def sub_agents(tools: Iterable[Any]) -> list[Any]:
    """Return the agents that these tools stand for."""
    return [t.delegate.agent for t in tools if t.delegate is not None]


def check_sub_agents(name: str, tools: Iterable[Any]) -> None:
    """Raise DefinitionError if the agent of this name, with these tools, would reach itself, or go too
    deep."""
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


def _not_blank(text: str) -> str:
    # A message without text has no content that a provider would take.
    if not text.strip():
        raise ValueError("it is empty")
    return text


def answer_of(text: str | None, output: Any, finish_reason: FinishReason | None) -> dict[str, Any]:
    """Return what the caller's model reads of a sub-agent's end: its output, else its text, and why it
    stopped unless it was done."""
    answer = {"result": text if output is None else output}
    if finish_reason in (None, FinishReason.STOP):
        return answer
    return {**answer, "finish_reason": FinishReason(finish_reason).value}


def runner(generate: Callable[[str], Awaitable[Result]]) -> Any:
    """Return the function of the tool. A run drives the agent itself, from its own journal; called directly,
    as in an author's unit test, it runs the agent in this process."""

    async def delegate(
        input: Annotated[str, Field(description=_INPUT), AfterValidator(_not_blank)],
        context: Annotated[str | None, Field(description=_CONTEXT)] = None,
    ) -> dict[str, Any]:
        result = await generate(input if context is None else f"{input}\n\n{context}")
        return answer_of(result.text, result.output, result.finish_reason)

    return delegate


def delegate_tool(agent: Any, description: str, *, memory: bool, background: bool) -> AnyTool:
    """Return the tool that `Agent.as_tool` makes of an agent."""
    what = f"as_tool of agent {agent.name!r}: "
    if not isinstance(description, str) or not description.strip():
        raise checks.fail(f"{what}description", "a text that is not empty", description)
    checks.flag(f"{what}memory", memory)
    checks.flag(f"{what}background", background)
    fn, name = runner(agent.generate), agent.name
    return Tool(
        fn,
        name=name,
        description=description,
        signature=read(fn, name, {}),
        # Never in doubt: a sub-agent goes on from its own journal.
        options=Options(idempotent=True, delegate=Delegate(agent, memory, background)),
    )


def handoff_tool(name: str) -> AnyTool:
    """Return the tool that hands the conversation over to the agent of this name."""

    def transfer() -> str:
        return f"{name} has the conversation from here on"

    return Tool(
        transfer,
        name=f"transfer_to_{name}"[:64],
        description=f"Give the conversation to {name}, who answers from here on.",
        signature=read(transfer, "transfer", {}),
        options=Options(idempotent=True, trusted=True, handoff=name),
    )


def with_handoffs(agents: Iterable[Any]) -> dict[str, Any]:
    """Return these agents by name, and all that a conversation may be handed to from them."""
    agents_by_name: dict[str, Any] = {}
    left = list(agents)
    while left:
        agent = left.pop(0)
        if agent.name not in agents_by_name:
            agents_by_name[agent.name] = agent
            left += agent.handoffs
    return agents_by_name


def with_delegates(agents: Iterable[Any]) -> list[Any]:
    """Return these agents, each once, and all that they give a conversation or a call to, at any depth."""
    by_id: dict[int, Any] = {}
    left = list(agents)
    while left:
        agent = left.pop(0)
        if id(agent) not in by_id:
            by_id[id(agent)] = agent
            left += agent.handoffs
            left += [tool.delegate.agent for tool in agent.tools if tool.delegate is not None]
    return list(by_id.values())
