"""The cost of semantic recall in scopes of 600, 5,000 and 20,000 texts.

`python tests/benchmarks/recall_scale.py` prints, for each size and for vectors of 384 and 1,536 numbers, p50
and p95 of the one statement that finds five matches with their neighbours: wall time, and time of the
database's process (what remains when the machine is busy). Questions have ten words, drawn as a language
draws them: most have words that half of all texts have, too."""

import asyncio
import json
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

import psycopg

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.migrate import PostgresMigrations
from layover.plugins.memory import ranking
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.values.memory.context import RecallQuery
from support.postgres.server import TestPostgres, running_postgres

ROWS = (600, 5_000, ranking.MAX_ROWS)
DIMENSIONS = (384, 1_536)
QUESTIONS = 50
WARM_UP = 6
"""Then the statement is planned, and the rows are in memory."""
NOW = datetime(2026, 6, 1, tzinfo=UTC)
VOCABULARY = [f"w{n}" for n in range(8_000)]
FREQUENCY = [1 / (n + 2) for n in range(8_000)]
TEXT_WORDS = 24

_FILL = """
select set_config('app.resource_id', %(owner)s, true);
insert into threads (id, agent, created_at, updated_at) values ('t', 'a', '2026-01-01', '2026-01-01');
insert into branches (thread_id, id, path, path_depths) values ('t', 0, '{0}', '{2147483647}');
insert into messages (thread, branch_id, depth, id, role, created_at, content)
    select t.key, 0, n, 'm' || n, 'user', timestamptz '2026-01-01' + n * interval '1 minute',
           '[{"type": "text", "text": "as it was said"}]'
    from threads t, generate_series(0, %(rows)s - 1) n;
insert into message_embeddings
    (thread, thread_id, message_id, agent, branch_id, depth, created_at, model, embedding, words)
    select t.key, 't', 'm' || n - 1, 'a', 0, n - 1, timestamptz '2026-01-01' + n * interval '1 minute', 'm',
           e.vector,
           array_to_tsvector(array(select json_array_elements_text(w.words)))
    from threads t, json_array_elements(%(texts)s::json) with ordinality as w (words, n)
    cross join lateral (
        select array_agg(x)::real[]::halfvec as vector
        from (select random() - 0.5 as x from generate_series(1, %(dimensions)s) where w.n > 0 offset 0) x
    ) e;
"""


def fill(postgres: TestPostgres, owner: str, rows: int, dimensions: int) -> None:
    """One thread of so many texts, written straight into the tables."""
    texts = json.dumps([drawn(TEXT_WORDS) for _ in range(rows)])
    values = {"owner": owner, "rows": rows, "texts": texts, "dimensions": dimensions}
    with psycopg.connect(postgres.runtime) as connection:
        for statement in _FILL.split(";\n")[:-1]:
            used = {k: v for k, v in values.items() if f"%({k})s" in statement}
            connection.execute(statement, used or None)


def drawn(words: int) -> list[str]:
    """Different words, common ones more often."""
    return sorted(set(random.choices(VOCABULARY, FREQUENCY, k=words)))


def question(dimensions: int) -> RecallQuery:
    vector = tuple(random.random() - 0.5 for _ in range(dimensions))
    text = " ".join(drawn(10))
    return RecallQuery(agent="a", text=text, vector=vector, model="m", thread_id="t", now=NOW)


def busy_s(pid: int) -> float:
    """Seconds that a process has had a processor; 0 where the system does not tell (no Linux)."""
    stat = Path(f"/proc/{pid}/schedstat")
    return int(stat.read_text().split()[0]) / 1e9 if stat.exists() else 0.0


def backend(postgres: TestPostgres) -> int:
    """The database's process behind the functions' connection."""
    with psycopg.connect(postgres.superuser) as connection:
        found = connection.execute(
            "select pid from pg_stat_activity where usename = 'layover_runtime'"
        ).fetchone()
    return int(found[0]) if found else 0


async def measure(postgres: TestPostgres, rows: int, dimensions: int) -> str:
    """A line of figures."""
    owner = f"{rows} texts of {dimensions}"
    fill(postgres, owner, rows, dimensions)
    with psycopg.connect(postgres.superuser, autocommit=True) as connection:
        connection.execute("vacuum analyze message_embeddings")
    database = Database(postgres.runtime)
    memory = PostgresMemory(database)
    for _ in range(WARM_UP):
        await memory.recall(owner, question(dimensions))
    pid = backend(postgres)
    walls, busy = [], []
    for _ in range(QUESTIONS):
        asked, begun, before = question(dimensions), time.perf_counter(), busy_s(pid)
        await memory.recall(owner, asked)
        walls.append(time.perf_counter() - begun)
        busy.append(busy_s(pid) - before)
    await database.close()
    return f"{rows:>6} x {dimensions:<5} {_percentiles(walls)}   {_percentiles(busy)}"


def _percentiles(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p50, p95 = (1000 * ordered[len(ordered) * percent // 100] for percent in (50, 95))
    return f"p50 {p50:6.1f} p95 {p95:6.1f}"


async def main() -> None:
    random.seed(7)
    with running_postgres() as cluster:
        postgres = cluster.new_database("bench")
        await PostgresMigrations(postgres.admin).apply()
        print(f"{'texts x numbers':<14} ms, wall{'':<17} ms, database's process")
        for rows in ROWS:
            for dimensions in DIMENSIONS:
                print(await measure(postgres, rows, dimensions), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
