"""A runtime in memory."""

from typing import Any

from layover import Agent
from layover.clock import ManualClock
from layover.ids import RandomIds
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.callbacks import InMemoryCallbacks
from layover.inmemory.journal import in_memory_journal
from layover.inmemory.model import ScriptedModel
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.memory.reads.turns import RememberedTurns
from layover.plugins.reach.connections.accounts import GrantedAccounts
from layover.runtime import Runtime
from layover.values.deployment.settings import Settings


def build_runtime(*agents: Agent, **ports: Any) -> Runtime:
    """A runtime of these agents. `ports`: fields of `Runtime` that are given; what is left out is in
    memory, on top of what is given, and its model answers nothing."""
    named = {agent.name: agent for agent in agents}
    given: dict[str, Any] = {"clock": ManualClock(), "blobs": InMemoryBlobs(), **ports}
    given.setdefault("threads", InMemoryThreads())
    if "journal" not in given:
        given["journal"] = in_memory_journal(given["clock"], given["blobs"])
    if "memory" not in given:
        given["memory"] = InMemoryMemory(given["threads"])
    standard = {
        "model": ScriptedModel([]),
        "callbacks": InMemoryCallbacks(),
        "ids": RandomIds(),
        "settings": Settings(),
        "agents": lambda: named,
        "make_agent_memory": RememberedTurns,
        "make_accounts": GrantedAccounts,
    }
    return Runtime(**{**standard, **given})
