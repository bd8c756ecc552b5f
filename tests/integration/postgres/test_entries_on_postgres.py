"""Episodic memory where only Postgres can show it: hand-made queries, large scopes, one statement."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.queries import load
from layover.plugins.memory.postgres.entries import PostgresEntries, find_entries
from layover.plugins.memory.ranking import MAX_ROWS
from layover.values.memory.entry import EntryQuery
from support.postgres.plans import Planned, planned, scans
from support.postgres.server import TestPostgres, fresh_owner
from support.worlds.threads import START

NOW = START + timedelta(days=400)
_FILL = """
insert into threads (resource_id, id, agent, created_at, updated_at)
    values (%(owner)s, 't', 'support', now(), now()) on conflict do nothing;
insert into memory_entries (resource_id, id, agent, thread_id, content, source, evidence, hash,
                            created_at, words)
    select %(owner)s, 'e' || n, 'support', 't', 'zebra ' || n, 'user_assertion', 'zebra', 'h' || n,
           timestamptz '2026-01-01' + n * interval '1 second', array_to_tsvector(array['zebra', 'n' || n])
    from generate_series(%(first)s, %(last)s) n;
"""
# One thread of 5,000 entries, and a short one, two of whose superseded two of the long one's.
_SUPERSEDED = """
insert into threads (id, agent, created_at, updated_at)
    values ('t', 'support', now(), now()), ('short', 'support', now(), now());
insert into memory_entries (id, agent, thread_id, content, source, evidence, hash, created_at, words)
    select 'e' || n, 'support', case when n < 3 then 'short' else 't' end, 'zebra ' || n,
           'user_assertion', 'zebra', 'h' || n, now(), array_to_tsvector(array['zebra', 'n' || n])
    from generate_series(1, 5000) n;
update memory_entries set superseded_by = 'e1' where hash in ('h3', 'h4');
"""


def fill(postgres: TestPostgres, owner: str, last: int, first: int = 1) -> None:
    """Entries with these numbers, each newer than the one before, written straight into the table."""
    values = {"owner": owner, "first": first, "last": last}
    with psycopg.connect(postgres.superuser) as connection:
        for statement in _FILL.split(";\n")[:-1]:
            psycopg.ClientCursor(connection).execute(statement, values)


def query(text: str, **fields: Any) -> EntryQuery:
    given: dict[str, Any] = {"agent": "support", "text": text, "top_k": 12, "now": NOW}
    given |= {"least_cosine": 0.3, "half_life": timedelta(days=180)}
    return EntryQuery(**{**given, **fields})


@pytest.fixture
def victim(postgres: TestPostgres) -> str:
    owner = fresh_owner()
    fill(postgres, owner, 3)
    return owner


@pytest.mark.parametrize(
    "statement",
    [
        "select * from memory_entries",
        "select * from memory_entries where resource_id = %s",
        "select * from memory_entries where resource_id = %s or true",
        "select m.* from memory_entries m join threads t on t.resource_id = %s",
    ],
)
async def test_a_hand_made_query_reads_no_entry_of_another_user(
    postgres: TestPostgres, victim: str, statement: str
) -> None:
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (fresh_owner(),))
        asked = (victim,) if "%s" in statement else None
        assert connection.execute(statement, asked).fetchall() == []


async def test_no_entry_can_be_changed_deleted_or_planted_by_another_user(
    postgres: TestPostgres, victim: str
) -> None:
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (fresh_owner(),))
        assert connection.execute("update memory_entries set content = 'mine'").rowcount == 0
        assert connection.execute("delete from memory_entries").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(
                "insert into memory_entries (resource_id, id, agent, thread_id, content, source,"
                " evidence, hash, created_at, words)"
                " values (%s, 'x', 'support', 't', 'c', 's', 'e', 'h', now(), '')",
                (victim,),
            )


async def test_the_operators_role_reads_no_entry(postgres: TestPostgres, victim: str) -> None:
    with psycopg.connect(postgres.admin) as connection:
        assert connection.execute("select * from memory_entries").fetchall() == []


async def test_beyond_its_limit_a_scope_is_searched_from_its_newest_end_and_says_so(
    database: Database, postgres: TestPostgres
) -> None:
    owner, store = fresh_owner(), PostgresEntries(database)
    fill(postgres, owner, MAX_ROWS)
    whole = await store.find_entries(owner, query("n1"))
    assert (whole.cut, [e.content for e in whole.items]) == (False, ["zebra 1"])
    fill(postgres, owner, MAX_ROWS + 2, first=MAX_ROWS + 1)
    beyond = await store.find_entries(owner, query("n1"))
    assert (beyond.cut, beyond.items) == (True, ())
    assert len((await store.find_entries(owner, query("n9"))).items) == 1


@pytest.fixture(params=[False, True], ids=["unknown", "analyzed"])
def laid_out(cluster: TestPostgres, request: pytest.FixtureRequest) -> Planned:
    return planned(cluster, "entries", request.param, _SUPERSEDED)


async def test_erasing_a_thread_reads_its_entries_and_what_they_superseded_alone(
    laid_out: Planned,
) -> None:
    async with laid_out.connected() as asking:
        erase = load("erase.sql")["erase_entries"]
        found = await scans(asking, erase, ("memory_entries",), {"thread_id": "short"})
    assert sum(rows for _, rows in found) < 20, found


async def test_a_search_is_one_statement(database: Database, victim: str) -> None:
    statement = find_entries(query("zebra"))
    assert b";" not in statement.query.sql
    (rows,) = await database.run(victim, statement)
    assert len(rows) == 1
