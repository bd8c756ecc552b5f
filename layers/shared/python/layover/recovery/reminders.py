"""Reminders of calls that wait, and escalations. The sweeper, which looks at waiting runs anyway, sends what
is due."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from layover.approvals.bus import publish, publish_escalation
from layover.approvals.decide import tell_and_wake
from layover.approvals.waiting import is_expired
from layover.errors import DecisionAlreadyMade, RetryableError
from layover.ports import StaleCall
from layover.runtime import Runtime
from layover.values.decision import BusEvent
from layover.values.metrics import Metric
from layover.values.runs.debts import Debt, DebtKind
from layover.values.runs.event import ApprovalEscalated, ApprovalReminder, ToolCallDecided
from layover.values.runs.run import SYSTEM, CallRecord, Decision, DecisionKind, RunMeta, Via

logger = logging.getLogger("layover")


async def send_due(
    runtime: Runtime, run: RunMeta, calls: Sequence[CallRecord]
) -> tuple[datetime | None, frozenset[str]]:
    """Remind of the calls whose time has come, and let others decide those that have waited for too long.
    Return the time from which the next of this is due (None: nothing ever is), and the debts that came up and
    are paid."""
    timed = [c for c in calls if c.undecided and c.suspension and c.suspension.has_timers]
    paid: set[str] = set()
    times = [await _try_send(runtime, run, call, paid) for call in timed]
    return min(filter(None, times), default=None), frozenset(paid)


async def expire_due(
    runtime: Runtime, run: RunMeta, calls: Sequence[CallRecord]
) -> datetime | None:
    """Record the expiry of calls for which no branch listens, and return the time of the next one."""
    now = runtime.clock.now()
    for call in calls:
        if not is_expired(call, now):
            continue
        decision = Decision(kind=DecisionKind.EXPIRED, decided_by=SYSTEM, via=Via.SYSTEM, at=now)
        # Somebody may have let it expire later since it was read: the next look has both.
        with suppress(DecisionAlreadyMade, StaleCall):
            event = ToolCallDecided.of(call, decision)
            decided_call = await runtime.journal.decisions.decide(run, call, decision, event)
            await tell_and_wake(runtime, run, decided_call)
    times = (call.expires_at for call in calls if call.undecided)
    return min((at for at in times if at is not None and at > now), default=None)


async def _try_send(
    runtime: Runtime, run: RunMeta, call: CallRecord, paid: set[str]
) -> datetime | None:
    try:
        return await _send(runtime, run, call, paid)
    except DecisionAlreadyMade:
        return None
    except StaleCall:
        # Another sweep has sent it, too.
        return runtime.clock.now()
    except RetryableError as error:
        context = {"tool_call_id": call.tool_call_id, "cause": type(error).__name__}
        logger.warning("a reminder is sent later", extra=context)
        runtime.metrics.count(Metric.PUBLISH_FAILED)
        return runtime.clock.now()


async def _send(
    runtime: Runtime, run: RunMeta, call: CallRecord, paid: set[str]
) -> datetime | None:
    """Send what is due, and return the time at which more is, if the call still waits then. Adds what others
    have been told to `paid`."""
    now = runtime.clock.now()
    if call.expires_at is not None and call.expires_at <= now:
        return None
    # First, so that the reminder names everybody who may decide.
    is_before = call.escalated
    call, escalates_at = await _escalate(runtime, run, call, now)
    if call.escalated and not is_before:
        if await publish_escalation(runtime, run, call):
            paid.add(str(Debt(DebtKind.ESCALATED, call.attempt, call.key)))
        else:
            escalates_at = now
    times = [escalates_at, await _remind(runtime, run, call, now)]
    return min(
        (at for at in times if at and (call.expires_at is None or at < call.expires_at)),
        default=None,
    )


async def _escalate(
    runtime: Runtime, run: RunMeta, call: CallRecord, now: datetime
) -> tuple[CallRecord, datetime | None]:
    """Return the call, escalated if it is time, and the time at which it will be."""
    rule = call.rule
    if call.suspension is None or rule is None or rule.escalate_after_s is None or call.escalated:
        return call, None
    at = call.suspension.requested_at + timedelta(seconds=rule.escalate_after_s)
    if at > now:
        return call, at
    escalated = call.model_copy(update={"escalated": True})
    # Written first, and owed from then on: whoever is told of it finds that the new groups may decide.
    event = ApprovalEscalated.of(call, rule.escalate_to, now)
    await runtime.journal.decisions.amend(run, call, escalated, event)
    return escalated, None


async def _remind(
    runtime: Runtime, run: RunMeta, call: CallRecord, now: datetime
) -> datetime | None:
    """Send the newest reminder that is due, and none of those before it. Return the time of the next one."""
    if call.rule is None or call.rule.remind_after_s is None:
        return None
    n = due_reminder(call, now)
    if n > call.reminders:
        # Published first: a sweeper that dies before the write publishes it again, with the same `n`.
        await publish(runtime, BusEvent.REMINDER, run, call, n=n)
        reminded = call.model_copy(update={"reminders": n})
        event = ApprovalReminder.of(call, n, now)
        await runtime.journal.decisions.amend(run, call, reminded, event)
    return reminder_at(call, n + 1)


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
