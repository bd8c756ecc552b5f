"""A run's state, and the reason for its end."""

from enum import StrEnum

from layover.errors import RunFailed
from layover.values.base import Described, Value
from layover.values.text import sanitise


class Status(Described, StrEnum):
    """`suspended` is derived on reading: running, and at least one call waits undecided."""

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """True if the run is over: nothing can follow."""
        return self in (Status.SUCCESS, Status.FAILED, Status.CANCELLED)

    @property
    def settled(self) -> bool:
        """True if the run does not go on by itself: it is over, or waits for a decision."""
        return self is Status.SUSPENDED or self.over

    def for_callers(self, *, waits: bool) -> "Status":
        """Return what callers see of a stored status. `waits`: a call waits undecided."""
        return Status.SUSPENDED if self is Status.RUNNING and waits else self


class FinishReason(Described, StrEnum):
    """The reason for a run's end."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content-filter"
    MAX_ITERATIONS = "max-iterations"
    ERROR = "error"
    CANCELLED = "cancelled"


class ErrorInfo(Value):
    """The reason for a run's failure, for its owner."""

    type: str
    message: str

    @classmethod
    def of(cls, failure: RunFailed) -> "ErrorInfo":
        """Return what is stored of a failure: its message may quote an author's or a provider's text."""
        return cls(type=failure.type, message=sanitise(failure.message))
