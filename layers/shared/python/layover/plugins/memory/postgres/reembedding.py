"""Texts without a vector of the current embedder, on Postgres."""

from collections.abc import Sequence

from layover.adapters.store.postgres.codec import dump_json, load_messages, rows_of
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.queries import Query, load
from layover.plugins.memory.postgres.recall import halfvec
from layover.values.memory.entry import StaleEntry
from layover.values.message import Message

_STALE = rows_of(StaleEntry)


class PostgresReembedding:
    """`ports.memory.entries.ReembeddingStore`; every pipeline may run twice."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def stale_entries(
        self,
        owner: str,
        agent: str,
        model: str,
        dimensions: int | None,
        after_id: str,
        limit: int,
    ) -> tuple[StaleEntry, ...]:
        """Return entries of an agent without a vector of this model, by id."""
        query = _query("stale_entries")(
            agent=agent, model=model, dimensions=dimensions, after_id=after_id, limit=limit
        )
        (rows,) = await self._database.run(owner, query)
        return _STALE.validate_json(rows[0][0] or b"[]")

    async def put_entry_vectors(
        self, owner: str, model: str, vectors: Sequence[tuple[str, tuple[float, ...]]]
    ) -> None:
        """Store these vectors, each with an entry's id."""
        rows = dump_json([{"id": id, "embedding": halfvec(v)} for id, v in vectors])
        await self._database.run(owner, _query("put_entry_vectors")(model=model, vectors=rows))

    async def stale_messages(
        self,
        owner: str,
        agent: str,
        model: str,
        dimensions: int | None,
        after_id: str,
        limit: int,
    ) -> tuple[Message, ...]:
        """Return messages that recall searches without a vector of this model, by id."""
        query = _query("stale_messages")(
            agent=agent, model=model, dimensions=dimensions, after_id=after_id, limit=limit
        )
        (rows,) = await self._database.run(owner, query)
        return load_messages(rows[0][0])


class PostgresOwners:
    """`ports.memory.entries.Owners`, as the role that owns the tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def owners(self, after: str, limit: int) -> tuple[str, ...]:
        """Owners by name, from behind one."""
        (rows,) = await self._database.run("", _query("owners")(after=after, limit=limit))
        return tuple(id.decode() for (id,) in rows if id)


def _query(name: str) -> Query:
    return load("entries.sql")[name]
