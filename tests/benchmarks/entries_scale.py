"""The cost of a search of episodic memory among a million entries.

`python tests/benchmarks/entries_scale.py [ENTRIES]` fills a database with so many entries over a hundredth
as many scopes (an agent and a user each), twenty of them with 2,000 entries, the rows of all scopes mixed
as time mixes them. It prints p50 and p95 of a search in a scope of 2,000, the first one in each scope left
out, and the share of an exact scan's results that are found: the scan is made in this process, by the
in-memory store's formula, from what was generated."""

import asyncio
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1])]

import numpy as np
import psutil
import psycopg
from numpy.typing import NDArray

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.migrate import PostgresMigrations
from layover.plugins.memory import ranking
from layover.plugins.memory.postgres.entries import PostgresEntries
from layover.plugins.memory.reads.episodic.search import entry_words
from layover.plugins.memory.text.words import words
from layover.values.memory.entry import EntryQuery
from support.postgres.server import TestPostgres, running_postgres

ENTRIES = 1_000_000
PER_SCOPE = 100
LARGE = 20
"""Scopes of `ROWS` entries."""
ROWS = 2_000
DIMENSIONS = 384
QUERIES = 25
"""In each large scope."""
TOP = 12
LEAST_COSINE = 0.3
HALF_LIFE = timedelta(days=180)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
MODEL = "bench"
_POOL = 10_000
"""Different vectors and texts of the entries that are never looked at."""

Vectors = NDArray[np.float16]

_STAGE = """
create unlogged table large (owner text, n integer, words text[], embedding halfvec);
create unlogged table pool (n integer primary key, words text[], embedding halfvec);
"""
_FILL = """
insert into threads (resource_id, id, agent, created_at, updated_at)
    select owner, 't', 'a', now(), now() from (
        select 'user-' || n as owner from generate_series(0, %(scopes)s) n
        union all
        select 'large-' || n from generate_series(0, %(large)s - 1) n
    ) owners;
insert into memory_entries (resource_id, id, agent, thread_id, content, source, evidence, hash,
                            created_at, model, embedding, words)
    select owner, 'e' || n, 'a', 't', array_to_string(words, ' '), 'user_assertion',
           array_to_string(words, ' '), md5(owner || n),
           timestamptz '2026-05-01' - n * interval '1 minute', 'bench', embedding,
           array_to_tsvector(words)
    from (
        select owner, n, words, embedding from large
        union all
        select 'user-' || f.n %% %(scopes)s, f.n, pool.words, pool.embedding
        from generate_series(1, %(filler)s) f (n) join pool on pool.n = (f.n * 7919::bigint %% %(pool)s)
    ) rows
    order by hashtext(owner || '/' || n);
"""


@dataclass(frozen=True)
class Scope:
    """One large scope as it was generated."""

    owner: str
    vectors: Vectors
    texts: list[frozenset[str]]

    def exact(self, query: EntryQuery) -> set[str]:
        """The best entries by a scan of everything."""
        rows = self.vectors.astype(np.float64)
        asked = np.asarray(query.vector, dtype=np.float16).astype(np.float64)
        cosines = rows @ asked / (np.linalg.norm(rows, axis=1) * np.linalg.norm(asked))
        made = [ranking.Candidate(t, float(c)) for t, c in zip(self.texts, cosines, strict=True)]
        fused = ranking.fuse(entry_words(query.text), made)
        scored = [
            (score.own + ranking.recency(query.now - _made_at(n), query.half_life), f"e{n}")
            for n, score in enumerate(fused)
            if score.lexical > 0 or cosines[n] >= LEAST_COSINE
        ]
        return {id for _, id in sorted(scored, reverse=True)[:TOP]}


def _made_at(n: int) -> datetime:
    return datetime(2026, 5, 1, tzinfo=UTC) - timedelta(minutes=n)


