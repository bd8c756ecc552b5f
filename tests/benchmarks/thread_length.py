"""The cost of a turn to the database on a thread of 100 messages and on one of 100,000.

`python tests/benchmarks/thread_length.py` prints, for each, the median over 200 turns (one pipeline that
reads the context, one that writes the outcome): time, bytes that came back, bytes of WAL written."""

import asyncio
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

import psycopg

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.migrate import PostgresMigrations
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.values.memory.context import StepUsage, TurnQuery, TurnRecord
from layover.values.message import Message, Role, TextPart, ToolCallPart, ToolResultPart
from layover.values.runs.run import RunMeta, Status
from layover.values.runs.usage import Usage
from layover.values.thread import ThreadHead
from support.postgres.server import TestPostgres, running_postgres

TURNS = 200
WARM_UP = 30
TEXT = "the quick brown fox jumps over the lazy dog " * 4
START = datetime(2026, 1, 1, tzinfo=UTC)

_FILL = """
select set_config('app.resource_id', %(owner)s, true);
insert into threads (id, agent, created_at, updated_at) values ('t', 'a', '2026-01-01', '2026-01-01');
insert into branches (thread_id, id, path, path_depths) values ('t', 0, '{0}', '{2147483647}');
insert into messages (thread, branch_id, depth, id, role, created_at, content, token_count)
    select t.key, 0, n, 'm' || n, case when n %% 4 = 0 then 'user' else 'assistant' end,
           timestamptz '2025-01-01' + n * interval '1 second',
           json_build_array(json_build_object('type', 'text', 'text', %(text)s::text)), 40
    from threads t, generate_series(0, %(last)s) n;
"""


def fill(postgres: TestPostgres, owner: str, messages: int) -> None:
    """A thread of so many messages, written straight into the tables."""
    values = {"owner": owner, "last": messages - 1, "text": TEXT}
    with psycopg.connect(postgres.runtime) as connection:
        for statement in _FILL.split(";\n")[:-1]:
            used = {k: v for k, v in values.items() if f"%({k})s" in statement}
            connection.execute(statement, used or None)


class Turns:
    """Turn after turn on one thread: a question, a tool call, its result, an answer."""

    def __init__(self, store: PostgresThreads, owner: str, messages: int) -> None:
        self._store = store
        self._owner = owner
        self._leaf = f"m{messages - 1}"
        self._made = 0

    async def play(self) -> tuple[float, int]:
        """One turn: seconds, and bytes of history that came back."""
        n = self._made = self._made + 1
        head = ThreadHead(id="t", owner=self._owner, agent="a", created_at=START, updated_at=START)
        call = ToolCallPart(tool_call_id="c", tool_name="look", args={"key": "value"})
        result = ToolResultPart(tool_call_id="c", tool_name="look", result={"found": TEXT})
        given = self._message(n, 0, Role.USER, self._leaf, TextPart(text=TEXT))
        asked = self._message(n, 1, Role.ASSISTANT, given.id, call)
        told = self._message(n, 2, Role.TOOL, asked.id, result)
        said = self._message(n, 3, Role.ASSISTANT, told.id, TextPart(text=TEXT))
        run = RunMeta(
            id=f"run{n}",
            owner=self._owner,
            thread_id="t",
            agent="a",
            status=Status.SUCCESS,
            input=given,
            created_at=START,
            updated_at=START,
        )
        usage = tuple(
            StepUsage(step=f"STEP#{i}", agent="a", model="m", usage=Usage(), at=START)
            for i in range(2)
        )
        began = time.perf_counter()
        query = TurnQuery(head=head, run_id=run.id, input=given, window=20)
        context = await self._store.open_turn(query)
        await self._store.save_turn(
            TurnRecord(head=head, run=run, input=given, response=(asked, told, said), usage=usage)
        )
        seconds = time.perf_counter() - began
        self._leaf = said.id
        return seconds, sum(len(m.model_dump_json()) for m in context.history)

    def _message(self, n: int, i: int, role: Role, parent: str, part: object) -> Message:
        return Message.model_validate(
            {
                "id": f"n{n}.{i}",
                "thread_id": "t",
                "run_id": f"run{n}",
                "parent_id": parent,
                "role": role,
                "content": (part,),
                "created_at": START + timedelta(seconds=n * 10 + i),
                "token_count": 40,
            }
        )


def wal(postgres: TestPostgres) -> int:
    """Bytes of WAL written so far."""
    with psycopg.connect(postgres.superuser) as connection:
        row = connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


async def measure(postgres: TestPostgres, messages: int) -> tuple[float, float, float]:
    """Milliseconds, bytes read, WAL bytes: medians (WAL: the mean)."""
    owner = f"user-{messages}"
    fill(postgres, owner, messages)
    with psycopg.connect(postgres.superuser, autocommit=True) as connection:
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
    database = Database(postgres.runtime)
    turns = Turns(PostgresThreads(database, MemoryAdditions()), owner, messages)
    for _ in range(WARM_UP):
        await turns.play()
    before = wal(postgres)
    played = [await turns.play() for _ in range(TURNS)]
    written = (wal(postgres) - before) / TURNS
    await database.close()
    times, sizes = zip(*played, strict=True)
    return statistics.median(times) * 1_000, statistics.median(sizes), written


async def main() -> None:
    with running_postgres() as server:
        postgres = server.new_database("bench")
        await PostgresMigrations(postgres.admin).apply()
        short = await measure(postgres, 100)
        long = await measure(postgres, 100_000)
    print(f"{'messages':>10} {'ms a turn':>10} {'bytes read':>11} {'WAL bytes':>10}")
    for name, row in (("100", short), ("100,000", long)):
        print(f"{name:>10} {row[0]:>10.2f} {row[1]:>11,.0f} {row[2]:>10,.0f}")
    ratios = [b / a for a, b in zip(short, long, strict=True)]
    print(f"{'ratio':>10} {ratios[0]:>10.2f} {ratios[1]:>11.2f} {ratios[2]:>10.2f}")


if __name__ == "__main__":
    asyncio.run(main())
