"""What people decide about calls that wait, and what is kept of it."""

from enum import StrEnum
from typing import Any, Self

from layover.values.base import Json, Time, Value


class DecisionKind(StrEnum):
    """What was decided about a waiting call."""

    APPROVED = "approved"
    DENIED = "denied"
    RESUMED = "resumed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Via(StrEnum):
    """The way on which a decision came."""

    API = "api"
    CALLBACK = "callback"
    LINK = "link"
    SYSTEM = "system"


class Decision(Value):
    """One decision: who, when, what. `decided_by`: the sub of who asked, `callback` or `system`."""

    kind: DecisionKind
    decided_by: str
    on_behalf_of: str | None = None
    """The user whom a backend named; None: who asked decided for themselves."""
    via: Via = Via.API
    at: Time
    args: dict[str, Any] | None = None
    """Arguments as edited by the approver."""
    reason: str | None = None
    data: Json = None
    """What a programmatic suspension was resumed with."""


class DecisionNote(Value):
    """What a call's result says of the decision before it: who let it run or did not, and why."""

    decision: DecisionKind
    decided_by: str
    on_behalf_of: str | None = None
    reason: str | None = None
    via: Via
    at: Time

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """The note of a decision, without what was decided in its data."""
        return cls(
            decision=decision.kind,
            decided_by=decision.decided_by,
            on_behalf_of=decision.on_behalf_of,
            reason=decision.reason,
            via=decision.via,
            at=decision.at,
        )
