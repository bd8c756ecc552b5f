"""`layover reembed` as an operator runs it: a process with an exit code."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.migrate import PostgresMigrations
from layover.declare.memory import EpisodicMemory
from layover.plugins.memory.postgres.entries import PostgresEntries
from layover.plugins.memory.reads.episodic.search import entry_query
from layover.testing import HashingEmbedder
from support.postgres.server import TestPostgres

ROOT = Path(__file__).parents[3]
LIMIT_S = 60
_FILL = """
insert into threads (resource_id, id, agent, created_at, updated_at)
    select 'user-' || n, 't', 'support', now(), now() from generate_series(1, 3) n;
insert into memory_entries (resource_id, id, agent, thread_id, content, source, evidence, hash,
                            created_at, words)
    select 'user-' || n, 'e' || n, 'support', 't', 'zebra ' || n, 'user_assertion', 'zebra', 'h',
           now(), array_to_tsvector(array['zebra'])
    from generate_series(1, 3) n;
"""


async def reembed(*arguments: str, **variables: str) -> tuple[int | None, str, str]:
    """Exit code, output, errors."""
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "layover.desk.cli.main", "reembed", *arguments],
        env={**kept, "PYTHONPATH": str(ROOT / "functions"), "COLUMNS": "200", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
    return process.returncode, output.decode(), errors.decode()


async def test_without_its_variables_it_says_which_are_missing() -> None:
    code, _, errors = await reembed(LAYOVER_DATABASE_URL="x")
    assert code != 0
    assert "LAYOVER_DATABASE_ADMIN_URL" in errors
    assert "Traceback" not in errors


async def test_without_an_embedder_it_says_so(postgres: TestPostgres) -> None:
    code, _, errors = await reembed(
        LAYOVER_DATABASE_URL=postgres.runtime, LAYOVER_DATABASE_ADMIN_URL=postgres.admin
    )
    assert code == 1
    assert "LAYOVER_EMBEDDER_MODEL" in errors
    assert "Traceback" not in errors


async def test_it_gives_every_users_entries_a_vector(cluster: TestPostgres) -> None:
    database = cluster.new_database("reembed")
    await PostgresMigrations(database.admin).apply()
    with psycopg.connect(database.superuser) as connection:
        connection.execute(_FILL)
    code, output, errors = await reembed(
        LAYOVER_DATABASE_URL=database.runtime,
        LAYOVER_DATABASE_ADMIN_URL=database.admin,
        LAYOVER_EMBEDDER_MODEL="hashing/256",
    )
    assert (code, output.splitlines()[-1]) == (0, "3 entries and 0 messages of 3 users"), errors
    runtime = Database(database.runtime)
    (vector,) = (await HashingEmbedder().embed(["zebra 2"])).vectors
    store = PostgresEntries(runtime)
    query = entry_query(
        "support", EpisodicMemory(), "", datetime.now(UTC), top_k=1, vector=tuple(vector)
    )
    query = query.model_copy(update={"model": "hashing/256", "least_cosine": 0.9})
    found = await store.find_entries("user-2", query)
    await runtime.close()
    (near,) = found.items
    assert near.content == "zebra 2"
