"""Row security holds whatever a statement asks for."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
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
    await Conversation(PostgresThreads(database), owner, id=f"t-{owner}").say(None, "q", "a")
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


async def test_a_message_cannot_be_planted_in_another_users_thread(
    connection: Connection[Any], victim: str
) -> None:
    _become(connection, fresh_owner())
    plant = (
        "insert into messages (thread, branch_id, depth, id, role, created_at, content) "
        "values (thread_key(%s, %s), 0, 9, 'planted', 'user', now(), '[]')"
    )
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(plant, (victim, f"t-{victim}"))


async def test_what_hangs_on_a_message_cannot_be_planted_either(
    connection: Connection[Any], victim: str
) -> None:
    _become(connection, fresh_owner())
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(
            "insert into message_embeddings (thread_id, message_id, agent, branch_id, depth, created_at, "
            "words) values (%s, 'q', 'support', 0, 0, now(), 'word')",
            (f"t-{victim}",),
        )


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
    await PostgresThreads(database).head(victim, f"t-{victim}")
    session = database._session
    assert session is not None
    result = session._pgconn.transaction_status
    assert result == psycopg.pq.TransactionStatus.IDLE
    assert await PostgresThreads(database).head(fresh_owner(), f"t-{victim}") is None
