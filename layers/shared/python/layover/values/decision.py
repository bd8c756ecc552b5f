"""Decisions about calls that wait, and their record."""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from operator import not_
from typing import Any, Literal, Self

from pydantic import Field

from layover.values.base import Json, Time, Value, compact_json, is_none

MAX_WAIT = timedelta(days=365)
"""The longest wait of a call: the Step Functions execution that waits for it lives for a year at most."""
WAIT_RECORD_LIFE = MAX_WAIT + timedelta(days=1)
"""The life of a record that a waiting call needs, where the end of its run does not set it."""


Args = dict[str, Any]
WhenEdited = Literal["withdraw", "keep"]
"""See `Approval`."""


class DecisionKind(StrEnum):
    """The kind of a decision about a waiting call."""

    APPROVED = "approved"
    DENIED = "denied"
    RESUMED = "resumed"
    CONNECTED = "connected"
    """The user has connected the account that the call waited for."""
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"


DECLINES = frozenset({DecisionKind.DENIED, DecisionKind.EXPIRED, DecisionKind.WITHDRAWN})
"""Decisions by which a call's tool does not run."""


class Risk(StrEnum):
    """The risk of a call, as its tool's author rates it."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class BusEvent(StrEnum):
    """The type of an event, as rules of the bus have it."""

    REQUESTED = "ApprovalRequested"
    REMINDER = "ApprovalReminder"
    ESCALATED = "ApprovalEscalated"
    VOTED = "ApprovalVoted"
    DECIDED = "ApprovalDecided"


RUN_FINISHED = "RunFinished"
"""The type of the event of a run's end."""
OUTAGE_QUIET = "OutageQuiet"
"""The type of the event by which the sweeper asks `notify` whether an outage is over."""


class WakeUp(StrEnum):
    """Our own answer to a token: the branch is to look at the record. It says whether the bus knows of the
    decision that is there."""

    DECIDED = "decided"
    UNTOLD = "untold"


class Via(StrEnum):
    """The channel of a decision."""

    API = "api"
    CALLBACK = "callback"
    LINK = "link"
    SLACK = "slack"
    SYSTEM = "system"


class Edited(Value):
    """A decision or a vote, whose author may have edited the arguments of the call."""

    args: Args | None = None
    """Arguments as edited by the approver; None: there is no edit."""
    exact_args: Args | None = Field(default=None, exclude_if=is_none)
    """The edit as the tool gets it: validated, in its JSON form, with defaults. None: there is no edit."""


class Decision(Edited):
    """One decision: its author, its time, its content. `decided_by`: the caller's sub, `callback` or
    `system`."""

    kind: DecisionKind
    decided_by: str
    on_behalf_of: str | None = None
    """The user that a backend named; None: the caller decided for themselves."""
    via: Via = Via.API
    at: Time
    reason: str | None = None
    data: Json = None
    """The data that resumed a programmatic suspension."""


class ApprovalRule(Value):
    """The rule of a call's approval: its approvers, and their number."""

    by: tuple[str, ...]
    """Groups: a member of any of them may decide."""
    requester: bool = False
    """Let the run's owner decide, too, if they are in `by`."""
    quorum: int = 1
    reason_required: bool = False
    remind_after_s: int | None = Field(default=None, exclude_if=is_none)
    """Seconds to the first reminder, if there are any; the next ones come after 2, 4, 8 ... times of it."""

    escalate_after_s: int | None = Field(default=None, exclude_if=is_none)
    """Seconds after which `escalate_to` decide, too; None: nobody else ever does."""
    escalate_to: tuple[str, ...] = Field(default=(), exclude_if=not_)
    when_edited: WhenEdited = Field(
        default="withdraw", exclude_if=lambda value: value == "withdraw"
    )
    """The fate of the call once its user takes back the message that led to it."""

    @property
    def has_timers(self) -> bool:
        """True if something is due while the call waits."""
        return self.remind_after_s is not None or self.escalate_after_s is not None

    def escalated(self) -> Self:
        """Return the rule from the escalation on."""
        return self.model_copy(update={"by": tuple(dict.fromkeys((*self.by, *self.escalate_to)))})


class Vote(Edited):
    """One person's approval of a call that takes several: it counts only with others for the same
    arguments."""

    by: str
    """The caller's sub."""
    on_behalf_of: str | None = Field(default=None, exclude_if=is_none)
    at: Time
    args: Args | None = Field(default=None, exclude_if=is_none)
    reason: str | None = Field(default=None, exclude_if=is_none)

    @property
    def person(self) -> str:
        """The voter, whichever way the vote came."""
        return self.on_behalf_of or self.by


def counts_of(edits: Iterable[Json]) -> tuple[int, int]:
    """Return how many votes approve the arguments that are shown (None), and how many at most the same
    others: only these count together."""
    counts = Counter(None if edit is None else compact_json(edit) for edit in edits)
    return counts.pop(None, 0), max(counts.values(), default=0)


class PendingApproval(ApprovalRule):
    """The rule of a waiting call, and its approvals so far."""

    given: tuple[Vote, ...] = ()


class Denial(Value):
    """A call that a person denied, as a later request for another call of its tool shows it."""

    args: Json
    """The arguments that were asked for. Long ones are cut to `{_truncated, head, original_chars}`."""
    reason: str | None = None
    decided_by: str
    on_behalf_of: str | None = Field(default=None, exclude_if=is_none)
    at: Time


class DecisionNote(Value):
    """The decision as a call's result shows it: the actor and the reason."""

    decision: DecisionKind
    decided_by: str
    on_behalf_of: str | None = None
    reason: str | None = None
    via: Via
    at: Time
    args: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """The arguments that ran, if the approver changed the model's."""
    given: tuple[Vote, ...] = Field(default=(), exclude_if=not_)
    """The votes, if a decision takes several."""

    @classmethod
    def of(cls, decision: Decision, votes: tuple[Vote, ...] = ()) -> Self:
        """Return the note of a decision, without its data."""
        return cls(
            decision=decision.kind,
            decided_by=decision.decided_by,
            on_behalf_of=decision.on_behalf_of,
            reason=decision.reason,
            via=decision.via,
            at=decision.at,
            args=decision.exact_args,
            given=votes,
        )
