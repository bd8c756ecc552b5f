"""All that is stored of one owner, in memory."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

from layover.clock import rfc3339
from layover.inmemory.stores.entries import free_superseded
from layover.inmemory.stores.tables import StoredThread
from layover.inmemory.stores.threads import InMemoryThreads
from layover.ports.memory.personal import StoredKind
from layover.values.memory.entry import MemoryEntry
from layover.values.page import Page
from layover.values.runs.usage import DayUsage, Usage

_GENERATION = {"number", "kind", "through_message_id", "active", "summary", "created_at"}
_ENTRY = set(MemoryEntry.model_fields)
_USAGE = Usage.model_fields.keys() & DayUsage.model_fields.keys()


class InMemoryPersonal:
    """`ports.PersonalStore`, over the threads and all that belongs to them."""

    def __init__(self, threads: InMemoryThreads) -> None:
        self._all = threads

    async def list_stored(
        self,
        owner: str,
        kind: StoredKind,
        cursor: str | None,
        limit: int,
        thread_id: str | None = None,
    ) -> Page[dict[str, Any]]:
        """Return a page of stored data; the cursor counts."""
        rows = list(self._rows(owner, kind, thread_id))
        start = int(cursor or 0)
        more = str(start + limit) if len(rows) - start >= limit else None
        return Page[dict[str, Any]](items=tuple(rows[start : start + limit]), next_cursor=more)

    async def usage_by_day(
        self,
        owner: str,
        since: date | None,
        until: date | None,
        after: Sequence[str] | None,
        limit: int,
    ) -> Sequence[DayUsage]:
        """Sums of these UTC days, behind the row that `after` names."""
        sums: dict[tuple[int, str, str, str], list[Usage]] = {}
        for (whose, _, _), (kind, row) in self._all.usage_rows.items():
            day = row.at.astimezone(UTC).date()
            if whose == owner and (since or day) <= day <= (until or day):
                key = (-day.toordinal(), row.agent, row.model, kind)
                sums.setdefault(key, []).append(row.usage)
        behind = () if after is None else _place(after)
        return [_day_usage(key, sums[key]) for key in sorted(sums) if key > behind][:limit]

    async def forget(self, owner: str, until: datetime, late: datetime) -> None:
        """Hide all that was made until then."""
        for thread in self._all.of(owner):
            if thread.head.created_at <= until:
                await self._all.erase(owner, thread.head.id)
        for place in self._all.places_of_entries(owner):
            old = {i: s for i, s in place.entries.items() if s.entry.created_at <= until}
            place.entries = {i: s for i, s in place.entries.items() if i not in old}
            free_superseded(self._all, owner, old)
        self._forget_notes(owner, until, late)
        for key, (_, row) in list(self._all.usage_rows.items()):
            if key[0] == owner and row.at <= until:
                del self._all.usage_rows[key]

    def _forget_notes(self, owner: str, until: datetime, late: datetime) -> None:
        alive = {m.run_id for t in self._all.of(owner) for m in t.messages.values()}
        for note in self._all.shelf.notes_of(owner):
            created_at = note.created_at or until
            if created_at <= until or (
                created_at <= late and note.run_id and note.run_id not in alive
            ):
                self._all.shelf.forget(owner, note.key)

    async def drop(self, owner: str, until: datetime) -> bool:
        """Delete the tombstones."""
        self._all.drop(owner, until)
        return False

    async def expire_entries(self, owner: str, before: datetime) -> datetime | None:
        """Delete older entries. Return the time of the oldest one left."""
        for thread in self._all.places_of_entries(owner):
            old = {id: s for id, s in thread.entries.items() if s.entry.created_at < before}
            thread.entries = {i: s for i, s in thread.entries.items() if i not in old}
            free_superseded(self._all, owner, old)
        times = [
            s.entry.created_at
            for t in self._all.places_of_entries(owner)
            for s in t.entries.values()
        ]
        return min(times, default=None)

    def _rows(
        self, owner: str, kind: StoredKind, thread_id: str | None
    ) -> Iterator[dict[str, Any]]:
        if kind == "entries":
            entries = {
                i: s for t in self._all.places_of_entries(owner) for i, s in t.entries.items()
            }
            for _, entry in sorted(entries.items()):
                fields = entry.entry.model_dump(mode="json", include=_ENTRY)
                yield {**fields, "superseded_by": entry.superseded_by}
        elif kind == "notes":
            notes = self._all.shelf.notes_of(owner)
            for note in sorted(notes, key=lambda n: (n.key.kind, n.key.scope, n.key.key)):
                yield {
                    **note.key.model_dump(),
                    **note.model_dump(mode="json", include={"value", "created_at", "updated_at"}),
                }
        elif kind == "usage":
            for (whose, run_id, step), (of, row) in sorted(self._all.usage_rows.items()):
                if whose == owner:
                    counts = row.usage.model_dump(mode="json", include=_USAGE)
                    about = {"run_id": run_id, "step": step, "kind": of, "agent": row.agent}
                    yield {**about, "model": row.model, **counts, "at": rfc3339(row.at)}
        elif thread_id is not None and (thread := self._all.find(owner, thread_id)):
            yield from self._of_thread(owner, kind, thread)

    def _of_thread(
        self, owner: str, kind: StoredKind, thread: StoredThread
    ) -> Iterator[dict[str, Any]]:
        if kind == "messages":
            depths = {id: len(thread.path(id)) for id in thread.messages}
            for id in sorted(depths, key=lambda i: (thread.branches[i], depths[i])):
                parent = {"parent_id": thread.parents[id]}
                yield thread.messages[id].model_dump(mode="json") | parent
        elif kind == "generations":
            for stage in thread.stages.values():
                fields = stage.generation.model_dump(mode="json", include=_GENERATION)
                lines = [o.model_dump(mode="json") for o in stage.generation.observations]
                yield {**fields, "observations": lines}
        else:
            log = self._all.shelf.attempts(owner, thread.head.id, limit=10**9)
            for attempt in sorted(log, key=lambda a: (a.task, a.attempt)):
                yield attempt.model_dump(mode="json")


def _place(row: Sequence[str]) -> tuple[int, str, str, str]:
    day, agent, model, kind = row
    return -date.fromisoformat(day).toordinal(), agent, model, kind


def _day_usage(key: tuple[int, str, str, str], parts: list[Usage]) -> DayUsage:
    newest, agent, model, kind = key
    about = {"day": date.fromordinal(-newest), "agent": agent, "model": model, "kind": kind}
    return DayUsage.model_validate({**about, **Usage.total(parts).model_dump(include=_USAGE)})
