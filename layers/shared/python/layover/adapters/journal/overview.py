"""Runs of all owners (`ports.Overview`), from the watch index: those that are not over are in the sweeper's
partitions, those that are over in their own. Keys and places answer most questions; META is read only of runs
that may be shown (docs/adr/0022-operators.md)."""

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import unquote

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.items.places import (
    OverPlace,
    place_behind,
    provider_in,
    read_place,
    shorten,
)
from layover.adapters.journal.items.records import status_from
from layover.adapters.journal.runs import TableRuns
from layover.batches import batched
from layover.clock import from_rfc3339
from layover.ids import reverse_order
from layover.keys import (
    META,
    Keys,
    can_be_id,
    over_partition,
    over_partitions,
    run_of,
    watch_partition,
    watch_partitions,
)
from layover.ports import RunFacts, RunFilter, Tally
from layover.ports.table import Item
from layover.values.cursor import bad_cursor
from layover.values.page import Page
from layover.values.runs.run import RunSnapshot, Status

MAX_LIVE = 10_000
"""Entries that are read of each partition with runs that are not over."""
MAX_LOOKS = 500
"""Records that one request reads for runs that pass its filter."""
MAX_PLACES = 10_000
"""Places of runs that are over that one request passes over, of each partition."""
_ENDS = (Status.SUCCESS, Status.FAILED, Status.CANCELLED)
_AT_ONCE = 32
_PAGES = (25, 100, 1_000)
"""Places that are read of a partition at first, then, and from then on."""
_SLACK = timedelta(minutes=1)
"""A run gets its id and its time one after the other, and ids give the order."""
_MAX_ID = 200

Place = tuple[str, str, OverPlace, Status]
"""Reversed id, partition key, facts, status."""


