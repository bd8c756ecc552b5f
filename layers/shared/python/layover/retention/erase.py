"""Erase a deleted thread: the database is emptied first, so that no prompt recalls it any more, its runs are
cancelled, then the run records and their objects in S3 are deleted.

Repeatable: whatever stops it, the sweeper begins again until nothing is left. The process at work on a run
may still be writing then: the records and S3 are emptied once more when no function that ran at that time can
be alive. (The database accepts nothing for a thread that is gone.)"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from layover.batches import batched
from layover.errors import NotFound
from layover.files.node_log import erase_nodes
from layover.files.store import Files
from layover.keys import Keys
from layover.runs.cancel import cancel
from layover.runtime import Runtime
from layover.values.note import profile_key

LAST_WRITER = 16
"""A multiple of the sweeper's patience of 60 s: a function lives for 900 s at most."""
_MAX_CONCURRENT = 10
"""The number of waiting and queued runs that are cancelled together."""


async def erase(runtime: Runtime, owner: str, thread_id: str) -> None:
    """Delete everything but the tombstone. Raises RetryableError; it may be called again then."""
    head = await runtime.journal.heads.get(owner, thread_id)
    if head is not None and head.empty_again_at is not None:
        await _erase_late(runtime, owner, thread_id, head.empty_again_at)
        return
    await runtime.threads.erase(owner, thread_id)
    if head is not None and head.forget_profile:
        now = runtime.clock.now()
        await runtime.memory.delete_note(owner, profile_key(head.agent), now)
    # An execution whose run's records are gone would wait for a decision for up to a year.
    await _stop(runtime, owner, [head.active_run] if head and head.active_run else [])
    await _stop(runtime, owner, (*head.waiting_runs, *head.queue) if head else ())
    await runtime.journal.erasure.erase_runs(owner, thread_id)
    await _erase_objects(runtime, owner, thread_id)
    lives = runtime.settings.sweep_patience * LAST_WRITER
    await runtime.journal.erasure.mark_purged(owner, thread_id, runtime.clock.now() + lives)


async def _erase_late(runtime: Runtime, owner: str, thread_id: str, at: datetime) -> None:
    """Delete writes that arrived after the thread was emptied; not before `at`."""
    if runtime.clock.now() < at:
        await runtime.journal.erasure.reschedule(owner, thread_id, at)
        return
    await runtime.journal.erasure.erase_late(owner, thread_id)
    await _erase_objects(runtime, owner, thread_id)
    await runtime.journal.erasure.finish(owner, thread_id)


async def _erase_objects(runtime: Runtime, owner: str, thread_id: str) -> None:
    """Delete the thread's objects in S3, behind the records that name them. One list tells of all, because
    most threads have none, and a list costs as much as eight writes to the journal."""
    keys = Keys(owner)
    listed = await runtime.blobs.keys(keys.of_thread(thread_id))
    await Files(runtime.blobs, owner).erase(thread_id, listed)
    await erase_nodes(runtime.blobs, owner, thread_id, listed)
    if any(key.startswith(keys.bodies(thread_id)) for key in listed):
        await runtime.journal.erasure.erase_bodies(owner, thread_id)


async def _stop(runtime: Runtime, owner: str, run_ids: Sequence[str]) -> None:
    """Cancel a few runs at a time: a hundred of them, one after another, would take seconds."""

    async def stop(run_id: str) -> None:
        with suppress(NotFound):
            await cancel(runtime, owner, run_id, holder_has_s=0, asks_hooks=False)

    for some in batched(run_ids, _MAX_CONCURRENT):
        await asyncio.gather(*map(stop, some))
