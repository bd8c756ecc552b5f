"""The records of a run that is over expire some time after its end (docs/behaviour.md#run-retention)."""

from layover.ports import Runtime
from layover.values.runs.run import RunMeta


async def set_ttl(runtime: Runtime, run: RunMeta) -> None:
    """Give them their time to live, counted from the end, not from now: whoever does it, it is the
    same time."""
    expires_at = run.updated_at + runtime.settings.run_retention
    await runtime.journal.set_ttl(run.owner, run.id, expires_at)
