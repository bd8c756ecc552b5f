"""Applying migrations: once, together, from empty, and not over an edited file."""

import asyncio
import re
from datetime import timedelta

import psycopg
import pytest

from layover.adapters.store.postgres.migrate import (
    Migration,
    PostgresMigrations,
    pending,
    shipped_migrations,
)
from layover.errors import DatabaseWaking, DefinitionError, RetryableError
from support.postgres.server import TestPostgres

_DUMP = """
select 'column ' || table_schema || '.' || table_name || '.' || column_name || ' ' || data_type || ' '
       || is_nullable || ' ' || coalesce(column_default, '-')
from information_schema.columns where table_schema in ('public', 'layover_meta')
union all select 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace
union all select 'index ' || indexdef from pg_indexes where schemaname = 'public'
union all select 'policy ' || tablename || policyname || qual from pg_policies
union all select 'applied ' || name || checksum || applied_at from layover_meta.migrations
order by 1
"""


def _schema(database: TestPostgres) -> list[str]:
    with psycopg.connect(database.superuser) as connection:
        return [line for (line,) in connection.execute(_DUMP).fetchall()]


async def test_an_edited_migration_is_refused(cluster: TestPostgres) -> None:
    database = cluster.new_database("edited")
    migrations = PostgresMigrations(database.admin)
    await migrations.apply()
    before = _schema(database)
    edit = "update layover_meta.migrations set checksum = %s where name = %s"
    with psycopg.connect(database.admin) as connection:
        connection.execute(edit, ("another", shipped_migrations()[0].name))
    with pytest.raises(DefinitionError):
        await migrations.apply()
    with psycopg.connect(database.admin) as connection:
        connection.execute(edit, (shipped_migrations()[0].checksum, shipped_migrations()[0].name))
    assert _schema(database) == before


async def test_migrating_twice_is_migrating_once(cluster: TestPostgres) -> None:
    database = cluster.new_database("twice")
    migrations = PostgresMigrations(database.admin)
    assert await migrations.apply() == tuple(m.name for m in shipped_migrations())
    once = _schema(database)
    assert await migrations.apply() == ()
    assert _schema(database) == once


async def test_two_who_migrate_at_once_take_turns(cluster: TestPostgres) -> None:
    database = cluster.new_database("together")
    applied = await asyncio.gather(*(PostgresMigrations(database.admin).apply() for _ in range(4)))
    names = tuple(m.name for m in shipped_migrations())
    assert sorted(applied) == sorted([names, (), (), ()])


async def test_a_lock_that_is_never_given_up_is_a_passing_fault(cluster: TestPostgres) -> None:
    database = cluster.new_database("locked")
    async with await psycopg.AsyncConnection.connect(database.admin) as other:
        await PostgresMigrations(database.admin).apply()
        await other.execute("lock table layover_meta.migrations")
        impatient = PostgresMigrations(database.admin, lock_timeout=timedelta(milliseconds=50))
        with pytest.raises(RetryableError):
            await impatient.apply()


async def test_where_iam_signs_in_the_functions_role_may_use_it(cluster: TestPostgres) -> None:
    database = cluster.new_database("iam")
    with psycopg.connect(cluster.superuser, autocommit=True) as connection:
        connection.execute("create role rds_iam nologin")
        connection.execute("grant rds_iam to layover_owner with admin option, inherit false")
        try:
            await PostgresMigrations(database.admin).apply()
            member = connection.execute(
                "select pg_has_role('layover_runtime', 'rds_iam', 'member')"
            ).fetchone()
        finally:
            connection.execute("drop role rds_iam")
    assert member == (True,)


async def test_the_functions_role_cannot_migrate(cluster: TestPostgres) -> None:
    database = cluster.new_database("forbidden")
    await PostgresMigrations(database.admin).apply()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await PostgresMigrations(database.runtime).apply()


async def test_a_database_that_nobody_answers_for_is_waking() -> None:
    with pytest.raises(DatabaseWaking):
        await PostgresMigrations("host=/nowhere dbname=layover").apply()


def test_a_newer_releases_migrations_are_left_alone() -> None:
    ours = [Migration("0001_pre_a.sql", "select 1")]
    applied = {"0001_pre_a.sql": ours[0].checksum, "0002_pre_b.sql": "newer"}
    assert pending(ours, applied) == []


def test_a_database_may_have_a_file_with_its_former_comments() -> None:
    first = shipped_migrations()[0]
    former = "140488a46d628b5a822d143e41933d46ab43cbea0dba2517457589e7fc6ab2f0"
    assert pending([first], {first.name: former}) == []
    with pytest.raises(DefinitionError):
        pending([first], {first.name: former[::-1]})


def test_only_what_is_missing_is_pending_in_order() -> None:
    ours = [Migration(f"000{n}_pre_a.sql", f"select {n}") for n in (1, 2, 3)]
    assert pending(ours, {ours[0].name: ours[0].checksum}) == ours[1:]


def test_migrations_are_numbered_without_gaps_and_say_when_they_run() -> None:
    names = [m.name for m in shipped_migrations()]
    assert all(re.fullmatch(r"\d{4}_(pre|post)_[a-z0-9_]+\.sql", n) for n in names)
    assert [int(n[:4]) for n in names] == list(range(1, len(names) + 1))
