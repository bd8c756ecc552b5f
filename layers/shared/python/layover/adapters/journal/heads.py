"""Threads' heads: create, list and edit them, and hand a thread from one run to the next."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from layover.adapters.journal.items.codec import PayloadStore
from layover.adapters.journal.items.records import (
    head_attributes,
    head_from,
    head_item,
    thread_index,
)
from layover.clock import rfc3339
from layover.keys import HEAD, META, Keys
from layover.ports import Clock
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
    Table,
    Update,
    all_of,
    same,
)
from layover.values.page import Page
from layover.values.runs.run import Outcome, RunMeta, Status
from layover.values.thread import ThreadEdit, ThreadHead, after

_THREADS = "T#"
"""The prefix in the owner's index of threads by their last change."""
_TOMBS = "G#"
"""The prefix in the owner's index of deleted threads."""
_KNOWN = "THREADS"
"""The sort key of the mark that all of the owner's heads are in the journal."""


class ThreadRecords:
    """`THREAD#id / HEAD` items."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def put(self, head: ThreadHead) -> None:
        """Create a thread. An existing one stays as it is."""
        keys = Keys(head.owner)
        put = Put(keys.thread(head.id), HEAD, head_item(keys, head), when=Missing("pk"))
        try:
            await self._table.write(put)
        except ConditionFailed:
            return

    async def get(self, owner: str, thread_id: str) -> ThreadHead | None:
        """Return the head, deleted or not."""
        item = await self._table.get(Keys(owner).thread(thread_id), HEAD)
        return head_from(owner, item) if item else None

    async def page(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """Return a page of heads, the newest change first."""
        page = await self._table.query_index(
            Keys(owner).partition, _THREADS, limit=limit + 1, forward=False, after=cursor
        )
        more = page[limit - 1]["gsi1sk"] if len(page) > limit else None
        return Page(items=tuple(_listed(owner, i) for i in page[:limit]), next_cursor=more)

    async def has_all(self, owner: str) -> bool:
        """Return whether the journal has all of the owner's heads, made here or restored."""
        return await self._table.get(Keys(owner).partition, _KNOWN) is not None

    async def add_missing(self, owner: str, heads: Sequence[ThreadHead]) -> None:
        """Create the missing heads. The mark comes last, so that a crash repeats the work."""
        for head in heads:
            await self.put(head)
        await self._table.write(Put(Keys(owner).partition, _KNOWN, {"id": _KNOWN}))

    async def unmark(self, owner: str) -> None:
        """Remove the mark."""
        await self._table.write(Delete(Keys(owner).partition, _KNOWN))

    async def edit(
        self, owner: str, thread_id: str, edit: ThreadEdit, untitled_only: bool
    ) -> ThreadHead | None:
        """Replace the given fields."""
        now = rfc3339(self._clock.now())
        fields = head_attributes({k: v for k, v in edit.items() if v is not None})
        changes = {**fields, "updated_at": now, **thread_index(Keys(owner), thread_id, now)}
        alive: Condition = all_of(Exists("pk"), Missing("deleted"))
        if untitled_only:
            alive = all_of(alive, Missing("title"))
        return await self._change(owner, thread_id, changes, alive)

    async def mark_deleted(
        self, owner: str, thread_id: str, forget_profile: bool
    ) -> ThreadHead | None:
        """Turn the head into a tombstone: it leaves the list, takes no run, and stays, without its owner's
        words."""
        before = await self.get(owner, thread_id)
        changes = {
            **dict.fromkeys(ThreadEdit.__annotations__),
            "metadata": "{}",
            "deleted": True,
            "gsi1pk": Keys(owner).partition,
            "gsi1sk": f"{_TOMBS}{thread_id}",
            "forget_profile": True if forget_profile else None,
            "gsi2pk": Keys(owner).watch(thread_id),
            "gsi2sk": rfc3339(self._clock.now()),
        }
        await self._change(owner, thread_id, changes, Exists("pk"))
        return before

    async def mark_purged(self, owner: str, thread_id: str, again_at: datetime) -> None:
        """Note the first emptying, and when it is repeated. A later emptying changes nothing."""
        at = rfc3339(again_at)
        first = all_of(Exists("gsi2sk"), Missing("empty_again_at"))
        await self._change(owner, thread_id, {"empty_again_at": at, "gsi2sk": at}, first)

    async def finish_erasure(self, owner: str, thread_id: str) -> None:
        """Take the tombstone off the watch: nothing else is left."""
        await self._change(owner, thread_id, {"gsi2pk": None, "gsi2sk": None}, Exists("deleted"))

    async def reschedule_erasure(self, owner: str, thread_id: str, at: datetime) -> None:
        """Set a later look at a tombstone that is watched."""
        await self._change(owner, thread_id, {"gsi2sk": rfc3339(at)}, Exists("gsi2sk"))

    async def deleted_threads(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """Return a page of deleted threads, in the order of their ids."""
        page = await self._table.query_index(
            Keys(owner).partition, _TOMBS, limit=limit + 1, forward=True, after=cursor
        )
        more = page[limit - 1]["gsi1sk"] if len(page) > limit else None
        return Page(items=tuple(_listed(owner, i) for i in page[:limit]), next_cursor=more)

    async def remove_tombstone(self, owner: str, thread_id: str) -> bool:
        """Remove a tombstone that is no longer watched. Return False if it still is."""
        erased = all_of(Exists("deleted"), Missing("gsi2sk"))
        try:
            await self._table.write(Delete(Keys(owner).thread(thread_id), HEAD, when=erased))
        except ConditionFailed as failure:
            return failure.old is None
        return True

    async def _change(
        self, owner: str, thread_id: str, changes: Mapping[str, Any], when: Condition
    ) -> ThreadHead | None:
        update = Update(Keys(owner).thread(thread_id), HEAD, set=changes, when=when)
        try:
            item = await self._table.write(update)
        except ConditionFailed:
            return None
        return head_from(owner, item) if item else None


def _listed(owner: str, item: Item) -> ThreadHead:
    """Return a head as the index has it: `updated_at` is part of the index's key, if it is there at all."""
    kind, changed_at, *_ = item["gsi1sk"].split("#")
    updated_at = changed_at if f"{kind}#" == _THREADS else item["created_at"]
    return head_from(owner, {**item, "updated_at": updated_at})


class QueueHandover:
    """The effect of a run's end on its thread: the newest message, and the next run in the queue."""

    def __init__(self, table: Table, bodies: PayloadStore, clock: Clock) -> None:
        self._table = table
        self._bodies = bodies
        self._clock = clock

    async def plan(
        self, run: RunMeta, outcome: Outcome, head: ThreadHead | None = None
    ) -> tuple[list[Action], str | None]:
        """Return the actions for the end's transaction, and the run that holds the thread afterwards. `head`:
        as it was read before; the transaction fails if it has changed since."""
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
        for candidate in [] if item.get("deleted") else queue:
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
            changes["unsaved"] = [*item.get("unsaved", ()), run.id]
        if not item.get("deleted"):
            changes.update(thread_index(keys, run.thread_id, now))
        holds = all_of(
            Equals("active_run", run.id),
            same("queue", queue or None),
            same("deleted", item.get("deleted")),
            same("unsaved", item.get("unsaved")),
            Equals("agent", item["agent"]),
        )
        update = Update(keys.thread(run.thread_id), HEAD, set=changes, when=holds)
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
