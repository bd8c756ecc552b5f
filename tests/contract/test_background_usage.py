"""The cost of background work is stored with its results: once, or not at all."""

from collections.abc import Callable
from decimal import Decimal

import psycopg
import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.plugins.memory.reads.semantic import query as recall
from layover.ports.memory.notes import StaleState
from layover.values.memory.context import Extraction, StepUsage
from layover.values.message import Message
from layover.values.runs.usage import MAX_TOKENS, Usage
from support.postgres.server import TestPostgres
from support.worlds.threads import START, Conversation, Stores

Spent = Callable[[str], dict[str, tuple[str, int, Decimal | None]]]
"""owner -> step -> kind, input tokens, cost; of the run `run`."""


@pytest.fixture(params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> tuple[Stores, Spent]:
    if request.param == "memory":
        threads = InMemoryThreads()
        return Stores(threads, InMemoryMemory(threads)), lambda owner: in_memory(threads, owner)
    database: Database = request.getfixturevalue("database")
    postgres: TestPostgres = request.getfixturevalue("postgres")
    stores = Stores(PostgresThreads(database, MemoryAdditions()), PostgresMemory(database))
    return stores, lambda owner: in_postgres(postgres, owner)


def in_memory(threads: InMemoryThreads, owner: str) -> dict[str, tuple[str, int, Decimal | None]]:
    return {
        step: (kind, row.usage.input_tokens, row.usage.cost_usd)
        for (of, run_id, step), (kind, row) in threads.usage_rows.items()
        if (of, run_id) == (owner, "run")
    }


def in_postgres(postgres: TestPostgres, owner: str) -> dict[str, tuple[str, int, Decimal | None]]:
    with psycopg.connect(postgres.superuser) as connection:
        rows = connection.execute(
            "select step, kind, input_tokens, cost_usd from usage"
            " where resource_id = %s and run_id = 'run'",
            (owner,),
        ).fetchall()
    return {step: (kind, tokens, cost) for step, kind, tokens, cost in rows}


@pytest.fixture
def stores(world: tuple[Stores, Spent]) -> Stores:
    return world[0]


@pytest.fixture
def spent(world: tuple[Stores, Spent]) -> Spent:
    return world[1]


@pytest.fixture
def talk(stores: Stores, owner: str) -> Conversation:
    return Conversation(stores.threads, owner)


def row(task: str, tokens: int = 10, cost: str | None = "0.5") -> StepUsage:
    usage = Usage(input_tokens=tokens, cost_usd=Decimal(cost) if cost else None)
    return StepUsage(step=task, agent="support", model="small", usage=usage, at=START)


def extraction(*usage: StepUsage, **fields: object) -> Extraction:
    given = {"run_id": "run", "thread_id": "thread", "at": START, **fields}
    return Extraction.model_validate({**given, "usage": usage})


async def index(stores: Stores, talk: Conversation, message: Message, *usage: StepUsage) -> None:
    found = recall.row_of(message, "support")
    assert found is not None
    await stores.memory.index_messages(talk.owner, [found], run_id="run", usage=usage)


async def test_an_extraction_that_is_too_late_costs_nothing_more(
    stores: Stores, spent: Spent, talk: Conversation
) -> None:
    await talk.say(None, "q", "a")
    assert await stores.memory.record_extraction(talk.owner, extraction(row("title")))
    late = extraction(row("title", 99), row("profile", 99))
    assert not await stores.memory.record_extraction(talk.owner, late)
    assert spent(talk.owner) == {"title": ("background", 10, Decimal("0.5"))}


async def test_a_session_that_is_refused_costs_nothing_yet(
    stores: Stores, spent: Spent, talk: Conversation
) -> None:
    await talk.say(None, "q", "a")
    stale = extraction(row("session"), session={"state": "old"}, state_version=7)
    with pytest.raises(StaleState):
        await stores.memory.record_extraction(talk.owner, stale)
    assert spent(talk.owner) == {}


async def test_many_answers_of_the_largest_count_have_room_in_one_row(
    stores: Stores, talk: Conversation, spent: Spent
) -> None:
    [saved] = talk.chain(None, "q")
    await talk.save(saved, usage=(row("STEP#0001", MAX_TOKENS * 1_000),))
    assert spent(talk.owner)["STEP#0001"][1] == MAX_TOKENS * 1_000


async def test_a_thread_that_is_gone_takes_no_usage(
    stores: Stores, spent: Spent, talk: Conversation
) -> None:
    question, *_ = await talk.say(None, "q", "a")
    await talk.store.erase(talk.owner, talk.id)
    await stores.memory.record_extraction(talk.owner, extraction(row("title")))
    await index(stores, talk, question, row("embedding"))
    assert spent(talk.owner) == {}


async def test_an_extraction_is_stored_with_all_that_it_cost(
    stores: Stores, spent: Spent, talk: Conversation
) -> None:
    await talk.say(None, "q", "a")
    await stores.memory.record_extraction(
        talk.owner, extraction(row("title", 1), row("profile", 2, None))
    )
    assert spent(talk.owner) == {
        "title": ("background", 1, Decimal("0.5")),
        "profile": ("background", 2, None),
    }


async def test_texts_that_are_indexed_again_cost_what_they_cost_first(
    stores: Stores, spent: Spent, talk: Conversation
) -> None:
    question, *_ = await talk.say(None, "q", "a")
    await index(stores, talk, question, row("embedding", 1))
    await index(stores, talk, question, row("embedding", 99))
    assert spent(talk.owner) == {"embedding": ("background", 1, Decimal("0.5"))}


async def test_a_turn_that_opens_again_has_asked_once(
    stores: Stores, spent: Spent, talk: Conversation
) -> None:
    input = talk.message("q", None)
    query = talk.query(input).model_copy(update={"usage": (row("recall", 3),)})
    await stores.threads.open_turn(query)
    await stores.threads.open_turn(query)
    assert spent(talk.owner) == {"recall": ("background", 3, Decimal("0.5"))}


async def test_the_steps_of_a_run_are_no_background(spent: Spent, talk: Conversation) -> None:
    await talk.save(*talk.chain(None, "q", "a"), usage=(row("STEP#0001", 4),))
    assert spent(talk.owner) == {"STEP#0001": ("run", 4, Decimal("0.5"))}
