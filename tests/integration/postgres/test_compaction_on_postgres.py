"""Compaction on Postgres: what its reads touch, pipelines that run twice, what a reflection leaves out, and
any script of it doing the same as in memory."""

import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from layover.adapters.store.postgres.database import Database, Row
from layover.adapters.store.postgres.queries import Query, Statement, load
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from support.postgres.plans import Planned, planned, scans
from support.postgres.server import TestPostgres
from support.worlds.compaction import Branches
from support.worlds.threads import Stores

# 20,000 messages, compacted every four, by a chain of five generations each. The path leaves the trunk, as do
# 1,000 forks whose slices never took effect.
_THREAD = """
insert into threads (id, agent, created_at, updated_at) values ('t', 'a', now(), now());
insert into branches (thread_id, id, path, path_depths) values
    ('t', 0, '{0}', '{2147483647}'), ('t', 1, '{0,1}', '{11999,2147483647}');
insert into branches (thread_id, id, path, path_depths)
    select 't', n, array[0, n], array[11999, 2147483647] from generate_series(2, 1001) n;
insert into messages (thread, branch_id, depth, id, run_id, role, created_at, content)
    select t.key, case when n < 12000 then 0 else 1 end, n, 'm' || n, 'run', 'user', now(), '[]'
    from threads t, generate_series(0, 19999) n;
insert into messages (thread, branch_id, depth, id, run_id, role, created_at, content)
    select t.key, b, 12000, 'x' || b, 'other run', 'user', now(), '[]'
    from threads t, generate_series(2, 1001) b;
insert into compactions (thread, thread_id, generation, kind, branch_id, after_depth, through_depth,
                         through_message_id, run_id, token_count, created_at, active, chain)
    select t.key, 't', n, 'observations', case when n * 4 <= 12000 then 0 else 1 end, n * 4 - 5, n * 4 - 1,
           'm' || (n * 4 - 1), 'run', 1, now(), n < 4990,
           case when n >= 4990 then '{}' else array(select generate_series(greatest(n - 4, 1), n)) end
    from threads t, generate_series(1, 4995) n;
insert into compactions (thread, thread_id, generation, kind, branch_id, after_depth, through_depth,
                         through_message_id, run_id, token_count, created_at, active)
    select t.key, 't', 5000 + b, 'observations', b, 11999, 12000, 'x' || b, 'other run', 1, now(), false
    from threads t, generate_series(2, 1001) b;
insert into observations (thread_id, generation, id, position, observed_at, marker, content)
    select 't', n, 'o' || p, p, now(), 'INFO', 'x' from generate_series(1, 4995) n, generate_series(1, 3) p;
"""
GROWING = ("messages", "branches", "compactions", "observations")
LEAF = "m19989"
ASKED = {"thread_id": "t", "leaf_id": LEAF, "mode": "observations", "run_id": "run", "most": 64}


@pytest.fixture(scope="module", params=[False, True], ids=["unknown", "analyzed"])
def laid_out(cluster: TestPostgres, request: pytest.FixtureRequest) -> Planned:
    return planned(cluster, "compaction", request.param, _THREAD)


async def _rows_read(connection: AsyncConnection[Any], query: Query, **values: object) -> int:
    """Runs the query with its generic plan; how many rows of `GROWING` it looked at."""
    found = await scans(connection, query, GROWING, values)
    return sum(rows for _, rows in found)


@pytest.mark.parametrize("pinned", [None, 4980])
async def test_a_turn_reads_only_what_its_prompt_shows(
    connection: AsyncConnection[Any], pinned: int | None
) -> None:
    compacted = load("compaction.sql")["compacted"]
    # Five generations of three observations, and eight slices at most with theirs.
    assert 20 < await _rows_read(connection, compacted, **ASKED, pinned=pinned) <= 120
    place = load("compaction.sql")["place_window"]
    assert await _rows_read(connection, place, **ASKED, pinned=pinned) <= 15
    await connection.rollback()


async def test_a_span_reads_only_its_own_messages(connection: AsyncConnection[Any]) -> None:
    span = load("compaction.sql")["span"]
    values = {"thread_id": "t", "after_id": "m11990", "through_id": "m12010"}
    assert 20 <= await _rows_read(connection, span, **values) <= 30


