"""A line to Postgres that counts round trips, and can be cut, silenced, or told that the server starts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from layover.adapters.store.postgres.database import Database
from support.postgres.server import TestPostgres


async def say_that_it_starts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as a server that has only just been started."""
    await reader.read(8)  # may encryption be used? (a unix socket does not ask)
    body = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"
    writer.write(b"E" + (len(body) + 4).to_bytes(4, "big") + body)
    await writer.drain()
    writer.close()


@dataclass
class Proxy:
    """Stands between client and server, and counts how often the client speaks after the server did."""

    target: str
    connections: int = 0
    round_trips: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    _client_spoke: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    silent: bool = False
    """The server's answers are kept back."""
    starting: int = 0
    """So many clients more are told that the server starts."""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.starting:
            self.starting -= 1
            await say_that_it_starts(reader, writer)
            return
        upstream_reader, upstream_writer = await asyncio.open_unix_connection(self.target)
        self._writers |= {writer, upstream_writer}
        for copying in (
            self._copy(reader, upstream_writer, from_client=True),
            self._copy(upstream_reader, writer, from_client=False),
        ):
            task = asyncio.create_task(copying)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if from_client and not self._client_spoke:
                    self.round_trips += 1
                self._client_spoke = from_client
                if from_client:
                    self.asked.set()
                if from_client or not self.silent:
                    writer.write(data)
                    await writer.drain()
        writer.close()

    async def drop(self) -> None:
        """Cut all connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def proxied(postgres: TestPostgres, folder: Path) -> AsyncIterator[tuple[Proxy, Database]]:
    proxy = Proxy(f"{postgres.socket_dir}/.s.PGSQL.5432")
    server = await asyncio.start_unix_server(proxy.accept, folder / ".s.PGSQL.5432")
    dsn = f"host={folder} dbname={postgres.database} user=layover_runtime"
    database = Database(dsn, patience=timedelta(seconds=10))
    try:
        yield proxy, database
    finally:
        await database.close()
        await proxy.drop()
        server.close()
        await server.wait_closed()
