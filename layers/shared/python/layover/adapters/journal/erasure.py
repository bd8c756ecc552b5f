"""The end of a run's records: they expire some time after the run, or are deleted with their thread.

A run's objects in S3 are below its thread there, so that deleting the thread finds them by prefix, whatever
became of the records. The records expire by TTL. S3 has no fitting lifecycle rule (a run may wait for a
year), so the sweeper looks at a run with objects in S3 when its records expire (`adapters.journal.dues`)."""

import asyncio
from contextlib import suppress

from layover.adapters.journal.items.expiry import is_in_s3, is_near
from layover.keys import ERASED_PREFIX, META, POINTER, REQUEST, Keys, erased_key, pointer_partition
from layover.ports import Blobs
from layover.ports.table import (
    ConditionFailed,
    Delete,
    Equals,
    Exists,
    Item,
    Put,
    Table,
    Update,
)

_PAGE = 25
_LOWEST, _HIGHEST = " ", "~"
"""The bounds of a run's sort keys: META, STEP#..., EVENT#..."""


class Erasure:
    """Deletes the records of runs, or lets them expire."""

    def __init__(self, table: Table, blobs: Blobs) -> None:
        self._table = table
        self._blobs = blobs

    async def erase_runs(self, keys: Keys, thread_id: str) -> None:
        """Delete each run: its objects in S3, its items, and META last (META keeps the run in the index)."""
        await self._erase_runs(keys, thread_id)
        await self._blobs.delete_prefix(keys.bodies(thread_id))

    async def _erase_runs(self, keys: Keys, thread_id: str) -> None:
        after: str | None = None
        while True:
            page = await self._table.query_index(
                keys.partition, f"R#{thread_id}#", limit=_PAGE, forward=True, after=after
            )
            for item in page:
                await self._erase_run(keys, thread_id, item["id"])
            if len(page) < _PAGE:
                return
            # The index is eventually consistent: runs that were just deleted may still be in it.
            after = page[-1]["gsi1sk"]

    async def erase_late(self, keys: Keys, thread_id: str) -> None:
        """Delete each erased run once more, and its mark. Deltas and objects in S3 are written without a look
        at META, for as long as a function lives."""
        pk, high = keys.thread(thread_id), ERASED_PREFIX + _HIGHEST
        while marks := await self._table.query(pk, ERASED_PREFIX, high, limit=_PAGE):
            for mark in marks:
                await self._erase_run(keys, thread_id, mark["id"])
                await self._table.write(Delete(pk, mark["sk"]))
        await self._blobs.delete_prefix(keys.bodies(thread_id))

    async def erase_run(self, keys: Keys, thread_id: str, run_id: str) -> None:
        """Delete one run whose time is over: TTL comes later, and a record without its body cannot be
        read."""
        pk = keys.run(run_id)
        while items := await self._table.query(pk, _LOWEST, _HIGHEST, limit=_PAGE, forward=False):
            if any(item.get("pointed") for item in items):
                await self._table.write(Delete(pointer_partition(run_id), POINTER))
            await asyncio.gather(*(self._table.write(Delete(pk, item["sk"])) for item in items))
        await self._blobs.delete_prefix(keys.bodies(thread_id, run_id))

    async def expire(self, keys: Keys, run_id: str, expires: int) -> str | None:
        """Give every item but META its time to live. Return the run's thread if any item refers to S3.

        The items tell, not S3, where a list costs as much as eight writes: an object that was put there for a
        record that was never written goes with its thread."""
        pk, low = keys.run(run_id), _LOWEST
        thread_id, has_objects = None, False
        while items := await self._table.query(pk, low, _HIGHEST, limit=_PAGE):
            late = (i for i in items if i["sk"] != META and not is_near(i.get("expires"), expires))
            rest = [i["sk"] for i in late]
            await asyncio.gather(*(self._expire(pk, sk, {"expires": expires}) for sk in rest))
            if any(i.get("pointed") for i in items):
                await self._expire(pointer_partition(run_id), POINTER, {"expires": expires})
            thread_id = next((i["thread_id"] for i in items if i["sk"] == META), thread_id)
            has_objects = has_objects or any(map(is_in_s3, items))
            low = items[-1]["sk"] + " "
        return thread_id if has_objects else None

    async def set_ttl(self, keys: Keys, run_id: str, expires: int) -> None:
        """Set META's time to live, and take the run off the watch with it."""
        expiry = {"expires": expires, "gsi2pk": None, "gsi2sk": None}
        await self._expire(keys.run(run_id), META, expiry)

    async def _expire(self, pk: str, sk: str, changes: dict[str, int | None]) -> None:
        with suppress(ConditionFailed):
            await self._table.write(Update(pk, sk, set=changes, when=Exists("pk")))

    async def _erase_run(self, keys: Keys, thread_id: str, run_id: str) -> None:
        # An earlier layout kept bodies here, not below their thread.
        await self._blobs.delete_prefix(keys.blob("runs", run_id) + "/")
        pk = keys.run(run_id)
        await self._erase_request(await self._table.get(pk, META))
        while items := await self._table.query(pk, _LOWEST, _HIGHEST, limit=_PAGE, forward=False):
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

    async def _erase_request(self, run: Item | None) -> None:
        """Delete the request key that made the run. A key that has made another run since stays."""
        if run is not None and "request" in run:
            with suppress(ConditionFailed):
                mine = Equals("run_id", run["id"])
                await self._table.write(Delete(run["request"], REQUEST, when=mine))
