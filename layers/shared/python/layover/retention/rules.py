"""Lifetimes of threads and entries, if a deployment sets them: the checks to schedule, and their times.
Checks are at the end of a day (UTC): a paused database is woken for them once a day at most, and never on a
day on which nothing expires. (`retention.expire` looks.)"""

from datetime import UTC, datetime, time, timedelta

from layover.ports import Runtime


async def watch_thread(runtime: Runtime, owner: str, thread_id: str) -> None:
    """Schedule a look at a thread for the time at which it may have been without activity for too long."""
    retention = runtime.settings.thread_retention
    if retention is not None:
        at = end_of_day(runtime.clock.now() + retention)
        await runtime.journal.schedule(owner, "thread", thread_id, at)


async def watch_entries(runtime: Runtime, owner: str) -> None:
    """Schedule a look at the owner's entries for the time at which the oldest of them may be too old."""
    retention = runtime.settings.entry_retention
    if retention is not None:
        at = end_of_day(runtime.clock.now() + retention)
        await runtime.journal.schedule(owner, "entries", "", at)


def end_of_day(moment: datetime) -> datetime:
    """Return the midnight (UTC) after it."""
    day = moment.astimezone(UTC).date() + timedelta(days=1)
    return datetime.combine(day, time(), UTC)
