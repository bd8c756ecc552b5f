"""Data from before the short keys (0005, 0006), as it is read after them."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.migrate import PostgresMigrations, shipped_migrations
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.errors import NewerFormat
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.values.memory.context import RecallQuery, TurnQuery
from layover.values.message import Message, Role
from layover.values.thread import ThreadHead
from support.postgres.server import TestPostgres
from support.worlds.threads import START, Conversation

_BEFORE = 4
_RESULT = json.dumps(
    [{"type": "tool_result", "tool_call_id": "c", "tool_name": "x", "result": "s"}]
)
_TEXT = json.dumps([{"type": "text", "text": "hello"}])
_RUN = {"agent": "support"}
_TREE = json.dumps({"version": 2, "run": _RUN, "message_ids": ["q", "a", "t", "b"]})
# A thread of four messages with a fork behind the second, as the functions of before have stored it.
_ROWS = f"""
insert into threads (id, agent, created_at, updated_at) values ('thread', 'support', '{START}', '{START}');
insert into branches (thread_id, id, path, path_depths) values
    ('thread', 0, '{{0}}', '{{2147483647}}'), ('thread', 1, '{{0,1}}', '{{1,2147483647}}');
insert into messages
    (thread_id, branch_id, depth, id, parent_id, run_id, role, created_at, token_count, content, model_output)
values
    ('thread', 0, 0, 'q', 'never-stored', 'run', 'user', '{START}', 5, '{_TEXT}', null),
    ('thread', 0, 1, 'a', 'q', 'run', 'assistant', '{START + timedelta(seconds=1)}', 6, '[]', null),
    ('thread', 0, 2, 't', 'a', 'run', 'tool', '{START + timedelta(seconds=2)}', 7, '{_RESULT}', '=1+1'),
    ('thread', 0, 3, 'b', 't', 'run', 'assistant', '{START + timedelta(seconds=3)}', 8, '[]', null),
    ('thread', 1, 2, 'f', 'a', 'fork', 'user', '{START + timedelta(seconds=4)}', 9, '[]', null);
insert into message_embeddings (thread_id, message_id, agent, branch_id, depth, created_at, words)
    values ('thread', 'q', 'support', 0, 0, '{START}', 'hello');
insert into compactions (thread_id, generation, kind, branch_id, after_depth, through_depth,
                         through_message_id, chain, token_count, created_at)
    values ('thread', 1, 'observations', 0, -1, 1, 'a', '{{1}}', 3, '{START}');
insert into observations (thread_id, generation, id, position, observed_at, marker, content)
    values ('thread', 1, 'o', 0, '{START}', 'INFO', 'said hello');
insert into run_snapshots (thread_id, run_id, status, created_at, tree) values
    ('thread', 'run', 'success', '{START}', '{_TREE}');
insert into usage (run_id, step, kind, agent, model, input_tokens, output_tokens, cached_input_tokens,
                   reasoning_tokens, at)
    values ('run', 's', 'run', 'support', 'm', 7, 1, 0, 0, '{START}');
"""
_LEDGER = """
create schema layover_meta;
create table layover_meta.migrations (
    name text primary key, checksum text not null, applied_at timestamptz not null default now());
"""
OWNERS = ("ann", "bob")


@pytest.fixture(scope="module")
async def database(cluster: TestPostgres) -> AsyncIterator[Database]:
    """Two owners' rows of before, migrated."""
    empty = _of_before(cluster, "short_keys")
    with psycopg.connect(empty.runtime) as connection:
        for owner in OWNERS:
            connection.execute("select set_config('app.resource_id', %s, true)", (owner,))
            connection.execute(_ROWS.encode())
    missing = tuple(m.name for m in shipped_migrations()[_BEFORE:])
    assert await PostgresMigrations(empty.admin).apply() == missing
    carried_over = Database(empty.runtime)
    yield carried_over
    await carried_over.close()


@pytest.fixture(params=OWNERS)
async def talk(database: Database, request: pytest.FixtureRequest) -> Conversation:
    return Conversation(PostgresThreads(database, MemoryAdditions()), request.param)