def generated(random_: np.random.Generator, number: int) -> Iterator[tuple[list[str], Any]]:
    """Texts of 12 words, some of them in every tenth text, and unit vectors as halves."""
    ranks = np.minimum(random_.zipf(1.3, (number, 12)), 20_000)
    vectors = random_.standard_normal((number, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for row, vector in zip(ranks, vectors.astype(np.float16), strict=True):
        yield sorted({words(f"word{rank}")[0] for rank in row}), vector


def fill(postgres: TestPostgres, entries: int) -> list[Scope]:
    """The database with so many entries; its large scopes."""
    made = np.random.default_rng(1)
    scopes = [f"large-{n}" for n in range(LARGE)]
    found: list[Scope] = []
    with psycopg.connect(postgres.superuser, autocommit=True) as connection:
        connection.execute(_STAGE)
        for owner in scopes:
            rows = list(generated(made, ROWS))
            _copy(connection, "large (owner, n, words, embedding)", owner, rows)
            texts = [frozenset(text) for text, _ in rows]
            found.append(Scope(owner, np.stack([v for _, v in rows]), texts))
        _copy(connection, "pool (n, words, embedding)", None, list(generated(made, _POOL)))
        values = {"scopes": entries // PER_SCOPE, "large": LARGE, "pool": _POOL}
        values["filler"] = max(entries - LARGE * ROWS, 0)
        for statement in _FILL.split(";\n")[:-1]:
            used = {k: v for k, v in values.items() if f"%({k})s" in statement}
            psycopg.ClientCursor(connection).execute(statement, used)
        connection.execute("vacuum analyze")
    return found


def _copy(connection: Any, table: str, owner: str | None, rows: list[Any]) -> None:
    with connection.cursor().copy(f"copy {table} from stdin") as copy:
        for n, (text, vector) in enumerate(rows):
            row = (n, text, str([float(x) for x in vector]))
            copy.write_row(row if owner is None else (owner, *row))


def asked(scope: Scope, made: random.Random, noise: np.random.Generator) -> EntryQuery:
    """Return the query of a user who has one of the entries in mind."""
    n = made.randrange(ROWS)
    vector = scope.vectors[n].astype(np.float64) + noise.standard_normal(DIMENSIONS) * 0.05
    said = made.sample(sorted(scope.texts[n]), min(4, len(scope.texts[n])))
    said += [f"word{made.randrange(1, 200)}" for _ in range(4)]
    return EntryQuery(
        agent="a",
        text=" ".join(said),
        vector=tuple(vector / np.linalg.norm(vector)),
        model=MODEL,
        top_k=TOP,
        least_cosine=LEAST_COSINE,
        half_life=HALF_LIFE,
        now=NOW,
    )


class Backend:
    """The server's process of the functions' one connection."""

    def __init__(self, postgres: TestPostgres) -> None:
        with psycopg.connect(postgres.superuser) as connection:
            row = connection.execute(
                "select pid from pg_stat_activity where usename = 'layover_runtime'"
            ).fetchone()
        assert row is not None
        self._process = psutil.Process(row[0])

    def cpu_s(self) -> float:
        """Seconds of CPU that it has used."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


async def measure(postgres: TestPostgres, scopes: list[Scope]) -> tuple[list[float], float, float]:
    """Seconds of each search, seconds of CPU of one in the database (the mean), and the share of the
    exact results that was found."""
    database = Database(postgres.runtime)
    store = PostgresEntries(database)
    made, noise = random.Random(2), np.random.default_rng(2)
    seconds: list[float] = []
    hits = wanted = 0
    await store.find_entries(scopes[0].owner, asked(scopes[0], made, noise))
    backend = Backend(postgres)
    cpu = backend.cpu_s()
    for scope in scopes:
        for number in range(QUERIES + 1):
            query = asked(scope, made, noise)
            began = time.perf_counter()
            found = await store.find_entries(scope.owner, query)
            if number:
                seconds.append(time.perf_counter() - began)
            exact = scope.exact(query)
            hits += len(exact & {e.id for e in found.items})
            wanted += len(exact)
    cpu = (backend.cpu_s() - cpu) / (len(scopes) * (QUERIES + 1))
    await database.close()
    return seconds, cpu, hits / wanted


def main(entries: int) -> None:
    """Fill, measure, print."""
    with running_postgres() as server:
        postgres = server.new_database("bench")
        asyncio.run(PostgresMigrations(postgres.admin).apply())
        began = time.perf_counter()
        scopes = fill(postgres, entries)
        print(f"{entries:,} entries over {entries // PER_SCOPE + LARGE:,} scopes", end="")
        print(f", filled in {time.perf_counter() - began:.0f} s")
        seconds, cpu, recall = asyncio.run(measure(postgres, scopes))
        p95 = statistics.quantiles(seconds, n=20)[-1]
        print(
            f"a search in a scope of {ROWS:,}: p50 {statistics.median(seconds) * 1_000:.1f} ms,"
            f" p95 {p95 * 1_000:.1f} ms (meant to be under 25), {len(seconds)} searches"
        )
        print(f"of that, CPU in the database: {cpu * 1_000:.1f} ms")
        print(f"recall against an exact scan: {recall:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else ENTRIES)
