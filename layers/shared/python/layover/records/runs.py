"""An owner's run as journaled: its META, or all of its records."""

import asyncio

from layover import logs
from layover.errors import NotFound
from layover.keys import can_be_id
from layover.ports import RunEvents
from layover.runtime import Runtime
from layover.values.runs.event import LoggedEvent
from layover.values.runs.run import RunMeta, RunSnapshot

MAX_SEQ = 900_000_000
"""The highest number that an event may have."""
_PAGE = 1_000


async def meta_of(runtime: Runtime, owner: str, run_id: str) -> RunMeta:
    """Return META of a run whose thread exists. Raises NotFound."""
    meta = await runtime.journal.runs.get(owner, run_id) if can_be_id(run_id) else None
    if meta is None:
        raise NotFound("there is no such run", run_id=run_id)
    await _check_thread(runtime, meta)
    return meta


async def snapshot_of(runtime: Runtime, owner: str, run_id: str) -> RunSnapshot:
    """Return the whole journal of a run whose thread exists. Raises NotFound."""
    snapshot = await runtime.journal.runs.snapshot(owner, run_id) if can_be_id(run_id) else None
    if snapshot is None:
        raise NotFound("there is no such run", run_id=run_id)
    await _check_thread(runtime, snapshot.meta)
    return snapshot


async def snapshot_again(runtime: Runtime, meta: RunMeta) -> RunSnapshot:
    """Return the whole journal of a run whose META was read before, as `snapshot_of` does, in the time of one
    read."""
    snapshot, _ = await asyncio.gather(
        runtime.journal.runs.snapshot(meta.owner, meta.id), _check_thread(runtime, meta)
    )
    if snapshot is None:
        raise NotFound("there is no such run", run_id=meta.id)
    return snapshot


async def all_events(
    events: RunEvents, owner: str, run_id: str, most: int = MAX_SEQ
) -> list[LoggedEvent]:
    """Return a run's events so far, from the first on. Of a log with more than `most`, about so many."""
    items: list[LoggedEvent] = []
    while len(items) < most:
        page = await events.page(owner, run_id, len(items), _PAGE)
        items += page.items
        if page.done or not page.items:
            break
    return items


async def _check_thread(runtime: Runtime, meta: RunMeta) -> None:
    """Raise NotFound if the thread is deleted: its runs disappear with it, long before they are erased."""
    logs.name(run_id=meta.id, thread_id=meta.thread_id)
    head = await runtime.journal.heads.get(meta.owner, meta.thread_id)
    if head is not None and head.deleted:
        raise NotFound("there is no such run", run_id=meta.id)
