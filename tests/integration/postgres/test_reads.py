"""What a read of a long thread touches: index ranges, and no more rows than it returns."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from layover.adapters.store.postgres.queries import Query, load
from postgres_fixture import TestPostgres, fresh_owner

MESSAGES = 20_000
SPAN = 30
LEAST = 20
LEAF = f"m{MESSAGES - 1}"

# A path over three branches, each forked in the middle of the one before, with 20 other forks beside it.
_THREAD = """
insert into threads (id, agent, created_at, updated_at) values ('t', 'a', now(), now());
insert into branches (thread_id, id, path, path_depths) values
    ('t', 0, '{0}', '{2147483647}'),
    ('t', 1, '{0,1}', '{11999,2147483647}'),
    ('t', 2, '{0,1,2}', '{11999,19989,2147483647}');
insert into branches (thread_id, id, path, path_depths)
    select 't', n, array[0, n], array[11999, 2147483647] from generate_series(3, 22) n;
insert into messages (thread_id, branch_id, depth, id, role, created_at, content)
    select 't', case when n < 12000 then 0 when n < 19990 then 1 else 2 end, n, 'm' || n,
           case when n %% 4 = 0 then 'user' else 'assistant' end, now(), '[]'
    from generate_series(0, %(last)s) n;
insert into messages (thread_id, branch_id, depth, id, role, created_at, content)
    select 't', b, n, 'x' || b || '.' || n, 'user', now(), '[]'
    from generate_series(3, 22) b, generate_series(12000, 12050) n;
insert into messages (thread_id, branch_id, depth, id, role, created_at, content)
    select 't', 0, n, 'old' || n, 'user', now(), '[]' from generate_series(12000, 13000) n;
"""


@pytest.fixture(scope="module")
def long_thread(postgres: TestPostgres) -> str:
    owner = fresh_owner()
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (owner,))
        for statement in _THREAD.split(";\n")[:-1]:
            values = {"last": MESSAGES - 1} if "%(last)s" in statement else None
            connection.execute(statement, values)
    return owner


@pytest.fixture
async def connection(
    postgres: TestPostgres, long_thread: str
) -> AsyncIterator[AsyncConnection[Any]]:
    async with await AsyncConnection.connect(postgres.runtime) as opened:
        await opened.execute("select set_config('app.resource_id', %s, false)", (long_thread,))
        yield opened


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


async def _rows_read(connection: AsyncConnection[Any], query: Query, **values: object) -> int:
    """Runs the query with its generic plan; how many rows of `messages` it looked at."""
    await connection.execute("set plan_cache_mode = force_generic_plan")
    await connection.execute("deallocate all")
    await connection.execute(b"prepare q as " + query.sql)
    given = (values[p] for p in query.parameters)
    arguments = ", ".join("null" if v is None else f"'{v}'" for v in given)
    explain = f"explain (analyze, format json) execute q ({arguments})"
    rows = await (await connection.execute(explain)).fetchall()
    read = 0
    for node in _nodes(rows[0][0][0]["Plan"]):
        if node.get("Relation Name") == "messages" and node["Node Type"] != "ModifyTable":
            assert node["Node Type"] in ("Index Scan", "Index Only Scan"), node
            removed = node.get("Rows Removed by Filter", 0)
            read += round((node["Actual Rows"] + removed) * node["Actual Loops"])
    return read


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_window_reads_only_its_own_rows(
    connection: AsyncConnection[Any], postgres: TestPostgres, analyzed: bool
) -> None:
    if analyzed:
        _analyze(postgres)
    ids = {"thread_id": "t", "input_id": LEAF}
    # The window has never moved: it does so now, by one probe a branch, not by reading what it passes.
    move = load("threads.sql")["move_window"]
    assert await _rows_read(connection, move, **ids, least=LEAST, span=SPAN) <= 25
    history = load("threads.sql")["open_turn_history"]
    read = await _rows_read(connection, history, **ids, pinned=None, most=None)
    assert LEAST <= read <= SPAN + 10
    await connection.rollback()


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("after", [-1, 11_990, 19_985])
async def test_a_page_reads_only_its_own_rows(
    connection: AsyncConnection[Any], postgres: TestPostgres, analyzed: bool, after: int
) -> None:
    if analyzed:
        _analyze(postgres)
    query = load("threads.sql")["page_of_messages"]
    values = {"thread_id": "t", "leaf_id": LEAF, "after": after, "limit": 20}
    assert 5 < await _rows_read(connection, query, **values) <= 25


@pytest.mark.parametrize("analyzed", [False, True])
async def test_placing_messages_probes_once_a_message(
    connection: AsyncConnection[Any], postgres: TestPostgres, analyzed: bool
) -> None:
    if analyzed:
        _analyze(postgres)
    query = load("threads.sql")["insert_messages"]
    new = {"id": "n1", "parent_id": LEAF, "role": "user", "content": [], "created_at": "2026-01-01"}
    values = {"thread_id": "t", "messages": json.dumps([new])}
    assert await _rows_read(connection, query, **values) <= 5
    await connection.rollback()


async def test_finding_the_leaf_probes_once_a_branch(
    connection: AsyncConnection[Any], postgres: TestPostgres
) -> None:
    _analyze(postgres)
    assert await _rows_read(connection, load("threads.sql")["thread_head"], thread_id="t") <= 23


def _analyze(postgres: TestPostgres) -> None:
    with psycopg.connect(postgres.admin, autocommit=True) as connection:
        connection.execute("analyze")
