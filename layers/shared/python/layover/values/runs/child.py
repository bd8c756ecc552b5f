"""A sub-agent's run inside a call of the run that asked for it (docs/sub-agents.md)."""

from layover.values.base import Json, Time, Value
from layover.values.message import Message
from layover.values.runs.status import ErrorInfo, FinishReason, Status


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
    ended_at: Time | None = None
