"""Models of one's own: the port that `Agent(model=MODEL)` takes, and the parts of its requests and replies.

Names are loaded when they are first used: an author's module with a Model imports no adapter."""

from typing import TYPE_CHECKING, Any

from layover.errors import ContentFiltered, ContextLengthExceeded
from layover.ports.platform import Model, OnDelta, send_deltas
from layover.values.prompt import Delta, OutputSpec, Prompt, Reply, RequestedCall, ToolSpec

if TYPE_CHECKING:
    from layover.plugins.models.chat_form import ChatReply, chat_request
    from layover.plugins.models.openai_client import OpenAIModel

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


def __getattr__(name: str) -> Any:
    value: Any
    if name == "OpenAIModel":
        from layover.plugins.models.openai_client import OpenAIModel as value
    elif name == "ChatReply":
        from layover.plugins.models.chat_form import ChatReply as value
    elif name == "chat_request":
        from layover.plugins.models.chat_form import chat_request as value
    else:
        from layover.errors import no_attribute

        raise no_attribute(__name__, [], name, __all__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
