"""Expiry of data: the sweeper looks at it when its lifetime is over, and deletes or keeps it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from layover.errors import LayoverError, NotFound
from layover.files.node_log import expire_node
from layover.files.store import Files
from layover.ports import Due, DueKind
from layover.records.lifetimes import end_of_day
from layover.records.threads import head_of
from layover.retention.export_job import carry_on_export
from layover.retention.forget import carry_on
from layover.runtime import Runtime
from layover.values.decision import OUTAGE_QUIET

BATCH_SIZE = 100
"""Dues that are looked at before the next ones are read, in which every owner gets a turn again."""
MAX_PAUSE = 16
"""The longest pause after looks that failed, in times of the sweeper's patience."""
UNKNOWN_AGAIN = timedelta(hours=1)
TELL_AGAIN = 4
"""The pause before a service that was away is told again, in times of the sweeper's patience."""
Look = Callable[[Runtime, Due], Awaitable[datetime | None]]
"""Returns the time of the next look; None if the data is gone, or stays for good."""
logger = logging.getLogger("layover")


async def expire(runtime: Runtime, read_at: datetime, end: float) -> dict[str, int]:
    """Look at the data that is due, until `end` in the loop's time. Return the work done, counted."""
    counts: Counter[str] = Counter()
    past: set[tuple[str, str, str]] = set()
    while True:
        overdue = await runtime.journal.dues.overdue(read_at, BATCH_SIZE)
        page = [due for due in overdue if _name(due) not in past]
        await _expire_page(runtime, page, end, counts)
        past.update(map(_name, page))
        if not page or asyncio.get_running_loop().time() >= end:
            return dict(counts)


def _name(due: Due) -> tuple[str, str, str]:
    return due.owner, due.kind, due.name


async def _expire_page(
    runtime: Runtime, page: Iterable[Due], end: float, counts: Counter[str]
) -> None:
    for due in sorted(page, key=lambda d: _LONG.get(d.kind, 0)):
        try:
            async with asyncio.timeout_at(end):
                again = await _LOOKS.get(due.kind, _unknown)(runtime, due)
        except TimeoutError:
            counts["unfinished"] += 1
            break
        except Exception as error:  # whatever is wrong with one item: the others are due as well
            counts["trouble"] += 1
            about = {"kind": due.kind, "cause": type(error).__name__}
            logger.warning("a due item stays for now", extra=about)
            with suppress(LayoverError):
                await runtime.journal.dues.put_off(due, after_failures(runtime, due.failures))
            continue
        if again is None:
            await runtime.journal.dues.remove(due)
        else:
            await runtime.journal.dues.reschedule(due, again)
        counts[_outcome(due, again)] += 1


def after_failures(runtime: Runtime, failures: int) -> datetime:
    """Return the time of the next look at an item of which a look has failed, after so many others in a row:
    what fails for long takes few looks from others."""
    pause: timedelta = runtime.settings.sweep_patience * min(2**failures, MAX_PAUSE)
    return runtime.clock.now() + pause


def _outcome(due: Due, again: datetime | None) -> str:
    if due.kind not in _LOOKS:
        return "unknown"
    return "kept" if again else f"expired {due.kind}"


async def _unknown(runtime: Runtime, due: Due) -> datetime | None:
    """Leave a due of an unknown kind to the newer release that knows it."""
    logger.warning("a newer release has to look at a due item", extra={"kind": due.kind})
    return runtime.clock.now() + UNKNOWN_AGAIN


async def _run(runtime: Runtime, due: Due) -> datetime | None:
    thread_id, _, run_id = due.name.partition("/")
    await runtime.journal.erasure.erase_run(due.owner, thread_id, run_id)
    return None


async def _thread(runtime: Runtime, due: Due) -> datetime | None:
    head = await runtime.journal.heads.get(due.owner, due.name)
    retention = runtime.settings.thread_retention
    if head is None or head.deleted or retention is None:
        return None
    now = runtime.clock.now()
    if head.active_run is not None or head.waiting_runs:
        return end_of_day(now)
    if head.updated_at + retention > now:
        return end_of_day(head.updated_at + retention)
    if await runtime.journal.erasure.mark_unused_deleted(head):
        return None
    # Its user came back a moment ago.
    return end_of_day(now)


async def _file(runtime: Runtime, due: Due) -> datetime | None:
    await Files(runtime.blobs, due.owner).drop_unused(due.name)
    return None


async def _entries(runtime: Runtime, due: Due) -> datetime | None:
    retention = runtime.settings.entry_retention
    if retention is None:
        return None
    before = runtime.clock.now() - retention
    oldest = await runtime.memory.expire_entries(due.owner, before)
    return None if oldest is None else end_of_day(oldest + retention)


async def _import(runtime: Runtime, due: Due) -> datetime | None:
    """Make the head of a thread that was imported by a process that died before it could."""
    with suppress(NotFound):
        await head_of(runtime, due.owner, due.name)
    return None


async def _grant(runtime: Runtime, due: Due) -> datetime | None:
    if await runtime.accounts.tell_left(due.owner, due.name):
        return None
    return runtime.clock.now() + runtime.settings.sweep_patience * TELL_AGAIN


async def _outage(runtime: Runtime, due: Due) -> datetime | None:
    """Ask whoever tells operators. If the outage is not over, they ask for another look."""
    await runtime.callbacks.publish(OUTAGE_QUIET, {"outage": due.name.partition("@")[0]})
    return None


async def _export(runtime: Runtime, due: Due) -> datetime | None:
    await runtime.blobs.delete(due.name)
    return None


_LOOKS: Mapping[DueKind, Look] = {
    "outage": _outage,
    "run": _run,
    "thread": _thread,
    "file": _file,
    "node": lambda runtime, due: expire_node(runtime, due.name),
    "entries": _entries,
    "export": _export,
    "owner": carry_on,
    "export_job": carry_on_export,
    "import": _import,
    "grant": _grant,
}
_LONG: Mapping[DueKind, int] = {"owner": 1, "export_job": 2}
"""Kinds of which one may take all the remaining time, in the order in which they come last."""
