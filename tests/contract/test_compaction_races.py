"""Several compactions of one thread at the same time, and the usage of each; in memory and on Postgres."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from support.postgres.server import TestPostgres
from support.worlds.compaction import Branches, new, spent
from support.worlds.threads import Stores


@pytest.fixture
async def racers(
    request: pytest.FixtureRequest, thread_stores: Stores, branches: Branches
) -> AsyncIterator[list[Branches]]:
    """The same conversation, over connections of their own."""
    databases: list[Database] = []
    if isinstance(thread_stores.threads, PostgresThreads):
        postgres: TestPostgres = request.getfixturevalue("postgres")
        databases = [Database(postgres.runtime) for _ in range(8)]
    real = [Stores(PostgresThreads(d, MemoryAdditions()), PostgresMemory(d)) for d in databases]
    yield [Branches(each, branches.owner) for each in real or [thread_stores] * 8]
    for database in databases:
        await database.close()


async def test_of_eight_who_add_the_same_slice_one_does(racers: list[Branches]) -> None:
    made = await asyncio.gather(*(r.slice(None, "c", f"o{n}") for n, r in enumerate(racers)))
    (slice,) = [g for g in made if g]
    assert (await racers[0].compacted("f")).slices == (slice,)


async def test_of_eight_who_activate_the_same_slices_one_does(racers: list[Branches]) -> None:
    made = [await racers[0].slice(None, "b"), await racers[0].slice("b", "d")]
    numbers = [g.number for g in made if g]
    done = await asyncio.gather(*(r.activate(*numbers) for r in racers))
    assert sorted(done) == [False] * 7 + [True]
    assert await racers[0].shows("f") == ["o-b", "o-d"]


async def test_of_eight_who_replace_the_same_generation_one_does(racers: list[Branches]) -> None:
    number = await racers[0].observe(None, "c")
    made = await asyncio.gather(
        *(r.reflect("c", f"r{n}", f"s{n}", expected=number) for n, r in enumerate(racers))
    )
    (reflection,) = [g for g in made if g]
    found = await racers[0].compacted("f")
    assert found.generation == reflection
    assert found.observations == reflection.observations


async def test_an_activation_a_reflection_and_slices_at_once_leave_one_chain(
    racers: list[Branches],
) -> None:
    first = await racers[0].observe(None, "b", "1")
    second = await racers[0].slice("b", "d", "2")
    assert second is not None
    one, two, three, four, *others = racers
    activated, reflected, again, late, *added = await asyncio.gather(
        one.activate(second.number, expected=first),
        two.reflect("b", "r", expected=first),
        three.activate(second.number, expected=first),
        four.slice("b", "e", "late"),
        *(r.slice("d", "e", f"o{n}") for n, r in enumerate(others)),
    )
    assert late is None
    assert sum(g is not None for g in added) == 1
    assert [activated, again, reflected is not None].count(True) in (1, 2)
    shown = await one.shows("f")
    # Activated first: the reflection comes too late for this path. Reflected first: so does the other.
    assert shown == (["1", "2"] if activated or again else ["r"])


async def test_what_was_spent_is_kept_with_what_was_made_and_once(
    thread_stores: Stores, branches: Branches, request: pytest.FixtureRequest
) -> None:
    assert await branches.slice(None, "b") is not None
    assert await branches.slice(None, "c") is None
    assert await branches.summarise(None, "b") is not None
    assert await branches.summarise(None, "d") is None
    made = new("observations", "b", "d", "again")
    assert (
        await branches.memory.add_slice(branches.owner, branches.id, made, "run", [spent("b")])
        is not None
    )
    assert sorted(await _spent(thread_stores, branches, request)) == [
        ("b", "background", 7),
        ("summary/b", "background", 7),
    ]


async def test_what_was_spent_in_vain_is_kept_once_and_of_no_thread_that_is_gone(
    thread_stores: Stores, branches: Branches, request: pytest.FixtureRequest
) -> None:
    await branches.memory.spend(branches.owner, branches.id, "run", [])
    await branches.memory.spend(branches.owner, "nothing", "run", [spent("lost")])
    for _ in range(2):
        await branches.memory.spend(branches.owner, branches.id, "run", [spent("observer/1")])
    assert await _spent(thread_stores, branches, request) == [("observer/1", "background", 7)]


async def _spent(
    thread_stores: Stores, branches: Branches, request: pytest.FixtureRequest
) -> list[tuple[str, str, int]]:
    if isinstance(thread_stores.threads, InMemoryThreads):
        rows = thread_stores.threads.usage_rows.items()
        return [(step, kind, u.usage.input_tokens) for (_, _, step), (kind, u) in rows]
    import psycopg

    postgres: TestPostgres = request.getfixturevalue("postgres")
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (branches.owner,))
        return connection.execute("select step, kind, input_tokens from usage").fetchall()
