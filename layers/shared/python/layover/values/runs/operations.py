"""Actions of operators on runs: rows that outlive runs, threads and users, as those of decisions do."""

from enum import StrEnum

from layover.values.base import Time, Value


class OperationKind(StrEnum):
    """The kind of an operator's action on a run."""

    CANCEL = "cancel"
    REDRIVE = "redrive"
    DENY = "deny"
    EXTEND = "extend"
    READ = "read"
    """A reading of what the messages, arguments and results of another owner's run say."""


class OperationOutcome(StrEnum):
    """The outcome of an action. A row is written as `pending` before the action has any effect."""

    PENDING = "pending"
    """The process is still at it, or died: the action may have had its effect."""
    DONE = "done"
    REFUSED = "refused"
    """The action changed nothing: `problem` says why."""


class OperationRow(Value):
    """One action of an operator on one run."""

    operation: OperationKind
    by: str
    """The operator's sub."""
    on_behalf_of: str | None = None
    """The user that a backend named."""
    run_id: str
    thread_id: str
    agent: str
    owner: str
    """The run's owner."""
    reason: str | None = None
    at: Time
    outcome: OperationOutcome = OperationOutcome.PENDING
    problem: str | None = None
    """The kind of the error, for an action that changed nothing."""