class TableOverview:
    """`Overview`. The order is that of the runs' ids, the newest first."""

    def __init__(self, backing: Backing, runs: TableRuns) -> None:
        self._table = backing.table
        self._bodies = backing.bodies
        self._runs = runs

    async def page(self, only: RunFilter, limit: int, cursor: str | None) -> Page[RunFacts]:
        """See `ports.Overview`. The cursor is the id of the last run that was looked at."""
        if cursor is not None and len(cursor.encode()) > _MAX_ID:
            raise bad_cursor()
        live = await self._live_behind(cursor, only.owner)
        places = _Places(self, _ends_of(only), place_behind(cursor) if cursor else "", only)
        runs: list[RunFacts] = []
        looks, last, is_end = 0, cursor, False
        while not is_end and len(runs) < limit and looks < MAX_LOOKS:
            most = min(limit - len(runs), _AT_ONCE)
            chunk, last, is_end = await places.next(live, most, last)
            looks += len(chunk)
            for facts in await asyncio.gather(*map(self._facts_at, chunk)):
                if facts is None:
                    continue
                if only.since is not None and facts.created_at < only.since - _SLACK:
                    is_end = True
                if facts.owner is None or _takes(only, facts):
                    runs.append(facts)
            if places.is_tired:
                break
        return Page(items=tuple(runs), next_cursor=None if is_end else last)

    async def _live_behind(self, cursor: str | None, owner: str | None) -> list[tuple[str, str]]:
        """Return the reversed ids and the places of the runs that are watched, from the cursor on: of an
        owner, or of all."""
        after = reverse_order(cursor) if cursor else ""
        return [
            (id, pk)
            for id, pk in await self._live(watch_partitions())
            if id > after and (owner is None or pk == Keys(owner).run(reverse_order(id)))
        ]

    async def read(self, facts: RunFacts) -> RunSnapshot | None:
        """See `ports.Overview`."""
        return await self._runs.snapshot_at(facts.place)

    async def _facts_at(self, candidate: str | RunFacts) -> RunFacts | None:
        """Return the facts of a run that is over from its place, else from META."""
        return candidate if isinstance(candidate, RunFacts) else await self._facts(candidate)

    async def find(self, run_ids: Collection[str]) -> Mapping[str, RunFacts]:
        """See `ports.Overview`."""
        ids = {id for id in run_ids if can_be_id(id) and len(id.encode()) <= _MAX_ID}
        partitions = sorted({watch_partition(id) for id in ids})
        pks = {run_of(pk): pk for _, pk in await self._live(partitions) if run_of(pk) in ids}
        missing = sorted(ids - set(pks))
        for some in batched(missing, _AT_ONCE):
            hits = await asyncio.gather(*(self._over(id) for id in some))
            pks.update({id: pk for id, pk in zip(some, hits, strict=True) if pk is not None})
        runs: dict[str, RunFacts] = {}
        for some_pks in batched(list(pks.values()), _AT_ONCE):
            for facts in await asyncio.gather(*(self._facts(pk) for pk in some_pks)):
                if facts is not None:
                    runs[facts.id] = facts
        return runs

    async def tally(self, since: datetime, limit: int) -> Tally:
        """See `ports.Overview`."""
        keys = await self._live(watch_partitions())
        live: list[RunFacts] = []
        over: dict[str, RunFacts] = {}
        for some in batched(keys[:limit], _AT_ONCE):
            for facts in await asyncio.gather(*(self._facts(pk) for _, pk in some)):
                if facts is None:
                    continue
                if not facts.status.over:
                    live.append(facts)
                elif facts.created_at >= since:
                    # It is not retired yet.
                    over[facts.id] = facts
        places, whole = await self._since(since, limit)
        for place in places:
            over[place[2].run_id] = _facts_of(place)
        newest = sorted(over.values(), key=lambda facts: reverse_order(facts.id))
        return Tally(tuple(live), tuple(newest[:limit]), len(keys) <= limit, whole)

    async def _since(self, since: datetime, limit: int) -> tuple[list[Place], bool]:
        """Return the places of runs that began since then, at most `limit`, and whether these are all."""
        only = RunFilter(since=since)
        stream = _Places(self, _ends_of(only), "", only)
        places: list[Place] = []
        while len(places) <= limit:
            place = await stream.newest()
            if place is None:
                return places, True
            if only.takes_time(place[2].created_at):
                places.append(place)
        return places[:limit], False

    async def _live(self, partitions: Sequence[str]) -> list[tuple[str, str]]:
        """Return reversed ids and partition keys of the runs in the sweeper's partitions, the newest
        first."""
        pages = await asyncio.gather(*(self._table.behind(p, "", MAX_LIVE) for p in partitions))
        pks = [pk for page in pages for _, pk, sk in page if sk == META]
        return sorted((reverse_order(id), pk) for pk in pks if (id := run_of(pk)) is not None)

    async def _over(self, run_id: str) -> str | None:
        """Return the partition key of a run that is over and retired."""
        start = reverse_order(run_id)
        pages = await asyncio.gather(
            *(self._table.behind(over_partition(s.value, run_id), start, 1) for s in _ENDS)
        )
        places = (place for page in pages for place in page)
        return next((pk for text, pk, _ in places if text.startswith(f"{start}#")), None)

    async def places(
        self, partition: str, after: str, limit: int
    ) -> list[tuple[str, str, OverPlace]]:
        """Return the next places of a partition: sort key, partition key, facts."""
        page = await self._table.behind(partition, after, limit)
        return [(text, pk, read_place(text)) for text, pk, _ in page]

    async def _facts(self, pk: str) -> RunFacts | None:
        """Return what META says, without the run's input."""
        item = await self._table.get(pk, META, consistent=False)
        return None if item is None else await self._read(item)

    async def _read(self, item: Item) -> RunFacts:
        packed = item.get("outcome")
        outcome = json.loads(await self._bodies.unpack_value(packed)) if packed else {}
        usage = outcome.get("usage") or {}
        cost = usage.get("cost_usd")
        return RunFacts(
            id=item["id"],
            place=item["pk"],
            owner=item["owner"],
            agent=item["agent"],
            status=status_from(item),
            created_at=from_rfc3339(item["created_at"]),
            error=(outcome.get("error") or {}).get("type"),
            provider=provider_in(outcome),
            tokens=int(usage.get("input_tokens") or 0) + int(usage.get("output_tokens") or 0),
            cost=None if cost is None else Decimal(str(cost)),
            waiting=frozenset(item.get("waiting") or ()),
        )


