"""The part of `ports.MemoryStore` that is about a whole user: all their data in the database, exported,
erased, or expired."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal, Protocol

from layover.values.page import Page
from layover.values.runs.usage import DayUsage

StoredKind = Literal["messages", "generations", "attempts", "entries", "notes", "usage"]
"""`messages`, `generations` (of observations or summaries) and `attempts` belong to a thread."""


class PersonalStore(Protocol):
    """All data of an owner, under row security."""

    async def list_stored(
        self,
        owner: str,
        kind: StoredKind,
        cursor: str | None,
        limit: int,
        thread_id: str | None = None,
    ) -> Page[dict[str, Any]]:
        """Return a page of stored data, as JSON objects with times in RFC 3339."""
        ...

    async def usage_by_day(
        self,
        owner: str,
        since: date | None,
        until: date | None,
        after: Sequence[str] | None,
        limit: int,
    ) -> Sequence[DayUsage]:
        """Return the usage of these UTC days (both included; None: no bound), the newest day first, then by
        agent, model and kind. `after`: day, agent, model and kind of the row before the first."""
        ...

    async def forget(self, owner: str, until: datetime, late: datetime) -> None:
        """Hide everything that was made until then: threads become tombstones, and entries, notes, texts for
        recall and usage are deleted, including notes that a run of an erased thread makes until `late`.
        Repeatable; later data stays."""
        ...

    async def drop(self, owner: str, until: datetime) -> bool:
        """Delete some of the tombstones of threads that were made until then, with everything that may still
        belong to them. Return False if none is left."""
        ...

    async def expire_entries(self, owner: str, before: datetime) -> datetime | None:
        """Delete the entries that were made before then. Return the time of the oldest one left."""
        ...
