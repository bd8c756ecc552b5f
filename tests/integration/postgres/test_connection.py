"""The connection: one round trip a pipeline, opened again once when it was dropped."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from layover import wiring
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.queries import Query
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.errors import DatabaseWaking, NewerFormat, RetryableError
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.values.memory.context import StepUsage
from layover.values.message import Role
from layover.values.runs.usage import Usage
from support.postgres.line import Proxy
from support.postgres.server import TestPostgres
from support.worlds.threads import START, Conversation


@contextmanager
def new_environment() -> Iterator[None]:
    """A process that has only just started, and reads its variables."""
    cached = (wiring.environment, wiring._database)
    for each in cached:
        each.cache_clear()
    try:
        yield
    finally:
        for each in cached:
            each.cache_clear()


async def test_a_turn_is_two_round_trips_on_a_warm_connection(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.say(None, "q", "a")
    question = talk.message("q2", "a")
    before = proxy.round_trips
    await talk.open(question)
    assert proxy.round_trips == before + 1
    usage = StepUsage(step="STEP#0001", agent="support", model="m", usage=Usage(), at=START)
    answers = [talk.message(f"a{n}", "q2", Role.ASSISTANT) for n in range(3)]
    await talk.save(question, *answers, usage=(usage,), snapshot={"id": "run"})
    assert proxy.round_trips == before + 2
    assert proxy.connections == 1


async def test_a_silent_connection_is_kept_alive(line: tuple[Proxy, Database], owner: str) -> None:
    """NAT gateways and security groups forget one after 350 s."""
    _, database = line
    await Conversation(PostgresThreads(database, MemoryAdditions()), owner).say(None, "q", "a")
    session = database._session
    assert session is not None
    # The server of the tests is asked over a socket of the file system, which has no such option.
    parameters = session._connection.info.get_parameters()
    assert int(parameters["keepalives_idle"]) < 350
    assert parameters.get("keepalives", "1") == "1"


async def test_the_first_turn_needs_nothing_between_connecting_and_its_pipeline(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.open(talk.message("q", None))
    assert proxy.round_trips <= 3  # encryption asked for, start-up, the pipeline
    assert proxy.connections == 1


async def test_a_message_of_a_megabyte_is_written_whole(
    line: tuple[Proxy, Database], owner: str
) -> None:
    _, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    big = talk.message("q", None, model_output="x" * 3_000_000)
    await talk.save(big)
    assert await talk.store.message(owner, talk.id, "q") == big


async def test_a_dropped_connection_is_opened_again_and_the_pipeline_repeated(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.say(None, "q", "a")
    await proxy.drop()
    assert await talk.open(talk.message("q2", "a")) == ["q", "a"]
    assert proxy.connections == 2


async def test_a_connection_that_the_server_closed_for_idleness_is_opened_again(
    line: tuple[Proxy, Database], owner: str, postgres: TestPostgres
) -> None:
    proxy, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.say(None, "q", "a")
    async with await psycopg.AsyncConnection.connect(postgres.superuser) as admin:
        await admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where usename = 'layover_runtime' and state = 'idle'"
        )
    assert await talk.path("a") == ["q", "a"]
    assert proxy.connections == 2


async def test_an_answer_that_never_comes_is_a_passing_fault(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.say(None, "q", "a")
    proxy.silent = True
    database._patience = timedelta(milliseconds=50)
    with pytest.raises(RetryableError):
        await talk.path("a")
    proxy.silent = False
    database._patience = timedelta(seconds=10)
    assert await talk.path("a") == ["q", "a"]


async def test_a_cancelled_pipeline_does_not_spoil_the_next(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.say(None, "q", "a")
    proxy.silent = True
    proxy.asked.clear()
    reading = asyncio.create_task(talk.path("a"))
    await asyncio.wait_for(proxy.asked.wait(), 60)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    proxy.silent = False
    assert await talk.path("a") == ["q", "a"]


async def test_a_refused_statement_leaves_the_connection_usable(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.say(None, "q", "a")
    for _ in range(2):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await database.run(owner, Query("broken", b"select 1 / 0", ())())
        with pytest.raises(NewerFormat):
            await database.run(owner, Query("absent", b"select * from nowhere", ())())
    assert await talk.path("a") == ["q", "a"]
    assert proxy.connections == 1


async def test_several_callers_share_the_connection(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    await talk.say(None, "q", "a")
    paths = await asyncio.gather(*(talk.path("a") for _ in range(20)))
    assert paths == [["q", "a"]] * 20
    assert proxy.connections == 1


async def test_a_database_that_nobody_answers_for_is_waking(tmp_path: Path, owner: str) -> None:
    database = Database(f"host={tmp_path} dbname=layover user=layover_runtime")
    with pytest.raises(DatabaseWaking):
        await PostgresThreads(database, MemoryAdditions()).head(owner, "t")


async def test_a_database_that_says_that_it_starts_is_waking(
    line: tuple[Proxy, Database], owner: str
) -> None:
    proxy, database = line
    proxy.starting = 1
    with pytest.raises(DatabaseWaking):
        await PostgresThreads(database, MemoryAdditions()).head(owner, "t")


async def test_a_function_waits_for_a_waking_database_as_long_as_its_deployment_says(
    line: tuple[Proxy, Database],
    postgres: TestPostgres,
    sockets: Path,
    owner: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy, _ = line
    proxy.starting = 1
    dsn = f"host={sockets} dbname={postgres.database} user=layover_runtime"
    monkeypatch.setenv("LAYOVER_DATABASE_URL", dsn)
    monkeypatch.setenv("LAYOVER_DATABASE_WAKING_S", "20")
    with new_environment():
        database = wiring._database()
        assert await PostgresThreads(database, MemoryAdditions()).head(owner, "t") is None
        await database.close()
    assert proxy.connections == 2


async def test_a_wrong_role_is_no_sleep(postgres: TestPostgres, owner: str) -> None:
    with pytest.raises(RetryableError) as caught:
        await PostgresThreads(Database(postgres.dsn("nobody")), MemoryAdditions()).head(owner, "t")
    assert not isinstance(caught.value, DatabaseWaking)


async def test_each_connection_asks_for_a_fresh_password(
    postgres: TestPostgres, owner: str
) -> None:
    tokens = iter(["first", "second"])
    asked: list[str] = []

    def password() -> str:
        asked.append(next(tokens))
        return asked[-1]

    database = Database(postgres.runtime, password=password)
    await PostgresThreads(database, MemoryAdditions()).head(owner, "t")
    await PostgresThreads(database, MemoryAdditions()).head(owner, "t")
    await database.close()
    await PostgresThreads(database, MemoryAdditions()).head(owner, "t")
    await database.close()
    assert asked == ["first", "second"]


def test_another_event_loop_gets_a_connection_of_its_own(
    postgres: TestPostgres, owner: str
) -> None:
    database = Database(postgres.runtime)
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), owner)

    async def again() -> list[str] | None:
        found = await talk.path("q")
        await database.close()
        return found

    asyncio.run(talk.save(talk.message("q", None)))
    assert asyncio.run(again()) == ["q"]
