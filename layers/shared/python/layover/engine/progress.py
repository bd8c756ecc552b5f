"""The progress that an invocation made with a run."""

from dataclasses import dataclass

from layover.errors import RunFailed
from layover.values.base import Json
from layover.values.runs.event import Event
from layover.values.runs.provider_wait import ProviderWait
from layover.values.runs.run import CallRecord, ErrorDetail, ErrorInfo, FinishReason, Status


@dataclass(frozen=True)
class Over:
    """The loop is done. The end still has to be written."""

    status: Status
    finish_reason: FinishReason
    output: Json = None
    error: ErrorInfo | None = None
    error_detail: ErrorDetail | None = None
    events: tuple[Event, ...] = ()
    """Events that are journaled with the end."""


def failed(failure: RunFailed, run_id: str) -> Over:
    """Return the end of a run that cannot go on."""
    # Few runs fail.
    from layover.values.runs.failures import detail_of, error_of

    error, detail = error_of(failure, run_id), detail_of(failure)
    return Over(Status.FAILED, FinishReason.ERROR, error=error, error_detail=detail)


CANCELLED = Over(Status.CANCELLED, FinishReason.CANCELLED)


@dataclass(frozen=True)
class Suspended:
    """The run cannot go on before a person decides. `waiting`: the undecided calls."""

    waiting: tuple[CallRecord, ...]


@dataclass(frozen=True)
class Yielded:
    """The run goes on in a fresh invocation: the time is up, or (`context`) its prompt has to be
    compacted first, or (`wait`) a model's provider is away until then."""

    context: bool = False
    wait: ProviderWait | None = None


@dataclass(frozen=True)
class Aside:
    """The run could ask its model, but another run has its thread: it waits for that run, or takes the thread
    from one that only waits."""


Progress = Over | Suspended | Yielded | Aside


class RunEnds(BaseException):
    """A frame above a sub-agent ends the run. Not the sub-agent's own failure, which would be a tool
    error."""

    def __init__(self, failure: RunFailed) -> None:
        super().__init__(failure)
        self.failure = failure


class OutOfTime(BaseException):
    """This invocation does not go on with the work: it is about to be cut off, and the work can be repeated.
    `wait`: or a model's provider is away."""

    def __init__(self, wait: ProviderWait | None = None) -> None:
        super().__init__()
        self.wait = wait


class Stopped(BaseException):
    """A cancellation of the run was requested. Not an `Exception`: no tool's `except` can swallow it."""

    def __init__(self, grace_s: float = 0) -> None:
        super().__init__(grace_s)
        self.grace_s = grace_s
        """Seconds that running tools may still go on."""
