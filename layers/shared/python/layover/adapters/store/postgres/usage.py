"""Usage on Postgres, and the trees of runs, which are stored with it."""

from collections.abc import Sequence

from layover.adapters.store.postgres.codec import dump_usage
from layover.adapters.store.postgres.queries import Statement, load
from layover.values.base import Json
from layover.values.memory.context import StepUsage


def insert_usage(thread_id: str, run_id: str, usage: Sequence[StepUsage]) -> list[Statement]:
    """The statement that keeps each row of background work once (none for nothing). Nothing happens where
    the thread is gone."""
    if not usage:
        return []
    rows = dump_usage(run_id, usage, "background")
    return [load("threads.sql")["insert_usage"](thread_id=thread_id, usage=rows)]


def save_usage(
    thread_id: str, run_id: str, usage: Sequence[StepUsage], tree: Json = None
) -> list[Statement]:
    """The statement that keeps a run's rows with its tree (none for nothing), behind the lock of its thread.
    A row of a run that went on since takes the place of the older one."""
    if not usage:
        return []
    rows = dump_usage(run_id, usage, tree=tree)
    query = load("threads.sql")["save_usage"]
    return [query(thread_id=thread_id, run_id=run_id, usage=rows)]
