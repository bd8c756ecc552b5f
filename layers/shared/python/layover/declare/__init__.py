"""Everything that users of Layover write: agents, tools, memory settings. Loaded when first used."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from layover.declare.agent import Agent
    from layover.declare.context import Retry, RunContext, SuspendRequest, ToolContext
    from layover.declare.limits import Limits
    from layover.declare.memory import (
        EpisodicMemory,
        Memory,
        NodeMemory,
        ObservationalMemory,
        RollingSummary,
        SemanticRecall,
        TokenBuffer,
        WorkingMemory,
    )
    from layover.declare.registry import load_agents
    from layover.declare.result import AgentState, Result
    from layover.declare.tools.approval import Approval
    from layover.declare.tools.tool import Tool

_HOME = {
    "Agent": "agent",
    "AgentState": "result",
    "Approval": "tools.approval",
    "EpisodicMemory": "memory",
    "Limits": "limits",
    "Memory": "memory",
    "NodeMemory": "memory",
    "ObservationalMemory": "memory",
    "Result": "result",
    "Retry": "context",
    "RollingSummary": "memory",
    "RunContext": "context",
    "SemanticRecall": "memory",
    "SuspendRequest": "context",
    "TokenBuffer": "memory",
    "Tool": "tools.tool",
    "ToolContext": "context",
    "WorkingMemory": "memory",
    "load_agents": "registry",
}

__all__ = [
    "Agent",
    "AgentState",
    "Approval",
    "EpisodicMemory",
    "Limits",
    "Memory",
    "NodeMemory",
    "ObservationalMemory",
    "Result",
    "Retry",
    "RollingSummary",
    "RunContext",
    "SemanticRecall",
    "SuspendRequest",
    "TokenBuffer",
    "Tool",
    "ToolContext",
    "WorkingMemory",
    "load_agents",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        from layover.errors import no_attribute

        raise no_attribute(__name__, __path__, name, __all__)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
