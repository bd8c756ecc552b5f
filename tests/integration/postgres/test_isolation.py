"""Row security holds whatever a statement asks for."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from support.postgres.server import TestPostgres, fresh_owner
from support.worlds.threads import Conversation


@pytest.fixture
def connection(postgres: TestPostgres) -> Iterator[Connection[Any]]:
    with psycopg.connect(postgres.runtime) as opened:
        yield opened
        opened.rollback()


@pytest.fixture
async def victim(database: Database) -> str:
    owner = fresh_owner()
    await Conversation(PostgresThreads(database, MemoryAdditions()), owner, id=f"t-{owner}").say(
        None, "q", "a"
    )
    return owner


def _become(connection: Connection[Any], owner: str) -> None:
    connection.execute("select set_config('app.resource_id', %s, true)", (owner,))


def _count(connection: Connection[Any], table: str) -> int:
    row = connection.execute(f"select count(*) from {table}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("table", ["threads", "branches", "messages"])
async def test_without_an_owner_nothing_is_visible(
    connection: Connection[Any], victim: str, table: str
) -> None:
    assert _count(connection, table) == 0
    _become(connection, "")
    assert _count(connection, table) == 0
    _become(connection, victim)
    assert _count(connection, table) > 0


async def test_without_an_owner_nothing_can_be_written(connection: Connection[Any]) -> None:
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.NotNullViolation)):
        connection.execute(
            "insert into threads (id, agent, created_at, updated_at) values ('t', 'a', now(), now())"
        )


async def test_a_row_cannot_be_written_in_another_users_name(
    connection: Connection[Any], victim: str
) -> None:
    _become(connection, fresh_owner())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(
            "insert into branches (resource_id, thread_id, id, path, path_depths) "
            "values (%s, %s, 9, '{9}', '{1}')",
            (victim, f"t-{victim}"),
        )


async def test_a_row_cannot_be_planted_in_another_users_thread(
    connection: Connection[Any], victim: str
) -> None:
    _become(connection, fresh_owner())
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(
            "insert into branches (thread_id, id, path, path_depths) values (%s, 9, '{9}', '{1}')",
            (f"t-{victim}",),
        )


@pytest.mark.parametrize(
    "plant",
    [
        "insert into messages (thread, branch_id, depth, id, role, created_at, content) "
        "values (%s, 0, 9, 'planted', 'user', now(), '[]')",
        "insert into message_embeddings (thread, thread_id, message_id, agent, branch_id, depth, "
        "created_at, words) values (%s, 't', 'q', 'support', 0, 0, now(), 'word')",
        "insert into compactions (thread, thread_id, generation, kind, branch_id, after_depth, "
        "through_depth, through_message_id, token_count, created_at) "
        "values (%s, 't', 9, 'summary', 0, -1, 0, 'q', 1, now())",
    ],
    ids=["message", "embedding", "compaction"],
)
async def test_nothing_can_be_planted_by_the_key_of_another_users_thread(
    postgres: TestPostgres, connection: Connection[Any], victim: str, plant: str
) -> None:
    """Keys are numbers, and easily thought of."""
    with psycopg.connect(postgres.superuser) as administrator:
        key = administrator.execute("select key from threads where resource_id = %s", (victim,))
        _become(connection, fresh_owner())
        with pytest.raises(psycopg.errors.ForeignKeyViolation) as fault:
            connection.execute(plant.encode(), key.fetchone())
    assert str(fault.value.diag.constraint_name).endswith("_thread_fkey")


async def test_another_users_rows_can_be_neither_changed_nor_deleted(
    connection: Connection[Any], victim: str
) -> None:
    _become(connection, fresh_owner())
    assert connection.execute("update threads set title = 'mine'").rowcount == 0
    assert connection.execute("delete from messages").rowcount == 0


async def test_a_row_cannot_be_given_away(connection: Connection[Any], victim: str) -> None:
    _become(connection, victim)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("update threads set resource_id = 'somebody'")


async def test_the_owner_of_the_tables_is_under_row_security_too(
    postgres: TestPostgres, victim: str
) -> None:
    with psycopg.connect(postgres.admin) as connection:
        assert _count(connection, "messages") == 0


async def test_a_pipeline_leaves_no_owner_behind(database: Database, victim: str) -> None:
    await PostgresThreads(database, MemoryAdditions()).head(victim, f"t-{victim}")
    session = database._session
    assert session is not None
    result = session._pgconn.transaction_status
    assert result == psycopg.pq.TransactionStatus.IDLE
    assert (
        await PostgresThreads(database, MemoryAdditions()).head(fresh_owner(), f"t-{victim}")
        is None
    )
