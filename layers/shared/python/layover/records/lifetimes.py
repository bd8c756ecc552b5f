"""Lifetimes of records. If a deployment limits those of threads and entries, this module schedules a check
that `retention.expire` makes. The records of runs that are over get a time to live
(docs/behaviour.md#run-retention).

Checks are at the end of a day (UTC): a paused database is woken for them once a day at most, and never on a
day on which nothing expires."""

from datetime import UTC, datetime, time, timedelta

from layover.runtime import Runtime
from layover.values.runs.debts import WAKE_CUT
from layover.values.runs.run import RECORDS_SLACK, RunMeta


async def watch_thread(runtime: Runtime, owner: str, thread_id: str) -> None:
    """Schedule a look at a thread for the time at which it may have been without activity for too long."""
    retention = runtime.settings.thread_retention
    if retention is not None:
        at = end_of_day(runtime.clock.now() + retention)
        await runtime.journal.dues.schedule(owner, "thread", thread_id, at)


async def watch_entries(runtime: Runtime, owner: str, said_at: datetime | None = None) -> None:
    """Schedule a look at the owner's entries for the time at which the oldest of them may be too old.
    `said_at`: the time of a new one; None: it is of now."""
    retention = runtime.settings.entry_retention
    if retention is not None:
        at = end_of_day((said_at or runtime.clock.now()) + retention)
        await runtime.journal.dues.schedule(owner, "entries", "", at)


def end_of_day(moment: datetime) -> datetime:
    """Return the next midnight (UTC)."""
    day = moment.astimezone(UTC).date() + timedelta(days=1)
    return datetime.combine(day, time(), UTC)


async def set_ttl(runtime: Runtime, run: RunMeta, paid: frozenset[str] = frozenset()) -> None:
    """Give the records their time to live. It counts from the run's end, not from now, so that every process
    sets the same time. Nothing happens if the run owes more than was `paid`: the sweeper tells the rest. Its
    branches are awake: an execution comes here once they have ended, the sweeper once it has woken them."""
    expires_at = run.updated_at + runtime.settings.run_retention
    await runtime.journal.expiry.set_ttl(
        run.owner, run.id, expires_at, paid | ({WAKE_CUT} & run.owed)
    )


async def keep_records(runtime: Runtime, run: RunMeta) -> None:
    """Remove the expiry from the records of a run that takes long: they were written as if it would end soon.
    This is done once more when the slack is over, because no process writes an expiry after that."""
    now = runtime.clock.now()
    for_good = run.records_expire_at is not None and now >= run.created_at + RECORDS_SLACK
    if for_good or run.has_to_keep_records(now):
        await runtime.journal.expiry.keep_records(run.owner, run.id, for_good=for_good)