async def test_a_write_reads_no_more(connection: AsyncConnection[Any]) -> None:
    made: dict[str, Any] = {
        "through_id": LEAF,
        "id": "i",
        "at": "2026-01-01",
        "observations": "[]",
        "left_out": "[]",
        "taken": "[]",
        "usage": "[]",
    }
    made |= {"token_count": 1, "summary": None, "prompt_version": "v", "model": "m"}
    values = {**ASKED, **made, "kind": "observations", "after_id": "m19979"}
    queries = load("compaction.sql")
    assert await _rows_read(connection, queries["add_slice"], **values) <= 25
    activate = {**ASKED, "numbers": "[4990, 4991]", "expected": 4989, "id": "i"}
    assert await _rows_read(connection, queries["activate"], **activate) <= 25
    expected = {
        "kind": "reflection",
        "expected": 4991,
        "through_id": "m19963",
        "after_id": None,
        "id": "j",
    }
    assert (
        await _rows_read(connection, queries["replace_generation"], **{**values, **expected}) <= 50
    )
    rows = await connection.execute("select generation from compactions where id in ('i', 'j')")
    assert len(await rows.fetchall()) == 2
    await connection.rollback()


async def test_a_fork_of_the_trunk_reads_no_more(connection: AsyncConnection[Any]) -> None:
    compacted = load("compaction.sql")["compacted"]
    asked = {**ASKED, "leaf_id": "x500"}
    assert 20 < await _rows_read(connection, compacted, **asked, pinned=None) <= 60


async def test_deleting_a_thread_reads_none_of_another_threads(
    connection: AsyncConnection[Any],
) -> None:
    await connection.execute(
        "insert into threads (id, agent, created_at, updated_at) values ('u', 'a', now(), now())"
    )
    await connection.execute(
        "insert into branches (thread_id, id, path, path_depths) values ('u', 0, '{0}', '{9}')"
    )
    await connection.execute(
        "insert into messages (thread, branch_id, depth, id, role, created_at, content) "
        "select key, 0, 0, 'mu', 'user', now(), '[]' from threads where id = 'u'"
    )
    await connection.execute(
        "insert into compactions (thread, thread_id, generation, kind, branch_id, after_depth, "
        "through_depth, through_message_id, token_count, created_at) "
        "select key, 'u', 1, 'summary', 0, -1, 0, 'mu', 1, now() from threads where id = 'u'"
    )
    read = (
        "select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::integer "
        "from pg_stat_xact_user_tables where relname = any(%s)"
    )
    (before,) = await (await connection.execute(read, [list(GROWING)])).fetchall()
    await connection.execute("delete from threads where id = 'u'")
    (after,) = await (await connection.execute(read, [list(GROWING)])).fetchall()
    left = await connection.execute("select from compactions where thread_id = 'u'")
    assert left.rowcount == 0
    assert after[0] - before[0] <= 10
    await connection.rollback()


class Twice(Database):
    """Every connection is lost with the answer: all pipelines run again."""

    async def run(self, owner: str, *statements: Statement) -> list[list[Row]]:
        await super().run(owner, *statements)
        return await super().run(owner, *statements)


@pytest.fixture
async def talk(postgres: TestPostgres, owner: str) -> AsyncIterator[Branches]:
    database = Twice(postgres.runtime)
    talk = Branches(
        Stores(PostgresThreads(database, MemoryAdditions()), PostgresMemory(database)), owner
    )
    await talk.line(None, *"abcdef")
    yield talk
    await database.close()


async def test_a_pipeline_that_runs_twice_says_what_it_did_the_first_time(talk: Branches) -> None:
    first, second = await talk.slice(None, "b"), await talk.slice("b", "c")
    assert first is not None
    assert second is not None
    assert await talk.activate(first.number, second.number)
    assert await talk.reflect("c", "r", expected=second.number) is not None
    assert await talk.summarise(None, "d") is not None
    assert len(await talk.memory.observations(talk.owner, talk.id, "f")) == 4
    assert await talk.shows("f") == ["r"]


async def test_what_a_reflection_leaves_out_is_kept_as_superseded(
    talk: Branches, postgres: TestPostgres
) -> None:
    await talk.observe(None, "b", "1", "2")
    number = await talk.observe("b", "c", "3")
    await talk.line("a", "x")
    await talk.observe(None, "x", "elsewhere")
    assert await talk.reflect("c", "2", "r", expected=number) is not None
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (talk.owner,))
        query = "select generation, id, superseded from observations order by generation, position"
        rows = connection.execute(query).fetchall()
    assert rows == [
        (1, "1", True),
        (1, "2", False),
        (2, "3", True),
        (3, "elsewhere", False),
        (4, "2", False),
        (4, "r", False),
    ]


async def test_generations_go_with_the_messages_of_their_thread(
    talk: Branches, postgres: TestPostgres
) -> None:
    await talk.observe(None, "b")
    assert await talk.summarise(None, "c") is not None
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (talk.owner,))
        connection.execute("delete from threads")
        for table in ("compactions", "observations"):
            assert connection.execute(f"select * from {table}").fetchall() == []


async def test_no_two_queries_have_one_name() -> None:
    """A connection prepares each under its name."""
    files = ("threads", "notes", "memory", "recall", "compaction", "erase")
    names = [name for file in files for name in load(f"{file}.sql")]
    assert len(names) == len(set(names)), json.dumps(sorted(names))
