"""The sweeper's next looks, by time: at runs, threads that are being erased and connections (`ports.Watch`),
and at things that may have outlived their use (`ports.Dues`).

A watched item has its place in the watch index itself. Each of the other things has one small item in its
owner's partition, listed in a separate partition of the watch index. S3's lifecycle rules count from the day
on which an object was written, and know only prefixes and tags: they cannot know that a run waits for more
than a year, that a file is in use, or that a node's memory is read. DynamoDB's TTL knows the time, but
nothing of S3 or Postgres. The sweeper knows all of them, works every minute, and goes by the same clock on
AWS and on one machine."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import zip_longest

from layover.adapters.once import change_once
from layover.clock import from_rfc3339, rfc3339
from layover.keys import (
    CONNECTION,
    DUE,
    DUE_PREFIX,
    META,
    Keys,
    deletion_partitions,
    due_key,
    owner_part,
    watch_partitions,
)
from layover.ports import Clock, Dice, Due, DueCheck, DueKind
from layover.ports.table import (
    Above,
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Missing,
    Table,
    Update,
    all_of,
    any_of,
)

_PAGE = 100
_WIDE = 2_000
"""Keys that are read where only some are looked at, so that each owner gets a turn."""
_FAILURES = "failures"


class TableWatch:
    """`Watch`: META, HEAD and CONNECTION items that are in the watch index."""

    def __init__(self, table: Table, dice: Dice) -> None:
        self._table = table
        self._dice = dice

    async def due(
        self, until: datetime, limit: int, past: Collection[DueCheck] = ()
    ) -> list[DueCheck]:
        """See `ports.Watch`. The index is eventually consistent, and has keys only: the items tell."""
        return await self._due(watch_partitions(), until, limit, past)

    async def deletions(
        self, until: datetime, limit: int, past: Collection[DueCheck] = ()
    ) -> list[DueCheck]:
        """See `ports.Watch`."""
        return await self._due(deletion_partitions(), until, limit, past)

    async def _due(
        self, partitions: Sequence[str], until: datetime, limit: int, past: Collection[DueCheck]
    ) -> list[DueCheck]:
        old_places = {check.place for check in past}
        due: list[DueCheck] = []
        for partition in partitions:
            keys = await self._table.due(partition, rfc3339(until), len(old_places) + _WIDE)
            for place in in_turn([key for key in keys if key not in old_places], limit):
                item = await self._table.get(*place)
                # What has left the watch since needs no look.
                if item is not None and item.get("gsi2pk") == partition:
                    due.append(_check(place, item))
        return due

    async def reschedule(
        self,
        due: DueCheck,
        at: datetime,
        *,
        lost_at: datetime | None = None,
        paid: frozenset[str] = frozenset(),
        is_told: bool = False,
    ) -> bool:
        """See `ports.Watch`."""
        changes = {} if due.run_id is None else {"lost_at": rfc3339(lost_at) if lost_at else None}
        changes |= {"untold": None} if is_told else {}
        owed = {"owed": paid} if paid else {}
        return await self._set(due, {**_next_look(at), **changes}, owed)

    async def put_off(self, due: DueCheck, at: datetime) -> None:
        """See `ports.Watch`."""
        await self._set(due, _next_look(at, after=due), {})

    async def _set(self, due: DueCheck, changes: Item, paid: Mapping[str, frozenset[str]]) -> bool:
        look = Update(*due.place, set=changes, exclude=paid, when=_as_read(due))
        return await change_once(self._table, look, self._dice) is not None


def _next_look(at: datetime, after: DueCheck | Due | None = None) -> Item:
    """Return the changes that set the next look. `after`: what was looked at, if that failed."""
    return {"gsi2sk": rfc3339(at), _FAILURES: after.failures + 1 if after else None}


def _as_read(due: DueCheck | Due) -> Condition:
    """Return the condition that nobody has asked for another look since it was read, such as the one at once
    after a decision. What is retired has no look. By whose clock the time is does not matter."""
    return Equals("gsi2sk", rfc3339(due.at))


def _check(place: tuple[str, str], item: Item) -> DueCheck:
    thread_id, run_id, connection_id = item["id"], None, None
    if place[1] == META:
        thread_id, run_id = item["thread_id"], item["id"]
    elif place[1] == CONNECTION:
        thread_id, connection_id = "", item["id"]
    return DueCheck(
        owner=item["owner"],
        thread_id=thread_id,
        run_id=run_id,
        connection_id=connection_id,
        place=place,
        at=from_rfc3339(item["gsi2sk"]),
        failures=item.get(_FAILURES, 0),
    )


def in_turn(keys: Sequence[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """Return the first of these keys, the owners in turn: a thousand items of one owner do not keep those of
    others from a look. Connections have no owner in their keys, and get one turn together."""
    queues: dict[str, list[tuple[str, str]]] = {}
    for pk, sk in keys:
        queues.setdefault(sk if sk == CONNECTION else owner_part(pk), []).append((pk, sk))
    rounds = zip_longest(*queues.values())
    return [key for each in rounds for key in each if key is not None][:limit]


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
        keys = await self._table.due(DUE, rfc3339(until), max(limit, _WIDE))
        items = [await self._table.get(pk, sk) for pk, sk in in_turn(keys, limit)]
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
        """See `ports.Dues`."""
        await self._set(due, _next_look(at))

    async def put_off(self, due: Due, at: datetime) -> None:
        """See `ports.Dues`."""
        await self._set(due, _next_look(at, after=due))

    async def _set(self, due: Due, changes: Item) -> None:
        pk, sk = Keys(due.owner).partition, due_key(due.kind, due.name)
        with suppress(ConditionFailed):
            await self._table.write(Update(pk, sk, set=changes, when=_as_read(due)))

    async def remove(self, due: Due) -> None:
        """See `ports.Dues`."""
        pk, sk = Keys(due.owner).partition, due_key(due.kind, due.name)
        # Only the item as read: one that has been written again since stays.
        as_read = all_of(Equals("made_at", rfc3339(due.made_at)), _as_read(due))
        with suppress(ConditionFailed):
            await self._table.write(Delete(pk, sk, when=as_read))


def _due(item: Item) -> Due:
    return Due(
        owner=item["owner"],
        kind=item["kind"],
        name=item["id"],
        at=from_rfc3339(item["gsi2sk"]),
        made_at=from_rfc3339(item["made_at"]),
        failures=item.get(_FAILURES, 0),
    )
