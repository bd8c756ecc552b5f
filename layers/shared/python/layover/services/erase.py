"""Erase a deleted thread: the database, the run records, what they keep in S3. Repeatable: whatever
stops it, the sweeper begins again until nothing is left."""

from layover.memory.files import Files
from layover.memory.node_memory import erase_nodes
from layover.ports import Runtime


async def erase(runtime: Runtime, owner: str, thread_id: str) -> None:
    """Delete everything but the tombstone. Raises RetryableError; it may be called again then."""
    await runtime.threads.erase(owner, thread_id)
    await runtime.journal.erase_runs(owner, thread_id)
    await Files(runtime.blobs, owner).erase(thread_id)
    await erase_nodes(runtime.blobs, owner, thread_id)
    await runtime.journal.erased(owner, thread_id)
