"""Semantic recall in a scope that is too large to be ranked whole."""

import random
from collections.abc import Sequence

import psycopg
import pytest

from layover.adapters.store.postgres.database import Database
from layover.plugins.memory import ranking
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.ports import MemoryStore
from layover.values.memory.context import Recalled, RecallQuery
from support.postgres.server import TestPostgres
from support.worlds.threads import START

OWNER = "recall at scale"
ROWS = ranking.WHOLE_ROWS + 1_000
DIMENSIONS = 8
VOCABULARY = [f"w{n}" for n in range(2_000)]
COMMON = [1 / (n + 2) for n in range(2_000)]
"""As in a language: the first word is in most texts, the last in hardly one."""
NEEDLE = 321
_FILL = """
select set_config('app.resource_id', %(owner)s, true);
insert into threads (id, agent, created_at, updated_at) values ('t', 'a', %(at)s, %(at)s);
insert into branches (thread_id, id, path, path_depths) values ('t', 0, '{0}', '{2147483647}');
insert into messages (thread, branch_id, depth, id, role, created_at, content)
    select t.key, 0, n, 'm' || n, 'user', %(at)s + n * interval '1 minute',
           '[{"type": "text", "text": "x"}]'
    from threads t, generate_series(0, %(rows)s - 1) n;
insert into message_embeddings
    (thread, thread_id, message_id, agent, branch_id, depth, created_at, model, embedding, words)
    select t.key, 't', 'm' || n, 'a', 0, n, %(at)s + n * interval '1 minute', 'm',
           (%(vectors)s::text[])[n + 1]::halfvec,
           array_to_tsvector(string_to_array((%(texts)s::text[])[n + 1], ' '))
    from threads t, generate_series(0, %(rows)s - 1) n;
"""


@pytest.fixture(scope="module")
def filled(postgres: TestPostgres) -> list[list[str]]:
    """The words of the texts. One is unlike all others."""
    random.seed(11)
    texts = [sorted(set(random.choices(VOCABULARY, COMMON, k=12))) for _ in range(ROWS)]
    texts[NEEDLE] = ["zebra"]
    vectors = [str([random.gauss(0, 1) for _ in range(DIMENSIONS)]) for _ in range(ROWS)]
    vectors[NEEDLE] = str([100.0] * DIMENSIONS)
    values = {
        "owner": OWNER,
        "at": START,
        "rows": ROWS,
        "texts": [" ".join(text) for text in texts],
        "vectors": vectors,
    }
    with psycopg.connect(postgres.runtime) as connection:
        for statement in _FILL.split(";\n")[:-1]:
            used = {k: v for k, v in values.items() if f"%({k})s" in statement}
            connection.execute(statement, used)
    return texts


@pytest.fixture
def memory(database: Database, filled: list[list[str]]) -> MemoryStore:
    return PostgresMemory(database)


def query(text: str, vector: Sequence[float] | None = None, **fields: object) -> RecallQuery:
    given = {"agent": "a", "text": text, "now": START, "thread_id": "t", "vector": vector}
    return RecallQuery.model_validate({**given, "model": "m", "before": 0, "after": 0, **fields})


def ids(recalled: Sequence[Recalled]) -> list[str]:
    return [r.message.id for r in recalled]


async def test_words_that_nobody_said_find_nothing(memory: MemoryStore) -> None:
    assert await memory.recall(OWNER, query("submarine")) == ()
    assert await memory.recall(OWNER, query("?!")) == ()


async def test_a_rare_word_is_found_among_common_ones(memory: MemoryStore) -> None:
    found = await memory.recall(OWNER, query("w0 w1 w2 zebra w3", top_k=1))
    assert ids(found) == [f"m{NEEDLE}"]


async def test_a_near_vector_is_found_without_a_common_word(memory: MemoryStore) -> None:
    found = await memory.recall(OWNER, query("submarine", [1.0] * DIMENSIONS, top_k=1))
    assert ids(found) == [f"m{NEEDLE}"]


async def test_a_match_has_its_neighbours(memory: MemoryStore) -> None:
    found = await memory.recall(OWNER, query("zebra", top_k=1, before=2, after=1))
    assert ids(found) == [f"m{NEEDLE + n}" for n in (-2, -1, 0, 1)]
    assert [r.match for r in found] == [False, False, True, False]


async def test_what_stands_beside_a_match_is_found_by_it(memory: MemoryStore) -> None:
    found = await memory.recall(OWNER, query("zebra", top_k=3))
    assert ids(found) == [f"m{NEEDLE + n}" for n in (-1, 0, 1)]


async def test_all_threads_of_the_user_are_one_large_scope(memory: MemoryStore) -> None:
    found = await memory.recall(OWNER, query("zebra", top_k=1, thread_id=None))
    assert ids(found) == [f"m{NEEDLE}"]


@pytest.mark.parametrize("length", [1, 4, 16, 40])
async def test_the_candidates_are_nearly_what_the_whole_scope_has(
    memory: MemoryStore, length: int
) -> None:
    """`length`: of the question, in words."""
    random.seed(length)
    kept, wanted = 0, 0
    for _ in range(20):
        text = " ".join(random.choices(VOCABULARY, COMMON, k=length))
        vector = [random.gauss(0, 1) for _ in range(DIMENSIONS)]
        candidates = await memory.recall(OWNER, query(text, vector))
        whole = await memory.recall(OWNER, query(text, vector, whole_rows=ROWS))
        kept += len(set(ids(candidates)) & set(ids(whole)))
        wanted += len(whole)
    assert wanted == 100
    assert kept >= 90
