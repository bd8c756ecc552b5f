"""A sub-agent's run inside a call of the run that asked for it (docs/sub-agents.md)."""

from operator import not_

from pydantic import Field

from layover.values.base import Json, Time, Value, is_none
from layover.values.message import FilePart, Message
from layover.values.runs.status import ErrorDetail, ErrorInfo, FinishReason, Status


class ChildResult(Value):
    """The outcome of a sub-agent that worked in the background, as its caller reads it."""

    result: Json
    model_output: str
    files: tuple[FilePart, ...] = Field(default=(), exclude_if=not_)
    is_error: bool = False


class ChildLoop(Value):
    """The reason why a sub-agent that comes no further ended: see `LoopEvent`."""

    tools: tuple[str, ...]
    steps: int
    agent_path: tuple[str, ...]
    """Names from the run's agent down to the sub-agent's."""


class ChildRun(Value):
    """The facts of a child, kept in the record of its call: fixed when the call is opened, and its end once
    that is known."""

    id: str
    """Derived from the run and the call: a process that repeats the derivation gets the same id."""
    agent: str
    input: Message
    """The briefing."""
    started_at: Time
    status: Status = Status.RUNNING
    finish_reason: FinishReason | None = None
    output: Json = None
    error: ErrorInfo | None = None
    error_detail: ErrorDetail | None = Field(default=None, exclude_if=is_none)
    """As `RunMeta.error_detail`."""
    ended_at: Time | None = None
    background: bool = Field(default=False, exclude_if=not_)
    """Its call was settled when it began."""
    answer: ChildResult | None = Field(default=None, exclude_if=is_none)
    """Of one that works in the background; None: it is not done."""
    loop: ChildLoop | None = Field(default=None, exclude_if=is_none)
    """Of one that came no further. Its event is written with the end of its call."""
