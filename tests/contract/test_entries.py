"""The contract of episodic memory's store, in memory and on Postgres."""

import itertools
import json
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.errors import Conflict
from layover.inmemory.embedder import HashingEmbedder
from layover.plugins.memory.learns.rules import hash_of
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.plugins.memory.reads.semantic import query as recall
from layover.values.memory.context import Extraction, TurnContext
from layover.values.memory.entry import (
    EntryCorrection,
    EntryPlace,
    EntryQuery,
    FoundEntry,
    NewEntry,
)
from support.postgres.server import TestPostgres
from support.worlds.threads import START, Conversation, Stores

NOW = START + timedelta(days=1)
EMBEDDER = HashingEmbedder()


@pytest.fixture
def stores(thread_stores: Stores) -> Stores:
    return thread_stores


class Life:
    """The history of one user with one agent."""

    def __init__(self, stores: Stores, owner: str, agent: str = "support") -> None:
        self.stores = stores
        self.memory = stores.memory
        self.owner = owner
        self.agent = agent
        self._runs = itertools.count(1)

    def talk(self, thread: str = "t1") -> Conversation:
        head = {"agent": self.agent}
        return Conversation(self.stores.threads, self.owner, f"{thread} of {self.agent}", head)

    async def learn(
        self,
        *contents: str,
        thread: str = "t1",
        at: datetime = START,
        embed: bool = True,
        **fields: Any,
    ) -> list[str]:
        """Store these entries as a run does; their ids."""
        talk = self.talk(thread)
        await talk.say(None, "q", "a")
        run = f"run-{self.agent}-{next(self._runs)}"
        made = [await self._entry(c, talk.id, run, at, embed=embed, **fields) for c in contents]
        found = Extraction(run_id=run, thread_id=talk.id, agent=self.agent, entries=tuple(made))
        assert await self.memory.record_extraction(self.owner, found)
        return [entry.id for entry in made]

    async def _entry(
        self, content: str, thread: str, run: str, at: datetime, *, embed: bool, **fields: Any
    ) -> NewEntry:
        given: dict[str, Any] = {
            "id": f"{run}: {content}",
            "agent": self.agent,
            "content": content,
            "source": "user_assertion",
            "evidence": content,
            "created_at": at,
            "thread_id": thread,
            "message_id": "q",
            "run_id": run,
            "hash": hash_of(content),
            "extractor": "a-model",
            "prompt_version": "extractor-0",
        }
        if embed:
            given |= {"vector": await vector(content), "model": EMBEDDER.model}
        return NewEntry(**{**given, **fields})

    async def query(self, text: str, *, embed: bool = True, **fields: Any) -> EntryQuery:
        given: dict[str, Any] = {"agent": self.agent, "text": text, "now": NOW, "top_k": 5}
        given |= {"least_cosine": 0.5, "half_life": timedelta(days=180)}
        if embed:
            given |= {"vector": await vector(text), "model": EMBEDDER.model}
        return EntryQuery(**{**given, **fields})

    async def search(self, text: str, **fields: Any) -> tuple[FoundEntry, ...]:
        query = await self.query(text, **fields)
        return (await self.memory.find_entries(self.owner, query)).items

    async def find(self, text: str, **fields: Any) -> list[str]:
        return [e.content for e in await self.search(text, **fields)]

    async def listed(self, limit: int = 100, after: EntryPlace | None = None) -> list[str]:
        found = await self.memory.list_entries(self.owner, self.agent, limit, after)
        return [e.content for e in found]


async def vector(text: str) -> tuple[float, ...]:
    made = recall.usable((await EMBEDDER.embed([text])).vectors[0])
    assert made is not None
    return made


@pytest.fixture
def life(stores: Stores, owner: str) -> Life:
    return Life(stores, owner)


CAT = "the cat sleeps on the old sofa"
DOG = "the dog barks at strangers"


async def test_nothing_is_found_where_nothing_is_stored(life: Life) -> None:
    assert await life.find("anything") == []
    assert await life.listed() == []


