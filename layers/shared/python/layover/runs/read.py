"""Reading, awaiting, listing, cancelling and following runs. Nothing here needs Postgres."""

import asyncio
from collections.abc import Callable

from layover.batches import batched
from layover.errors import NotFound, RetryableError
from layover.records.past_runs import past_run
from layover.records.runs import MAX_SEQ, meta_of, snapshot_again, snapshot_of
from layover.records.threads import head_of
from layover.records.views import run_view
from layover.runs.cancel import cancel as end_cancelled
from layover.runs.feedback import with_feedback
from layover.runs.long_polls import Pace, close_looks, wait_for
from layover.runtime import Runtime
from layover.values.cursor import decode_cursor_field, encode_cursor
from layover.values.deployment.access import Actor
from layover.values.page import Page
from layover.values.runs.event import EventPage
from layover.values.runs.run import RunMeta, RunSnapshot, Status
from layover.values.runs.views import Run

_CURSOR = "runs"
_MAX_CONCURRENT_READS = 4
"""The number of a page's runs that are read at once. One run may have many megabytes, and no page needs
more."""


async def get(
    runtime: Runtime, owner: str, run_id: str, wait: float = 0, pace: Pace | None = None
) -> Run:
    """Return one run, after waiting up to `wait` seconds until it is suspended or over. A caller with too
    many waiting requests is answered at once. A run whose records have expired is read from the database.
    Raises NotFound; DatabaseWaking only for an expired run."""
    return await with_feedback(runtime, owner, await _get(runtime, owner, run_id, wait, pace))


async def _get(runtime: Runtime, owner: str, run_id: str, wait: float, pace: Pace | None) -> Run:
    try:
        if wait > 0:
            meta = await meta_of(runtime, owner, run_id)
            if not meta.shown_status.settled:
                return run_view(
                    await _wait_until_settled(runtime, meta, wait, pace or Pace()), runtime.agents
                )
        return run_view(await snapshot_of(runtime, owner, run_id), runtime.agents)
    except NotFound:
        past = await past_run(runtime, owner, run_id)
        if past is None:
            raise
        return past


async def wait_remembered(
    runtime: Runtime, owner: str, run: Run, wait: float, pace: Pace | None = None
) -> bool:
    """Return whether memory has learned from the run, after waiting up to `wait` seconds for it. It learns
    only from runs that succeeded."""
    if run.status is not Status.SUCCESS:
        return False

    async def look() -> bool:
        return await runtime.memory.is_extracted(owner, run.id)

    try:
        return await look() or bool(await wait_for(runtime, owner, look, wait, pace or Pace()))
    except RetryableError:
        return False


async def _wait_until_settled(
    runtime: Runtime, meta: RunMeta, wait: float, pace: Pace
) -> RunSnapshot:
    """Return the run once it is settled, or in its state after `wait` seconds. Raises NotFound."""

    async def look() -> RunSnapshot | None:
        status = await runtime.journal.runs.peek_status(meta.owner, meta.id)
        if status is not None and not status.settled:
            return None
        # This may be out of date: a run whose decision has just arrived was waiting a moment ago.
        snapshot = await snapshot_again(runtime, meta)
        return snapshot if snapshot.meta.shown_status.settled else None

    snapshot = await wait_for(runtime, meta.owner, look, wait, pace, pauses=close_looks)
    return snapshot or await snapshot_again(runtime, meta)


async def list_runs(
    runtime: Runtime,
    owner: str,
    thread_id: str,
    limit: int,
    cursor: str | None,
    takes: Callable[[Run], bool] = lambda run: True,
) -> Page[Run]:
    """Return a thread's runs, newest first. Raises NotFound. `takes` is called for each in turn: the page
    ends before the first run that it refuses."""
    await head_of(runtime, owner, thread_id)
    start = decode_cursor_field(_CURSOR, cursor)
    page = await runtime.journal.runs.page_ids(owner, thread_id, limit, start)
    ids = list(page.items)
    views: list[Run] = []
    feedback = await runtime.journal.feedback.of_runs(owner, thread_id, ids)
    for some in batched(ids, _MAX_CONCURRENT_READS):
        snapshots = await asyncio.gather(*(runtime.journal.runs.snapshot(owner, i) for i in some))
        for run in (run_view(s, runtime.agents) for s in snapshots if s is not None):
            view = run.model_copy(update={"feedback": feedback.get(run.id)})
            if not takes(view):
                # Read again, so that the cursor points behind the last run of the shorter page.
                place = ids.index(view.id)
                return await _shorter(runtime, owner, thread_id, place, start, views=views)
            views.append(view)
    return Page(items=tuple(views), next_cursor=encode_cursor(_CURSOR, page.next_cursor))


async def _shorter(
    runtime: Runtime, owner: str, thread_id: str, limit: int, start: str | None, *, views: list[Run]
) -> Page[Run]:
    """Return the first `limit` runs and the cursor behind them. A run that has begun since is left out, and
    the run that it displaced comes with the next page."""
    page = await runtime.journal.runs.page_ids(owner, thread_id, limit, start)
    page_ids = set(page.items)
    items = tuple(view for view in views if view.id in page_ids)
    return Page(items=items, next_cursor=encode_cursor(_CURSOR, page.next_cursor))


async def cancel(runtime: Runtime, actor: Actor, run_id: str) -> Run:
    """End the actor's run as cancelled, within 2 s; a finished run does not change. Raises NotFound."""
    owner = actor.owner
    await meta_of(runtime, owner, run_id)
    await end_cancelled(runtime, owner, run_id, by=actor)
    return run_view(await snapshot_of(runtime, owner, run_id), runtime.agents)


async def events(
    runtime: Runtime,
    owner: str,
    run_id: str,
    after: int,
    limit: int,
    wait: float = 0,
    pace: Pace | None = None,
) -> EventPage:
    """Return events with seq > `after`, after waiting up to `wait` seconds for the first (as `get`). Raises
    NotFound."""
    await meta_of(runtime, owner, run_id)
    start = min(after, MAX_SEQ)

    async def read() -> EventPage:
        return await runtime.journal.events.page(owner, run_id, start, limit)

    async def look() -> EventPage | None:
        return await read() if await runtime.journal.events.peek(owner, run_id, start) else None

    page = await read()
    if wait > 0 and not (page.items or page.done):
        news = await wait_for(runtime, owner, look, wait, pace or Pace(), pauses=close_looks)
        page = news or await read()
    return page if page.items else page.model_copy(update={"last_seq": after})
