"""The end of a run's records: they expire some time after the run, or go with their thread."""

import asyncio
from contextlib import suppress

from layover.adapters.journal.table import ConditionFailed, Delete, Exists, Put, Table, Update
from layover.keys import ERASED_PREFIX, META, POINTER, Keys, erased_key, pointer_partition
from layover.ports import Blobs

_PAGE = 25
_LOWEST, _HIGHEST = " ", "~"
"""Every sort key of a run lies between: META, STEP#..., EVENT#..."""


class Erasure:
    """Empties the partitions of runs."""

    def __init__(self, table: Table, blobs: Blobs) -> None:
        self._table = table
        self._blobs = blobs

    async def erase_runs(self, keys: Keys, thread_id: str) -> None:
        """Each run: what it has in S3, its items, META last (it keeps the run in the index)."""
        after: str | None = None
        while True:
            found = await self._table.query_index(
                keys.partition, f"R#{thread_id}#", limit=_PAGE, forward=True, after=after
            )
            for item in found:
                await self._erase_run(keys, thread_id, item["id"])
            if len(found) < _PAGE:
                return
            # The index is eventually consistent: what was just deleted may still be in it.
            after = found[-1]["gsi1sk"]

    async def erase_late(self, keys: Keys, thread_id: str) -> None:
        """Each run that was erased once more, and the mark that says so: deltas and what goes to S3
        are written without a look at META, for as long as a function lives."""
        pk, high = keys.thread(thread_id), ERASED_PREFIX + _HIGHEST
        while marks := await self._table.query(pk, ERASED_PREFIX, high, limit=_PAGE):
            for mark in marks:
                await self._erase_run(keys, thread_id, mark["id"])
                await self._table.write(Delete(pk, mark["sk"]))

    async def retire(self, keys: Keys, run_id: str, expires: int) -> None:
        """Give every item its time to live, META last: it leaves the watch with that."""
        pk = keys.run(run_id)
        low = _LOWEST
        while items := await self._table.query(pk, low, _HIGHEST, limit=_PAGE):
            rest = [i["sk"] for i in items if i["sk"] != META and i.get("expires") != expires]
            await asyncio.gather(*(self._expire(pk, sk, {"expires": expires}) for sk in rest))
            if any(i.get("pointed") for i in items):
                await self._expire(pointer_partition(run_id), POINTER, {"expires": expires})
            low = items[-1]["sk"] + " "
        gone = {"expires": expires, "gsi2pk": None, "gsi2sk": None}
        await self._expire(pk, META, gone)

    async def _expire(self, pk: str, sk: str, changes: dict[str, int | None]) -> None:
        with suppress(ConditionFailed):
            await self._table.write(Update(pk, sk, set=changes, when=Exists("pk")))

    async def _erase_run(self, keys: Keys, thread_id: str, run_id: str) -> None:
        await self._blobs.delete_prefix(keys.blob("runs", run_id) + "/")
        pk = keys.run(run_id)
        while items := await self._table.query(pk, _LOWEST, _HIGHEST, limit=_PAGE, forward=False):
            rest = [item["sk"] for item in items if item["sk"] != META]
            await asyncio.gather(*(self._table.write(Delete(pk, sk)) for sk in rest))
            if [i["sk"] for i in items] == [META]:
                if items[0].get("pointed"):
                    await self._table.write(Delete(pointer_partition(run_id), POINTER))
                # Nothing but the mark leads to the run's records when META is gone.
                mark = Put(keys.thread(thread_id), erased_key(run_id), {"id": run_id})
                await self._table.write(mark)
                await self._table.write(Delete(pk, META))
                return
