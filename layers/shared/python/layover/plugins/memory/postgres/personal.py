"""Everything that is stored about one owner, on Postgres."""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.queries import Query, load
from layover.clock import from_rfc3339, rfc3339
from layover.ports.memory.personal import StoredKind
from layover.values.page import Page
from layover.values.runs.usage import DayUsage

_BEFORE: Mapping[StoredKind, str] = {
    "messages": "[-1, -1]",
    "generations": "[-1]",
    "attempts": '["", -1]',
    "entries": '[""]',
    "notes": '["", "", ""]',
    "usage": '["", ""]',
}
"""The place at which the first page begins: before every key."""
_TIMES = ("at", "created_at", "updated_at")
_TEXTS = 5_000
"""The rows of recall that are deleted at once, because a long transaction holds up other writers."""
_THREADS = 20
_ENTRIES = 1_000


class PostgresPersonal:
    """`ports.PersonalStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_stored(
        self,
        owner: str,
        kind: StoredKind,
        cursor: str | None,
        limit: int,
        thread_id: str | None = None,
    ) -> Page[dict[str, Any]]:
        """Return a page of stored data, in the order of its keys."""
        values: dict[str, Any] = {"after": cursor or _BEFORE[kind], "limit": limit}
        query = _query(f"stored_{kind}")
        if "thread_id" in query.parameters:
            values["thread_id"] = thread_id
        (rows,) = await self._database.run(owner, query(**values))
        more = (rows[-1][0] or b"").decode() if len(rows) == limit else None
        items = tuple(_in_utc(json.loads(row[1] or b"{}")) for row in rows)
        return Page[dict[str, Any]](items=items, next_cursor=more)

    async def usage_by_day(
        self,
        owner: str,
        since: date | None,
        until: date | None,
        after: Sequence[str] | None,
        limit: int,
    ) -> Sequence[DayUsage]:
        """Sums of these UTC days, behind the row that `after` names."""
        query = _query("usage_by_day")(
            since=since.isoformat() if since else None,
            until=until.isoformat() if until else None,
            after=None if after is None else json.dumps(list(after)),
            limit=limit,
        )
        (rows,) = await self._database.run(owner, query)
        return [DayUsage.model_validate_json(row[0] or b"{}") for row in rows]

    async def forget(self, owner: str, until: datetime, late: datetime) -> None:
        """Hide everything that was made until then."""
        times = {"until": until.isoformat(), "late": late.isoformat()}
        names = ("threads", "entries", "notes", "scopes", "usage")
        queries = [_query(f"forget_{name}") for name in names]
        statements = [query(**{p: times[p] for p in query.parameters}) for query in queries]
        await self._database.run(owner, *statements)
        count = _TEXTS
        while count == _TEXTS:
            (rows,) = await self._database.run(owner, _query("forget_texts")(limit=_TEXTS))
            count = len(rows)

    async def drop(self, owner: str, until: datetime) -> bool:
        """Delete some tombstones. Return False if none is left."""
        query = _query("drop_threads")(until=until.isoformat(), limit=_THREADS)
        (rows,) = await self._database.run(owner, query)
        return len(rows) == _THREADS

    async def expire_entries(self, owner: str, before: datetime) -> datetime | None:
        """Delete older entries. Return the time of the oldest one left."""
        query = _query("expire_entries")(before=before.isoformat(), limit=_ENTRIES)
        count = _ENTRIES
        while count == _ENTRIES:
            rows, oldest = await self._database.run(owner, query, _query("oldest_entry")())
            count = len(rows)
        created_at = json.loads(oldest[0][0] or b"null")
        return from_rfc3339(created_at) if created_at else None


def _in_utc(item: dict[str, Any]) -> dict[str, Any]:
    """The item with its times as the API has them."""
    for name in _TIMES:
        if item.get(name):
            item[name] = rfc3339(from_rfc3339(item[name]))
    item.update(
        {"observations": [_in_utc(o) for o in item["observations"]]}
        if "observations" in item
        else {}
    )
    return item


def _query(name: str) -> Query:
    return load("personal.sql")[name]
