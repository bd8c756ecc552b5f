"""Episodic memory on Postgres."""

from collections.abc import Sequence

from layover.adapters.store.postgres.codec import dump_json, rows_of
from layover.adapters.store.postgres.database import Database, Row
from layover.adapters.store.postgres.queries import Query, Statement, load
from layover.plugins.memory import ranking
from layover.plugins.memory.postgres.notes import lock_scope
from layover.plugins.memory.postgres.recall import halfvec
from layover.plugins.memory.reads.episodic.search import entry_words
from layover.plugins.memory.text.index_words import index_words
from layover.values.memory.entry import (
    EntryCorrection,
    EntryPlace,
    EntryQuery,
    FoundEntries,
    FoundEntry,
    KnownEntries,
    NewEntry,
)

_ENTRIES = rows_of(FoundEntry)


def find_entries(query: EntryQuery) -> Statement:
    """The statement whose answer `entries_of` reads."""
    vector = query.vector or ()
    return _query("find_entries")(
        agent=query.agent,
        words=dump_json(entry_words(query.text)),
        vector=halfvec(vector) if vector else None,
        dimensions=len(vector),
        model=query.model,
        not_thread=query.not_thread,
        top_k=query.top_k,
        skip=query.skip,
        least_cosine=str(query.least_cosine),
        now=query.now.isoformat(),
        most_rows=ranking.MAX_ROWS,
        lexical_weight=str(ranking.LEXICAL_WEIGHT),
        vector_weight=str(ranking.VECTOR_WEIGHT),
        recency_weight=str(ranking.RECENCY_WEIGHT),
        half_life_s=str(query.half_life.total_seconds()),
        most_half_lives=ranking.MAX_HALF_LIVES,
    )


def entries_of(rows: list[Row]) -> FoundEntries:
    """The answer of `find_entries`."""
    return FoundEntries.model_validate_json(rows[0][0] or b"{}")


def dump_entries(entries: Sequence[NewEntry]) -> bytes:
    """The rows of `insert_entries.sql`."""
    return dump_json([_row(entry) for entry in entries])


class PostgresEntries:
    """`ports.EntryStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_entries(self, owner: str, query: EntryQuery) -> FoundEntries:
        """Return the best entries by words and by vector; one with neither signal is left out."""
        (rows,) = await self._database.run(owner, find_entries(query))
        return entries_of(rows)

    async def known_entries(self, owner: str, agent: str, ids: Sequence[str]) -> KnownEntries:
        """Return those of these entries that are retrieved, as they stand by now, by id."""
        query = _query("known_entries")(agent=agent, ids=dump_json(list(ids)))
        (rows,) = await self._database.run(owner, query)
        return KnownEntries.model_validate_json(rows[0][0] or b"{}")

    async def list_entries(
        self,
        owner: str,
        agent: str,
        limit: int,
        after: EntryPlace | None,
        *,
        superseded: bool = False,
    ) -> tuple[FoundEntry, ...]:
        """Return entries newest first, from behind that place."""
        query = _query("list_all_entries" if superseded else "list_entries")(
            agent=agent,
            limit=limit,
            after_at=after.created_at.isoformat() if after else None,
            after_id=after.id if after else None,
        )
        (rows,) = await self._database.run(owner, query)
        return _ENTRIES.validate_json(rows[0][0] or b"[]")

    async def import_entry(self, owner: str, entry: NewEntry) -> tuple[FoundEntry, bool]:
        """Store an entry that no thread taught. Return what is stored, and whether this call stored it."""
        _, outcome, stored = await self._database.run(
            owner,
            lock_scope(entry.agent),
            _query("import_entry")(
                agent=entry.agent, entries=dump_entries([entry]), thread_id=None, run_id=None
            ),
            _query("entry_by_hash")(agent=entry.agent, hash=entry.hash),
        )
        return FoundEntry.model_validate_json(stored[0][0] or b"{}"), outcome[0][0] == b"t"

    async def correct_entry(self, owner: str, correction: EntryCorrection) -> FoundEntry | None:
        """Give an entry that is retrieved other words, without a vector."""
        query = _query("correct_entry")(
            id=correction.id,
            content=correction.content,
            hash=correction.hash,
            at=correction.at.isoformat(),
            words=dump_json(index_words(correction.content)),
        )
        (rows,) = await self._database.run(owner, query)
        return FoundEntry.model_validate_json(rows[0][0] or b"{}") if rows else None

    async def restore_entry(self, owner: str, id: str) -> FoundEntry | None:
        """Let a superseded entry stand again, with the one that took its place."""
        (rows,) = await self._database.run(owner, _query("restore_entry")(id=id))
        return FoundEntry.model_validate_json(rows[0][0] or b"{}") if rows else None

    async def delete_entry(self, owner: str, id: str) -> bool:
        """Forget an entry, and those that it superseded."""
        (rows,) = await self._database.run(owner, _query("delete_entry")(id=id))
        return bool(rows)


def _row(entry: NewEntry) -> dict[str, object]:
    return {
        **entry.model_dump(
            mode="json", exclude={"vector", "agent", "thread_id", "run_id", "supersedes"}
        ),
        "embedding": halfvec(entry.vector) if entry.vector else None,
        "words": index_words(f"{entry.content} {entry.evidence}"),
        "supersedes": list(entry.supersedes),
    }


def _query(name: str) -> Query:
    return load("entries.sql")[name]
