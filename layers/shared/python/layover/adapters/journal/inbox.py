"""Calls that wait for the members of groups, over all users.

A waiting call has a place in a partition of the watch index, through an attribute of its item. There is
one partition for each set of groups that a rule names; marks lead from a group to the sets that it is in."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from typing import Any

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.items.marks import Marks
from layover.adapters.journal.runs import TableRuns
from layover.batches import batched
from layover.keys import (
    POINTER,
    approver_partition,
    group_partition,
    pointer_partition,
    rule_name,
)
from layover.ports import InboxItem
from layover.ports.table import Action, Item, Put
from layover.values.decision import WAIT_RECORD_LIFE, ApprovalRule
from layover.values.page import Page
from layover.values.runs.run import CallRecord, RunMeta

_MAX_CONCURRENT_READS = 16


class TableInbox:
    """`Inbox`, and the places of calls in it."""

    def __init__(self, backing: Backing, runs: TableRuns) -> None:
        self._table = backing.table
        self._runs = runs
        self._marks = Marks(backing.table, backing.clock)

    async def place(
        self, run: RunMeta, call: CallRecord, approval: ApprovalRule | None
    ) -> dict[str, Any]:
        """Return the attributes that list a waiting call where the people whom this rule names look; {} if
        the owner decides."""
        if call.suspension is None or approval is None:
            return {}
        groups = approval.by
        rule = rule_name(groups)
        # The marks come before the call waits, because without a mark no approver would find it.
        await asyncio.gather(
            *(self._marks.put(group_partition(g), rule, WAIT_RECORD_LIFE) for g in groups)
        )
        at = call.suspension.model_dump(mode="json")["requested_at"]
        return {
            "owner": run.owner,
            "gsi2pk": approver_partition(rule),
            "gsi2sk": f"{at}#{run.id}#{call.key}",
        }

    def pointer(self, run: RunMeta) -> Action:
        """Return the write that leads from the run's id to its owner, for the same transaction."""
        # Without a condition, because a run has one owner, so a second pointer says the same.
        return Put(pointer_partition(run.id), POINTER, {"owner": run.owner})

    async def page(
        self, groups: Collection[str], limit: int, cursor: str | None
    ) -> Page[InboxItem]:
        """See `ports.Inbox`."""
        names = await asyncio.gather(
            *(self._marks.names(group_partition(g)) for g in sorted(groups))
        )
        partitions = [approver_partition(rule) for rule in sorted({r for n in names for r in n})]
        matches: list[Item] = []
        after = cursor or ""
        async with aclosing(self._waiting_in(partitions, after, limit)) as waiting:
            async for place, item in waiting:
                if len(matches) == limit:
                    return await self._page_of(matches, after)
                after = place
                if item is not None:
                    matches.append(item)
        return await self._page_of(matches, None)

    async def _waiting_in(
        self, partitions: Sequence[str], after: str, limit: int
    ) -> AsyncGenerator[tuple[str, Item | None], None]:
        """Yield the places of the partitions behind this one, in order, each with its call; None: it does not
        wait there. Reads about `limit` places at a time."""
        more = True
        while more:
            pages = [self._table.behind(p, after, limit + 1) for p in partitions]
            # A call that was escalated a moment ago may still be in the partition of its first rule as well.
            unique = {p for page in await asyncio.gather(*pages) for p in page}
            places = sorted(unique)[: limit + 1]
            more = len(places) > limit
            for some in batched(places, _MAX_CONCURRENT_READS):
                items = await asyncio.gather(*(self._table.get(pk, sk) for _, pk, sk in some))
                for (after, _, _), item in zip(some, items, strict=True):
                    # The index is eventually consistent, and only the item tells whether a call has been
                    # decided.
                    waits = item is not None and item.get("gsi2sk") == after
                    yield after, item if waits else None

    async def owner_of(self, run_id: str) -> str | None:
        """See `ports.Inbox`."""
        item = await self._table.get(pointer_partition(run_id), POINTER)
        return str(item["owner"]) if item else None

    async def _page_of(self, items: list[Item], next_cursor: str | None) -> Page[InboxItem]:
        calls = [
            InboxItem(item["owner"], item["thread_id"], await self._runs.approval_of(item))
            for item in items
        ]
        return Page(items=tuple(calls), next_cursor=next_cursor)