async def test_an_entry_with_neither_signal_is_not_found(life: Life) -> None:
    await life.learn(CAT, DOG)
    assert await life.find("submarine") == []
    assert await life.find("submarine", embed=False) == []
    assert await life.find("?!", embed=False) == []


async def test_function_words_are_no_signal(life: Life) -> None:
    await life.learn(CAT, DOG)
    assert await life.find("what is the weather at the sea?", embed=False) == []
    assert await life.find("who is it?", embed=False) == []


async def test_the_nearest_vector_is_no_signal_where_it_is_far(life: Life) -> None:
    await life.learn(CAT)
    assert await life.find("sofa", least_cosine=0.99) == [CAT]  # by its word
    assert await life.find("SUBMARINE", vector=await vector(DOG), least_cosine=0.9) == []
    assert await life.find("SUBMARINE", vector=await vector(CAT), least_cosine=0.9) == [CAT]


async def test_another_users_entries_are_never_found(life: Life, stores: Stores) -> None:
    (id,) = await life.learn(CAT)
    stranger = Life(stores, f"{life.owner}-stranger")
    assert await stranger.find(CAT) == []
    assert await stranger.listed() == []
    assert not await stranger.memory.delete_entry(stranger.owner, id)
    assert await life.find(CAT) == [CAT]


async def test_another_agents_entries_are_never_found(life: Life, stores: Stores) -> None:
    await life.learn(CAT)
    other = Life(stores, life.owner, agent="sales")
    assert await other.find(CAT) == []
    assert await other.listed() == []


async def test_an_agent_does_not_supersede_what_another_one_knows(
    life: Life, stores: Stores
) -> None:
    (id,) = await life.learn(CAT)
    await Life(stores, life.owner, agent="sales").learn(DOG, supersedes=(id,))
    assert await life.listed() == [CAT]


async def test_two_agents_may_know_the_same(life: Life, stores: Stores) -> None:
    other = Life(stores, life.owner, agent="sales")
    await life.learn(CAT)
    await other.learn(CAT)
    assert (await life.listed(), await other.listed()) == ([CAT], [CAT])


async def test_nothing_is_stored_for_a_thread_that_is_gone(life: Life) -> None:
    talk = life.talk()
    await talk.say(None, "q", "a")
    await talk.store.erase(life.owner, talk.id)
    entry = await life._entry(CAT, talk.id, "late", START, embed=False)
    found = Extraction(run_id="late", thread_id=talk.id, agent=life.agent, entries=(entry,))
    assert not await life.memory.record_extraction(life.owner, found)
    assert await life.listed() == []


async def test_an_erased_thread_takes_its_entries_with_it(life: Life) -> None:
    await life.learn(CAT, thread="t1")
    await life.learn(DOG, thread="t2")
    talk = life.talk("t1")
    await talk.store.erase(life.owner, talk.id)
    assert await life.listed() == [DOG]
    assert await life.find("cat") == []


async def test_what_an_erased_thread_superseded_holds_again(life: Life) -> None:
    (old,) = await life.learn(CAT, thread="t1")
    (new,) = await life.learn(f"{CAT} now", thread="t2", supersedes=(old,))
    await life.learn(f"{CAT} no more", thread="t2", supersedes=(new,))
    talk = life.talk("t2")
    await talk.store.erase(life.owner, talk.id)
    assert await life.listed() == [CAT]
    assert await life.find("cat") == [CAT]


async def test_what_an_erased_thread_superseded_stays_so_where_a_later_one_knows_better(
    life: Life,
) -> None:
    (old,) = await life.learn(CAT, thread="t1")
    (new,) = await life.learn(f"{CAT} now", thread="t2", supersedes=(old,))
    (newest,) = await life.learn(f"{CAT} no more", thread="t3", supersedes=(new,))
    talk = life.talk("t2")
    await talk.store.erase(life.owner, talk.id)
    assert await life.listed() == [f"{CAT} no more"]
    assert await life.memory.delete_entry(life.owner, newest)
    assert await life.listed() == []


async def test_a_run_teaches_once(life: Life) -> None:
    talk = life.talk()
    await talk.say(None, "q", "a")
    for content in (CAT, DOG):
        entry = await life._entry(content, talk.id, "run", START, embed=False)
        found = Extraction(run_id="run", thread_id=talk.id, agent=life.agent, entries=(entry,))
        await life.memory.record_extraction(life.owner, found)
    assert await life.listed() == [CAT]


