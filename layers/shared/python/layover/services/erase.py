"""Erase a deleted thread: its runs are cancelled, then the database, the run records and what they keep
in S3 are emptied. Repeatable: whatever stops it, the sweeper begins again until nothing is left."""

from contextlib import suppress

from layover.errors import NotFound
from layover.memory.files import Files
from layover.memory.node_memory import erase_nodes
from layover.ports import Runtime
from layover.services.cancel import cancel
from layover.values.thread import ThreadHead


async def erase(runtime: Runtime, owner: str, thread_id: str) -> None:
    """Delete everything but the tombstone. Raises RetryableError; it may be called again then."""
    # An execution whose run's records are gone would wait for a decision for up to a year.
    for run_id in _runs_to_stop(await runtime.journal.thread(owner, thread_id)):
        with suppress(NotFound):
            await cancel(runtime, owner, run_id, holder_has_s=0)
    await runtime.threads.erase(owner, thread_id)
    await runtime.journal.erase_runs(owner, thread_id)
    await Files(runtime.blobs, owner).erase(thread_id)
    await erase_nodes(runtime.blobs, owner, thread_id)
    await runtime.journal.erased(owner, thread_id)


def _runs_to_stop(head: ThreadHead | None) -> tuple[str, ...]:
    if head is None:
        return ()
    return (*head.queue, *([head.active_run] if head.active_run else []))
