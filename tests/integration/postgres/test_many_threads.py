"""What an owner of many threads has does not cost more: a statement touches its own thread's rows alone."""

import json
from typing import Any

import pytest
from psycopg import AsyncConnection

from layover.adapters.store.postgres.queries import Query, load
from support.postgres.plans import Planned, planned, scans
from support.postgres.server import TestPostgres

THREADS = 5_000

_FILL = f"""
insert into threads (id, agent, created_at, updated_at)
    select 't' || n, 'a', now(), now() from generate_series(1, {THREADS}) n;
insert into branches (thread_id, id, path, path_depths)
    select 't' || n, 0, array[0], array[2147483647] from generate_series(1, {THREADS}) n;
insert into messages (thread, branch_id, depth, id, role, created_at, content)
    select t.key, 0, d, 'm' || substr(t.id, 2) || '.' || d, 'user', now(), '[]'
    from threads t, generate_series(0, 3) d;
insert into message_embeddings (thread, thread_id, message_id, agent, branch_id, depth, created_at, words)
    select t.key, t.id, m.id, 'a', m.branch_id, m.depth, m.created_at, ''
    from messages m join threads t on t.key = m.thread where t.id <> 't7';
"""


@pytest.fixture(scope="module", params=[False, True], ids=["unknown", "analyzed"])
def laid_out(cluster: TestPostgres, request: pytest.FixtureRequest) -> Planned:
    return planned(cluster, "many_threads", request.param, _FILL)


async def test_indexing_a_run_reads_its_own_rows_alone(connection: AsyncConnection[Any]) -> None:
    row = {"thread_id": "t7", "agent": "a", "speaker": [], "words": ["w"]}
    rows = json.dumps([{**row, "message_id": f"m7.{d}"} for d in range(4)])
    query = load("recall.sql")["index_messages"]
    found = await scans(connection, query, ("threads", "messages"), {"rows": rows})
    # A bitmap: of an id, which no statistics call unique.
    assert {kind for kind, _ in found} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}, (
        found
    )
    assert sum(rows for _, rows in found) == 1 + 4, found
    await connection.rollback()


def _naming_a_thread() -> list[Query]:
    """The statements that find a thread's key."""
    files = ("threads", "memory", "compaction", "recall", "personal", "erase")
    queries = (query for file in files for query in load(f"{file}.sql").values())
    return [query for query in queries if b"t.key from threads t where t.id" in query.sql]


_VALUES: dict[str, Any] = {
    "thread_id": "t7",
    "scope_thread": "t7",
    "agent": "a",
    "messages": json.dumps(
        [
            {
                "id": "new",
                "parent_id": "m7.3",
                "role": "user",
                "content": [],
                "refused": False,
                "created_at": "2026-01-01",
            }
        ]
    ),
    "least": 2,
    "span": 2,
    "limit": 3,
    "words": "[]",
    "token_counts": "{}",
    "at": "2026-01-01",
}


@pytest.mark.parametrize("query", _naming_a_thread(), ids=lambda query: query.name)
async def test_a_threads_key_is_found_by_one_probe(
    connection: AsyncConnection[Any], query: Query
) -> None:
    values = {name: _VALUES.get(name) for name in query.parameters}
    others = {name for name in query.parameters if name.endswith("_id")} - {"thread_id"}
    values |= dict.fromkeys(others, "m7.3")
    found = await scans(connection, query, ("threads",), values)
    assert max(rows for _, rows in found) <= 1, found
    await connection.rollback()
