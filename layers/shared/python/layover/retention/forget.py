"""Forgetting a user: all data stored about them is erased, and only later data stays.

The order to forget is one item (`ports.Dues`, kind `owner`, named by its time), written before anything else:
if a process dies, the sweeper goes on until nothing is left, and removes the order last. Threads are deleted
like any other thread, each with its own watch. A day's two usage counters stay until they expire within two
days: otherwise erasing would be a way around the daily limits.

While the order stands, files that no thread names and exports of that time are hidden by it
(`records.forgetting`): they have no head that could be marked."""

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta

from layover.batches import batched
from layover.clock import from_rfc3339, rfc3339
from layover.errors import RetryableError
from layover.files.store import Files
from layover.keys import Keys
from layover.ports import Due
from layover.retention.erase import LAST_WRITER, erase
from layover.retention.export_job import drop_export
from layover.runtime import Runtime
from layover.sockets.subscriptions import close
from layover.values.base import Time, Value
from layover.values.thread import ThreadHead

BATCH_SIZE = 25
"""Threads that are marked, or tombstones that are removed, in parallel."""
MARK_WITHIN_S = 20.0
"""Seconds that a request has for marking; API Gateway gives up after 30."""
ERASE_TIMEOUT = timedelta(seconds=2)
"""The time that a request spends on erasing. The data is out of sight by then; the sweeper erases the
rest."""
_PAGE = 100
_log = logging.getLogger("layover")


class Forgetting(Value):
    """The erasure of a user's data from before `until`."""

    until: Time


async def forget(runtime: Runtime, owner: str, within: timedelta = ERASE_TIMEOUT) -> Forgetting:
    """Hide the owner's data from now on. Raises RetryableError (DatabaseWaking) if that is not certain yet:
    it will be done all the same."""
    until = runtime.clock.now()
    await runtime.journal.dues.schedule(owner, "owner", rfc3339(until), until)
    # Otherwise the next list would restore the threads from the database.
    await runtime.journal.heads.add_missing(owner, ())
    try:
        async with asyncio.timeout(MARK_WITHIN_S):
            heads = await _mark(runtime, owner, until)
            await runtime.memory.forget(owner, until, _late(runtime, until))
    except TimeoutError as error:
        raise RetryableError("there is so much to erase that it takes another request") from error
    with suppress(RetryableError, TimeoutError):
        async with asyncio.timeout(within.total_seconds()):
            # Copies of everything, and S3 answers their URLs without asking anybody.
            await _drop_exports(runtime, owner, until)
            await _close_sockets(runtime, owner)
            await runtime.accounts.revoke_all(owner, until)
            await runtime.connections.grants.erase(owner, until)
            # Threads with an active run come first, because that run still writes.
            for head in sorted(heads, key=lambda h: h.active_run is None):
                await erase(runtime, owner, head.id)
            await _drop_unused(runtime, owner, until)
    return Forgetting(until=until)


async def carry_on(runtime: Runtime, due: Due) -> datetime | None:
    """Continue to erase a user's data. Return the time to go on again, None once nothing is left, or if a
    later order does all of it: a client repeats a request that was answered with 503."""
    owner, until = due.owner, from_rfc3339(due.name)
    orders = await runtime.journal.dues.of(owner, "owner")
    if any(from_rfc3339(order.name) > until for order in orders):
        return None
    now, patience = runtime.clock.now(), runtime.settings.sweep_patience
    # Once more, because the index of threads is eventually consistent and a tool may have been at work.
    await _mark(runtime, owner, until)
    await runtime.memory.forget(owner, until, _late(runtime, until))
    await _close_sockets(runtime, owner)
    await runtime.accounts.revoke_all(owner, until)
    await runtime.connections.grants.erase(owner, until)
    await _drop_exports(runtime, owner, until)
    await _drop_unused(runtime, owner, until)
    last_writer = until + patience * LAST_WRITER
    if now < last_writer:
        return last_writer
    if not await _unmake(runtime, owner, until):
        return now + patience
    while await runtime.memory.drop(owner, until):
        pass
    # Objects that nothing refers to any more. S3 knows whole seconds: an object of the same second may be
    # new.
    await runtime.blobs.delete_prefix(Keys(owner).blob(""), until.replace(microsecond=0))
    for each in await runtime.journal.dues.of(owner):
        if each.kind not in ("owner", "grant") and each.made_at <= until:
            await runtime.journal.dues.remove(each)
    await runtime.journal.heads.unmark(owner)
    _log.info("a user is forgotten")
    return None


async def _mark(runtime: Runtime, owner: str, until: datetime) -> list[ThreadHead]:
    """Delete the owner's threads, as far as they can be seen."""
    marked: list[ThreadHead] = []
    cursor: str | None = None
    while True:
        page = await runtime.journal.heads.page(owner, _PAGE, cursor)
        heads = [head for head in page.items if head.created_at <= until]
        for some in batched(heads, BATCH_SIZE):
            await asyncio.gather(*(runtime.journal.erasure.mark_deleted(owner, h.id) for h in some))
        marked += heads
        cursor = page.next_cursor
        if cursor is None:
            return marked


async def _unmake(runtime: Runtime, owner: str, until: datetime) -> bool:
    """Remove the tombstones of threads that are erased. Return False if some are not yet: behind a page of
    such threads, no other is tried, because the sweeper comes again and again while it erases thousands."""
    is_complete, cursor = True, None
    while True:
        page = await runtime.journal.erasure.page_deleted(owner, _PAGE, cursor)
        heads = [head for head in page.items if head.created_at <= until]
        removed: list[bool] = []
        for some in batched(heads, BATCH_SIZE):
            removed += await asyncio.gather(
                *(runtime.journal.erasure.remove_tombstone(owner, head.id) for head in some)
            )
        is_complete = is_complete and all(removed)
        cursor = page.next_cursor
        if cursor is None or (removed and not any(removed)):
            return is_complete


async def _close_sockets(runtime: Runtime, owner: str) -> None:
    """Close connections opened before: they follow runs that are gone. A client that is still there
    reconnects."""
    if runtime.sockets is not None:
        for connection_id in await runtime.sockets.connections.of(owner):
            await close(runtime, connection_id)


async def _drop_unused(runtime: Runtime, owner: str, until: datetime) -> None:
    """Delete files that no message named: no thread leads to them."""
    files = Files(runtime.blobs, owner)
    for due in await runtime.journal.dues.of(owner, "file"):
        if due.made_at > until:
            # A file has its time before it is scheduled: this one may have been announced before.
            facts = await files.facts(due.name)
            if facts is None or facts.created_at > until:
                continue
        await files.drop_unused(due.name)


async def _drop_exports(runtime: Runtime, owner: str, until: datetime) -> None:
    for due in await runtime.journal.dues.of(owner, "export"):
        if due.made_at <= until:
            await runtime.blobs.delete(due.name)
    for due in await runtime.journal.dues.of(owner, "export_job"):
        if due.made_at <= until:
            await drop_export(runtime, owner, due.name)


def _late(runtime: Runtime, until: datetime) -> datetime:
    """Return the time until which a tool that could not be stopped may still have written."""
    return until + runtime.settings.sweep_patience
