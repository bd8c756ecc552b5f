"""Actions of operators: rows that outlive runs, threads and users, as those of decisions do; and the switch
that stops everything."""

from enum import StrEnum

from layover.values.base import Time, Value


class OperationKind(StrEnum):
    """The kind of an operator's action."""

    CANCEL = "cancel"
    REDRIVE = "redrive"
    DENY = "deny"
    EXTEND = "extend"
    READ = "read"
    """A reading of what the messages, arguments and results of another owner's run say."""
    STOP = "stop"
    """The switch was turned: nothing begins. It is about no run, as are the two below."""
    START = "start"
    ERASE = "erase"
    """All data of a user (`owner`) was erased."""


class OperationOutcome(StrEnum):
    """The outcome of an action. A row is written as `pending` before the action has any effect."""

    PENDING = "pending"
    """The process is still at it, or died: the action may have had its effect."""
    DONE = "done"
    REFUSED = "refused"
    """The action changed nothing: `problem` says why."""


class OperationRow(Value):
    """One action of an operator: on one run, on one user (`run_id` None), or on everything (`owner` None as
    well)."""

    operation: OperationKind
    by: str
    """The operator's sub."""
    on_behalf_of: str | None = None
    """The user that a backend named."""
    run_id: str | None = None
    thread_id: str | None = None
    agent: str | None = None
    owner: str | None = None
    """The run's owner, or the user."""
    reason: str | None = None
    at: Time
    outcome: OperationOutcome = OperationOutcome.PENDING
    problem: str | None = None
    """The kind of the error, for an action that changed nothing."""


class Switch(Value):
    """The switch that stops everything. The rest says who turned it; all None: it is off, or somebody wrote
    the item by hand."""

    stopped: bool
    by: str | None = None
    """The operator's sub."""
    on_behalf_of: str | None = None
    """The user that a backend named."""
    reason: str | None = None
    since: Time | None = None
