"""Any tree of messages reads the same from Postgres as from memory."""

import itertools

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from support.examples import examples
from support.postgres.server import fresh_owner
from support.worlds.threads import Conversation

# A turn: whose child it is (-1: a new root), its length, whether it is opened before it is saved.
TURN = st.tuples(st.integers(-1, 40), st.integers(1, 4), st.booleans())


@examples(60, HealthCheck.function_scoped_fixture)
@given(turns=st.lists(TURN, min_size=1, max_size=12), window=st.integers(1, 6))
async def test_any_tree_reads_the_same(
    database: Database, turns: list[tuple[int, int, bool]], window: int
) -> None:
    owner = fresh_owner()
    here = Conversation(InMemoryThreads(), owner)
    there = Conversation(PostgresThreads(database, MemoryAdditions()), owner)
    ids: list[str] = []
    numbers = itertools.count()
    for parent_index, length, opened in turns:
        parent = ids[parent_index % len(ids)] if ids and parent_index >= 0 else None
        new = [f"m{next(numbers)}" for _ in range(length)]
        chain = here.chain(parent, *new)
        if opened:
            assert await here.open(chain[0], window) == await there.open(chain[0], window)
        for talk in (here, there):
            await talk.save(*chain)
        ids += new
    for id in ids:
        assert await there.path(id, limit=3) == await here.path(id)
    assert await there.store.head(owner, here.id) == await here.store.head(owner, here.id)
