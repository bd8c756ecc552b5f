"""Messages and their parts (docs/reference/http-api.md#objects)."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from layover.values.base import Described, Json, Time, Value
from layover.values.decision import DecisionNote


class Role(Described, StrEnum):
    """The speaker. `custom` messages are stored and shown, never sent to a model."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    CUSTOM = "custom"


MAX_URL = 8192
"""Characters."""
_HTTPS = r"^https://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?#]\S*)?$"
_ONE_SOURCE: dict[str, Any] = {
    "oneOf": [
        {
            "properties": {"file_id": {"type": "string"}, "url": {"type": "null"}},
            "required": ["file_id"],
        },
        {
            "properties": {
                "file_id": {"type": "null"},
                "url": {"type": "string", "maxLength": MAX_URL, "pattern": _HTTPS},
            },
            "required": ["url"],
        },
    ]
}


class TextPart(Value):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class ReasoningPart(Value):
    """The model's thoughts, as far as it shows them."""

    type: Literal["reasoning"] = "reasoning"
    text: str


class ToolCallPart(Value):
    """A call that the model asked for. `args` is the decoded object, or the raw string if it is not JSON."""

    type: Literal["tool_call"] = "tool_call"
    tool_call_id: str
    tool_name: str
    args: Json


class ToolResultPart(Value):
    """The raw result of a call (the model's view of it is the message's `model_output`)."""

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    tool_name: str
    result: Json
    is_error: bool = False
    decision: DecisionNote | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Of a call that waited: who decided, and why.",
    )


class FilePart(Value):
    """A file of the user's (`file_id`) or elsewhere (`url`, https, never fetched by Layover)."""

    model_config = ConfigDict(json_schema_extra=_ONE_SOURCE)

    type: Literal["file"] = "file"
    file_id: str | None = None
    url: str | None = None
    name: str | None = None
    mime_type: str | None = None


class DataPart(Value):
    """Named data for the application, never sent to a model."""

    type: Literal["data"] = "data"
    name: str
    data: Json


Part = Annotated[
    TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart | DataPart,
    Field(discriminator="type"),
]

InputPart = Annotated[TextPart | FilePart | DataPart, Field(discriminator="type")]
"""Parts that a caller may send."""


class ProviderState(Value):
    """Data that a provider wants back with one of its messages, unchanged. No other party reads it."""

    provider: str
    """The host that it came from."""
    model: str
    """The model, by the name that it was called under."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """State of the message, by the wire's field names."""
    calls: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """State of its calls, by `tool_call_id`."""


NOTICE = "background-result"
"""Name of a notice's data part: a sub-agent in the background has ended (docs/sub-agents.md#background)."""


class Message(Value):
    """One message of a thread. Stored order is (created_at, id)."""

    id: str
    thread_id: str
    run_id: str | None = None
    parent_id: str | None = None
    role: Role
    content: tuple[Part, ...] = ()
    created_at: Time
    model_output: str | None = Field(default=None, exclude=True, repr=False)
    """The tool's result as the model sees it, computed once when the call was settled
    (docs/behaviour.md#model-output)."""
    provider_state: ProviderState | None = Field(default=None, exclude=True, repr=False)
    """Kept for the provider only (docs/behaviour.md#provider-state)."""
    token_count: int | None = Field(default=None, exclude=True, repr=False)

    def with_content(self, content: tuple[Part, ...], **more: Any) -> "Message":
        """Return a copy with this content, to be counted anew. `more`: other fields that change."""
        return self.model_copy(update={"content": content, "token_count": None, **more})

    @property
    def text(self) -> str:
        """All text parts, as a model reads them: a paragraph each."""
        return "\n\n".join(p.text for p in self.content if isinstance(p, TextPart) and p.text)

    @property
    def is_notice(self) -> bool:
        """True if it tells a model of the end of a sub-agent in the background: its text is sent, unlike any
        other custom message's."""
        if self.role is not Role.CUSTOM:
            return False
        is_notice = any(isinstance(p, DataPart) and p.name == NOTICE for p in self.content)
        return is_notice and bool(self.text)

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that this message asks for, in order."""
        return tuple(p for p in self.content if isinstance(p, ToolCallPart))
