"""The answers of hooks about a call, and in a model's place, as they are journaled (docs/hooks.md#stored)."""

from typing import Any, Literal

from pydantic import Field

from layover.errors import RunFailed
from layover.values.base import Json, Value, is_none
from layover.values.runs.status import ErrorDetail, ErrorInfo

Verdict = Literal["allow", "change", "answer", "refuse", "suspend"]


class HookDecision(Value):
    """One answer of `before_tool`. `hook`: the name of its class."""

    hook: str
    decision: Verdict
    args: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """The arguments that it gave the call."""
    reason: str | None = None


class HookReply(Value):
    """The answer of a `before_model` that stands in the place of a model's reply. `hook`: the name of its
    class."""

    hook: str
    decision: Literal["answer", "refuse"]
    reason: str | None = None
    message_ids: tuple[str, ...] = ()
    """The messages that are refused with it."""

    @property
    def refuses(self) -> bool:
        """True if the hook refused the request."""
        return self.decision == "refuse"


class HookedCall(Value):
    """The answers of hooks about a call, in their order; without those that answered None."""

    decisions: tuple[HookDecision, ...] = ()
    failure: ErrorInfo | None = None
    """The error of `after_tool`: the run ends with it."""
    failure_detail: ErrorDetail | None = Field(default=None, exclude_if=is_none)
    """The same for operators."""

    @property
    def settles(self) -> bool:
        """True if the call did not run, because a hook answered or refused it."""
        return any(d.decision in ("answer", "refuse") for d in self.decisions)

    @property
    def args(self) -> Json:
        """The arguments that hooks gave the call last; None: the model's."""
        changes = [d.args for d in self.decisions if d.args is not None]
        return changes[-1] if changes else None


def with_failure(
    hooked: HookedCall | None, failure: RunFailed | None, run_id: str
) -> HookedCall | None:
    """Return the record with the error that ends the run."""
    if failure is None:
        return hooked
    from layover.values.runs.failures import detail_of, error_of

    changes = {"failure": error_of(failure, run_id), "failure_detail": detail_of(failure)}
    return (hooked or HookedCall()).model_copy(update=changes)


def earlier_failure(error: ErrorInfo, detail: ErrorDetail | None, run_id: str) -> RunFailed:
    """Return the failure that an earlier attempt journaled. What people are told of it stays the same."""
    failure = RunFailed(error.message, type=error.type, run_id=run_id)
    failure.detail = detail
    return failure
