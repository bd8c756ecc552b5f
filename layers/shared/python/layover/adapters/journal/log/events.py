"""The event log of a run: batches keyed by their first seq, several writers, no gaps
(docs/behaviour.md#event-log).

A batch is put if its first seq is free. Every writer's next seq is the end of a batch that it saw, and so the
beginning of the following one: a stale writer always collides, and renumbers."""

from typing import Any

from layover.adapters.journal.backing import Backing
from layover.keys import EVENT_PREFIX, Keys, event_key
from layover.ports.table import Item, Missing, Put
from layover.values.runs.event import (
    Event,
    EventPage,
    LoggedEvent,
    ToolExecutionEnd,
    dump_events,
    load_events,
)

MAX_BATCH = 500
"""The most events in a batch. A page reads the whole of every batch in which it begins or ends."""
_BATCHES = 50
"""Batches read at once."""
END = EVENT_PREFIX + "~"
"""Behind the last batch."""


class TableRunEvents:
    """`RunEvents`: logs of all runs, for readers."""

    def __init__(self, backing: Backing) -> None:
        self._backing = backing

    async def page(self, owner: str, run_id: str, after: int, limit: int) -> EventPage:
        """See `ports.RunEvents`."""
        return await EventLog(self._backing, Keys(owner), run_id).page(after, limit)

    async def peek(self, owner: str, run_id: str, after: int) -> bool:
        """See `ports.RunEvents`. It takes one read of half a unit, since a batch begins right behind the
        previous one."""
        key = event_key(after + 1)
        pk = Keys(owner).run(run_id)
        return await self._backing.table.get(pk, key, consistent=False) is not None


class EventLog:
    """Reads and builds the batches of one run. `folder`: the place of this writer's large batches in S3."""

    def __init__(self, backing: Backing, keys: Keys, run_id: str, folder: str = "") -> None:
        self._table = backing.table
        self._bodies = backing.bodies
        self._dice = backing.dice
        self._keys = keys
        self._run_id = run_id
        self._folder = folder

    async def body(self, events: list[Event]) -> dict[str, Any]:
        """Return the body of a batch. It does not depend on the batch's number. `id` distinguishes this
        writer's batch, if it was put twice because the first answer was lost, from another writer's batch."""
        packed = await self._bodies.pack(self._folder, dump_events(events))
        return {**packed, "count": len(events), "id": self._dice.hex(8)}

    def batch(self, body: dict[str, Any], first_seq: int, *, last: bool = False) -> Put:
        """Return the put of a batch at `first_seq`. `last`: no event can follow."""
        return Put(
            pk=self._keys.run(self._run_id),
            sk=event_key(first_seq),
            item={**body, "last": last or None},
            when=Missing("pk"),
        )

    async def tail(self) -> tuple[int, bool]:
        """Return the next free seq, and whether the log is closed."""
        batches = await self._table.query(
            self._keys.run(self._run_id), EVENT_PREFIX, END, limit=1, forward=False
        )
        if not batches:
            return 1, False
        return _next(batches[0]), bool(batches[0].get("last"))

    async def seq_for_end(self, tool_call_id: str, first_seq: int) -> int | None:
        """Return None if the end of a call is in the log at `first_seq` or later; else the next free seq."""
        after = first_seq - 1
        while (page := await self.page(after, MAX_BATCH)).items:
            ends = (e for e in page.items if isinstance(e, ToolExecutionEnd))
            if any(event.tool_call_id == tool_call_id for event in ends):
                return None
            after = page.last_seq
        return after + 1

    async def page(self, after: int, limit: int) -> EventPage:
        """Return events with seq > after; `done` once the closed end of the log was reached. Batches are
        deleted one by one: what is left behind a gap is not returned."""
        pk = self._keys.run(self._run_id)
        batches = await self._table.query(pk, event_key(after + 1), END, limit=_BATCHES)
        if after > 0 and (not batches or _first(batches[0]) != after + 1):
            # `after` lies inside a batch that began earlier, or at the end of the log.
            low = EVENT_PREFIX
            batches = (
                await self._table.query(pk, low, event_key(after), limit=1, forward=False) + batches
            )
        batches = _before_gap(batches, after)
        events: list[LoggedEvent] = []
        for item in batches:
            if len(events) >= limit:
                break
            text = await self._bodies.unpack(item)
            events += [e for e in load_events(text, self._run_id, _first(item)) if e.seq > after]
        end = _next(batches[-1]) - 1 if batches else after
        items = tuple(events[:limit])
        last_seq = items[-1].seq if items else after
        is_closed = bool(batches and batches[-1].get("last"))
        return EventPage(items=items, last_seq=last_seq, done=is_closed and last_seq >= end)


def _before_gap(batches: list[Item], after: int) -> list[Item]:
    """Return the batches that follow `after` and one another."""
    next_seq = after + 1
    for n, item in enumerate(batches):
        if _first(item) > next_seq:
            return batches[:n]
        next_seq = max(next_seq, _next(item))
    return batches


def _first(item: Item) -> int:
    return int(item["sk"].removeprefix(EVENT_PREFIX))


def _next(item: Item) -> int:
    return _first(item) + int(item["count"])
