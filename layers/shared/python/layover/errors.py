"""Errors by who must act.

LayoverError
├── DefinitionError        the author of the agent: a tool or an agent that cannot work as declared
│   ├── ConfigurationError     ... or is used where its settings do not allow it
│   └── AgentsNotLoaded        ... or their module cannot be loaded: no agent can be used
├── RequestError           the caller: what was asked for cannot be done as asked
│   ├── InvalidRequest         422, with the fields that are wrong
│   │   └── UnknownAgent           ... an agent that is not served
│   ├── NotFound               404, also for what belongs to somebody else
│   ├── Conflict               409, something else came first
│   │   └── ThreadBusy             another run holds the thread
│   ├── TooLarge               413
│   └── DecisionError          a decision that was refused; the call waits as before
│       ├── DecisionAlreadyMade    409
│       ├── NotAnApprover          403
│       └── DecisionInvalid        422
├── LimitReached           429, wait or ask for more
│   └── DayUsedUp              ... until tomorrow
├── RetryableError         nobody: the same thing may work in a moment
│   ├── StoppedByOperator      503, the operator lets nothing run for now
│   └── DatabaseWaking         503, the wake has begun
├── Fenced                 nobody: another attempt holds the run, this one has to stop
└── RunFailed              the run ended `failed`; `type` and the message say why
    ├── ModelError             the provider refused or stayed down
    └── AttemptsUsedUp         five attempts made no step
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

_MAX_NAMES = 20


def shown_names(names: Iterable[str]) -> str:
    """`a, b and 3 more`."""
    all_names = list(names)
    more = [f"and {len(all_names) - _MAX_NAMES} more"] if len(all_names) > _MAX_NAMES else []
    return " ".join([", ".join(all_names[:_MAX_NAMES]), *more])


class LayoverError(Exception):
    """The root. `ids` names the things that it is about (`run_id=...`); the message carries no user's
    text."""

    def __init__(self, message: str, **ids: str | None) -> None:
        self.message = message
        self.ids: Mapping[str, str] = {k: v for k, v in ids.items() if v is not None}
        super().__init__(message)

    def __str__(self) -> str:
        if not self.ids:
            return self.message
        return f"{self.message} ({', '.join(f'{k}={v}' for k, v in self.ids.items())})"


class DefinitionError(LayoverError):
    """A tool or an agent is declared in a way that cannot work. Raised when it is made."""


class ConfigurationError(DefinitionError):
    """A feature is used where the settings do not allow it."""


class AgentsNotLoaded(DefinitionError):
    """The module of the agents fails, or has none. `told`: the message for callers, without that of the
    author's code."""

    def __init__(self, message: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.told = detail or message


class RequestError(LayoverError):
    """The caller asked for something that cannot be done as asked. No data was changed."""


class InvalidRequest(RequestError):
    """The request does not have the right shape. `errors`: `[{"loc": [...], "msg": ...}]`."""

    def __init__(
        self, message: str, errors: Sequence[Mapping[str, Any]] = (), **ids: str | None
    ) -> None:
        super().__init__(message, **ids)
        self.errors = list(errors)


class UnknownAgent(InvalidRequest):
    """No agent of this name is served. The message says which are."""

    def __init__(self, served: Iterable[str], named_in: Literal["body", "query"] = "body") -> None:
        error = {"loc": [named_in, "agent"], "msg": "no such agent", "type": "unknown_agent"}
        super().__init__(f"there is no such agent; served are {shown_names(served)}", [error])


class NotFound(RequestError):
    """There is no such thing for this caller."""


class Conflict(RequestError):
    """Another request came first."""


class ThreadBusy(Conflict):
    """The thread has an active run: `ids["run_id"]`."""


class TooLarge(RequestError):
    """The request is larger than what is accepted."""


class DecisionError(RequestError):
    """A decision was refused. The call is as it was before."""


class DecisionAlreadyMade(DecisionError, Conflict):
    """Another decision of this call came first, or the call does not wait (any more)."""


class NotAnApprover(DecisionError):
    """The call waits for other people. `by`: the groups whose members decide."""

    def __init__(self, message: str, by: Sequence[str], **ids: str | None) -> None:
        super().__init__(message, **ids)
        self.by = tuple(by)


class DecisionInvalid(DecisionError, InvalidRequest):
    """The decision does not fit what the call waits for."""


class LimitReached(LayoverError):
    """A limit was reached; try later or ask for more. `retry_after`: the time until it may work."""

    def __init__(
        self, message: str, retry_after: timedelta | None = None, **ids: str | None
    ) -> None:
        super().__init__(message, **ids)
        self.retry_after = retry_after


class DayUsedUp(LimitReached):
    """The user has used up the day. `retry_after`: the time until the next day begins."""


class RetryableError(LayoverError):
    """A passing fault: the same call may work in a moment. The state machine retries it."""


class StoppedByOperator(RetryableError):
    """The operator has stopped the system: nothing begins until the operator starts it again."""


class DatabaseWaking(RetryableError):
    """The database is asleep and was just woken."""


class NewerFormat(RetryableError):
    """A newer release wrote the record: this one cannot read it, and changes nothing. The run goes on once
    the newer release runs again."""


def check_version(what: str, version: object, newest: int) -> None:
    """Raise NewerFormat if the record has a version above the one that this release knows."""
    if not isinstance(version, int) or version > newest:
        raise NewerFormat(
            f"{what} have version {version!r}, and this release reads up to version {newest}: deploy the "
            "release that wrote it"
        )


class Fenced(LayoverError):
    """Another attempt took over the run. This one stops and writes nothing more."""


class RunFailed(LayoverError):
    """Ends the run as `failed`. Callers see `type` as `error.type`."""

    def __init__(self, message: str, *, type: str | None = None, **ids: str | None) -> None:
        super().__init__(message, **ids)
        self.type = type or self.__class__.__name__


class ModelError(RunFailed):
    """The model's provider refused the request or stayed down. `status`: its HTTP status, if any."""

    def __init__(self, message: str, *, status: int | None = None, type: str | None = None) -> None:
        super().__init__(message, type=type)
        self.status = status


class ContextLengthExceeded(ModelError):
    """The provider said that the prompt is longer than the model's window."""


class AttemptsUsedUp(RunFailed):
    """The run was attempted five times since its last journaled step and made none."""
