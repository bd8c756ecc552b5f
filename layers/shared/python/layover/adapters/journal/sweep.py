"""The sweeper's next looks, by time: at runs, threads that are being erased and connections (`ports.Watch`),
and at things that may have outlived their use (`ports.Dues`).

A watched item has its place in the watch index itself. Each of the other things has one small item in its
owner's partition, listed in a separate partition of the watch index. S3's lifecycle rules count from the day
on which an object was written, and know only prefixes and tags: they cannot know that a run waits for more
than a year, that a file is in use, or that a node's memory is read. DynamoDB's TTL knows the time, but
nothing of S3 or Postgres. The sweeper knows all of them, works every minute, and goes by the same clock on
AWS and on one machine."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from layover.adapters.once import write_once, written_by
from layover.clock import MICROSECOND, from_rfc3339, rfc3339
from layover.keys import (
    CONNECTION,
    DUE,
    DUE_PREFIX,
    META,
    Keys,
    deletion_partitions,
    due_key,
    watch_partitions,
)
from layover.ports import Clock, Dice, Due, DueCheck, DueKind
from layover.ports.table import (
    Above,
    Below,
    ConditionFailed,
    Delete,
    Item,
    Missing,
    Table,
    Update,
    any_of,
)

_PAGE = 100


class TableWatch:
    """`Watch`: META, HEAD and CONNECTION items that are in the watch index."""

    def __init__(self, table: Table, dice: Dice) -> None:
        self._table = table
        self._dice = dice

    async def due(self, until: datetime, limit: int) -> list[DueCheck]:
        """See `ports.Watch`. The index is eventually consistent, and has keys only: the items tell."""
        return await self._due(watch_partitions(), until, limit)

    async def deletions(self, until: datetime, limit: int) -> list[DueCheck]:
        """See `ports.Watch`."""
        return await self._due(deletion_partitions(), until, limit)

    async def _due(self, partitions: Sequence[str], until: datetime, limit: int) -> list[DueCheck]:
        due: list[DueCheck] = []
        for partition in partitions:
            for pk, sk in await self._table.due(partition, rfc3339(until), limit):
                item = await self._table.get(pk, sk)
                if item is not None and sk == META:
                    due.append(DueCheck(item["owner"], item["thread_id"], item["id"]))
                elif item is not None and sk == CONNECTION:
                    due.append(DueCheck(item["owner"], "", None, item["id"]))
                elif item is not None:
                    due.append(DueCheck(item["owner"], item["id"], None))
        return due

    async def reschedule(
        self,
        owner: str,
        run_id: str,
        read_at: datetime,
        at: datetime,
        lost_at: datetime | None = None,
    ) -> bool:
        """See `ports.Watch`."""
        changes = {
            "gsi2sk": rfc3339(at),
            "lost_at": rfc3339(lost_at) if lost_at else None,
        }
        # A decision or a cancel that has come since has set a later time, and a retired run has no time.
        due = Below("gsi2sk", rfc3339(read_at + MICROSECOND))
        try:
            look = Update(Keys(owner).run(run_id), META, set=changes, when=due)
            await write_once(self._table, look, written_by(self._dice))
        except ConditionFailed:
            return False
        return True


class TableDues:
    """`Dues`: `DUE#kind#name` items."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def schedule(self, owner: str, kind: DueKind, name: str, at: datetime) -> None:
        """See `ports.Dues`."""
        item = {
            "owner": owner,
            "kind": kind,
            "id": name,
            "made_at": rfc3339(self._clock.now()),
            "gsi2pk": DUE,
            "gsi2sk": rfc3339(at),
        }
        # An update, because functions that end runs may lack the right to put items.
        new = any_of(Missing("pk"), Above("gsi2sk", rfc3339(at)))
        with suppress(ConditionFailed):
            await self._table.write(
                Update(Keys(owner).partition, due_key(kind, name), set=item, when=new)
            )

    async def overdue(self, until: datetime, limit: int) -> list[Due]:
        """See `ports.Dues`."""
        keys = await self._table.due(DUE, rfc3339(until), limit)
        items = [await self._table.get(pk, sk) for pk, sk in keys]
        return [_due(item) for item in items if item is not None]

    async def of(self, owner: str, kind: DueKind | None = None) -> list[Due]:
        """See `ports.Dues`."""
        due_items: list[Item] = []
        low = DUE_PREFIX if kind is None else due_key(kind, "")
        # Names may have any characters behind the prefix, and nothing is above this one.
        high = f"{low}\U0010ffff"
        while items := await self._table.query(Keys(owner).partition, low, high, limit=_PAGE):
            due_items += items
            low = items[-1]["sk"] + " "
        return [_due(item) for item in due_items]

    async def reschedule(self, due: Due, at: datetime) -> None:
        """See `ports.Dues`. A time that has been requested since stays."""
        pk, sk = Keys(due.owner).partition, due_key(due.kind, due.name)
        as_seen = Below("gsi2sk", rfc3339(due.at + MICROSECOND))
        with suppress(ConditionFailed):
            await self._table.write(Update(pk, sk, set={"gsi2sk": rfc3339(at)}, when=as_seen))

    async def remove(self, due: Due) -> None:
        """See `ports.Dues`."""
        pk, sk = Keys(due.owner).partition, due_key(due.kind, due.name)
        # Only the item as seen: one that has been written again since stays.
        as_seen = Below("made_at", rfc3339(due.made_at + MICROSECOND))
        with suppress(ConditionFailed):
            await self._table.write(Delete(pk, sk, when=as_seen))


def _due(item: Item) -> Due:
    return Due(
        owner=item["owner"],
        kind=item["kind"],
        name=item["id"],
        at=from_rfc3339(item["gsi2sk"]),
        made_at=from_rfc3339(item["made_at"]),
    )
