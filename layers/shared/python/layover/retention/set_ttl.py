"""The records of a run that is over expire some time after its end (docs/behaviour.md#run-retention)."""

from layover.ports import Runtime
from layover.values.runs.run import RECORDS_SLACK, RunMeta


async def set_ttl(runtime: Runtime, run: RunMeta) -> None:
    """Give the records their time to live. It counts from the run's end, not from now, so that every process
    sets the same time."""
    expires_at = run.updated_at + runtime.settings.run_retention
    await runtime.journal.set_ttl(run.owner, run.id, expires_at)


async def keep_records(runtime: Runtime, run: RunMeta) -> None:
    """Remove the expiry from the records of a run that takes long: they were written as those of a run that
    ends soon. Once more when the slack is over, since no process writes any with it then."""
    now = runtime.clock.now()
    for_good = run.records_expire_at is not None and now >= run.created_at + RECORDS_SLACK
    if for_good or run.has_to_keep_records(now):
        await runtime.journal.keep_records(run.owner, run.id, for_good=for_good)
