"""A real Postgres for tests, in its own folder, migrated once in each session and removed afterwards.

Tests do not truncate: each takes its own owner (`fresh_owner`), and row security keeps them apart."""

import asyncio
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.migrate import PostgresMigrations
from layover.desk.local.postgres_data import end_leftover, pid_file, wheels_server

OWNER_ROLE = "layover_owner"
START_LIMIT_S = 60.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class TestPostgres:
    """DSNs: `runtime` for the functions' role, `admin` for the owner of the tables (no superuser, as on
    RDS), `superuser` for what a test has to arrange. All of one database."""

    __test__ = False
    socket_dir: str
    database: str

    @property
    def runtime(self) -> str:
        return self.dsn("layover_runtime")

    @property
    def admin(self) -> str:
        return self.dsn(OWNER_ROLE)

    @property
    def superuser(self) -> str:
        return self.dsn("postgres")

    def dsn(self, role: str) -> str:
        return f"host={self.socket_dir} dbname={self.database} user={role}"

    def new_database(self, name: str) -> "TestPostgres":
        """An empty database, as an administrator finds it on a fresh cluster (vector allowed)."""
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            connection.execute(f"create database {name} owner {OWNER_ROLE}")
        made = TestPostgres(self.socket_dir, name)
        with psycopg.connect(made.superuser, autocommit=True) as connection:
            connection.execute("create extension vector")
        return made


def fresh_owner() -> str:
    """A `resource_id` that no other test of this session has."""
    return f"owner-{os.getpid()}-{next(_numbers)}"


@contextmanager
def running_postgres() -> Iterator[TestPostgres]:
    """A server without data, with the role that owns the tables."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    folder.chmod(0o755)
    data = folder / "data"
    data.mkdir()
    server = wheels_server(data, cleanup_mode="stop")
    server.ensure_pgdata_inited()
    with (data / "postgresql.conf").open("a") as settings:
        settings.write("fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n")
        # What the planner knows must not depend on when a worker came by: tests say `analyze` themselves.
        settings.write("autovacuum = off\n")
    try:
        _start(server, data)
        socket_dir = str(server.get_postmaster_info().socket_dir)
        cluster = TestPostgres(socket_dir, "postgres")
        with psycopg.connect(cluster.superuser, autocommit=True) as connection:
            connection.execute(f"create role {OWNER_ROLE} login createrole")
        yield cluster
    finally:
        server.cleanup()
        # The wheel ends only what it saw start.
        end_leftover(data, data)
        shutil.rmtree(folder, ignore_errors=True)


def _start(server: Any, data: Path) -> None:
    """The wheel gives `pg_ctl` ten seconds; on a busy machine the server itself is ready later."""
    try:
        server.start()
    except subprocess.TimeoutExpired:
        until = time.monotonic() + START_LIMIT_S
        while pid_file(data)[-1:] != ["ready"]:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        server.start()


def migrated(cluster: TestPostgres, name: str) -> TestPostgres:
    """Return a database with Layover's tables. Tests of plans have their own, because other tests' rows, and
    their order, would change what the planner knows."""
    database = cluster.new_database(name)
    asyncio.run(PostgresMigrations(database.admin).apply())
    return database


@pytest.fixture(scope="session")
def cluster() -> Iterator[TestPostgres]:
    """The server; tests that need an empty database make one with `new_database`."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres(cluster: TestPostgres) -> TestPostgres:
    """A migrated database."""
    return migrated(cluster, "layover")


@pytest.fixture
def owner() -> str:
    return fresh_owner()


@pytest.fixture(scope="session")
async def database(postgres: TestPostgres) -> AsyncIterator[Database]:
    """The functions' connection to it."""
    database = Database(postgres.runtime)
    yield database
    await database.close()
