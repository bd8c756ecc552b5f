"""One connection, and pipelines over it: many statements, one round trip.

psycopg's own pipeline waits on the socket once for each statement. Here the whole pipeline is written to
libpq's buffer first (`psycopg.pq`, its public low level), flushed once, and read back once.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from layover.adapters.store.postgres.faults import ConnectionLost, connection_error, of_statement
from layover.adapters.store.postgres.queries import Statement, load
from layover.clock import loop_time
from layover.errors import LayoverError, RetryableError
from layover.futures import retrieve_exception

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.pq.abc import PGconn, PGresult

Row = tuple[bytes | None, ...]
"""The values of a row in Postgres's text format."""
_UNHEARD_MS = 10_000
_SILENT_S, _PROBE_S = 60, 30
"""Silence before the system's first probe, and between two of them. NAT gateways and security groups forget a
connection after 350 s."""
_TRY_AGAIN_S = 0.5
"""The pause between two attempts to connect to a database that is not available yet."""


class Database:
    """The one connection of an execution environment, opened when it is first needed.

    `password` gives a fresh token for each connection (IAM). A connection that turns out to be
    dropped is opened again once and the pipeline repeated: every pipeline of this package may run
    twice. A caller in another event loop gets a connection for its own loop.

    `waking`: the time to wait for a database that accepts no connection because it wakes up or fails over."""

    def __init__(
        self,
        dsn: str,
        *,
        password: Callable[[], str] | None = None,
        connect_timeout: timedelta = timedelta(seconds=10),
        patience: timedelta = timedelta(seconds=60),
        wake_timeout: timedelta = timedelta(0),
    ) -> None:
        self._dsn = dsn
        self._password = password
        self._connect_timeout = connect_timeout
        self._patience = patience
        self._wake_timeout = wake_timeout
        self._session: _Session | None = None
        self._attempt: asyncio.Task[_Session] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()

    async def run(self, owner: str, *statements: Statement) -> list[list[Row]]:
        """BEGIN, the owner for row security, the statements, COMMIT: all or nothing, one round trip.

        Returns the rows of each statement. Raises DatabaseWaking, RetryableError, or what
        `faults.of_statement` makes of a refused statement."""
        common = load("threads.sql")
        pipeline = [
            common["begin"](),
            common["set_owner"](owner=owner),
            *statements,
            common["commit"](),
        ]
        await self._enter_loop()
        async with self._turn:
            return (await self._twice(pipeline))[2:-1]

    def dial(self) -> None:
        """Begin to connect, if there is no connection. The next pipeline takes the connection once it is
        open."""
        self._loop = self._loop or asyncio.get_running_loop()
        if self._session is None and self._attempt is None:
            self._attempt = asyncio.create_task(self._connect_once())
            # A failure is ignored, since the next pipeline connects by itself.
            self._attempt.add_done_callback(retrieve_exception)

    async def close(self) -> None:
        """Close the connection, if there is one. The next pipeline opens another."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        attempt, self._attempt = self._attempt, None
        if attempt is not None and attempt.get_loop() is asyncio.get_running_loop():
            attempt.cancel()
            with suppress(asyncio.CancelledError, LayoverError):
                await (await attempt).close()

    async def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            await self.close()
            self._loop, self._turn = loop, asyncio.Lock()

    async def _twice(self, pipeline: Sequence[Statement]) -> list[list[Row]]:
        if self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            with suppress(RetryableError):
                self._session = await attempt
        if self._session is not None:
            with suppress(ConnectionLost):
                return await self._once(self._session, pipeline)
        try:
            self._session = await self._connect()
            return await self._once(self._session, pipeline)
        except ConnectionLost as error:
            raise RetryableError("the connection to the database was lost") from error

    async def _once(self, session: "_Session", pipeline: Sequence[Statement]) -> list[list[Row]]:
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                return await session.exchange(pipeline)
        except ConnectionLost:
            await self.close()
            raise
        except TimeoutError as error:
            raise RetryableError("the database did not answer in time") from error
        finally:
            if not session.usable:
                await self.close()

    async def _connect(self) -> "_Session":
        give_up = loop_time() + self._wake_timeout.total_seconds()
        while True:
            try:
                return await self._connect_once()
            except RetryableError:
                if loop_time() >= give_up:
                    raise
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _connect_once(self) -> "_Session":
        from psycopg import AsyncConnection, OperationalError

        options: dict[str, Any] = {
            "connect_timeout": int(self._connect_timeout.total_seconds()),
            # A connection that died while the environment was frozen gives no sign, so only writes notice it.
            "tcp_user_timeout": _UNHEARD_MS,
            # So that nothing on the way forgets a connection that is silent between two turns.
            "keepalives_idle": _SILENT_S,
            "keepalives_interval": _PROBE_S,
        }
        if self._password is not None:
            options["password"] = self._password()
        try:
            connection = await AsyncConnection.connect(self._dsn, autocommit=True, **options)
        except (OperationalError, OSError) as error:
            raise connection_error(error) from error
        return _Session(connection)


class _Session:
    """A connection in pipeline mode, with the statements that it has prepared."""

    def __init__(self, connection: "AsyncConnection[Any]") -> None:
        from psycopg import pq

        self._pq = pq
        self._connection = connection
        self._pgconn: PGconn = connection.pgconn
        self._pgconn.enter_pipeline_mode()
        self._statements: set[str] = set()
        self._idle = True

    @property
    def usable(self) -> bool:
        """False in the middle of a pipeline (after an exception), or when the connection is broken."""
        return self._idle and self._pgconn.status == self._pq.ConnStatus.OK

    async def close(self) -> None:
        await self._connection.close()

    async def exchange(self, pipeline: Sequence[Statement]) -> list[list[Row]]:
        """Send the pipeline, read all of its results; the first refused statement is raised."""
        from psycopg import OperationalError

        self._idle = False
        try:
            expected_results = self._send(pipeline)
            await self._flush()
            results = await self._results(len(expected_results))
        except OperationalError as error:
            raise ConnectionLost from error
        self._idle = True
        failed = self._note(expected_results, results)
        if failed is not None:
            await self._roll_back()
            raise failed
        return [
            _tuples(r)
            for (_, preparing), r in zip(expected_results, results, strict=True)
            if not preparing
        ]

    async def _roll_back(self) -> None:
        """Roll back: the refused pipeline's COMMIT was skipped with the rest, so its transaction is still
        open."""
        if self._pgconn.transaction_status != self._pq.TransactionStatus.IDLE:
            await self.exchange([load("threads.sql")["rollback"]()])

    def _send(self, pipeline: Sequence[Statement]) -> list[tuple[str, bool]]:
        """Queue all in libpq. Returns what each expected result answers: query, was it to prepare."""
        expected_results: list[tuple[str, bool]] = []
        for statement in pipeline:
            query = statement.query
            name = query.name.encode()
            if query.name not in self._statements and (query.name, True) not in expected_results:
                self._pgconn.send_prepare(name, query.sql)
                expected_results.append((query.name, True))
            self._pgconn.send_query_prepared(name, statement.values)
            expected_results.append((query.name, False))
        self._pgconn.pipeline_sync()
        return expected_results

    async def _flush(self) -> None:
        while self._pgconn.flush():
            await _ready(self._pgconn.socket, to_write=True)
            self._pgconn.consume_input()

    async def _results(self, count: int) -> "list[PGresult]":
        """The results of a pipeline. libpq puts a None after each one, but not after that of the sync, which
        comes last."""
        results: list[PGresult | None] = []
        for _ in range(2 * count + 1):
            while self._pgconn.is_busy():
                await _ready(self._pgconn.socket)
                self._pgconn.consume_input()
            results.append(self._pgconn.get_result())
        answers = [result for result in results[::2] if result is not None]
        if len(answers) <= count:
            raise ConnectionLost
        return answers[:-1]

    def _note(
        self, expected_results: list[tuple[str, bool]], results: "list[PGresult]"
    ) -> Exception | None:
        """Remember the prepared statements. Return why a statement was refused, if one was."""
        for (query, preparing), result in zip(expected_results, results, strict=True):
            if result.status == self._pq.ExecStatus.FATAL_ERROR:
                from psycopg.errors import error_from_result

                return of_statement(error_from_result(result), query)
            if preparing:
                self._statements.add(query)
        return None


def _tuples(result: "PGresult") -> list[Row]:
    columns = range(result.nfields)
    return [tuple(result.get_value(r, c) for c in columns) for r in range(result.ntuples)]


async def _ready(socket: int, *, to_write: bool = False) -> None:
    """Wait until the socket can be read (or written)."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(socket, _settle, ready)
    if to_write:
        loop.add_writer(socket, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(socket)
        if to_write:
            loop.remove_writer(socket)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
