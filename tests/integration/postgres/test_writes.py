"""Rows that a turn leaves in Postgres beside messages, and rows that erasing a thread leaves."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.plugins.memory.reads.semantic import query as recall
from layover.values.memory.context import Extraction, StepUsage
from layover.values.message import Role, ToolResultPart
from layover.values.runs.usage import Usage
from support.postgres.server import TestPostgres
from support.worlds.threads import START, Conversation

WAIT_S = 30.0
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"


@pytest.fixture
def talk(database: Database, owner: str) -> Conversation:
    return Conversation(PostgresThreads(database, MemoryAdditions()), owner)


def _rows(postgres: TestPostgres, owner: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (owner,))
        return connection.execute(query).fetchall()


def _usage(name: str, tokens: int, cost: str | None = None, later: int = 0) -> StepUsage:
    usage = Usage(input_tokens=tokens, cost_usd=None if cost is None else Decimal(cost))
    at = START + timedelta(seconds=later)
    return StepUsage(step=name, agent="support", model="m", usage=usage, at=at)


async def test_a_run_is_paid_for_once(talk: Conversation, postgres: TestPostgres) -> None:
    question = talk.message("q", None)
    await talk.save(question, usage=(_usage("a", 7, "0.000000123456789"),))
    await talk.save(question, usage=(_usage("a", 7, "0.000000123456789"), _usage("b", 5)))
    rows = _rows(
        postgres, talk.owner, "select step, kind, input_tokens, cost_usd from usage order by step"
    )
    assert rows == [("a", "run", 7, Decimal("0.000000123456789")), ("b", "run", 5, None)]


async def test_a_run_that_went_on_is_paid_for_with_what_came_since(
    talk: Conversation, postgres: TestPostgres
) -> None:
    question = talk.message("q", None)
    for row in (_usage("a", 7), _usage("a", 12, later=1), _usage("a", 7)):
        await talk.save(question, usage=(row,))
    assert _rows(postgres, talk.owner, "select input_tokens from usage") == [(12,)]


async def test_the_last_tree_of_a_run_is_kept(talk: Conversation, postgres: TestPostgres) -> None:
    question = talk.message("q", None)
    await talk.save(question, snapshot={"z": 1, "a": "first"})
    await talk.save(question, snapshot={"z": 1, "a": "last"})
    rows = _rows(postgres, talk.owner, "select run_id, tree::text from run_snapshots")
    assert rows == [("run", '{"z":1,"a":"last"}')]


def _tree(updated_at: str = "later") -> dict[str, Any]:
    """The tree of a run as `_usage` and the input say it, but for its end."""
    run = {"agent": "support", "model": "m", "usage": {"input_tokens": 7, "total_tokens": 7}}
    times = {"created_at": "2026-01-01T00:00:01.000000Z", "updated_at": updated_at}
    end = {"status": "success", "finish_reason": "stop"}
    return {"version": 3, "run": {**run, **end, **times}, "messages": ["q", 1]}


async def test_a_tree_is_stored_with_the_runs_usage_and_repeats_nothing_of_it(
    talk: Conversation, postgres: TestPostgres
) -> None:
    question = talk.message("q", None)
    await talk.save(question, usage=(_usage("a", 7), _usage("b", 5)), snapshot=_tree())
    trees = "select step, tree::text from usage order by step"
    tree = '{"version":3,"run":{"updated_at":"later"},"messages":["q",1]}'
    assert _rows(postgres, talk.owner, trees) == [("a", tree), ("b", None)]
    assert _rows(postgres, talk.owner, "select * from run_snapshots") == []
    past = await talk.store.past_run(talk.owner, "run")
    assert past is not None
    assert past.tree == _tree()


async def test_a_message_repeats_neither_its_place_nor_its_result(
    talk: Conversation, postgres: TestPostgres
) -> None:
    part = ToolResultPart(tool_call_id="c", tool_name="look", result="sunny")
    told = talk.message("t", "a", Role.TOOL, part, model_output="sunny")
    await talk.say(None, "q", "a")
    await talk.save(told)
    await talk.say("a", "fork", "b")
    rows = _rows(
        postgres, talk.owner, "select id, parent_id, model_output from messages order by created_at"
    )
    expected = {("q", None, None), ("a", None, None), ("t", None, "=")}
    assert set(rows) == expected | {("fork", "a", None), ("b", None, None)}


async def test_a_save_that_is_repeated_writes_nothing_more(
    talk: Conversation, postgres: TestPostgres
) -> None:
    version = "select ctid::text, input_tokens, tree::text is null from usage"
    question = talk.message("q", None)
    await talk.save(question, usage=(_usage("a", 7, later=1),), snapshot=_tree())
    before = _rows(postgres, talk.owner, version)
    await talk.save(question, usage=(_usage("a", 7, later=1),), snapshot=_tree())
    await talk.save(question, usage=(_usage("a", 5),), snapshot=_tree("earlier"))
    await talk.save(question, usage=(_usage("a", 7, later=1),))
    assert _rows(postgres, talk.owner, version) == before
    await talk.save(question, usage=(_usage("a", 9, later=2),), snapshot=_tree())
    assert [row[1:] for row in _rows(postgres, talk.owner, version)] == [(9, False)]


async def test_usage_outlives_its_thread_without_what_the_run_said(
    talk: Conversation, postgres: TestPostgres
) -> None:
    await talk.save(talk.message("q", None), usage=(_usage("a", 7),), snapshot=_tree())
    other = Conversation(talk.store, talk.owner, id="other")
    said = other.message("q", None).model_copy(update={"run_id": "another"})
    await other.save(said)
    trees = "select input_tokens, tree is null from usage"
    await talk.store.erase(talk.owner, "other")
    assert _rows(postgres, talk.owner, trees) == [(7, False)]
    await talk.store.erase(talk.owner, talk.id)
    assert _rows(postgres, talk.owner, trees) == [(7, True)]


async def test_a_dropped_thread_takes_the_trees_of_its_runs_with_it(
    talk: Conversation, database: Database, postgres: TestPostgres
) -> None:
    memory, until = PostgresMemory(database), START + timedelta(hours=1)
    kept = Conversation(talk.store, talk.owner, "kept", {"created_at": until + timedelta(days=1)})
    said = kept.message("q2", None).model_copy(update={"run_id": "another"})
    await kept.save(said)
    _rows(
        postgres,
        talk.owner,
        "insert into usage (run_id, step, kind, agent, model, input_tokens, output_tokens, "
        "cached_input_tokens, reasoning_tokens, at, tree) "
        "values ('another', 's', 'run', 'a', 'm', 1, 1, 0, 0, '2027-01-01', '{}') returning 1",
    )
    # It ends behind the request: its usage stays.
    late = _usage("a", 7, later=7200)
    await talk.save(talk.message("q", None), usage=(late,), snapshot=_tree())
    await memory.forget(talk.owner, until, until)
    assert await talk.store.past_run(talk.owner, "run") is None
    assert not await memory.drop(talk.owner, until)
    rows = _rows(postgres, talk.owner, "select run_id, tree is null from usage order by run_id")
    assert rows == [("another", False), ("run", True)]
    assert _rows(postgres, talk.owner, "select id from messages") == [("q2",)]


async def test_a_late_outcome_of_an_erased_thread_leaves_no_trace(
    talk: Conversation, postgres: TestPostgres
) -> None:
    question = talk.message("q", None)
    await talk.store.erase(talk.owner, talk.id)
    await talk.save(question, usage=(_usage("STEP#0001", 7),), snapshot={"id": "run"})
    for table in ("messages", "branches", "usage", "run_snapshots"):
        assert _rows(postgres, talk.owner, f"select * from {table}") == []


# One row in every table that hangs on a thread.
_ROWS = (
    "insert into message_embeddings (thread, thread_id, message_id, agent, branch_id, depth, created_at, "
    "words) select key, 'thread', 'q', 'support', 0, 0, now(), 'word' from threads",
    "insert into memory_entries (id, agent, thread_id, content, source, evidence, hash, created_at, words) "
    "values ('e', 'support', 'thread', 'secret', 'user', 'secret', 'h', now(), 'secret')",
    "insert into compactions (thread, thread_id, generation, kind, branch_id, after_depth, through_depth, "
    "through_message_id, token_count, created_at) "
    "select key, 'thread', 1, 'observations', 0, -1, 0, 'q', 1, now() from threads",
    "insert into observations (thread_id, generation, id, position, observed_at, marker, content) "
    "values ('thread', 1, 'o', 0, now(), 'INFO', 'secret')",
    "insert into working_memory (kind, scope, key, thread_id, value, created_at, updated_at) "
    "values ('working', 'thread', 'thread', 'thread', '{}', now(), now())",
    "insert into thread_state (thread_id, session, updated_at) values ('thread', '{}', now())",
    "insert into iteration_log (thread_id, task, attempt, action, created_at) "
    "values ('thread', 'task', 1, 'secret', now())",
    "insert into files (id, thread_id, name, mime_type, size, key, created_at) "
    "values ('f', 'thread', 'secret', 'text/plain', 1, 'k', now())",
)


async def test_erasing_a_thread_leaves_only_its_tombstone(
    talk: Conversation, database: Database, postgres: TestPostgres
) -> None:
    await talk.save(talk.message("q", None), snapshot={"id": "run"}, title="secret")
    await PostgresMemory(database).record_extraction(
        talk.owner, Extraction(run_id="run", thread_id=talk.id)
    )
    with psycopg.connect(postgres.runtime) as connection:
        connection.execute("select set_config('app.resource_id', %s, true)", (talk.owner,))
        for statement in _ROWS:
            connection.execute(statement)
    tables = _rows(
        postgres,
        talk.owner,
        "select table_name from information_schema.columns "
        "where table_schema = 'public' and column_name in ('thread_id', 'thread') group by 1",
    )
    assert len(tables) == 12
    for (table,) in tables:
        assert len(_rows(postgres, talk.owner, f"select * from {table}")) == 1, table
    await talk.store.erase(talk.owner, talk.id)
    for (table,) in tables:
        assert _rows(postgres, talk.owner, f"select * from {table}") == [], table
    left = _rows(postgres, talk.owner, "select id, title, metadata::text from threads")
    assert left == [("thread", None, "{}")]


async def test_an_unchanged_thread_is_not_written_again(
    talk: Conversation, postgres: TestPostgres
) -> None:
    question = talk.message("q", None)
    await talk.save(question, metadata={"a": 1})
    version = "select ctid::text from threads"
    before = _rows(postgres, talk.owner, version)
    await talk.save(question, metadata={"a": 1})
    assert _rows(postgres, talk.owner, version) == before


async def test_writers_of_one_thread_take_turns(talk: Conversation, postgres: TestPostgres) -> None:
    databases = [Database(postgres.runtime) for _ in range(4)]
    parent = (await talk.say(None, "q"))[0].id
    chains = [talk.chain(parent, f"a{n}", f"b{n}") for n in range(8)]
    talks = [
        Conversation(PostgresThreads(databases[n % 4], MemoryAdditions()), talk.owner)
        for n in range(8)
    ]
    await asyncio.gather(*(t.save(*c) for t, c in zip(talks, chains, strict=True)))
    for database in databases:
        await database.close()
    for n in range(8):
        assert await talk.path(f"b{n}") == ["q", f"a{n}", f"b{n}"]


async def test_what_a_thread_said_is_not_indexed_while_it_is_erased(
    talk: Conversation, database: Database, postgres: TestPostgres
) -> None:
    said = await talk.say(None, "q")
    row = recall.row_of(said[0], "support")
    assert row is not None
    memory = PostgresMemory(database)
    async with await psycopg.AsyncConnection.connect(postgres.runtime) as eraser:
        await eraser.execute("select set_config('app.resource_id', %s, true)", (talk.owner,))
        await eraser.execute("update threads set deleted_at = now() where id = %s", (talk.id,))
        await eraser.execute(
            "delete from messages m using threads t where m.thread = t.key and t.id = %s",
            (talk.id,),
        )
        late = asyncio.create_task(memory.index_messages(talk.owner, [row]))
        await _until(lambda: _rows(postgres, talk.owner, WAITING) != [(0,)] or late.done())
        assert not late.done()
    await late
    assert _rows(postgres, talk.owner, "select message_id from message_embeddings") == []


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.01)
