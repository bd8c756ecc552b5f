"""Request bodies. An unknown field is refused: it is a typing error."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
)
from pydantic_core import PydanticKnownError

from layover.approvals.checks import MAX_REASON
from layover.approvals.decide import DecisionRequest, Verdict
from layover.declare.schemas.checks import NAME
from layover.plugins.operate.actions import MAX_REDRIVEN
from layover.runs.accept import ABSENT, StartRun
from layover.threads.imports import (
    MAX_EXTERNAL_ID,
    MAX_MESSAGES,
    MAX_OFFSET,
    ImportedMessage,
    ThreadImport,
)
from layover.threads.threads import MAX_TITLE
from layover.values.grant import Arrival
from layover.values.message import InputPart, TextPart
from layover.values.runs.feedback import MAX_COMMENT
from layover.values.runs.model_settings import Reasoning, RunChoice
from layover.values.runs.run import OnBusy, OnWaiting

_MAX_CODE = 4_096
MODEL_NAME = r"^[!-~]{1,200}$"
AGENT_NAME = f"^{NAME.pattern}$"
_HAS_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_SAYS_SOMETHING: dict[str, Any] = {
    "anyOf": [
        {"properties": {"type": {"const": "file"}}, "required": ["type"]},
        {
            "properties": {"type": {"const": "text"}, "text": {"minLength": 1}},
            "required": ["type", "text"],
        },
    ]
}


def _whole(value: Any) -> Any:
    """Return the number as an int if it has no fraction: in JSON, 1.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _written_out(value: Any) -> Any:
    """Refuse what pydantic would take for seconds since 1970."""
    if isinstance(value, datetime) or (isinstance(value, str) and _HAS_DAY.match(value)):
        return value
    raise ValueError("a time is written as 2026-01-31T12:00:00Z")


def _at_most(most: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if len(text) > most:
            raise PydanticKnownError("string_too_long", {"max_length": most})
        return text

    return check


Whole = BeforeValidator(_whole)
"""The annotation that follows a strict int and its bounds."""
# Texts may hold lone surrogates, which the services replace. Pydantic's own bounds would refuse them, so only
# the schema has the bounds, and the code that takes the text enforces them.
AgentName = Annotated[str, Field(pattern=AGENT_NAME)]
ModelName = Annotated[str, Field(pattern=MODEL_NAME)]
Title = Annotated[str, Field(json_schema_extra={"maxLength": MAX_TITLE})]
Reason = Annotated[
    str, Field(json_schema_extra={"maxLength": MAX_REASON}), AfterValidator(_at_most(MAX_REASON))
]
Comment = Annotated[
    str, Field(json_schema_extra={"maxLength": MAX_COMMENT}), AfterValidator(_at_most(MAX_COMMENT))
]
Attempt = Annotated[
    int,
    Strict(),
    Field(
        ge=1,
        description="Of the Pending that you saw, by default the first. 409 if another one waits.",
    ),
    Whole,
]
Text = Annotated[str, Field(json_schema_extra={"minLength": 1})]
Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]
Parts = Annotated[list[InputPart], Field(json_schema_extra={"contains": _SAYS_SOMETHING})]
TextParts = Annotated[list[TextPart], Field(json_schema_extra={"contains": _SAYS_SOMETHING})]


def _shape(value: Any) -> str:
    return "(parts)" if isinstance(value, list) else "(text)"


# Our own discriminator, so that errors name the wrong part, once. The tags are not names of fields, and
# `problems` leaves them out of the paths that callers see.
Input = Annotated[
    Annotated[Text, Tag("(text)")] | Annotated[Parts, Tag("(parts)")], Discriminator(_shape)
]


class Body(BaseModel):
    """The base of all bodies."""

    model_config = ConfigDict(extra="forbid")


class PastMessage(Body):
    """A message of a conversation that another system had."""

    role: Literal["user", "assistant"]
    content: Annotated[
        Annotated[Text, Tag("(text)")] | Annotated[TextParts, Tag("(parts)")],
        Discriminator(_shape),
    ]
    created_at: Moment | None = Field(
        None,
        description="From 1970 until now, and not before the message before it; right after that one if "
        "absent.",
    )


