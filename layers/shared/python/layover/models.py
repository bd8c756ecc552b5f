"""Models of one's own: the port that `Agent(model=MODEL)` takes, and what its requests and replies are made of.

Names are loaded when they are first used: an author's module with a Model imports no adapter."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from layover.errors import ContentFiltered, ContextLengthExceeded
from layover.ports.platform import Model, OnDelta, send_deltas
from layover.values.prompt import Delta, OutputSpec, Prompt, Reply, RequestedCall, ToolSpec

if TYPE_CHECKING:
    from layover.adapters.models.chat_form import ChatReply, chat_request
    from layover.adapters.models.openai_client import OpenAIModel

__all__ = [
    "ChatReply",
    "ContentFiltered",
    "ContextLengthExceeded",
    "Delta",
    "Model",
    "OnDelta",
    "OpenAIModel",
    "OutputSpec",
    "Prompt",
    "Reply",
    "RequestedCall",
    "ToolSpec",
    "chat_request",
    "send_deltas",
]

_HOME = {
    "ChatReply": "layover.adapters.models.chat_form",
    "OpenAIModel": "layover.adapters.models.openai_client",
    "chat_request": "layover.adapters.models.chat_form",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        from layover.errors import no_attribute

        raise no_attribute(__name__, [], name, __all__)
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
