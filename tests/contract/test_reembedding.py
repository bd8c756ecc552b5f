"""Vectors of a new embedder for what was kept before, in memory and on Postgres."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from layover import Agent, EpisodicMemory, Memory, SemanticRecall
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.errors import ConfigurationError, ModelError
from layover.inmemory.embedder import HashingEmbedder
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.memory.learns.reembed import reembed
from layover.plugins.memory.learns.rules import hash_of
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.plugins.memory.postgres.reembedding import PostgresOwners
from layover.plugins.memory.reads.semantic import query as recall
from layover.ports.memory.entries import Owners
from layover.runtime import Runtime
from layover.values.memory.context import Extraction
from layover.values.memory.entry import EntryQuery, NewEntry
from support.postgres.server import TestPostgres, fresh_owner
from support.worlds.builder import build_runtime
from support.worlds.threads import START, Conversation, Stores

OLD, NEW = HashingEmbedder(64), HashingEmbedder(128)
AGENT = Agent("support", memory=Memory(episodic=EpisodicMemory(), semantic_recall=SemanticRecall()))


@dataclass(frozen=True)
class Some(Owners):
    """Only these: other tests have owners of their own."""

    names: list[str]

    async def owners(self, after: str, limit: int) -> tuple[str, ...]:
        return tuple(sorted(n for n in self.names if n > after))[:limit]


class OldVectors:
    """Two owners whose entries and messages have vectors of the old embedder."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.ann, self.bob = fresh_owner(), fresh_owner()
        self.owners = Some([self.ann, self.bob])

    def runtime(self, embedder: Any, *agents: Agent) -> Runtime:
        memory, threads = self.stores.memory, self.stores.threads
        return build_runtime(
            *(agents or (AGENT,)), memory=memory, threads=threads, embedder=embedder
        )

    async def teach(self, owner: str, number: int = 3, agent: str = "support") -> None:
        """As many entries and messages, each with a vector of the old embedder."""
        talk = Conversation(self.stores.threads, owner, f"t-{agent}", {"agent": agent})
        said = await talk.say(None, *[f"{agent} message {n}" for n in range(number)])
        rows = [recall.row_of(m, agent) for m in said]
        vectors = (await OLD.embed([m.text for m in said])).vectors
        await self.stores.memory.index_messages(
            owner,
            [
                row.model_copy(update={"vector": recall.usable(v), "model": OLD.model})
                for row, v in zip(rows, vectors, strict=True)
                if row is not None
            ],
        )
        contents = [f"{agent} entry {n}" for n in range(number)]
        made = zip(contents, (await OLD.embed(contents)).vectors, strict=True)
        entries = tuple(self._entry(talk, c, recall.usable(v)) for c, v in made)
        found = Extraction(run_id=f"run-{agent}", thread_id=talk.id, agent=agent, entries=entries)
        assert await self.stores.memory.record_extraction(owner, found)

    def _entry(self, talk: Conversation, content: str, vector: Any) -> NewEntry:
        return NewEntry(
            id=f"{talk.owner} {content}",
            agent=talk.head().agent,
            content=content,
            source="user_assertion",
            evidence=content,
            created_at=START,
            thread_id=talk.id,
            hash=hash_of(content),
            vector=vector,
            model=OLD.model,
        )

    async def stale(
        self,
        owner: str,
        model: str = NEW.model,
        agent: str = "support",
        dimensions: int | None = None,
    ) -> int:
        memory = self.stores.memory
        entries = await memory.stale_entries(owner, agent, model, dimensions, "", 100)
        messages = await memory.stale_messages(owner, agent, model, dimensions, "", 100)
        return len(entries) + len(messages)


