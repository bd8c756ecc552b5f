"""A connection that was begun ahead of the pipeline that needs it."""

import asyncio
from pathlib import Path

import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.errors import DatabaseWaking
from layover.plugins.memory.postgres.additions import MemoryAdditions
from support.postgres.line import Proxy
from support.postgres.server import TestPostgres
from support.worlds.threads import Conversation


async def connected(proxy: Proxy) -> None:
    """Wait until a client has reached the server."""
    async with asyncio.timeout(60):
        while not proxy.connections:
            await asyncio.sleep(0)


async def test_a_database_that_is_away_is_the_pipelines_own_error(
    tmp_path: Path, owner: str
) -> None:
    database = Database(f"host={tmp_path} dbname=layover user=layover_runtime")
    for _ in range(2):
        database.dial()
        with pytest.raises(DatabaseWaking):
            await PostgresThreads(database, MemoryAdditions()).head(owner, "t")


async def test_a_database_that_only_just_starts_is_asked_again_by_the_pipeline(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    proxy.starting = 1
    database.dial()
    assert await PostgresThreads(database, MemoryAdditions()).head(owner, "t") is None
    assert proxy.connections == 2


async def test_a_connection_that_was_dropped_before_its_first_pipeline_is_opened_again(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    database.dial()
    assert database._attempt is not None
    await asyncio.wait([database._attempt])
    await proxy.drop()
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.say(None, "q", "a")
    assert await talk.path("a") == ["q", "a"]
    assert proxy.connections == 2


async def test_the_pipeline_takes_the_connection_that_is_under_way(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    database.dial()
    database.dial()
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.open(talk.message("q", None))
    assert proxy.round_trips <= 3  # encryption asked for, start-up, the pipeline
    database.dial()
    await talk.path("q")
    assert proxy.connections == 1


async def test_several_callers_share_the_connection_that_is_under_way(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    database.dial()
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await asyncio.gather(*(talk.path("a") for _ in range(5)))
    assert proxy.connections == 1


async def test_a_caller_that_is_cancelled_while_it_is_under_way_leaves_the_next_its_own(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    proxy.silent = True
    database.dial()
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    reading = asyncio.create_task(talk.path("a"))
    await connected(proxy)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    proxy.silent = False
    assert await talk.path("a") is None
    assert proxy.connections == 2


async def test_a_connection_that_nobody_used_is_closed_with_the_database(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    database.dial()
    await connected(proxy)
    await database.close()
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    assert await talk.path("a") is None
    assert proxy.connections == 2


def test_another_event_loop_has_a_connection_of_its_own(
    postgres: TestPostgres, sockets: Path, owner: str
) -> None:
    """Also where the loop before it ended while its connection was under way."""
    database = Database(postgres.runtime)

    async def dial() -> None:
        database.dial()

    async def ask() -> None:
        database.dial()
        assert await PostgresThreads(database, MemoryAdditions()).head(owner, "t") is None

    for work in (dial, ask, ask):
        asyncio.run(work())
    asyncio.run(database.close())
