"""Finding the agents that a module declares."""

import importlib
import re
import sys
from collections.abc import Iterable

from layover.declare.agent import Agent
from layover.declare.connection import Connection, check_same
from layover.declare.tools.delegate import with_delegates, with_handoffs
from layover.errors import AgentsNotLoaded, DefinitionError, nearest

_NO_NAME = re.compile(r"cannot import name '(\w+)' from 'layover'")


def meant_by(error: BaseException) -> str:
    """Return the name of `layover` that an import nearly has, as the end of its message; else nothing. Python
    drops the package's own error, and adds the name to tracebacks only, since 3.12."""
    match = _NO_NAME.match(str(error)) if isinstance(error, ImportError) else None
    near = nearest(match[1], sys.modules["layover"].__all__) if match else None
    return "" if near is None else f": did you mean {near!r}?"


def load_agents(module_name: str) -> dict[str, Agent]:
    """Return the module's agents by name, those that it imports included, in the order of their names in the
    module. Raises AgentsNotLoaded: no such module, one that fails, no agent, a name twice, also of two
    connections."""
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        message = f"the agents' module {module_name!r} cannot be imported: {type(error).__name__}"
        raise AgentsNotLoaded(f"{message}: {error}{meant_by(error)}", message) from error
    agents: dict[str, Agent] = {}
    for value in vars(module).values():
        if isinstance(value, Agent) and agents.setdefault(value.name, value) is not value:
            raise AgentsNotLoaded(_twice(module_name, value.name))
    if not agents:
        raise AgentsNotLoaded(f"the agents' module {module_name!r} has no Agent at its top level")
    for agent in with_handoffs(agents.values()).values():
        # A conversation has to find the agent that it was handed to.
        if agents.setdefault(agent.name, agent) is not agent:
            raise AgentsNotLoaded(_twice(module_name, agent.name))
        agent.mark_served()
    try:
        check_same(c for agent in with_delegates(agents.values()) for c in agent.connections)
    except DefinitionError as error:
        raise AgentsNotLoaded(f"{module_name!r}: {error.message}") from None
    return agents


def connection_named(agents: Iterable[Agent], name: str) -> Connection | None:
    """Return the connection that these agents, or those that work for them, have by this name."""
    everywhere = with_delegates(agents)
    return next((c for agent in everywhere for c in agent.connections if c.name == name), None)


def _twice(module_name: str, name: str) -> str:
    return f"{module_name!r} has two agents called {name!r}: give one another name"