class NewThread(Body):
    """A thread to make. With `messages` or `external_id`, the import of a conversation."""

    agent: AgentName
    title: Title | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    messages: list[PastMessage] = Field(
        default_factory=list,
        max_length=MAX_MESSAGES,
        description="What was said elsewhere, oldest first, up to 256 KB of JSON.",
    )
    external_id: str | None = Field(
        None,
        json_schema_extra={"minLength": 1, "maxLength": MAX_EXTERNAL_ID},
        description="The conversation's own id, up to 255 characters: the same one is the same thread, and "
        "the chat of this id. A thread's id adds to that thread.",
    )
    offset: Annotated[
        int,
        Strict(),
        Field(
            ge=0,
            le=MAX_OFFSET,
            description="Messages of the conversation that earlier requests have imported; 0 if absent.",
        ),
        Whole,
    ] = 0

    @property
    def is_import(self) -> bool:
        """True if the thread is to have what another system knows."""
        return bool(self.messages or self.external_id is not None or self.offset)

    def request(self) -> ThreadImport:
        """Return the request as the service takes it."""
        return ThreadImport(
            agent=self.agent,
            title=self.title,
            metadata=self.metadata,
            messages=[ImportedMessage(m.role, m.content, m.created_at) for m in self.messages],
            external_id=self.external_id,
            offset=self.offset,
        )


class ThreadPatch(Body):
    """Fields to replace, each whole; null removes one."""

    title: Title | None = None
    metadata: dict[str, Any] | None = None

    def changes(self) -> dict[str, Any]:
        """Return the named fields, as `layover.threads.threads.edit` takes them."""
        changes: dict[str, Any] = {}
        if "title" in self.model_fields_set:
            changes["title"] = self.title or ""
        if "metadata" in self.model_fields_set:
            changes["metadata"] = self.metadata or {}
        return changes


class NewRun(Body):
    """A run to start. `parent_id`: absent continues the newest message, null begins a new root."""

    input: Input = Field(
        description="A text or parts, up to 1 MB of JSON. At least one part is a file or has a text."
    )
    parent_id: str | None = None
    stream: Annotated[bool, Strict()] = Field(
        False, description="Write delta events; false if absent."
    )
    on_busy: OnBusy = Field(
        OnBusy.REJECT,
        description="What to do if a run of the thread is at work; reject if absent. `interrupt` also ends "
        "one that waits, if `on_waiting` is absent.",
    )
    on_waiting: OnWaiting | None = Field(
        None,
        description="What to do if the thread's run only waits for a decision: `answer` begins another run, "
        "`steer` sends it the message, `withdraw` asks nobody any more and lets it go on with the message, "
        "`refuse` is 409. The agent's `on_waiting` if absent.",
    )
    max_iterations: Annotated[int, Strict(), Field(ge=1, le=10_000), Whole] | None = None
    model: ModelName | None = Field(
        None, description="If the agent is `overridable`, like the next two; else 422."
    )
    reasoning: Reasoning | None = None
    max_tokens: (
        Annotated[int, Strict(), Field(ge=1, le=2**31 - 1, description="Of one reply."), Whole]
        | None
    ) = None

    def request(self) -> StartRun:
        """Return the request as the service takes it."""
        return StartRun(
            input=self.input,
            parent_id=self.parent_id if "parent_id" in self.model_fields_set else ABSENT,
            stream=self.stream,
            on_busy=self.on_busy,
            on_waiting=self.on_waiting,
            max_iterations=self.max_iterations,
            choice=RunChoice(
                model=self.model, reasoning=self.reasoning, max_tokens=self.max_tokens
            ),
        )


class NewMessage(Body):
    """A message to a run that is not over."""

    input: Input = Field(
        description="A text or parts, up to 1 MB of JSON. At least one part is a file or has a text."
    )


class GiveFeedback(Body):
    """The opinion that the owner of a run has of it."""

    score: Annotated[float, Strict()] = Field(
        ge=-1,
        le=1,
        allow_inf_nan=False,
        description="From -1 (bad) to 1 (good): a thumb is -1 or 1.",
    )
    comment: Comment | None = None


class NewTicket(Body):
    """A ticket to make: for one WebSocket, or with `run_id` for streams of that run's events."""

    run_id: str | None = Field(None, max_length=500)


class _AboutAttempt(Body):
    attempt: Attempt = 1


class Approve(_AboutAttempt):
    """Let a call run, with the model's arguments or with these."""

    args: dict[str, Any] | None = None
    reason: Reason | None = None

    def request(self) -> DecisionRequest:
        """Return the request as the service takes it."""
        return DecisionRequest(
            Verdict.APPROVE, args=self.args, reason=self.reason, attempt=self.attempt
        )


class Deny(_AboutAttempt):
    """Do not let a call run."""

    reason: Reason | None = None

    def request(self) -> DecisionRequest:
        """Return the request as the service takes it."""
        return DecisionRequest(Verdict.DENY, reason=self.reason, attempt=self.attempt)


