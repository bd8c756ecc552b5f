"""Reads of a long thread touch index ranges, and no more rows than they return."""

import json
from dataclasses import replace
from typing import Any

import pytest
from psycopg import AsyncConnection

from layover.adapters.store.postgres.queries import Query, load
from support.postgres.plans import Planned, filled, planned, scans
from support.postgres.server import TestPostgres

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


@pytest.fixture(scope="module", params=[False, True], ids=["unknown", "analyzed"])
def laid_out(cluster: TestPostgres, request: pytest.FixtureRequest) -> Planned:
    return planned(cluster, "reads", request.param, _THREAD, {"last": MESSAGES - 1})


async def _rows_read(connection: AsyncConnection[Any], query: Query, **values: object) -> int:
    """Runs the query with its generic plan; how many rows of `messages` it looked at."""
    found = await scans(connection, query, ("messages",), values)
    assert {kind for kind, _ in found} <= {"Index Scan", "Index Only Scan"}, found
    return sum(rows for _, rows in found)


async def test_a_window_reads_only_its_own_rows(connection: AsyncConnection[Any]) -> None:
    ids = {"thread_id": "t", "input_id": LEAF}
    # The window has never moved: it does so now, by one probe a branch, not by reading what it passes.
    move = load("threads.sql")["move_window"]
    assert await _rows_read(connection, move, **ids, least=LEAST, span=SPAN) <= 25
    history = load("threads.sql")["open_turn_history"]
    read = await _rows_read(connection, history, **ids, pinned=None, most=None)
    assert LEAST <= read <= SPAN + 10
    await connection.rollback()


@pytest.mark.parametrize("after", [-1, 11_990, 19_985])
async def test_a_page_reads_only_its_own_rows(connection: AsyncConnection[Any], after: int) -> None:
    query = load("threads.sql")["page_of_messages"]
    values = {"thread_id": "t", "leaf_id": LEAF, "after": after, "limit": 20}
    assert 5 < await _rows_read(connection, query, **values) <= 25


async def test_placing_messages_probes_once_a_message(connection: AsyncConnection[Any]) -> None:
    query = load("threads.sql")["insert_messages"]
    new = {"id": "n1", "parent_id": LEAF, "role": "user", "content": [], "created_at": "2026-01-01"}
    values = {"thread_id": "t", "messages": json.dumps([new])}
    assert await _rows_read(connection, query, **values) <= 5
    await connection.rollback()


async def test_finding_the_leaf_probes_once_a_branch(
    connection: AsyncConnection[Any],
) -> None:
    assert await _rows_read(connection, load("threads.sql")["thread_head"], thread_id="t") <= 23


async def test_an_owner_whom_the_statistics_do_not_know_reads_no_more(
    laid_out: Planned,
) -> None:
    stranger = filled(laid_out.postgres, _THREAD, {"last": MESSAGES - 1})
    async with replace(laid_out, owner=stranger).connected() as connection:
        history = load("threads.sql")["open_turn_history"]
        values = {"thread_id": "t", "input_id": LEAF, "pinned": MESSAGES - SPAN, "most": None}
        assert await _rows_read(connection, history, **values) <= SPAN + 10
        await connection.rollback()
