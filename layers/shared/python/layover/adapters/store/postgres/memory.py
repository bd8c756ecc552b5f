"""What is remembered beyond messages, on Postgres."""

from layover.adapters.store.postgres.codec import dump_json
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.queries import load
from layover.values.context import Extraction


class PostgresMemory:
    """`ports.MemoryStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record_extraction(self, owner: str, extraction: Extraction) -> bool:
        """Store a run's results once, in one transaction. False: it was done before, or the thread
        is gone."""
        (rows,) = await self._database.run(
            owner,
            load("memory.sql")["record_extraction"](
                run_id=extraction.run_id,
                thread_id=extraction.thread_id,
                title=extraction.title,
                token_counts=dump_json(extraction.token_counts),
            ),
        )
        return rows[0][0] == b"1"
