"""Agents, and the tools of waiting calls, as this deployment has them (docs/behaviour.md#edited-arguments). A
record keeps none of it: a deployment may change a tool while its call waits."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from layover.errors import DefinitionError
from layover.values.runs.run import BUDGET_TOOL, SuspensionKind
from layover.values.runs.views import Pending

if TYPE_CHECKING:
    from layover.declare.agent import Agent
    from layover.declare.tools.tool import AnyTool

Agents = Callable[[], "Mapping[str, Agent]"]
"""Returns the agents that this deployment serves, by name. They are imported on first use."""
P = TypeVar("P", bound=Pending)


def deployed_agent(agents: Agents, name: str) -> "Agent | None":
    """Return the agent; None if this deployment has none of this name, or its agents do not load."""
    try:
        return agents().get(name)
    except DefinitionError:
        return None


def deployed_tool(
    agents: Agents, agent_name: str, path: Sequence[str], tool_name: str
) -> "AnyTool | None":
    """Return the tool of a call that the run's agent made, or the sub-agent at the end of the path; None if
    there is none of that name (any more). Raises AgentsNotLoaded."""
    top = agents().get(agent_name)
    agent = top.at(path) if top else None
    return agent.tool(tool_name) if agent else None


def only_its_run_knows(
    agents: Agents, agent_name: str, path: Sequence[str], tool_name: str
) -> bool:
    """Return whether a tool that `deployed_tool` does not find may be one of the run's all the same: a
    function, a server or the agent's memory gives it."""
    agent = agents().get(agent_name)
    for name in path[1:]:
        below = agent.at((agent.name, name)) if agent else None
        if below is None:
            # Sub-agents are tools as well.
            break
        agent = below
    else:
        if agent is not None and tool_name in agent.built_in_tools:
            return True
    return agent is not None and not agent.has_all_tools


def with_args_schema(agents: Agents, agent_name: str, pending: P) -> P:
    """Return the view of a waiting call with the schema of the arguments that it may be approved with."""
    if pending.kind is not SuspensionKind.APPROVAL:
        return pending
    schema = _args_schema(agents, agent_name, pending)
    return pending.model_copy(update={"args_schema": schema})


def _args_schema(agents: Agents, agent_name: str, pending: Pending) -> dict[str, Any] | None:
    if pending.tool_name == BUDGET_TOOL:
        from layover.declare.limits import ARGS_SCHEMA

        return ARGS_SCHEMA
    try:
        tool = deployed_tool(agents, agent_name, pending.agent_path, pending.tool_name)
    except Exception:  # an author's module may raise anything, and a run is read all the same
        return None
    # Not the schema that the model is given: where that one is strict, it requires what has a default.
    return None if tool is None else tool.signature.schema
