"""Reminders of calls that wait. The sweeper, which looks at waiting runs anyway, sends what is due."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from layover.approvals.bus import BusEvent, publish
from layover.errors import DecisionAlreadyMade, RetryableError
from layover.ports import StaleWait
from layover.runtime import Runtime
from layover.values.metrics import Metric
from layover.values.runs.event import ApprovalReminder
from layover.values.runs.run import CallRecord, RunMeta

logger = logging.getLogger("layover")


async def send_due(runtime: Runtime, run: RunMeta, calls: Sequence[CallRecord]) -> datetime | None:
    """Remind of the calls whose time has come. Return the time from which the next reminder is due; None:
    there will be none."""
    timed = [c for c in calls if c.undecided and c.suspension and c.suspension.has_timers]
    times = [await _try_remind(runtime, run, call) for call in timed]
    return min(filter(None, times), default=None)


async def _try_remind(runtime: Runtime, run: RunMeta, call: CallRecord) -> datetime | None:
    try:
        return await _remind(runtime, run, call)
    except DecisionAlreadyMade:
        return None
    except StaleWait:
        # Another sweep has sent it, too.
        return runtime.clock.now()
    except RetryableError as error:
        context = {"tool_call_id": call.tool_call_id, "cause": type(error).__name__}
        logger.warning("a reminder is sent later", extra=context)
        runtime.metrics.count(Metric.PUBLISH_FAILED)
        return runtime.clock.now()


async def _remind(runtime: Runtime, run: RunMeta, call: CallRecord) -> datetime | None:
    """Send the newest reminder that is due, and none of those before it. Return the time of the next one."""
    now = runtime.clock.now()
    if call.expires_at is not None and call.expires_at <= now:
        return None
    n = due_reminder(call, now)
    if n > call.reminders:
        # Published first: a sweeper that dies before the write publishes it again, and none is lost. A
        # repeated one has the same `n`.
        await publish(runtime, BusEvent.REMINDER, run, call, n=n)
        reminded = call.model_copy(update={"reminders": n})
        event = ApprovalReminder.of(call, n, now)
        await runtime.journal.decisions.amend(run, call, reminded, event)
    at = reminder_at(call, n + 1)
    return at if call.expires_at is None or at < call.expires_at else None


def reminder_at(call: CallRecord, n: int) -> datetime:
    """Return the time of the n-th reminder of a call that has reminders: 1, 2, 4, 8 ... times the first
    delay after the request."""
    assert call.suspension is not None
    assert call.suspension.approval is not None
    first_s = call.suspension.approval.remind_after_s
    assert first_s is not None
    # Far beyond any wait, and within what a datetime takes.
    delay_s = min(first_s * 2 ** (n - 1), 100 * 365 * 24 * 3600)
    return call.suspension.requested_at + timedelta(seconds=delay_s)


def due_reminder(call: CallRecord, now: datetime) -> int:
    """Return the number of the newest reminder whose time has come; 0: none has."""
    n = 0
    while reminder_at(call, n + 1) <= now:
        n += 1
    return n
