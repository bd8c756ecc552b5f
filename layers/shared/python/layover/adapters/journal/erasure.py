"""The end of a thread: a tombstone, the records of its runs, and their objects in S3 (`ports.Erasure`).

A run's objects in S3 are below its thread's prefix, so that deleting the thread finds them whatever became of
the records."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.heads import as_read
from layover.adapters.journal.items.index import page_index
from layover.adapters.journal.items.records import head_from
from layover.adapters.once import change_once
from layover.clock import rfc3339
from layover.keys import (
    ERASED_PREFIX,
    FEEDBACK_PREFIX,
    HEAD,
    MESSAGE_PREFIX,
    META,
    POINTER,
    REQUEST,
    Keys,
    erased_key,
    pointer_partition,
)
from layover.ports.table import (
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    Exists,
    Missing,
    Put,
    Update,
    all_of,
)
from layover.values.page import Page
from layover.values.thread import ThreadEdit, ThreadHead

_TOMBS = "G#"
"""The prefix in the owner's index of deleted threads."""
_PAGE = 25
_LOWEST, _HIGHEST = " ", "~"
"""The bounds of a run's sort keys: META, STEP#..., EVENT#..."""


class TableErasure:
    """`Erasure`: tombstones are `THREAD#id / HEAD` items."""

    def __init__(self, backing: Backing) -> None:
        self._table = backing.table
        self._blobs = backing.blobs
        self._clock = backing.clock
        self._dice = backing.dice

    async def mark_deleted(
        self, owner: str, thread_id: str, *, forget_profile: bool = False
    ) -> None:
        """See `ports.Erasure`."""
        bury = self._burial(owner, thread_id, Exists("pk"), forget_profile=forget_profile)
        with suppress(ConditionFailed):
            await self._table.write(bury)

    async def mark_unused_deleted(self, head: ThreadHead) -> bool:
        """See `ports.Erasure`."""
        unused = all_of(as_read(head), Equals("updated_at", rfc3339(head.updated_at)))
        bury = self._burial(head.owner, head.id, unused)
        return await change_once(self._table, bury, self._dice) is not None

    def _burial(
        self, owner: str, thread_id: str, when: Condition, *, forget_profile: bool = False
    ) -> Update:
        """Return the write that turns a head into a tombstone: it leaves the list, takes no run, and stays,
        without its owner's words."""
        changes = {
            **dict.fromkeys(ThreadEdit.__annotations__),
            "metadata": "{}",
            "deleted": True,
            "gsi1pk": Keys(owner).partition,
            "gsi1sk": f"{_TOMBS}{thread_id}",
            "forget_profile": True if forget_profile else None,
            "gsi2pk": Keys(owner).deletions,
            "gsi2sk": rfc3339(self._clock.now()),
        }
        return Update(Keys(owner).thread(thread_id), HEAD, set=changes, when=when)

    async def erase_runs(self, owner: str, thread_id: str) -> None:
        """See `ports.Erasure`. What is next to the head goes behind the runs."""
        keys = Keys(owner)
        await self._erase_indexed(keys, thread_id)
        # A deleted thread takes no run, and so no further id of a message, and no feedback.
        pk, high = keys.thread(thread_id), FEEDBACK_PREFIX + _HIGHEST
        while items := await self._table.query(pk, MESSAGE_PREFIX, high, limit=_PAGE):
            await asyncio.gather(*(self._table.write(Delete(pk, item["sk"])) for item in items))

    async def erase_bodies(self, owner: str, thread_id: str) -> None:
        """See `ports.Erasure`."""
        await self._blobs.delete_prefix(Keys(owner).bodies(thread_id))

    async def _erase_indexed(self, keys: Keys, thread_id: str) -> None:
        """Delete the runs that the index has, a page at a time, until none is left; of each, META goes last,
        which keeps the run in the index."""
        after = None
        while True:
            page = await self._table.query_index(
                keys.partition, f"R#{thread_id}#", limit=_PAGE, forward=True, after=after
            )
            for item in page:
                await self._erase_thoroughly(keys, thread_id, item["id"])
            if len(page) < _PAGE:
                return
            # The index is eventually consistent, so it may still have runs that were just deleted.
            after = page[-1]["gsi1sk"]

    async def mark_purged(self, owner: str, thread_id: str, again_at: datetime) -> None:
        """See `ports.Erasure`. Only the first emptying is noted: a later one changes nothing."""
        at = rfc3339(again_at)
        first = all_of(Exists("gsi2sk"), Missing("empty_again_at"))
        await self._change(owner, thread_id, {"empty_again_at": at, "gsi2sk": at}, first)

    async def erase_late(self, owner: str, thread_id: str) -> None:
        """See `ports.Erasure`. Deltas are written without a check of META, as long as a function lives."""
        keys = Keys(owner)
        # A run that was accepted just before the deletion may not have been in the index yet.
        await self._erase_indexed(keys, thread_id)
        pk, high = keys.thread(thread_id), ERASED_PREFIX + _HIGHEST
        while marks := await self._table.query(pk, ERASED_PREFIX, high, limit=_PAGE):
            for mark in marks:
                await self._erase_thoroughly(keys, thread_id, mark["id"])
                await self._table.write(Delete(pk, mark["sk"]))

    async def finish(self, owner: str, thread_id: str) -> None:
        """See `ports.Erasure`. The tombstone leaves the watch."""
        await self._change(owner, thread_id, {"gsi2pk": None, "gsi2sk": None}, Exists("deleted"))

    async def reschedule(self, owner: str, thread_id: str, at: datetime) -> None:
        """See `ports.Erasure`."""
        await self._change(owner, thread_id, {"gsi2sk": rfc3339(at)}, Exists("gsi2sk"))

    async def page_deleted(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """See `ports.Erasure`. They come in the order of their ids."""
        page = await page_index(
            self._table, Keys(owner).partition, _TOMBS, limit=limit, cursor=cursor, forward=True
        )
        # The index does not project the time of a thread's last change.
        heads = tuple(
            head_from(owner, {**item, "updated_at": item["created_at"]}) for item in page.items
        )
        return Page(items=heads, next_cursor=page.next_cursor)

    async def remove_tombstone(self, owner: str, thread_id: str) -> bool:
        """See `ports.Erasure`. A tombstone that is still watched stays."""
        erased = all_of(Exists("deleted"), Missing("gsi2sk"))
        try:
            await self._table.write(Delete(Keys(owner).thread(thread_id), HEAD, when=erased))
        except ConditionFailed as failure:
            return failure.old is None
        return True

    async def erase_run(self, owner: str, thread_id: str, run_id: str) -> None:
        """See `ports.Erasure`. TTL comes later, and a record without its body cannot be read."""
        keys, pk = Keys(owner), Keys(owner).run(run_id)
        while items := await self._table.query(pk, _LOWEST, _HIGHEST, limit=_PAGE, forward=False):
            if any(item.get("pointed") for item in items):
                await self._table.write(Delete(pointer_partition(run_id), POINTER))
            await asyncio.gather(*(self._table.write(Delete(pk, item["sk"])) for item in items))
        await self._blobs.delete_prefix(keys.bodies(thread_id, run_id))

    async def _erase_thoroughly(self, keys: Keys, thread_id: str, run_id: str) -> None:
        """Delete a run of a deleted thread, and leave a mark that leads `erase_late` to it."""
        # An earlier layout kept bodies here instead of below their thread.
        await self._blobs.delete_prefix(keys.blob("runs", run_id) + "/")
        pk = keys.run(run_id)
        run = await self._table.get(pk, META)
        if run is not None and "request" in run:
            # A request key that has since made another run stays.
            with suppress(ConditionFailed):
                mine = Equals("run_id", run["id"])
                await self._table.write(Delete(run["request"], REQUEST, when=mine))
        while items := await self._table.query(pk, _LOWEST, _HIGHEST, limit=_PAGE, forward=False):
            # META last, because it keeps the run in the owner's index, where a repeated erasure finds it.
            rest = [item["sk"] for item in items if item["sk"] != META]
            await asyncio.gather(*(self._table.write(Delete(pk, sk)) for sk in rest))
            if [i["sk"] for i in items] == [META]:
                if items[0].get("pointed"):
                    await self._table.write(Delete(pointer_partition(run_id), POINTER))
                # Once META is gone, only the mark leads to the run's records.
                mark = Put(keys.thread(thread_id), erased_key(run_id), {"id": run_id})
                await self._table.write(mark)
                await self._table.write(Delete(pk, META))
                return

    async def _change(
        self, owner: str, thread_id: str, changes: Mapping[str, Any], when: Condition
    ) -> None:
        """Change a tombstone on this condition; otherwise leave it unchanged."""
        with suppress(ConditionFailed):
            await self._table.write(
                Update(Keys(owner).thread(thread_id), HEAD, set=changes, when=when)
            )
