"""Usage on Postgres."""

from collections.abc import Sequence
from typing import Literal

from layover.adapters.store.postgres.codec import dump_usage
from layover.adapters.store.postgres.queries import Statement, load
from layover.values.memory.context import StepUsage


def insert_usage(
    thread_id: str,
    run_id: str,
    usage: Sequence[StepUsage],
    kind: Literal["run", "background"] = "run",
) -> list[Statement]:
    """The statement that keeps each row once (none for nothing). A row of a run that went on since takes the
    place of the older one. Nothing happens where the thread is gone."""
    if not usage:
        return []
    rows = dump_usage(run_id, usage, kind)
    return [load("threads.sql")["insert_usage"](thread_id=thread_id, usage=rows)]
