"""The last recovery of a step: the run pauses until its provider is back (docs/outages.md)."""

from collections.abc import Sequence
from datetime import timedelta

from layover.context.assembly import patience_of
from layover.engine.work import RunWork
from layover.errors import ModelError
from layover.values.runs.provider_wait import ProviderWait

FIRST_PAUSE_S = 15.0
MAX_PAUSE_S = 300.0
"""The pauses double from the first one to this, each a quarter longer or shorter by chance: runs that failed
together do not come back together."""


Fault = tuple[str, ModelError]
"""The name of a model, and the error with which it was given up."""


def paused(work: RunWork, faults: Sequence[Fault]) -> ProviderWait:
    """Return the pause after which the step asks again.

    Args:
        work: The agent's part of the run.
        faults: Those of all models that the step has asked, in order.

    Raises:
        ModelError: The last fault, if none of them passes or the provider asks for a longer wait than the run
            has; `ProviderAway` once its patience is over.
    """
    _, problem = faults[-1]
    model, fault = next((each for each in faults if each[1].passes), faults[-1])
    patience = patience_of(work.agent, work.runtime.settings)
    if not fault.passes or not patience:
        raise problem
    now, steps = work.clock.now(), work.state.step_count
    before = work.state.meta.away
    if before is not None and not before.is_on(steps):
        before = None
    since = before.since if before is not None else now
    attempt = before.attempt + 1 if before is not None else 1
    ends_at = since + patience
    pause = timedelta(seconds=pause_s(attempt, fault.retry_after, work.runtime.dice.up_to(1.0)))
    least = timedelta(seconds=fault.retry_after or 0)
    if now >= ends_at or now + least > ends_at:
        if before is None:
            raise problem
        raise _away(model, fault, patience) from problem
    return ProviderWait(
        provider=_provider_of(model),
        error=fault.type,
        since=since,
        until=max(now + least, min(now + pause, ends_at)),
        attempt=attempt,
        steps=steps,
    )


def pause_s(attempt: int, least_s: float | None, chance: float) -> float:
    """Return the seconds of a pause. `least_s`: those that the provider asked for; `chance`: from 0 to 1."""
    grown = min(FIRST_PAUSE_S * 2.0 ** (attempt - 1), MAX_PAUSE_S)
    return max(least_s or 0.0, grown * (0.75 + chance / 2))


def _away(model: str, fault: ModelError, patience: timedelta) -> ModelError:
    message = f"{_provider_of(model)} has been away for {patience}: {fault.message}"
    error = ModelError(message, status=fault.status, type="ProviderAway")
    # Operators are told of an outage by its provider.
    error.provider, error.model, error.request_id = fault.provider, model, fault.request_id
    return error


def _provider_of(model: str) -> str:
    return model.split("/", 1)[0]