class Resume(_AboutAttempt):
    """The answer to a suspended call: `data` satisfies its `resume_schema`."""

    data: Any

    def request(self) -> DecisionRequest:
        """Return the request as the service takes it."""
        return DecisionRequest(Verdict.RESUME, data=self.data, attempt=self.attempt)


class Connect(Body):
    """Ask for the page at which the caller consents."""

    proof_hash: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")] = None
    """The SHA-256, in base64, of a secret that the browser keeps and brings back (`proof`)."""


class Consented(Body):
    """A consent with which a service sent the caller back."""

    code: Annotated[str, Field(min_length=1, max_length=_MAX_CODE)]
    state: Annotated[str, Field(min_length=1, max_length=_MAX_CODE)]
    connection: str | None = None
    """The last part of the path that the browser came back to."""
    iss: str | None = None
    """The issuer, as the service sent it (RFC 9207)."""
    proof: str | None = None

    @property
    def arrival(self) -> Arrival:
        """Return what is known of the way back."""
        return Arrival(connection=self.connection, iss=self.iss, proof=self.proof)


class Extend(_AboutAttempt):
    """Let a waiting call expire later."""

    expires_at: Annotated[
        Moment,
        Field(description="Later than now and than before, within a year of the request."),
    ]


class _Item(Body):
    run_id: Annotated[str, Field(max_length=500)]
    tool_call_id: Annotated[str, Field(max_length=500)]


class ApproveItem(_Item, Approve):
    """One of several decisions: let a call run."""

    decision: Literal["approve"]


class DenyItem(_Item, Deny):
    """One of several decisions: do not let a call run."""

    decision: Literal["deny"]


class ResumeItem(_Item, Resume):
    """One of several decisions: the answer to a suspended call."""

    decision: Literal["resume"]


MAX_DECISIONS = 100


class Decisions(Body):
    """Decisions about calls of any runs, each judged as its own request. A body of the wrong shape decides
    nothing."""

    items: Annotated[
        list[Annotated[ApproveItem | DenyItem | ResumeItem, Discriminator("decision")]],
        Field(min_length=1, max_length=MAX_DECISIONS),
    ]


class ApproveByLink(Body):
    """A decision by a link: let the call run, with the model's arguments or with these."""

    decision: Literal["approve"]
    args: dict[str, Any] | None = None
    reason: Reason | None = None

    def request(self) -> DecisionRequest:
        """Return the request as the service takes it."""
        return DecisionRequest(Verdict.APPROVE, args=self.args, reason=self.reason)


class DenyByLink(Body):
    """A decision by a link: do not let the call run."""

    decision: Literal["deny"]
    reason: Reason | None = None

    def request(self) -> DecisionRequest:
        """Return the request as the service takes it."""
        return DecisionRequest(Verdict.DENY, reason=self.reason)


class ResumeByLink(Body):
    """A decision by a link: the answer to a suspended call."""

    decision: Literal["resume"]
    data: Any

    def request(self) -> DecisionRequest:
        """Return the request as the service takes it."""
        return DecisionRequest(Verdict.RESUME, data=self.data)


ByLink = Annotated[ApproveByLink | DenyByLink | ResumeByLink, Discriminator("decision")]


MAX_OPERATED = 100
_RunId = Annotated[str, Field(min_length=1, max_length=200)]


class OperateOnWithReason(Body):
    """Runs of any users, and why: for auditors, and for the model of a run whose calls are denied."""

    ids: Annotated[list[_RunId], Field(min_length=1, max_length=MAX_OPERATED)]
    reason: Annotated[Reason, Field(min_length=1)]


class RedriveRuns(Body):
    """Runs of any users, each judged as its own request."""

    ids: Annotated[list[_RunId], Field(min_length=1, max_length=MAX_REDRIVEN)]
    reason: Reason | None = None


class RedriveFailed(Body):
    """Runs of any users by what they failed of, and when they were accepted."""

    error: Annotated[str, Field(min_length=1, max_length=256)]
    since: Moment | None = Field(
        default=None, description="Only those accepted at this time or later."
    )
    until: Moment | None = Field(default=None, description="Only those accepted before this time.")
    reason: Reason | None = None


class StopAll(Body):
    """The reason for which everything is stopped: for auditors and other operators."""

    reason: Annotated[Reason, Field(min_length=1)]


class EraseUser(Body):
    """A user whose data is erased, and why."""

    user: Annotated[str, Field(min_length=1, max_length=256)]
    reason: Annotated[Reason, Field(min_length=1)]
