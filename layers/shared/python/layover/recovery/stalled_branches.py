"""The branches of a waiting run, as the sweeper finds them. A branch that fails ends without its call. Turn
would look at the call once the last branch has ended, which may take a year, so the sweeper looks earlier."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from layover.approvals.outbox import news_of, wake
from layover.runtime import Runtime
from layover.values.metrics import Metric
from layover.values.runs.run import CallRecord, RunMeta

GRACE = 2
"""The multiple of the sweeper's patience: Await is tried for a minute, and the work after a decision takes
seconds."""
MIN_GRACE = timedelta(seconds=20)
"""For a sweeper with little patience (on one machine): Resume has five attempts within 15 s."""


async def check_branches(
    runtime: Runtime, run: RunMeta, calls: Sequence[CallRecord], owed: Collection[str]
) -> datetime | None:
    """Wake the branches of decided calls. `owed`: what the bus does not know yet. Return the time from which
    the first of the waiting calls counts as abandoned because no branch listens for it; None if no call ever
    will."""
    _count_age(runtime, [c for c in calls if c.decision is None])
    return min(
        filter(None, [await _check_branch(runtime, run, call, owed) for call in calls]),
        default=None,
    )


async def is_busy(runtime: Runtime, run: RunMeta) -> bool:
    """Return whether a process is at work on the run, it pauses, or the operator has stopped everything."""
    now = await runtime.journal.runs.get(run.owner, run.id)
    if now is None or not now.at_rest or now.pauses_until(runtime.clock.now()) is not None:
        return True
    return await runtime.allowance.stopped()


async def _check_branch(
    runtime: Runtime, run: RunMeta, call: CallRecord, owed: Collection[str]
) -> datetime | None:
    grace = max(runtime.settings.sweep_patience * GRACE, MIN_GRACE)
    if call.decision is not None:
        # The process that decided may have died before it sent the token.
        news, token = news_of(owed, call), call.token
        is_awake = token is not None and await wake(runtime, token, run.id, news)
        # A turn settles the only call. One that has taken the run since may be waiting for the database.
        is_only_call = not run.waiting and run.decided == {call.key}
        unheard_at = max(call.decision.at, run.updated_at) if is_only_call else call.decision.at
        return (runtime.clock.now() if is_awake else unheard_at) + grace
    if call.suspension is None:
        return None
    if call.token is None:
        # A turn whose other tools took long has only just suspended.
        return max(call.suspension.requested_at, run.updated_at) + grace
    return call.expires_at + grace if call.expires_at else None


def _count_age(runtime: Runtime, calls: list[CallRecord]) -> None:
    """Report the age of the oldest request for a decision. An alarm depends on it."""
    request_times = [c.suspension.requested_at for c in calls if c.suspension is not None]
    if request_times:
        age = runtime.clock.now() - min(request_times)
        runtime.metrics.count(Metric.APPROVAL_AGE, age.total_seconds(), "Seconds")