async def test_what_is_known_already_stays_as_it_was(life: Life) -> None:
    (id,) = await life.learn(CAT, thread="t1")
    await life.learn(CAT.upper(), thread="t2", at=NOW)
    (entry,) = await life.memory.list_entries(life.owner, life.agent, 10, None)
    assert (entry.id, entry.content, entry.created_at) == (id, CAT, START)


async def test_what_is_superseded_is_neither_found_nor_listed(life: Life) -> None:
    (id,) = await life.learn(CAT)
    await life.learn("the cat sleeps in the garden", supersedes=(id, "unknown"))
    assert await life.find("cat") == ["the cat sleeps in the garden"]
    assert await life.listed() == ["the cat sleeps in the garden"]


async def test_what_is_superseded_is_listed_on_request_with_what_took_its_place(
    life: Life, stores: Stores
) -> None:
    (first,) = await life.learn(CAT, at=START)
    (second,) = await life.learn(f"{CAT} now", at=NOW, supersedes=(first,))
    (third,) = await life.learn(DOG, at=START + timedelta(hours=1))
    await Life(stores, life.owner, agent="sales").learn("a sale")
    await Life(stores, f"{life.owner}-stranger").learn("a secret")

    async def every(limit: int, after: EntryPlace | None = None) -> list[tuple[str, str | None]]:
        page = await life.memory.list_entries(life.owner, life.agent, limit, after, superseded=True)
        return [(e.id, e.superseded_by) for e in page]

    assert await every(10) == [(second, None), (third, None), (first, second)]
    at = EntryPlace(created_at=START + timedelta(hours=1), id=third)
    assert (await every(2), await every(2, at)) == (
        [(second, None), (third, None)],
        [(first, second)],
    )
    assert [e.superseded_by for e in await life.search("cat")] == [None]
    # What was superseded may be deleted by itself, and what took its place stays.
    assert await life.memory.delete_entry(life.owner, first)
    assert await every(10) == [(second, None), (third, None)]


async def test_what_was_superseded_and_is_said_again_holds_again(life: Life) -> None:
    (old,) = await life.learn(CAT)
    (new,) = await life.learn(DOG, supersedes=(old,))
    await life.learn(CAT, thread="t2", at=NOW, supersedes=(new,))
    (entry,) = await life.memory.list_entries(life.owner, life.agent, 10, None)
    assert (entry.content, entry.created_at) == (CAT, NOW)
    assert entry.thread_id == "t2 of support"
    assert await life.find("cat") == [CAT]


async def test_a_restored_entry_stands_again_with_what_took_its_place(life: Life) -> None:
    (first,) = await life.learn(CAT)
    (second,) = await life.learn(f"{CAT} now", at=NOW, supersedes=(first,))
    for _ in range(2):
        entry = await life.memory.restore_entry(life.owner, first)
        assert entry is not None
        assert (entry.id, entry.content, entry.created_at) == (first, CAT, START)
        assert entry.superseded_by is None
    assert await life.listed() == [f"{CAT} now", CAT]
    assert sorted(await life.find("cat")) == [CAT, f"{CAT} now"]
    stored = (await life.memory.list_stored(life.owner, "entries", None, 9)).items
    assert [e["superseded_by"] for e in stored] == [None, None]
    assert await life.memory.delete_entry(life.owner, second)
    assert await life.listed() == [CAT]


async def test_a_restored_entry_may_be_superseded_again(life: Life) -> None:
    (first,) = await life.learn(CAT)
    await life.learn(f"{CAT} now", supersedes=(first,))
    await life.memory.restore_entry(life.owner, first)
    (third,) = await life.learn(f"{CAT} no more", supersedes=(first,))
    assert sorted(await life.listed()) == [f"{CAT} no more", f"{CAT} now"]
    await life.memory.restore_entry(life.owner, first)
    assert await life.memory.delete_entry(life.owner, third)
    assert sorted(await life.listed()) == [CAT, f"{CAT} now"]