def _of_before(cluster: TestPostgres, name: str) -> TestPostgres:
    """A database with the schema of before."""
    empty = cluster.new_database(name)
    with psycopg.connect(empty.admin) as connection:
        connection.execute(_LEDGER)
        for migration in shipped_migrations()[:_BEFORE]:
            connection.execute(migration.sql.encode())
            connection.execute(
                "insert into layover_meta.migrations (name, checksum) values (%s, %s)",
                (migration.name, migration.checksum),
            )
    return empty


def _parents(messages: tuple[Message, ...]) -> list[tuple[str, str | None]]:
    return [(m.id, m.parent_id) for m in messages]


async def test_nobody_else_sees_what_was_carried_over(database: Database) -> None:
    stranger = Conversation(PostgresThreads(database, MemoryAdditions()), "stranger")
    assert await stranger.path("b") is None
    assert await stranger.store.past_run("stranger", "run") is None


async def test_history_and_pages_are_as_before(talk: Conversation) -> None:
    head = ThreadHead(
        id="thread", owner=talk.owner, agent="support", created_at=START, updated_at=START
    )
    message = Message(id="b", thread_id="thread", role=Role.USER, created_at=START)
    query = TurnQuery(head=head, run_id="run", input=message, window=20)
    context = await talk.store.open_turn(query)
    assert _parents(context.history) == [("q", "never-stored"), ("a", "q"), ("t", "a")]
    assert [m.token_count for m in context.history] == [5, 6, 7]
    assert context.history[2].model_output == "=1+1"
    assert await talk.path("b") == ["q", "a", "t", "b"]
    page = await talk.store.messages(talk.owner, talk.id, "f", 10, None)
    assert page is not None
    assert _parents(page.items) == [("q", "never-stored"), ("a", "q"), ("f", "a")]


async def test_a_past_run_is_as_before(talk: Conversation) -> None:
    past = await talk.store.past_run(talk.owner, "run")
    assert past is not None
    assert (past.thread_id, past.tree["run"]) == ("thread", _RUN)
    parents = [("q", "never-stored"), ("a", "q"), ("t", "a"), ("b", "t")]
    assert _parents(past.messages) == parents


async def test_export_recall_and_observations_are_as_before(
    talk: Conversation, database: Database
) -> None:
    memory = PostgresMemory(database)
    messages = await memory.list_stored(talk.owner, "messages", None, 10, "thread")
    ids = [(m["id"], m["parent_id"], m["thread_id"]) for m in messages.items]
    parents = [("q", "never-stored"), ("a", "q"), ("t", "a"), ("b", "t"), ("f", "a")]
    assert ids == [(id, parent, "thread") for id, parent in parents]
    query = RecallQuery(agent="support", text="hello", now=START)
    assert [r.message.id for r in await memory.recall(talk.owner, query)] == ["q"]
    ((generation, is_shown),) = await memory.observations(talk.owner, "thread", "b")
    assert (generation.through_message_id, is_shown) == ("a", True)
    usage = await memory.list_stored(talk.owner, "usage", None, 10)
    assert [row["input_tokens"] for row in usage.items] == [7]
    assert "tree" not in usage.items[0]


async def test_a_thread_of_before_goes_on_and_is_erased(
    cluster: TestPostgres, database: Database
) -> None:
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), OWNERS[0])
    await talk.say("b", "q2", "a2")
    assert await talk.path("a2") == ["q", "a", "t", "b", "q2", "a2"]
    await talk.store.erase(talk.owner, talk.id)
    with psycopg.connect(TestPostgres(cluster.socket_dir, "short_keys").superuser) as connection:
        for table in ("messages", "branches", "message_embeddings", "compactions", "run_snapshots"):
            rows = connection.execute(f"select distinct resource_id from {table}").fetchall()
            assert rows == [(OWNERS[1],)], table


async def test_functions_on_the_schema_of_another_release_wait_and_change_nothing(
    cluster: TestPostgres,
) -> None:
    """As functions of before wait on the schema of today."""
    of_before = _of_before(cluster, "other_schema")
    database = Database(of_before.runtime)
    talk = Conversation(PostgresThreads(database, MemoryAdditions()), "ann")
    with pytest.raises(NewerFormat, match="does not fit"):
        await talk.open(talk.message("q", None))
    with pytest.raises(NewerFormat, match="does not fit"):
        await talk.save(talk.message("q", None))
    await PostgresMigrations(of_before.admin).apply()
    # The same connection, once the release fits.
    await talk.say(None, "q", "a")
    assert await talk.path("a") is not None
    await database.close()
