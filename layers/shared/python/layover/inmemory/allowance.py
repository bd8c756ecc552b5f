"""Users' days and rates in memory: the same logic over a table that is a dict."""

from layover.inmemory.table import InMemoryTable
from layover.ports import Allowance, Clock, NoAllowance, Table
from layover.values.deployment.settings import Settings


def in_memory_allowance(clock: Clock, settings: Settings, table: Table | None = None) -> Allowance:
    """Return the allowance of these settings, which ends with the process, or with `table`. Without a limit
    nothing is counted."""
    if not settings.limits_days and settings.runs_per_minute is None:
        return NoAllowance()
    from layover.adapters.journal.allowance import TableAllowance

    return TableAllowance(
        InMemoryTable() if table is None else table, clock, counts=settings.limits_days
    )