async def test_a_restored_entry_frees_no_other_of_its_chain(life: Life) -> None:
    (first,) = await life.learn(CAT, thread="t1")
    (second,) = await life.learn(f"{CAT} now", thread="t2", supersedes=(first,))
    await life.learn(f"{CAT} no more", thread="t3", supersedes=(second,))
    await life.memory.restore_entry(life.owner, second)
    assert sorted(await life.listed()) == [f"{CAT} no more", f"{CAT} now"]
    await life.talk("t3").store.erase(life.owner, life.talk("t3").id)
    assert await life.listed() == [f"{CAT} now"]
    await life.talk("t2").store.erase(life.owner, life.talk("t2").id)
    assert await life.listed() == [CAT]


async def test_what_is_foreign_deleted_or_unknown_is_not_restored(
    life: Life, stores: Stores
) -> None:
    (first,) = await life.learn(CAT)
    await life.learn(f"{CAT} now", supersedes=(first,))
    assert await stores.memory.restore_entry(f"{life.owner}-stranger", first) is None
    assert await stores.memory.restore_entry(life.owner, "unknown") is None
    assert await life.listed() == [f"{CAT} now"]
    assert await life.memory.delete_entry(life.owner, first)
    assert await stores.memory.restore_entry(life.owner, first) is None
    assert await life.listed() == [f"{CAT} now"]


async def test_a_deleted_entry_is_gone_with_what_it_superseded(life: Life) -> None:
    (first,) = await life.learn(CAT)
    (second,) = await life.learn(f"{CAT} now", supersedes=(first,))
    (third,) = await life.learn(f"{CAT} no more", supersedes=(second,))
    (other,) = await life.learn(DOG)
    assert await life.memory.delete_entry(life.owner, third)
    assert await life.listed() == [DOG]
    assert not await life.memory.delete_entry(life.owner, first)
    assert not await life.memory.delete_entry(life.owner, "unknown")
    assert await life.memory.delete_entry(life.owner, other)


async def test_one_word_of_many_is_enough(life: Life) -> None:
    await life.learn(CAT, DOG, embed=False)
    assert await life.find("tell me again which animals bark at whom", embed=False) == [DOG]


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("我的猫叫小黑", "小黑在哪里"),
        ("昨日は京都で寿司を食べました", "寿司はどうでしたか"),
        ("เมื่อวานฉันไปเชียงใหม่", "เชียงใหม่เป็นอย่างไร"),
        ("вчера мы ездили в Москву", "Москву"),
        ("ذهبنا أمس إلى القاهرة", "القاهرة"),
    ],
)
async def test_words_of_every_script_are_found(life: Life, said: str, query: str) -> None:
    await life.learn(CAT, said, DOG, embed=False)
    assert await life.find(query, embed=False) == [said]


@pytest.mark.parametrize(
    "text",
    [
        "'; drop table x; --",
        "a:1 & !b | (c) <-> 'd'",
        "null \\ \0 \ud800",
        "\u0e01" + "\u0e31" * 3_000 + "\u0e02",
        "\U00020000" * 3_000,
    ],
    ids=["sql", "tsquery", "no text", "marks", "long"],
)
async def test_any_text_can_be_kept_and_asked_for(life: Life, text: str) -> None:
    await life.learn(f"zebra {text}", embed=False)
    assert len(await life.find(f"zebra {text}", embed=False)) == 1


async def test_vectors_of_another_embedder_are_not_compared(life: Life) -> None:
    await life.learn(CAT, DOG)
    (found,) = await life.search("dog", model="other", vector=(1.0, 0.0))
    assert (found.content, found.vector_score) == (DOG, None)


async def test_words_and_vector_both_count(life: Life) -> None:
    await life.learn(CAT, DOG, "the bird sings")
    best, *_ = await life.search("cat on a sofa")
    assert best.content == CAT
    assert best.score is not None
    assert best.text_score == pytest.approx(1.0)
    assert best.vector_score == pytest.approx(
        sum(a * b for a, b in zip(await vector(CAT), await vector("cat on a sofa"), strict=True)),
        abs=0.01,
    )
    assert best.score > 0.9