@pytest.fixture(params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> OldVectors:
    if request.param == "memory":
        threads = InMemoryThreads()
        return OldVectors(Stores(threads, InMemoryMemory(threads)))
    database: Database = request.getfixturevalue("database")
    return OldVectors(
        Stores(PostgresThreads(database, MemoryAdditions()), PostgresMemory(database))
    )


async def test_without_an_embedder_there_is_nothing_to_do(world: OldVectors) -> None:
    with pytest.raises(ConfigurationError, match="LAYOVER_EMBEDDER_MODEL"):
        await reembed(world.runtime(None), world.owners)
    with pytest.raises(ConfigurationError, match="no agent 'nobody'"):
        await reembed(world.runtime(NEW), world.owners, "nobody")


async def test_every_old_vector_is_replaced_and_a_second_time_none(world: OldVectors) -> None:
    await world.teach(world.ann, 5)
    await world.teach(world.bob, 2)
    assert (await world.stale(world.ann), await world.stale(world.bob)) == (10, 4)
    done = await reembed(world.runtime(NEW), world.owners, batch=2)
    assert (done.owners, done.entries, done.messages, done.without_vector) == (2, 7, 7, 0)
    assert (await world.stale(world.ann), await world.stale(world.bob)) == (0, 0)
    again = await reembed(world.runtime(NEW), world.owners)
    assert (again.entries, again.messages) == (0, 0)


async def test_what_was_found_by_words_alone_is_found_by_its_new_vector(world: OldVectors) -> None:
    await world.teach(world.ann)
    (vector,) = [recall.usable(v) for v in (await NEW.embed(["support entry 1"])).vectors]
    assert vector is not None
    query = EntryQuery(
        agent="support",
        text="",
        vector=vector,
        model=NEW.model,
        top_k=1,
        least_cosine=0.9,
        half_life=timedelta(days=180),
        now=START,
    )
    assert (await world.stores.memory.find_entries(world.ann, query)).items == ()
    await reembed(world.runtime(NEW), world.owners)
    (found,) = (await world.stores.memory.find_entries(world.ann, query)).items
    assert found.content == "support entry 1"


async def test_what_is_stopped_goes_on_where_it_was(world: OldVectors) -> None:
    await world.teach(world.ann, 6)

    class Dying(HashingEmbedder):
        async def embed(self, texts: Any) -> Any:
            if self.asked >= 4:
                raise ModelError("down")
            return await super().embed(texts)

    with pytest.raises(ModelError):
        await reembed(world.runtime(Dying(128)), world.owners, batch=2)
    assert await world.stale(world.ann) == 12 - 4
    done = await reembed(world.runtime(NEW), world.owners)
    assert done.entries + done.messages == 8
    assert await world.stale(world.ann) == 0


async def test_only_the_named_agents_vectors_are_replaced(world: OldVectors) -> None:
    sales = Agent("sales", memory=AGENT.memory)
    await world.teach(world.ann)
    await world.teach(world.ann, agent="sales")
    await reembed(world.runtime(NEW, AGENT, sales), world.owners, "sales")
    assert await world.stale(world.ann) == 6
    assert await world.stale(world.ann, agent="sales") == 0


async def test_an_agents_own_embedder_makes_its_entries_vectors(world: OldVectors) -> None:
    own = HashingEmbedder(32)
    agent = Agent("support", memory=Memory(episodic=EpisodicMemory(embedder=own)))
    await world.teach(world.ann)
    done = await reembed(world.runtime(NEW, agent), world.owners)
    assert (done.entries, done.messages) == (3, 3)
    entries = await world.stores.memory.stale_entries(world.ann, "support", own.model, 32, "", 9)
    assert entries == ()


async def test_texts_without_a_usable_vector_are_told_and_end_nothing(world: OldVectors) -> None:
    class Silent(HashingEmbedder):
        async def embed(self, texts: Any) -> Any:
            found = await super().embed(texts)
            return replace(found, vectors=[[0.0] * 128 for _ in texts])

    await world.teach(world.ann)
    done = await reembed(world.runtime(Silent(128)), world.owners)
    assert (done.entries, done.messages, done.without_vector) == (0, 0, 6)


async def test_an_embedder_whose_vectors_are_too_long_is_refused_before_a_stored_text_is_sent(
    world: OldVectors,
) -> None:
    class Long(HashingEmbedder):
        texts: ClassVar[list[str]] = []

        async def embed(self, texts: Any) -> Any:
            self.texts.extend(texts)
            return await super().embed(texts)

    await world.teach(world.ann)
    long = Long(4_097)
    with pytest.raises(ConfigurationError, match=r"hashing/4097: .* 4,097 dimensions, and 4,096"):
        await reembed(world.runtime(long), world.owners)
    assert long.texts == ["text"]


async def test_vectors_whose_last_numbers_are_left_out_are_not_embedded_again(
    world: OldVectors,
) -> None:
    await world.teach(world.ann)
    first = await reembed(world.runtime(HashingEmbedder(4_096)), world.owners)
    second = await reembed(world.runtime(HashingEmbedder(4_096)), world.owners)
    assert (first.entries, first.messages, first.without_vector) == (3, 3, 0)
    assert (second.entries, second.messages) == (0, 0)


class Choosy(HashingEmbedder):
    """Refuses every batch with such a text in it."""

    def __init__(self, refused: str, status: int = 400) -> None:
        super().__init__(128)
        self._refused = refused
        self._status = status
        self.requests = 0

    async def embed(self, texts: Any) -> Any:
        self.requests += 1
        if any(self._refused in t for t in texts):
            raise ModelError("too long", status=self._status)
        return await super().embed(texts)


async def test_a_text_that_the_embedder_refuses_keeps_no_other_from_its_vector(
    world: OldVectors,
) -> None:
    await world.teach(world.ann, 5)
    await world.teach(world.bob, 2)
    for entries, messages in ((5, 5), (0, 0)):
        done = await reembed(world.runtime(Choosy(" 1")), world.owners, batch=3)
        assert (done.owners, done.entries, done.messages) == (2, entries, messages)
        assert (done.without_vector, done.refusals, done.last_refusal) == (4, 4, "too long")
    assert (await world.stale(world.ann), await world.stale(world.bob)) == (2, 2)


@pytest.mark.parametrize("status", [400, 401])
async def test_an_embedder_that_refuses_every_text_is_asked_once(
    world: OldVectors, status: int
) -> None:
    await world.teach(world.ann)
    embedder = Choosy("", status)
    with pytest.raises(ModelError, match="too long"):
        await reembed(world.runtime(embedder), world.owners)
    assert embedder.requests == 1


async def test_an_entrys_vector_of_another_length_is_not_compared_though_the_label_is_the_same(
    world: OldVectors,
) -> None:
    await world.teach(world.ann)
    memory, vector = world.stores.memory, (1.0, *[0.0] * 31)
    query = EntryQuery(
        agent="support",
        text="entry 1",
        vector=vector,
        model=OLD.model,
        top_k=5,
        least_cosine=-1.0,
        half_life=timedelta(days=180),
        now=START,
    )
    found = (await memory.find_entries(world.ann, query)).items
    assert {e.vector_score for e in found} == {None}


async def test_vectors_of_another_length_are_replaced_though_the_label_is_the_same(
    world: OldVectors,
) -> None:
    class Shorter(HashingEmbedder):
        def __init__(self) -> None:
            super().__init__(32)
            self.model = OLD.model

    await world.teach(world.ann)
    done = await reembed(world.runtime(OLD), world.owners)
    assert (done.entries, done.messages) == (0, 0)
    assert await world.stale(world.ann, OLD.model, dimensions=32) == 6
    done = await reembed(world.runtime(Shorter()), world.owners, batch=2)
    assert (done.entries, done.messages) == (3, 3)
    assert await world.stale(world.ann, OLD.model, dimensions=32) == 0


async def test_only_the_role_that_owns_the_tables_knows_all_owners(
    database: Database, postgres: TestPostgres
) -> None:
    stores = Stores(PostgresThreads(database, MemoryAdditions()), PostgresMemory(database))
    names = sorted(fresh_owner() for _ in range(3))
    for name in names:
        await Conversation(stores.threads, name).say(None, "q")
    admin = Database(postgres.admin)
    try:
        owners = PostgresOwners(admin)
        found: list[str] = []
        while page := await owners.owners(found[-1] if found else "", 2):
            assert len(page) <= 2
            found += page
    finally:
        await admin.close()
    assert set(names) <= set(found)
    assert found == sorted(set(found), key=found.index)
    assert await PostgresOwners(database).owners("", 10) == ()
