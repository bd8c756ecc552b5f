"""The memory store on Postgres: memory beyond messages."""

from layover.adapters.store.postgres.codec import dump_json, dump_usage
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.queries import load
from layover.plugins.memory.postgres.compaction import PostgresCompaction
from layover.plugins.memory.postgres.entries import PostgresEntries, dump_entries
from layover.plugins.memory.postgres.notes import PostgresNotes, lock_scope, lock_thread
from layover.plugins.memory.postgres.personal import PostgresPersonal
from layover.plugins.memory.postgres.recall import PostgresRecall
from layover.plugins.memory.postgres.reembedding import PostgresReembedding
from layover.ports.memory.notes import StaleState
from layover.values.memory.context import Extraction


class PostgresMemory(
    PostgresNotes,
    PostgresRecall,
    PostgresCompaction,
    PostgresEntries,
    PostgresReembedding,
    PostgresPersonal,
):
    """`ports.MemoryStore`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)

    async def is_extracted(self, owner: str, run_id: str) -> bool:
        """True if the run's results are stored."""
        query = load("memory.sql")["is_extracted"](run_id=run_id)
        (rows,) = await self._database.run(owner, query)
        return bool(rows)

    async def record_extraction(self, owner: str, extraction: Extraction) -> bool:
        """Store a run's results once, in one transaction. False: it was done before, or the thread
        is gone. Raises StaleState."""
        said_at = extraction.said_at or extraction.at
        said_times = dict.fromkeys(extraction.profile or (), said_at and said_at.isoformat())
        session_said = {field: at.isoformat() for field, at in extraction.session_said.items()}
        learns = extraction.agent is not None and (extraction.profile or extraction.entries)
        *_, rows = await self._database.run(
            owner,
            lock_thread(extraction.thread_id),
            *([lock_scope(extraction.agent)] if learns and extraction.agent else []),
            load("memory.sql")["record_extraction"](
                run_id=extraction.run_id,
                thread_id=extraction.thread_id,
                title=extraction.title,
                token_counts=dump_json(extraction.token_counts),
                agent=extraction.agent,
                profile=dump_json(extraction.profile) if extraction.profile else None,
                said=dump_json(said_times),
                said_at=said_at.isoformat() if said_at else None,
                session=dump_json(extraction.session) if extraction.session else None,
                session_said=dump_json(session_said),
                state_version=extraction.state_version,
                entries_version=extraction.entries_version,
                at=extraction.at.isoformat() if extraction.at else None,
                entries=dump_entries(extraction.entries),
                usage=dump_usage(extraction.run_id, extraction.usage, "background"),
            ),
        )
        done, fresh = rows[0]
        if fresh == b"f":
            raise StaleState
        return done == b"1"