async def test_of_like_entries_the_newer_comes_first_and_relevance_outweighs_age(
    life: Life,
) -> None:
    await life.learn("the code is blue", at=START - timedelta(days=720))
    await life.learn("the code is blue!", at=START)
    await life.learn("something about a code", at=NOW)
    found = await life.find("code blue", embed=False)
    assert found == ["the code is blue!", "the code is blue", "something about a code"]


async def test_the_half_life_is_the_agents(life: Life) -> None:
    await life.learn(CAT, at=NOW - timedelta(days=10))
    (found,) = await life.search("cat", embed=False, half_life=timedelta(days=10))
    assert found.score == pytest.approx(0.4 + 0.1 * 0.5, abs=1e-6)


async def test_an_entry_of_many_half_lives_ago_is_old_and_no_more(life: Life) -> None:
    await life.learn(CAT, at=NOW - timedelta(days=3_000))
    for half_life in (timedelta(days=1), timedelta.resolution):
        (found,) = await life.search("cat", embed=False, half_life=half_life)
        assert found.score == pytest.approx(0.4, abs=1e-6)


async def test_without_an_end_of_the_half_life_nothing_grows_old(life: Life) -> None:
    await life.learn(CAT, at=NOW - timedelta(days=3_000))
    (found,) = await life.search("cat", embed=False, half_life=timedelta.max)
    assert found.score == pytest.approx(0.5, abs=1e-6)


async def test_an_entry_from_the_future_is_new_and_no_more(life: Life) -> None:
    await life.learn(CAT, at=NOW + timedelta(days=400))
    (found,) = await life.search("cat", embed=False)
    assert found.score == pytest.approx(0.5, abs=1e-6)


async def test_entries_of_one_thread_can_be_left_out(life: Life) -> None:
    await life.learn(CAT, thread="t1")
    await life.learn("another cat in the cellar", thread="t2")
    found = await life.find("cat", not_thread="t1 of support")
    assert found == ["another cat in the cellar"]


async def test_the_best_are_found_page_by_page(life: Life) -> None:
    await life.learn(*[f"cat number {n}" for n in range(7)])
    whole = await life.find("cat", top_k=10)
    pages = [await life.find("cat", top_k=3, skip=skip) for skip in (0, 3, 6, 9)]
    assert [len(p) for p in pages] == [3, 3, 1, 0]
    assert [c for page in pages for c in page] == whole


