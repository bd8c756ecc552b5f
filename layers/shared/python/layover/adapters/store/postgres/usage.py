"""Usage on Postgres, and the trees of runs, which are stored with it."""

from collections.abc import Sequence

from layover.adapters.store.postgres.codec import dump_usage
from layover.adapters.store.postgres.queries import Statement, load
from layover.values.base import Json
from layover.values.memory.context import StepUsage


def insert_usage(thread_id: str, run_id: str, usage: Sequence[StepUsage]) -> list[Statement]:
    """The statement that stores each row of background work once; an empty list without rows. Nothing happens
    if the thread is gone."""
    if not usage:
        return []
    rows = dump_usage(run_id, usage, "background")
    return [load("threads.sql")["insert_usage"](thread_id=thread_id, usage=rows)]


def save_usage(
    thread_id: str, run_id: str, usage: Sequence[StepUsage], tree: Json = None
) -> list[Statement]:
    """The statement that stores a run's rows with its tree, behind the lock of its thread; an empty list
    without rows. If the run has gone on since, its newer row replaces the older one."""
    if not usage:
        return []
    rows = dump_usage(run_id, usage, tree=tree)
    query = load("threads.sql")["save_usage"]
    return [query(thread_id=thread_id, run_id=run_id, usage=rows)]
