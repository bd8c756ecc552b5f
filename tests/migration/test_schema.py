"""The schema as it is after all migrations: what holds for every table, also for those to come."""

from typing import Any

import psycopg
import pytest

from layover.adapters.store.postgres.faults import CONSTRAINTS
from support.postgres.server import OWNER_ROLE, TestPostgres

TABLES = {
    "branches",
    "compactions",
    "extractions",
    "files",
    "iteration_log",
    "memory_entries",
    "memory_scopes",
    "message_embeddings",
    "messages",
    "observations",
    "run_snapshots",
    "thread_state",
    "threads",
    "usage",
    "working_memory",
}
_SETTING = "NULLIF(current_setting('app.resource_id'::text, true), ''::text)"
_POLICY = f"(resource_id = {_SETTING})"
_LIKELY = f"(NULLIF({_POLICY}, false) IS NOT NULL)"
"""The same to whoever reads; a planner takes it for a filter that nearly all rows pass."""


def _rows(postgres: TestPostgres, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(postgres.superuser) as connection:
        return connection.execute(query).fetchall()


def test_every_table_is_there(postgres: TestPostgres) -> None:
    rows = _rows(postgres, "select tablename from pg_tables where schemaname = 'public'")
    assert {name for (name,) in rows} == TABLES


def test_row_security_is_enabled_and_forced_on_every_table(postgres: TestPostgres) -> None:
    rows = _rows(
        postgres,
        "select relname, relrowsecurity and relforcerowsecurity from pg_class "
        "where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace",
    )
    assert len(rows) == len(TABLES)
    assert [name for name, secure in rows if not secure] == []


def test_every_table_has_one_policy_for_everybody_on_its_owner(postgres: TestPostgres) -> None:
    rows = _rows(
        postgres,
        "select tablename, permissive, roles::text, cmd, qual, with_check from pg_policies "
        "where schemaname = 'public' and policyname <> 'threads_operator'",
    )
    assert {name for name, *_ in rows} == TABLES
    assert len(rows) == len(TABLES)
    for name, *policy in rows:
        using = _LIKELY if name == "messages" else _POLICY
        assert policy == ["PERMISSIVE", "{public}", "ALL", using, _POLICY], name


def test_only_the_role_that_owns_the_tables_may_read_the_threads_of_all(
    postgres: TestPostgres,
) -> None:
    rows = _rows(
        postgres,
        "select tablename, roles::text, cmd, qual, with_check from pg_policies "
        "where policyname = 'threads_operator'",
    )
    assert rows == [("threads", f"{{{OWNER_ROLE}}}", "SELECT", "true", None)]


def test_the_owner_is_in_every_primary_unique_and_foreign_key(postgres: TestPostgres) -> None:
    """Or the thread's key: whoever names it has to name its owner, too."""
    rows = _rows(
        postgres,
        """
        select c.conname, bool_or(a.attname in ('resource_id', 'thread')),
               bool_or(f.attname in ('resource_id', 'thread')) or c.contype <> 'f'
        from pg_constraint c
        cross join unnest(c.conkey, coalesce(c.confkey, c.conkey)) k (here, there)
        join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.here
        left join pg_attribute f on f.attrelid = c.confrelid and f.attnum = k.there
        where c.connamespace = 'public'::regnamespace and c.contype in ('p', 'u', 'f')
        group by c.oid, c.conname, c.contype
        """,
    )
    assert len(rows) >= 2 * len(TABLES)
    assert [row for row in rows if row[1:] != (True, True)] == []


def test_a_threads_key_is_never_another_threads(postgres: TestPostgres) -> None:
    insert = (
        "insert into threads (id, agent, created_at, updated_at) "
        "values ('t', 'a', now(), now()) returning key"
    )
    keys = []
    with psycopg.connect(postgres.runtime) as connection:
        for owner in ("keys of ann", "keys of bob"):
            connection.execute("select set_config('app.resource_id', %s, true)", (owner,))
            keys.append(connection.execute(insert).fetchone())
        assert len(set(keys)) == 2
        with pytest.raises(psycopg.errors.GeneratedAlways):
            connection.execute("update threads set key = %s", keys[0])


def test_who_names_a_thread_by_its_key_names_the_keys_owner(postgres: TestPostgres) -> None:
    """A key is a number, and does not contain the owner."""
    named = _rows(
        postgres,
        "select table_name from information_schema.columns "
        "where column_name = 'thread' and data_type = 'bigint' order by 1",
    )
    assert named == [("compactions",), ("message_embeddings",), ("messages",)]
    rows = _rows(
        postgres,
        "select conrelid::regclass::text, pg_get_constraintdef(oid) from pg_constraint "
        "where contype = 'f' and conname ~ '_thread_fkey$' and confkey = (select array_agg(attnum "
        "order by attname) from pg_attribute where attrelid = 'threads'::regclass "
        "and attname in ('key', 'resource_id')) order by 1",
    )
    meaning = (
        "FOREIGN KEY (thread, resource_id) REFERENCES threads(key, resource_id) ON DELETE CASCADE"
    )
    assert rows == [(name, meaning) for (name,) in named]


def test_the_owner_leads_every_index_but_those_that_would_look_alike(
    postgres: TestPostgres,
) -> None:
    rows = _rows(
        postgres,
        """
        select i.indexrelid::regclass::text, a.attname
        from pg_index i
        join pg_class c on c.oid = i.indrelid and c.relnamespace = 'public'::regnamespace
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
        """,
    )
    others = {name for name, first in rows if first != "resource_id"}
    by_place = {
        "messages_pkey",
        "message_embeddings_pkey",
        "compactions_through_idx",
        "compactions_thread_idx",
    }
    by_id = {"messages_id_idx", "threads_key_key", "compactions_id_key", "compactions_run_idx"}
    assert others == by_place | by_id, "see there why"


def test_every_table_has_a_primary_key_and_a_required_owner(postgres: TestPostgres) -> None:
    keys = _rows(
        postgres,
        "select conrelid::regclass::text from pg_constraint "
        "where contype = 'p' and connamespace = 'public'::regnamespace",
    )
    assert {name for (name,) in keys} == TABLES
    required = _rows(
        postgres,
        "select table_name from information_schema.columns where table_schema = 'public' "
        "and column_name = 'resource_id' and is_nullable = 'NO' and data_type = 'text'",
    )
    assert {name for (name,) in required} == TABLES


def test_the_functions_role_can_bypass_nothing(postgres: TestPostgres) -> None:
    rows = _rows(
        postgres,
        "select rolcanlogin, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication "
        "from pg_roles where rolname = 'layover_runtime'",
    )
    assert rows == [(True, False, False, False, False, False)]
    memberships = _rows(
        postgres, "select 1 from pg_auth_members where member = 'layover_runtime'::regrole"
    )
    assert memberships == []


def test_the_functions_role_owns_nothing(postgres: TestPostgres) -> None:
    owned = _rows(
        postgres,
        "select 1 from pg_shdepend where refobjid = 'layover_runtime'::regrole and deptype = 'o'",
    )
    assert owned == []
    owners = _rows(
        postgres, "select distinct tableowner from pg_tables where schemaname = 'public'"
    )
    assert owners == [(OWNER_ROLE,)]


def test_the_functions_role_may_read_and_write_rows_and_nothing_else(
    postgres: TestPostgres,
) -> None:
    rows = _rows(
        postgres,
        "select table_schema, table_name, array_agg(privilege_type::text order by privilege_type) "
        "from information_schema.role_table_grants where grantee = 'layover_runtime' group by 1, 2",
    )
    granted = {(schema, name): privileges for schema, name, privileges in rows}
    expected = ["DELETE", "INSERT", "SELECT", "UPDATE"]
    assert granted == {("public", name): expected for name in TABLES}
    schemas = _rows(
        postgres,
        "select has_schema_privilege('layover_runtime', 'public', 'create'), "
        "has_schema_privilege('layover_runtime', 'layover_meta', 'usage')",
    )
    assert schemas == [(False, False)]


def test_an_idle_connection_is_given_up_so_that_the_database_can_pause(
    postgres: TestPostgres,
) -> None:
    with psycopg.connect(postgres.runtime) as connection:
        row = connection.execute("show idle_session_timeout").fetchone()
    assert row == ("1min",)


def test_any_page_costs_alike_whatever_the_servers_own_setting(postgres: TestPostgres) -> None:
    with psycopg.connect(postgres.runtime) as connection:
        row = connection.execute("show random_page_cost").fetchone()
    assert row == ("1.1",)


def test_vectors_are_halves_and_stored_plain(postgres: TestPostgres) -> None:
    rows = _rows(
        postgres,
        "select attrelid::regclass::text, attstorage::text from pg_attribute "
        "where atttypid = 'halfvec'::regtype and attrelid::regclass::text in "
        "('message_embeddings', 'memory_entries')",
    )
    assert sorted(rows) == [("memory_entries", "p"), ("message_embeddings", "p")]


def test_the_longest_vector_fits_into_a_row(postgres: TestPostgres) -> None:
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", ("o" * 64,))
        connection.execute(
            "insert into threads (id, agent, created_at, updated_at) values ('t', 'a', now(), now())"
        )
        insert = (
            "insert into memory_entries (id, agent, thread_id, content, source, evidence, hash, "
            "created_at, embedding, words) select %s, 'agent', 't', repeat('x', 2000), 'user', "
            "repeat('y', 2000), %s, now(), array_agg(n::real)::real[]::vector::halfvec, 'word' "
            "from generate_series(1, %s) n"
        )
        connection.execute(insert, ("e" * 30, "h" * 64, 3900))
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(insert, ("f" * 30, "g" * 64, 3901))


def test_only_observations_may_wait_to_take_effect(postgres: TestPostgres) -> None:
    insert = (
        "insert into compactions (thread, thread_id, generation, kind, branch_id, after_depth, "
        "through_depth, through_message_id, active, token_count, created_at) "
        "select key, 't', %s, %s, 0, -1, 0, 'm', false, 1, now() from threads"
    )
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", ("waiting",))
        connection.execute(
            "insert into threads (id, agent, created_at, updated_at) values ('t', 'a', now(), now())"
        )
        connection.execute(
            "insert into branches (thread_id, id, path, path_depths) values ('t', 0, '{0}', '{0}')"
        )
        connection.execute(
            "insert into messages (thread, branch_id, depth, id, role, created_at, content) "
            "select key, 0, 0, 'm', 'user', now(), '[]' from threads"
        )
        connection.execute(insert, (1, "observations"))
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(insert, (2, "summary"))


def test_every_constraint_with_a_meaning_exists(postgres: TestPostgres) -> None:
    rows = _rows(
        postgres, "select conname from pg_constraint where connamespace = 'public'::regnamespace"
    )
    assert set(CONSTRAINTS) - {name for (name,) in rows} == set()


def test_every_foreign_key_has_a_meaning(postgres: TestPostgres) -> None:
    rows = _rows(
        postgres,
        "select conname from pg_constraint "
        "where connamespace = 'public'::regnamespace and contype = 'f'",
    )
    assert {name for (name,) in rows} - set(CONSTRAINTS) == set()