async def test_the_list_is_newest_first_page_by_page(life: Life) -> None:
    for n in range(5):
        await life.learn(f"entry {n}", at=START + timedelta(seconds=n // 2))
    whole = await life.memory.list_entries(life.owner, life.agent, 10, None)
    assert [e.content for e in whole] == [f"entry {n}" for n in (4, 3, 2, 1, 0)]
    assert (whole[0].score, whole[0].vector_score) == (None, None)
    last = whole[1]
    rest = await life.listed(2, EntryPlace(created_at=last.created_at, id=last.id))
    assert rest == ["entry 2", "entry 1"]


async def test_known_entries_are_told_as_they_stand_with_the_version_of_what_is_stored(
    life: Life,
) -> None:
    cat, dog = await life.learn(CAT, DOG)
    [foreign] = await Life(life.stores, life.owner, "other").learn("a bird")
    ids = [dog, cat, foreign, "ent_nowhere"]
    known = await life.memory.known_entries(life.owner, life.agent, ids)
    listed = await life.memory.list_entries(life.owner, life.agent, 9, None)
    assert known.items == tuple(sorted(listed, key=lambda e: e.id))
    assert (await life.memory.known_entries(life.owner, life.agent, [cat])).items[0].content == CAT
    await life.learn(f"{CAT} today", supersedes=(cat,))
    later = await life.memory.known_entries(life.owner, life.agent, ids)
    assert [e.id for e in later.items] == [dog]
    assert later.version > known.version
    nobody = await life.memory.known_entries("somebody else", life.agent, ids)
    assert (nobody.items, nobody.version) == ((), 0)


async def test_an_entry_says_where_it_comes_from(life: Life) -> None:
    await life.learn(
        CAT, source="verified_assistant_finding", evidence="the cat sleeps", verified=False
    )
    (entry,) = await life.memory.list_entries(life.owner, life.agent, 1, None)
    (found,) = await life.search("cat")
    assert found.model_copy(update=dict.fromkeys(SCORES)) == entry
    assert (entry.source, entry.evidence) == ("verified_assistant_finding", "the cat sleeps")
    assert (entry.verified, entry.thread_id, entry.message_id) == (False, "t1 of support", "q")


SCORES = ("score", "text_score", "vector_score")


async def _turn(life: Life, thread: str, text: str) -> TurnContext:
    talk = life.talk(thread)
    query = talk.query(talk.message(f"{text} in {thread}", None))
    asked = await life.query(text, not_thread=talk.id)
    return await talk.store.open_turn(query.model_copy(update={"entries": asked}))


async def test_a_turn_finds_entries_in_its_one_reading(life: Life) -> None:
    await life.learn(CAT, thread="t1")
    context = await _turn(life, "t2", "cat")
    assert [e.content for e in context.entries.items] == [CAT]
    assert not context.entries.cut
    assert (await _turn(life, "t1", "cat")).entries.items == ()


async def test_a_turn_is_told_which_pinned_entries_are_gone(life: Life) -> None:
    kept, gone = await life.learn(CAT, DOG)
    await life.memory.delete_entry(life.owner, gone)
    talk = life.talk("t2")
    query = talk.query(talk.message("m", None))
    context = await talk.store.open_turn(query.model_copy(update={"pinned": (kept, gone)}))
    assert context.gone == (gone,)


async def test_a_row_says_which_models_and_which_prompt_made_it(
    database: Database, postgres: TestPostgres, owner: str
) -> None:
    stores = Stores(PostgresThreads(database, MemoryAdditions()), PostgresMemory(database))
    await Life(stores, owner).learn(CAT)
    with psycopg.connect(postgres.superuser) as connection:
        row = connection.execute(
            "select json_build_array(model, extractor, prompt_version, run_id) from memory_entries"
            " where resource_id = %s",
            (owner,),
        ).fetchone()
    assert row is not None
    made = row[0] if isinstance(row[0], list) else json.loads(row[0])
    assert made == [EMBEDDER.model, "a-model", "extractor-0", "run-support-1"]


def correction(id: str, content: str) -> EntryCorrection:
    return EntryCorrection(id=id, content=content, hash=hash_of(content), at=NOW)


async def test_a_corrected_entry_has_other_words_and_no_vector(stores: Stores, owner: str) -> None:
    life = Life(stores, owner)
    [id] = await life.learn("the disk is full", verified=False)
    version = (await stores.memory.known_entries(owner, "support", [])).version
    entry = await stores.memory.correct_entry(owner, correction(id, "the fan is loud"))
    assert entry is not None
    assert (entry.content, entry.evidence) == ("the fan is loud", "the fan is loud")
    assert (entry.source, entry.verified, entry.created_at) == ("user_assertion", True, NOW)
    assert (entry.message_id, entry.thread_id) == (None, life.talk().id)
    assert await life.find("disk") == []
    [found] = await life.search("loud fan")
    assert found.vector_score is None
    now = (await stores.memory.known_entries(owner, "support", [])).version
    assert now > version
    stale = await stores.memory.stale_entries(owner, "support", EMBEDDER.model, None, "", 9)
    assert [e.id for e in stale] == [id]


async def test_what_is_not_there_or_remembered_already_is_not_corrected(
    stores: Stores, owner: str
) -> None:
    life = Life(stores, owner)
    [full] = await life.learn("the disk is full")
    await life.learn("the fan is loud")
    correct = stores.memory.correct_entry
    assert await correct(f"{owner}-stranger", correction(full, "it is empty")) is None
    assert await correct(owner, correction("nothing", "it is empty")) is None
    with pytest.raises(Conflict):
        await correct(owner, correction(full, "the fan is loud"))
    await life.learn("the disk has room", supersedes=(full,))
    assert await correct(owner, correction(full, "it is empty")) is None
    assert sorted(await life.listed()) == ["the disk has room", "the fan is loud"]
