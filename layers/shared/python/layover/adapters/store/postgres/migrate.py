"""Migrations: SQL files, applied in the order of their names, each once, by the owner of the tables."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from layover.adapters.store.postgres.faults import connection_error, of_statement
from layover.errors import DefinitionError, NewerFormat, RetryableError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

_LOCK = 7_243_392_106_301_711_938
"""Key of the advisory lock, which no other lock uses."""

_FORMER_CHECKSUMS = {
    "0001_pre_initial.sql": "140488a46d628b5a822d143e41933d46ab43cbea0dba2517457589e7fc6ab2f0"
}
"""Checksums of files whose comments have changed since they were shipped. A database may have applied either
form."""

# In its own schema: it has no owner (`resource_id`), and the functions' role has no business there.
_LEDGER = """
create schema if not exists layover_meta;
create table if not exists layover_meta.migrations (
    name text primary key,
    checksum text not null,
    applied_at timestamptz not null default now()
);
"""


@dataclass(frozen=True)
class Migration:
    """One file: `NNNN_pre|post_what.sql`."""

    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Return the checksum that tells an applied file from one that was edited later."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def shipped_migrations() -> list[Migration]:
    """The migrations of this release, in order."""
    folder = files(__package__).joinpath("migrations")
    sql_files = [f for f in folder.iterdir() if f.name.endswith(".sql")]
    return [
        Migration(f.name, f.read_text("utf-8")) for f in sorted(sql_files, key=lambda f: f.name)
    ]


class PostgresMigrations:
    """Brings a database to the schema of this release. `dsn` names the owner of the tables."""

    def __init__(
        self,
        dsn: str,
        *,
        password: Callable[[], str] | None = None,
        connect_timeout: timedelta = timedelta(seconds=20),
        lock_timeout: timedelta = timedelta(seconds=120),
    ) -> None:
        self._dsn = dsn
        self._password = password
        self._connect_timeout = connect_timeout
        self._lock_timeout = lock_timeout

    async def apply(self) -> tuple[str, ...]:
        """Apply the missing files, under a lock, and return their names. Raises DatabaseWaking or
        RetryableError if it is worth another try, DefinitionError if an applied file was changed."""
        from psycopg import Error

        connection = await self._connect()
        try:
            return await self._apply(connection)
        except Error as error:
            raise _as_retryable(error) from error
        finally:
            await connection.close()

    async def _connect(self) -> "AsyncConnection[Any]":
        from psycopg import AsyncConnection, OperationalError

        options: dict[str, Any] = {"connect_timeout": int(self._connect_timeout.total_seconds())}
        if self._password is not None:
            options["password"] = self._password()
        try:
            return await AsyncConnection.connect(self._dsn, autocommit=True, **options)
        except (OperationalError, OSError) as error:
            raise connection_error(error) from error

    async def _apply(self, connection: "AsyncConnection[Any]") -> tuple[str, ...]:
        milliseconds = str(int(self._lock_timeout.total_seconds() * 1000))
        await connection.execute("select set_config('lock_timeout', %s, false)", (milliseconds,))
        # The lock belongs to the session, so it ends with the connection, whatever happens.
        await connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
        await connection.execute(_LEDGER)
        rows = await connection.execute("select name, checksum from layover_meta.migrations")
        missing = pending(shipped_migrations(), dict(await rows.fetchall()))
        for migration in missing:
            await _apply_one(connection, migration)
        return tuple(m.name for m in missing)


def pending(migrations: list[Migration], applied: Mapping[str, str]) -> list[Migration]:
    """Return the files not applied yet. Raises DefinitionError if an applied one was edited. A file that is
    applied and not shipped belongs to a newer release and stays."""
    for migration in migrations:
        accepted = (migration.checksum, _FORMER_CHECKSUMS.get(migration.name))
        if applied.get(migration.name, migration.checksum) not in accepted:
            raise DefinitionError(
                "an applied migration was changed: add another one instead", name=migration.name
            )
    return [m for m in migrations if m.name not in applied]


async def _apply_one(connection: "AsyncConnection[Any]", migration: Migration) -> None:
    async with connection.transaction():
        await connection.execute(migration.sql.encode())
        await connection.execute(
            "insert into layover_meta.migrations (name, checksum) values (%s, %s)",
            (migration.name, migration.checksum),
        )


def _as_retryable(error: Exception) -> Exception:
    from psycopg import Error, OperationalError

    if not isinstance(error, Error):
        return error
    domain_error = of_statement(error, "migration")
    # A migration that names what does not exist is a mistake in it, and stays one.
    is_defect = domain_error is error or isinstance(domain_error, NewerFormat)
    if is_defect and not isinstance(error, OperationalError):
        return error
    return RetryableError("the migration was interrupted", sqlstate=error.sqlstate)
