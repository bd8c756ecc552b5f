"""Results of an agent's in-process methods."""

from collections.abc import Sequence
from typing import Any, Generic, Literal

from pydantic import Field

from layover.declare.generics import Output
from layover.values.base import Value
from layover.values.message import InputPart, Message
from layover.values.runs.run import ErrorInfo, FinishReason, Status
from layover.values.runs.usage import Usage
from layover.values.runs.views import Pending

Input = str | Sequence[InputPart | dict[str, Any]]
"""A text, or parts (objects, or dicts of the shapes in docs/reference/http-api.md#objects)."""


class Result(Value, Generic[Output]):
    """A run at its end, or suspended with `pending`. A failed run is a Result, too."""

    run_id: str
    status: Status
    messages: list[Message] = Field(default_factory=list)
    """The response only, never the input."""
    text: str = ""
    output: Output | None = None
    """An instance of the agent's `output`, if it has one and the run succeeded."""
    finish_reason: FinishReason | None = None
    usage: Usage = Usage()
    pending: list[Pending] = Field(default_factory=list)
    error: ErrorInfo | None = None


class AgentState(Value):
    """The agent's newest run in this process; `idle` and empty before the first."""

    status: Literal["idle", "running", "suspended", "success", "failed", "cancelled"] = "idle"
    messages: list[Message] = Field(default_factory=list)
    pending: list[Pending] = Field(default_factory=list)
    usage: Usage = Usage()
