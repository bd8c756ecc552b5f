"""What callers send (CONTRACT 3). A field that is not known is refused: it is a typing error."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Strict, Tag

from layover.services.approvals import LONGEST_REASON, Decide, Verdict
from layover.services.start_run import ABSENT, StartRun
from layover.values.message import InputPart
from layover.values.run import OnBusy

Reason = Annotated[str, Field(max_length=LONGEST_REASON)]
Attempt = Annotated[int, Strict(), Field(ge=1, description="409 if another attempt waits.")]


def _shape(value: Any) -> str:
    return "(parts)" if isinstance(value, list) else "(text)"


# Told apart by hand: errors then name the part that is wrong, once. The tags are no names of fields:
# `problems` leaves them out of the paths that callers see.
Input = Annotated[
    Annotated[str, Tag("(text)")] | Annotated[list[InputPart], Tag("(parts)")],
    Discriminator(_shape),
]


class Body(BaseModel):
    """The base of all bodies."""

    model_config = ConfigDict(extra="forbid")


class NewThread(Body):
    """A thread to make."""

    agent: str
    title: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class ThreadPatch(Body):
    """What to replace, each whole; null takes it away."""

    title: str | None = None
    metadata: dict[str, Any] | None = None

    def changes(self) -> dict[str, Any]:
        """The named fields, as `services.threads.edit` takes them."""
        changes: dict[str, Any] = {}
        if "title" in self.model_fields_set:
            changes["title"] = self.title or ""
        if "metadata" in self.model_fields_set:
            changes["metadata"] = self.metadata or {}
        return changes


class NewRun(Body):
    """A run to start. `parent_id`: absent continues the newest message, null begins a new root."""

    input: Input = Field(description="A text or parts, up to 1 MB of JSON.")
    parent_id: str | None = None
    stream: Annotated[bool, Strict()] = Field(False, description="Write delta events.")
    on_busy: OnBusy = OnBusy.REJECT
    max_iterations: Annotated[int, Strict(), Field(ge=1, le=10_000)] | None = None

    def request(self) -> StartRun:
        """As the service takes it."""
        return StartRun(
            input=self.input,
            parent_id=self.parent_id if "parent_id" in self.model_fields_set else ABSENT,
            stream=self.stream,
            on_busy=self.on_busy,
            max_iterations=self.max_iterations,
        )


class Approve(Body):
    """Let a call run, with the model's arguments or with these."""

    args: dict[str, Any] | None = None
    reason: Reason | None = None
    attempt: Attempt | None = None

    def request(self) -> Decide:
        """As the service takes it."""
        return Decide(Verdict.APPROVE, args=self.args, reason=self.reason, attempt=self.attempt)


class Deny(Body):
    """Do not let a call run."""

    reason: Reason | None = None
    attempt: Attempt | None = None

    def request(self) -> Decide:
        """As the service takes it."""
        return Decide(Verdict.DENY, reason=self.reason, attempt=self.attempt)


class Resume(Body):
    """What a suspended call asked for: `data` satisfies its `resume_schema`."""

    data: Any
    attempt: Attempt | None = None

    def request(self) -> Decide:
        """As the service takes it."""
        return Decide(Verdict.RESUME, data=self.data, attempt=self.attempt)
