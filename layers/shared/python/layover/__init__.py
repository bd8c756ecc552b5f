"""Layover: a serverless runtime for LLM agents.

Names are loaded when they are first used: importing `layover` costs next to nothing."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from layover.declare.agents.engine import Engine, set_engine

if TYPE_CHECKING:
    from layover.declare.agent import Agent
    from layover.declare.agents.provider_tools import web_search
    from layover.declare.agents.stream import RunStream
    from layover.declare.connection import Connection
    from layover.declare.context import RecordedHooks, Retry, RunContext, ToolContext
    from layover.declare.hooks.base import (
        Allow,
        Answer,
        Hook,
        HookContext,
        ModelCall,
        ModelRequest,
        ModelResponse,
        Refuse,
        Suspend,
        ToolCall,
        ToolResult,
    )
    from layover.declare.hooks.guards import BlockTopics, DetectInjection, MaxLength
    from layover.declare.hooks.privacy import RedactPII
    from layover.declare.hooks.ready import MarkUntrusted, Policy, RememberDecisions
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
    from layover.declare.result import AgentState, Result
    from layover.declare.secret import Secret, secret
    from layover.declare.tools.approval import Approval
    from layover.declare.tools.server import ListedTool, mcp
    from layover.declare.tools.tool import Tool, tool, tool_from_schema
    from layover.errors import (
        ConfigurationError,
        Conflict,
        DecisionAlreadyMade,
        DecisionError,
        DecisionInvalid,
        DefinitionError,
        InvalidRequest,
        LayoverError,
        LimitReached,
        ModelError,
        NotAnApprover,
        NotFound,
        RequestError,
        RetryableError,
        RunFailed,
        ThreadBusy,
    )
    from layover.values.message import (
        DataPart,
        FilePart,
        Message,
        ReasoningPart,
        Role,
        TextPart,
        ToolCallPart,
        ToolResultPart,
    )
    from layover.values.prompt import Embedded
    from layover.values.runs.event import Event
    from layover.values.runs.model_settings import ModelSettings
    from layover.values.runs.provider_wait import WaitingFor
    from layover.values.runs.run import ErrorDetail, ErrorInfo, FinishReason, Status
    from layover.values.runs.usage import Usage
    from layover.values.runs.views import Pending, Run
    from layover.values.thread import Thread

_HOME = {
    "declare.agent": ("Agent",),
    "declare.agents.stream": ("RunStream",),
    "declare.agents.provider_tools": ("web_search",),
    "declare.tools.approval": ("Approval",),
    "declare.connection": ("Connection",),
    "declare.context": ("RecordedHooks", "Retry", "RunContext", "ToolContext"),
    "declare.hooks.base": (
        "Allow",
        "Answer",
        "Hook",
        "HookContext",
        "ModelCall",
        "ModelRequest",
        "ModelResponse",
        "Refuse",
        "Suspend",
        "ToolCall",
        "ToolResult",
    ),
    "declare.hooks.guards": ("BlockTopics", "DetectInjection", "MaxLength"),
    "declare.hooks.privacy": ("RedactPII",),
    "declare.hooks.ready": (
        "MarkUntrusted",
        "Policy",
        "RememberDecisions",
    ),
    "declare.limits": ("Limits",),
    "declare.memory": (
        "EpisodicMemory",
        "Memory",
        "NodeMemory",
        "ObservationalMemory",
        "RollingSummary",
        "SemanticRecall",
        "TokenBuffer",
        "WorkingMemory",
    ),
    "declare.result": ("AgentState", "Result"),
    "declare.secret": ("Secret", "secret"),
    "declare.tools.server": ("ListedTool", "mcp"),
    "declare.tools.tool": ("Tool", "tool", "tool_from_schema"),
    "errors": (
        "ConfigurationError",
        "Conflict",
        "DecisionAlreadyMade",
        "DecisionError",
        "DecisionInvalid",
        "DefinitionError",
        "InvalidRequest",
        "LayoverError",
        "LimitReached",
        "ModelError",
        "NotAnApprover",
        "NotFound",
        "RequestError",
        "RetryableError",
        "RunFailed",
        "ThreadBusy",
    ),
    "values.runs.event": ("Event",),
    "values.runs.model_settings": ("ModelSettings",),
    "values.message": (
        "DataPart",
        "FilePart",
        "Message",
        "ReasoningPart",
        "Role",
        "TextPart",
        "ToolCallPart",
        "ToolResultPart",
    ),
    "values.prompt": ("Embedded",),
    "values.runs.provider_wait": ("WaitingFor",),
    "values.runs.run": ("ErrorDetail", "ErrorInfo", "FinishReason", "Status"),
    "values.runs.views": ("Pending", "Run"),
    "values.thread": ("Thread",),
    "values.runs.usage": ("Usage",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "AgentState",
    "Allow",
    "Answer",
    "Approval",
    "BlockTopics",
    "ConfigurationError",
    "Conflict",
    "Connection",
    "DataPart",
    "DecisionAlreadyMade",
    "DecisionError",
    "DecisionInvalid",
    "DefinitionError",
    "DetectInjection",
    "Embedded",
    "EpisodicMemory",
    "ErrorDetail",
    "ErrorInfo",
    "Event",
    "FilePart",
    "FinishReason",
    "Hook",
    "HookContext",
    "InvalidRequest",
    "LayoverError",
    "LimitReached",
    "Limits",
    "ListedTool",
    "MarkUntrusted",
    "MaxLength",
    "Memory",
    "Message",
    "ModelCall",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "NodeMemory",
    "NotAnApprover",
    "NotFound",
    "ObservationalMemory",
    "Pending",
    "Policy",
    "ReasoningPart",
    "RecordedHooks",
    "RedactPII",
    "Refuse",
    "RememberDecisions",
    "RequestError",
    "Result",
    "Retry",
    "RetryableError",
    "Role",
    "RollingSummary",
    "Run",
    "RunContext",
    "RunFailed",
    "RunStream",
    "Secret",
    "SemanticRecall",
    "Status",
    "Suspend",
    "TextPart",
    "Thread",
    "ThreadBusy",
    "TokenBuffer",
    "Tool",
    "ToolCall",
    "ToolCallPart",
    "ToolContext",
    "ToolResult",
    "ToolResultPart",
    "Usage",
    "WaitingFor",
    "WorkingMemory",
    "mcp",
    "secret",
    "tool",
    "tool_from_schema",
    "web_search",
]


def _engine() -> Engine:
    from layover import wiring

    return wiring


set_engine(_engine)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        from layover.errors import no_attribute

        raise no_attribute(__name__, __path__, name, __all__)
    value = getattr(import_module(f"layover.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
