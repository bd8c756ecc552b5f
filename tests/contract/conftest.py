"""Fixtures of the contract tests: both tables, and both journals over them.

Tests of the journal run in memory. `both_stores` is on what runs on DynamoDB as well: the table's own
contract, which says that the two are equal, and what is about sizes, races or transactions."""

import pytest

from layover.adapters.blobs.s3 import S3Blobs
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.inmemory.table import InMemoryTable
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.ports import Blobs
from layover.ports.table import Table
from support.aws.emulator import LocalAws, aws
from support.worlds.compaction import A_TO_F, Branches
from support.worlds.journal import JournalBench
from support.worlds.threads import Stores

__all__ = ["aws"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`journal_stores`: memory, and DynamoDB for the tests that say so: what the table itself promises is
    proved in every tier, what repeats it through the journal in `make test-all`."""
    if "journal_stores" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("both_stores")
        repeats = both is not None and not both.kwargs.get("in_every_tier")
        marks = [pytest.mark.emulator] if repeats else []
        names = ["memory", pytest.param("dynamodb", marks=marks)] if both else ["memory"]
        metafunc.parametrize("journal_stores", names, indirect=True)


@pytest.fixture
def journal_stores(request: pytest.FixtureRequest) -> tuple[Table, Blobs]:
    if request.param == "memory":
        return InMemoryTable(), InMemoryBlobs()
    aws: LocalAws = request.getfixturevalue("aws")
    return dynamo_table(aws), S3Blobs(lambda: aws.client("s3"), aws.bucket)


@pytest.fixture(params=["memory", "postgres"])
def thread_stores(request: pytest.FixtureRequest) -> Stores:
    """Threads and memory."""
    if request.param == "memory":
        threads = InMemoryThreads()
        return Stores(threads, InMemoryMemory(threads))
    database: Database = request.getfixturevalue("database")
    return Stores(PostgresThreads(database, MemoryAdditions()), PostgresMemory(database))


@pytest.fixture
async def branches(thread_stores: Stores, owner: str) -> Branches:
    """The thread a, b, c, d, e, f (depths 0 to 5)."""
    branches = Branches(thread_stores, owner)
    await branches.line(None, *A_TO_F)
    return branches


@pytest.fixture
def table(journal_stores: tuple[Table, Blobs]) -> Table:
    return journal_stores[0]


@pytest.fixture
def world(journal_stores: tuple[Table, Blobs], owner: str) -> JournalBench:
    return JournalBench(*journal_stores, owner)


@pytest.fixture
def dynamo_world(aws: LocalAws, owner: str) -> JournalBench:
    """For what only real requests can race."""
    return JournalBench(dynamo_table(aws), S3Blobs(lambda: aws.client("s3"), aws.bucket), owner)


@pytest.fixture
def stranger(world: JournalBench) -> JournalBench:
    """Another owner, over the same table and blobs."""
    return JournalBench(world.table, world.blobs, f"{world.owner}-stranger", world.clock)


def dynamo_table(aws: LocalAws) -> DynamoTable:
    return DynamoTable(aws.services.client("dynamodb"), aws.table)
