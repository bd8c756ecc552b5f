"""Reads of a long thread touch index ranges, and no more rows than they return."""

import json
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from layover.adapters.store.postgres.queries import Query, load
from support.postgres.plans import Planned, analyze, filled, planned, scans
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
insert into messages (thread, branch_id, depth, id, run_id, role, created_at, content)
    select t.key, case when n < 12000 then 0 when n < 19990 then 1 else 2 end, n, 'm' || n,
           'run' || n / 4, case when n %% 4 = 0 then 'user' else 'assistant' end, now(), '[]'
    from threads t, generate_series(0, %(last)s) n;
insert into messages (thread, branch_id, depth, id, role, created_at, content)
    select t.key, b, n, 'x' || b || '.' || n, 'user', now(), '[]'
    from threads t, generate_series(3, 22) b, generate_series(12000, 12050) n;
insert into messages (thread, branch_id, depth, id, role, created_at, content)
    select t.key, 0, n, 'old' || n, 'user', now(), '[]' from threads t, generate_series(12000, 13000) n;
insert into usage (run_id, step, kind, agent, model, input_tokens, output_tokens, cached_input_tokens,
                   reasoning_tokens, at, tree)
    select 'run' || n, 's', 'run', 'a', 'm', 1, 1, 0, 0, now(),
           json_build_object('version', 3, 'run', '{}'::json, 'messages',
                             json_build_array('m' || n * 4 + 3, 4))
    from generate_series(0, %(last)s / 4) n;
insert into run_snapshots (thread_id, run_id, tree)
    select 't', 'old' || n, json_build_object('version', 2, 'run', '{}'::json, 'message_ids',
                                              json_build_array('m' || n * 4, 'm' || n * 4 + 1))
    from generate_series(0, %(last)s / 4) n;
"""


# Short threads of many others. A planner takes all threads for short ones then.
_OTHERS = """
insert into threads (resource_id, id, agent, created_at, updated_at)
    select 'other' || o, 't' || t, 'a', now(), now()
    from generate_series(1, 200) o, generate_series(1, 3) t;
insert into branches (resource_id, thread_id, id, path, path_depths)
    select 'other' || o, 't' || t, 0, '{0}', '{2147483647}'
    from generate_series(1, 200) o, generate_series(1, 3) t;
insert into messages (resource_id, thread, branch_id, depth, id, role, created_at, content)
    select t.resource_id, t.key, 0, d, 'x' || d, 'user', now(), '[]'
    from generate_series(0, 40) d, threads t where t.resource_id like 'other%';
"""


@pytest.fixture(scope="module", params=["unknown", "analyzed", "among_others"])
def laid_out(cluster: TestPostgres, request: pytest.FixtureRequest) -> Planned:
    analyzed = request.param == "analyzed"
    laid_out = planned(cluster, request.param, analyzed, _THREAD, {"last": MESSAGES - 1})
    if request.param == "among_others":
        with psycopg.connect(laid_out.postgres.superuser) as connection:
            connection.execute(_OTHERS.encode())
        analyze(laid_out.postgres)
    return laid_out


async def _rows_read(connection: AsyncConnection[Any], query: Query, **values: object) -> int:
    """Runs the query with its generic plan; how many rows of `messages` it looked at."""
    found = await scans(connection, query, ("messages",), values)
    # A bitmap: of an id, which no statistics call unique.
    assert {kind for kind, _ in found} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}, (
        found
    )
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


@pytest.mark.parametrize("limit", [1, 12, 20])
async def test_the_end_of_a_branch_reads_only_its_own_rows(
    connection: AsyncConnection[Any], limit: int
) -> None:
    query = load("threads.sql")["newest_messages"]
    values = {"thread_id": "t", "leaf_id": LEAF, "limit": limit}
    assert limit < await _rows_read(connection, query, **values) <= limit + 5


async def test_placing_messages_probes_once_a_message(connection: AsyncConnection[Any]) -> None:
    query = load("threads.sql")["insert_messages"]
    new: dict[str, Any] = {"id": "n1", "parent_id": LEAF, "role": "user", "content": []}
    new |= {"created_at": "2026-01-01", "refused": False}
    values = {"thread_id": "t", "messages": json.dumps([new])}
    assert await _rows_read(connection, query, **values) <= 5
    await connection.rollback()


@pytest.mark.parametrize(("run_id", "messages"), [("run4998", 4), ("old4998", 2), ("run9999", 0)])
async def test_a_past_run_reads_only_its_own_rows(
    connection: AsyncConnection[Any], run_id: str, messages: int
) -> None:
    query = load("threads.sql")["run_tree"]
    assert messages <= await _rows_read(connection, query, run_id=run_id) <= messages + 6
    found = await scans(connection, query, ("usage", "run_snapshots"), {"run_id": run_id})
    assert {kind for kind, _ in found} <= {"Index Scan", "Bitmap Heap Scan"}, found
    assert sum(number for _, number in found) <= 1, found


async def test_the_end_of_a_run_looks_at_its_own_usage_alone(
    connection: AsyncConnection[Any],
) -> None:
    row = {"step": "s", "agent": "a", "model": "m", "at": "2026-01-01", "tree": {}}
    query = load("threads.sql")["save_usage"]
    for run_id in ("run4998", "new"):
        values = {"thread_id": "t", "run_id": run_id, "usage": json.dumps([row])}
        found = await scans(connection, query, ("usage",), values)
        assert {kind for kind, _ in found} <= {"Index Scan", "Index Only Scan"}, found
        assert sum(rows for _, rows in found) <= 2, found
        await connection.rollback()


async def test_finding_the_leaf_probes_once_a_branch(
    connection: AsyncConnection[Any],
) -> None:
    assert await _rows_read(connection, load("threads.sql")["thread_head"], thread_id="t") <= 23


async def test_an_owner_whom_the_statistics_do_not_know_reads_no_more(
    laid_out: Planned,
) -> None:
    stranger = filled(laid_out.postgres, _THREAD, {"last": MESSAGES - 1})
    history = load("threads.sql")["open_turn_history"]
    ids = {"thread_id": "t", "input_id": LEAF}
    async with replace(laid_out, owner=stranger).connected() as connection:
        pinned = {**ids, "pinned": MESSAGES - SPAN, "most": None}
        assert await _rows_read(connection, history, **pinned) <= SPAN + 10
        newest = {**ids, "pinned": 0, "most": SPAN}
        assert await _rows_read(connection, history, **newest) <= SPAN + 25
        move = load("threads.sql")["move_window"]
        assert await _rows_read(connection, move, **ids, least=LEAST, span=SPAN) <= 25
        assert await _rows_read(connection, load("threads.sql")["thread_head"], thread_id="t") <= 23
        await connection.rollback()
