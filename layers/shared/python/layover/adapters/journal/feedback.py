"""Feedback of users on their runs (`ports.FeedbackBook`).

An item is next to the head of its thread: it outlives the run's records, and goes with the thread. Its place
in the watch index lists the feedback of all owners; the index has keys only, so the item tells."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime

from layover.adapters.journal.backing import Backing
from layover.batches import batched
from layover.clock import rfc3339
from layover.keys import FEEDBACK, FEEDBACK_PREFIX, HEAD, Keys, feedback_key
from layover.ports.table import Check, Delete, Exists, Item, Missing, Put, TransactionFailed, all_of
from layover.values.page import Page
from layover.values.runs.feedback import Feedback, RunFeedback

_MAX_CONCURRENT_READS = 16
_HIGHEST = "~"


class TableFeedback:
    """`FeedbackBook`: `THREAD#id / RUN_FEEDBACK#run_id` items."""

    def __init__(self, backing: Backing) -> None:
        self._table = backing.table
        self._dice = backing.dice

    async def put(self, feedback: RunFeedback) -> bool:
        """See `ports.FeedbackBook`."""
        pk, key = _place(feedback.owner, feedback.thread_id, feedback.run_id)
        item = {
            "b": feedback.model_dump_json(),
            "gsi2pk": FEEDBACK,
            "gsi2sk": f"{rfc3339(feedback.at)}#{feedback.run_id}",
        }
        # The erasure of a deleted thread may be over, and nothing finds what has no head.
        return await self._change(Put(pk, key, item))

    async def remove(self, owner: str, thread_id: str, run_id: str) -> bool:
        """See `ports.FeedbackBook`."""
        return await self._change(Delete(*_place(owner, thread_id, run_id)))

    async def _change(self, write: Put | Delete) -> bool:
        """Make a change, unless its thread is deleted or not there: then return False."""
        is_there = Check(write.pk, HEAD, all_of(Exists("pk"), Missing("deleted")))
        try:
            await self._table.transact([is_there, write], self._dice.hex(16))
        except TransactionFailed:
            return False
        return True

    async def get(self, owner: str, thread_id: str, run_id: str) -> Feedback | None:
        """See `ports.FeedbackBook`."""
        item = await self._table.get(*_place(owner, thread_id, run_id))
        return _read(item).plain if item is not None else None

    async def of_runs(
        self, owner: str, thread_id: str, run_ids: Collection[str]
    ) -> Mapping[str, Feedback]:
        """See `ports.FeedbackBook`. Ids of runs follow their time: those of a page are next to each other."""
        if not run_ids:
            return {}
        pk = Keys(owner).thread(thread_id)
        low, high = feedback_key(min(run_ids)), feedback_key(max(run_ids))
        every = map(_read, await self._table.query(pk, low, high))
        return {each.run_id: each.plain for each in every if each.run_id in run_ids}

    async def page_thread(
        self, owner: str, thread_id: str, limit: int, cursor: str | None
    ) -> Page[RunFeedback]:
        """See `ports.FeedbackBook`."""
        low = f"{feedback_key(cursor)}\0" if cursor is not None else FEEDBACK_PREFIX
        pk, high = Keys(owner).thread(thread_id), FEEDBACK_PREFIX + _HIGHEST
        items = await self._table.query(pk, low, high, limit=limit + 1)
        page = tuple(map(_read, items[:limit]))
        return Page(items=page, next_cursor=page[-1].run_id if len(items) > limit else None)

    async def page(
        self, since: datetime | None, limit: int, cursor: str | None
    ) -> Page[RunFeedback]:
        """See `ports.FeedbackBook`."""
        after = cursor if cursor is not None else rfc3339(since) if since is not None else ""
        places = await self._table.behind(FEEDBACK, after, limit + 1)
        page: list[RunFeedback] = []
        for some in batched(places[:limit], _MAX_CONCURRENT_READS):
            items = await asyncio.gather(*(self._table.get(pk, sk) for _, pk, sk in some))
            for (place, _, _), item in zip(some, items, strict=True):
                # The index may be behind: newer feedback of the same run has another place.
                if item is not None and item.get("gsi2sk") == place:
                    page.append(_read(item))
        more = places[limit - 1][0] if len(places) > limit else None
        return Page(items=tuple(page), next_cursor=more)


def _place(owner: str, thread_id: str, run_id: str) -> tuple[str, str]:
    return Keys(owner).thread(thread_id), feedback_key(run_id)


def _read(item: Item) -> RunFeedback:
    return RunFeedback.model_validate_json(item["b"])
