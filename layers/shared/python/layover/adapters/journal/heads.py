"""Threads' heads: creating, listing and editing them, and handing a thread from one run to the next."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Unpack

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.items.index import page_index
from layover.adapters.journal.items.records import (
    head_attributes,
    head_from,
    head_item,
    thread_index,
)
from layover.clock import rfc3339
from layover.keys import HEAD, META, Keys
from layover.ports.table import (
    Action,
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    Exists,
    Item,
    Missing,
    Put,
    Update,
    all_of,
    same,
)
from layover.values.page import Page
from layover.values.runs.run import Outcome, RunMeta, Status
from layover.values.thread import ThreadEdit, ThreadHead, after

_THREADS = "T#"
"""The prefix in the owner's index of threads by their last change."""
_KNOWN = "THREADS"
"""The sort key of the mark that all of the owner's heads are in the journal."""


class TableHeads:
    """`Heads`: `THREAD#id / HEAD` items."""

    def __init__(self, backing: Backing) -> None:
        self._table = backing.table
        self._clock = backing.clock

    async def put(self, head: ThreadHead) -> None:
        """See `ports.Heads`."""
        keys = Keys(head.owner)
        put = Put(keys.thread(head.id), HEAD, head_item(keys, head), when=Missing("pk"))
        with suppress(ConditionFailed):
            await self._table.write(put)

    async def get(self, owner: str, thread_id: str) -> ThreadHead | None:
        """See `ports.Heads`."""
        item = await self._table.get(Keys(owner).thread(thread_id), HEAD)
        return head_from(owner, item) if item else None

    async def page(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """See `ports.Heads`."""
        page = await page_index(
            self._table,
            Keys(owner).partition,
            _THREADS,
            limit=limit,
            cursor=cursor,
            forward=False,
        )
        heads = tuple(_listed(owner, item) for item in page.items)
        return Page(items=heads, next_cursor=page.next_cursor)

    async def has_all(self, owner: str) -> bool:
        """See `ports.Heads`."""
        return await self._table.get(Keys(owner).partition, _KNOWN) is not None

    async def add_missing(self, owner: str, heads: Sequence[ThreadHead]) -> None:
        """See `ports.Heads`."""
        for head in heads:
            await self.put(head)
        # Last, so that a death before it repeats the work.
        await self._table.write(Put(Keys(owner).partition, _KNOWN, {"id": _KNOWN}))

    async def unmark(self, owner: str) -> None:
        """See `ports.Heads`."""
        await self._table.write(Delete(Keys(owner).partition, _KNOWN))

    async def edit(
        self,
        owner: str,
        thread_id: str,
        *,
        untitled_only: bool = False,
        **edit: Unpack[ThreadEdit],
    ) -> ThreadHead | None:
        """See `ports.Heads`."""
        now = rfc3339(self._clock.now())
        attributes = head_attributes({k: v for k, v in edit.items() if v is not None})
        changes = {**attributes, "updated_at": now, **thread_index(Keys(owner), thread_id, now)}
        alive: Condition = all_of(Exists("pk"), Missing("deleted"))
        if untitled_only:
            alive = all_of(alive, Missing("title"))
        try:
            item = await self._table.write(
                Update(Keys(owner).thread(thread_id), HEAD, set=changes, when=alive)
            )
        except ConditionFailed:
            return None
        return head_from(owner, item) if item else None


def _listed(owner: str, item: Item) -> ThreadHead:
    """Return a head from the index, where `updated_at` is part of the key."""
    return head_from(owner, {**item, "updated_at": item["gsi1sk"].split("#")[1]})


class QueueHandover:
    """The effect of a run's end on its thread: the newest message, and the next run in the queue."""

    def __init__(self, backing: Backing) -> None:
        self._table = backing.table
        self._clock = backing.clock

    async def plan(
        self, run: RunMeta, outcome: Outcome, head: ThreadHead | None = None
    ) -> tuple[list[Action], str | None]:
        """Return the actions for the end's transaction, and the run that holds the thread afterwards. `head`:
        as read before; the transaction fails if it has changed since."""
        keys = Keys(run.owner)
        item: Item | None
        if head is not None and head.active_run == run.id:
            item = {k: v for k, v in head_item(keys, head).items() if v is not None}
        else:
            item = await self._table.get(keys.thread(run.thread_id), HEAD)
        if item is None or item.get("active_run") != run.id:
            return [], None
        queue: list[str] = item.get("queue", [])
        dequeued, starting = 0, None
        # A deleted thread starts no run, since its eraser cancels the queue.
        for candidate in [] if item.get("deleted") else queue:
            # A run that has been cancelled gives way to the next.
            dequeued += 1
            starting = await self._start(keys, candidate, item["agent"], outcome)
            if starting:
                break
        now = rfc3339(self._clock.now())
        next_run = queue[dequeued - 1] if starting else None
        changes: dict[str, Any] = {
            "leaf_id": outcome.leaf_id,
            "last_created_at": rfc3339(outcome.last_created_at),
            "updated_at": now,
            "active_run": next_run,
            "queue": queue[dequeued:] or None,
            "interrupts": max(0, item.get("interrupts", 0) - dequeued),
        }
        if not outcome.saved:
            # The thread's next turn saves it before anything reads the history.
            changes["unsaved"] = [*item.get("unsaved", ()), run.id]
        if not item.get("deleted"):
            # A tombstone has left the list of threads, and does not come back.
            changes.update(thread_index(keys, run.thread_id, now))
        # Everything that the plan depends on, and nothing else: an edited title does not matter.
        holds = all_of(
            Equals("active_run", run.id),
            same("queue", queue or None),
            same("deleted", item.get("deleted")),
            same("unsaved", item.get("unsaved")),
            Equals("agent", item["agent"]),
        )
        update = Update(keys.thread(run.thread_id), HEAD, set=changes, when=holds)
        # Together with the end, so that no death leaves a free thread with runs in its queue. The next
        # execution is started after it, and the run is due in the watch from now on.
        return [update, *([starting] if starting else [])], next_run

    async def _start(self, keys: Keys, run_id: str, agent: str, outcome: Outcome) -> Update | None:
        """Return the move of a queued run to running. It is the run of the agent that has the thread now, and
        its input follows the leaf that the thread now has."""
        item = await self._table.get(keys.run(run_id), META)
        if item is None or item["status"] != Status.QUEUED.value:
            return None
        return Update(
            keys.run(run_id),
            META,
            set={
                "agent": agent,
                "input_at": rfc3339(after(outcome.last_created_at, self._clock.now())),
                "input_parent": outcome.leaf_id,
                "status": Status.RUNNING.value,
                "execution": f"{run_id}-1",
                "updated_at": rfc3339(self._clock.now()),
                "gsi2sk": rfc3339(self._clock.now()),
            },
            when=Equals("status", Status.QUEUED.value),
        )
