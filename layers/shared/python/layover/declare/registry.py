"""Finding the agents that a module declares."""

import importlib

from layover.declare.agent import Agent
from layover.declare.tools.delegate import with_handoffs
from layover.errors import AgentsNotLoaded


def load_agents(module_name: str) -> dict[str, Agent]:
    """Return the module's agents by name, those that it imports included, in the order of their names in the
    module. Raises AgentsNotLoaded: no such module, one that fails, no agent, a name twice."""
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        message = f"the agents' module {module_name!r} cannot be imported: {type(error).__name__}"
        raise AgentsNotLoaded(f"{message}: {error}", message) from error
    agents: dict[str, Agent] = {}
    for value in vars(module).values():
        if isinstance(value, Agent) and agents.setdefault(value.name, value) is not value:
            raise AgentsNotLoaded(f"{module_name!r} has two agents called {value.name!r}")
    if not agents:
        raise AgentsNotLoaded(f"the agents' module {module_name!r} has no Agent at its top level")
    for agent in with_handoffs(agents.values()).values():
        # A conversation has to find the agent that it was handed to.
        if agents.setdefault(agent.name, agent) is not agent:
            raise AgentsNotLoaded(f"{module_name!r} has two agents called {agent.name!r}")
        agent.mark_served()
    return agents