class _Places:
    """The places of runs that are over, of several partitions as one list."""

    def __init__(
        self, overview: TableOverview, statuses: Sequence[Status], after: str, only: RunFilter
    ) -> None:
        self._overview = overview
        self._only = only
        self._queues: dict[tuple[Status, str], list[Place]] = {
            (status, partition): []
            for status in statuses
            for partition in over_partitions(status.value)
        }
        self._after = dict.fromkeys(self._queues, after)
        self._ended: set[tuple[Status, str]] = set()
        self._passed = 0
        self._reads = dict.fromkeys(self._queues, 0)

    @property
    def is_tired(self) -> bool:
        """True if it has passed over as many places as one request may."""
        return self._passed >= MAX_PLACES

    async def next(
        self, live: list[tuple[str, str]], most: int, last: str | None
    ) -> tuple[list[str | RunFacts], str | None, bool]:
        """Return the next runs that may pass the filter, taken from `live` (by their partition keys) and from
        the places, the id of the last one that was passed, and whether there are no more."""
        chunk: list[str | RunFacts] = []
        while len(chunk) < most and not self.is_tired:
            place = await self._peek()
            if live and (place is None or live[0][0] <= place[0]):
                reversed_id, pk = live.pop(0)
                if place is not None and place[0] == reversed_id:
                    # It was retired between two reads of the index.
                    await self.newest()
                chunk.append(pk)
            elif place is not None:
                await self.newest()
                reversed_id = place[0]
                if _may_take(self._only, place):
                    chunk.append(_facts_of(place))
                else:
                    self._passed += 1
            else:
                return chunk, last, True
            last = reverse_order(reversed_id)
        return chunk, last, False

    async def newest(self) -> Place | None:
        """Take the next place; None: there is none that is new enough."""
        place = await self._peek()
        if place is not None:
            for queue in self._queues.values():
                if queue and queue[0] is place:
                    queue.pop(0)
        return place

    async def _peek(self) -> Place | None:
        await self._fill()
        heads = [queue[0] for queue in self._queues.values() if queue]
        return min(heads, key=lambda place: place[0]) if heads else None

    async def _fill(self) -> None:
        """Read more of the partitions whose places are used up, side by side."""
        empty = [key for key, q in self._queues.items() if not q and key not in self._ended]
        if not empty:
            return
        sizes = {key: _PAGES[min(self._reads[key], len(_PAGES) - 1)] for key in empty}
        pages = await asyncio.gather(
            *(self._overview.places(key[1], self._after[key], sizes[key]) for key in empty)
        )
        for key, page in zip(empty, pages, strict=True):
            self._reads[key] += 1
            recent = list(self._recent(page))
            self._queues[key] = [
                (text.partition("#")[0], pk, place, key[0]) for text, pk, place in recent
            ]
            if len(page) < sizes[key] or len(recent) < len(page):
                self._ended.add(key)
            else:
                self._after[key] = page[-1][0]

    def _recent(
        self, page: Sequence[tuple[str, str, OverPlace]]
    ) -> Iterator[tuple[str, str, OverPlace]]:
        """Yield the places up to the first that is too old: those behind it are older."""
        for each in page:
            if self._only.since is not None and each[2].created_at < self._only.since - _SLACK:
                return
            yield each


def _ends_of(only: RunFilter) -> Sequence[Status]:
    """Return the ends that a run may have that passes the filter."""
    ends = (Status.FAILED,) if only.error is not None else _ENDS
    return [end for end in ends if only.status in (None, end)]


def _may_take(only: RunFilter, place: Place) -> bool:
    """Return whether the run of a place may pass: names in places are cut if they are long."""
    _, pk, facts, _ = place
    return (
        only.takes_time(facts.created_at)
        and (only.agent is None or facts.agent == shorten(only.agent))
        and (only.error is None or facts.error == shorten(only.error))
        and (only.owner is None or pk == Keys(only.owner).run(facts.run_id))
    )


def _takes(only: RunFilter, facts: RunFacts) -> bool:
    wishes = (
        (only.status, facts.status),
        (only.agent, facts.agent),
        (only.owner, facts.owner),
        (only.error, facts.error),
    )
    return all(wish in (None, fact) for wish, fact in wishes) and only.takes_time(facts.created_at)


def _facts_of(place: Place) -> RunFacts:
    _, pk, facts, status = place
    return RunFacts(
        id=facts.run_id,
        place=pk,
        owner=None,
        agent=unquote(facts.agent),
        status=status,
        created_at=facts.created_at,
        error=unquote(facts.error) or None,
        provider=unquote(facts.provider) or None,
        tokens=facts.tokens,
        cost=facts.cost,
    )
