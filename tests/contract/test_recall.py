"""The contract of semantic recall, in memory and on Postgres."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.inmemory.embedder import HashingEmbedder
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.plugins.memory.reads.semantic import query as recall
from layover.values.memory.context import IndexedText, Recalled, RecallQuery, TurnContext
from layover.values.message import Message, Role, TextPart
from support.word_pairs import PAIRS
from support.worlds.threads import START, Conversation, Stores

NOW = START + timedelta(days=1)
EMBEDDER = HashingEmbedder()


def in_memory() -> Stores:
    threads = InMemoryThreads()
    return Stores(threads, InMemoryMemory(threads))


@dataclass(frozen=True)
class Recalling(Stores):
    """`whole_rows` 0: every scope counts as a large one, of which the best candidates alone are ranked."""

    whole_rows: int | None = None


@pytest.fixture(params=["memory", "postgres", "postgres, large scopes"])
def stores(request: pytest.FixtureRequest) -> Stores:
    if request.param == "memory":
        return in_memory()
    database: Database = request.getfixturevalue("database")
    whole_rows = None if request.param == "postgres" else 0
    return Recalling(
        PostgresThreads(database, MemoryAdditions()), PostgresMemory(database), whole_rows
    )


class Talk(Conversation):
    """A conversation whose messages say something, and that is indexed as it is said."""

    def __init__(self, stores: Stores, owner: str, id: str = "thread", agent: str = "support"):
        super().__init__(stores.threads, owner, f"{id} of {owner}", {"agent": agent})
        self.memory = stores.memory
        self.whole_rows = stores.whole_rows if isinstance(stores, Recalling) else None
        self.agent = agent

    async def tell(self, parent: str | None, *texts: str, embed: bool = True) -> list[Message]:
        """Save and index a chain: what a user says and what answers it, in turn. The id of a message
        is its text."""
        said: list[Message] = []
        for n, text in enumerate(texts):
            before = said[-1].id if said else parent
            role = Role.ASSISTANT if n % 2 else Role.USER
            said.append(self.message(text, before, role, TextPart(text=text)))
        await self.save(*said)
        await self.index(said, embed=embed)
        return said

    async def index(self, messages: Iterable[Message], *, embed: bool = True) -> None:
        rows = [await self._indexed(m, embed=embed) for m in messages]
        await self.memory.index_messages(self.owner, [row for row in rows if row is not None])

    async def _indexed(self, message: Message, *, embed: bool) -> IndexedText | None:
        row = recall.row_of(message, self.agent)
        if row is None or not embed:
            return row
        (vector,) = (await EMBEDDER.embed([recall.text_to_embed(message.text)])).vectors
        return row.model_copy(update={"vector": recall.usable(vector), "model": EMBEDDER.model})

    async def asked(self, text: str, *, embed: bool = True, **fields: object) -> RecallQuery:
        (vector,) = (await EMBEDDER.embed([text])).vectors
        given: dict[str, object] = {
            "agent": self.agent,
            "text": text,
            "now": NOW,
            "thread_id": self.id,
            "top_k": 1,
        }
        given["whole_rows"] = self.whole_rows
        if embed:
            given |= {"vector": recall.usable(vector), "model": EMBEDDER.model}
        return RecallQuery.model_validate({**given, "before": 0, "after": 0, **fields})

    async def recall(self, text: str, *, embed: bool = True, **fields: object) -> list[str]:
        """The texts that are found."""
        query = await self.asked(text, embed=embed, **fields)
        return ids(await self.memory.recall(self.owner, query))

    async def turn(
        self,
        input: Message,
        text: str,
        window: int = 20,
        options: Mapping[str, int] | None = None,
        **fields: Any,
    ) -> TurnContext:
        query = self.query(input, window)
        asked = await self.asked(text, **fields)
        return await self.store.open_turn(
            query.model_copy(update={"recall": asked, **(options or {})})
        )


def ids(recalled: Iterable[Recalled]) -> list[str]:
    return [r.message.id for r in recalled]


@pytest.fixture
def talk(stores: Stores, owner: str) -> Talk:
    return Talk(stores, owner)


async def test_nothing_is_found_where_nothing_is_stored(talk: Talk) -> None:
    assert await talk.recall("anything") == []


async def test_nothing_is_found_by_words_that_nobody_said(talk: Talk) -> None:
    await talk.tell(None, "the cat sleeps", "so it does", embed=False)
    assert await talk.recall("submarine", embed=False) == []
    assert await talk.recall("?!", embed=False) == []


async def test_another_users_texts_are_never_found(talk: Talk, stores: Stores) -> None:
    await talk.tell(None, "my password is swordfish")
    stranger = Talk(stores, f"{talk.owner}-stranger")
    assert await stranger.recall("swordfish", thread_id=talk.id) == []
    assert await stranger.recall("swordfish", thread_id=None) == []


async def test_another_agents_texts_are_never_found(talk: Talk, stores: Stores) -> None:
    await talk.tell(None, "my password is swordfish")
    other = Talk(stores, talk.owner, "other", agent="sales")
    assert await other.recall("swordfish", thread_id=None) == []
    assert await other.recall("swordfish", thread_id=talk.id) == []


async def test_another_users_message_is_not_indexed(talk: Talk, stores: Stores) -> None:
    (message,) = await talk.tell(None, "swordfish", embed=False)
    stranger = Talk(stores, f"{talk.owner}-stranger")
    await stranger.index([message])
    assert await stranger.recall("swordfish", thread_id=None) == []


async def test_an_erased_thread_is_forgotten_and_takes_no_late_text(talk: Talk) -> None:
    said = await talk.tell(None, "the cat sleeps")
    await talk.store.erase(talk.owner, talk.id)
    await talk.index(said)
    assert await talk.recall("cat") == []
    assert await talk.recall("cat", thread_id=None) == []


async def test_a_text_without_a_vector_is_found_by_its_words(talk: Talk) -> None:
    await talk.tell(None, "the cat sleeps", "and the dog barks", embed=False)
    assert await talk.recall("what do dogs do?") == ["and the dog barks"]


async def test_a_query_without_a_vector_finds_by_words(talk: Talk) -> None:
    await talk.tell(None, "the cat sleeps", "and the dog barks")
    assert await talk.recall("what do dogs do?", embed=False) == ["and the dog barks"]


async def test_vectors_of_another_embedder_are_not_compared(talk: Talk) -> None:
    await talk.tell(None, "the cat sleeps", "and the dog barks")
    query = await talk.asked("dog", model="other", vector=(1.0, 0.0))
    (found,) = await talk.memory.recall(talk.owner, query)
    assert (found.message.id, found.vector_score) == ("and the dog barks", None)


async def test_a_vector_of_another_length_is_not_compared(talk: Talk) -> None:
    await talk.tell(None, "the cat sleeps", "and the dog barks")
    assert await talk.recall("dog", vector=(1.0, 0.0)) == ["and the dog barks"]


async def test_a_text_indexed_by_words_gets_its_vector_later_and_keeps_it(talk: Talk) -> None:
    said = await talk.tell(None, "the cat sleeps", embed=False)
    await talk.index(said)
    await talk.index(said, embed=False)
    (found,) = await talk.memory.recall(talk.owner, await talk.asked("cat"))
    assert found.vector_score is not None


async def test_an_inflected_word_finds_another_form_in_any_language(talk: Talk) -> None:
    texts = [text for _, _, text, _ in PAIRS]
    await talk.tell(None, *texts, embed=False)
    found = [await talk.recall(word, embed=False) for *_, word in PAIRS]
    assert found == [[text] for text in texts]


async def test_a_speaker_whom_the_query_names_wins_with_or_without_the_accent(talk: Talk) -> None:
    own = "Zo\u00eb: the train was as late as it had been on all the other days of that long week"
    await talk.tell(None, own, "so it was", "yes", "Ann: train, Zo\u00eb", embed=False)
    for query in ("train Zo\u00eb", "train ZOE"):
        assert await talk.recall(query, embed=False) == [own]


async def test_one_word_of_many_is_enough(talk: Talk) -> None:
    await talk.tell(None, "I keep bees", "how nice")
    assert await talk.recall("tell me again which animals or bees I keep here") == ["I keep bees"]


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("我的猫叫小黑", "猫"),
        ("昨天我们去了北京大学", "北京大学在哪里"),
        ("昨日は京都で寿司を食べました", "寿司はどうでしたか"),
        ("เมื่อวานฉันไปเชียงใหม่", "เชียงใหม่เป็นอย่างไร"),
        ("어제 서울에서 김치를 먹었어요", "김치를"),
        ("вчера мы ездили в Москву", "Москву"),
        ("कल मैंने हिन्दी सीखी", "हिन्दी"),
        ("ذهبنا أمس إلى القاهرة", "القاهرة"),
    ],
)
async def test_words_of_every_script_are_found(talk: Talk, said: str, query: str) -> None:
    await talk.tell(None, "hello there", "hi", said, "fine", "bye now", embed=False)
    assert await talk.recall(query, embed=False) == [said]


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
async def test_any_text_can_be_kept_and_asked_for(talk: Talk, text: str) -> None:
    message = talk.message("m", None, Role.USER, TextPart(text=f"zebra {text}"))
    await talk.save(message)
    await talk.index([message])
    assert await talk.recall(f"zebra {text}") == ["m"]


async def test_the_date_finds_what_was_said_on_it(talk: Talk) -> None:
    await talk.tell(None, "we met", "yes")
    talk.made += 40 * 24 * 3600
    await talk.tell("yes", "we met again", "yes, again")
    assert await talk.recall("who met on 10 February 2026?", embed=False) == ["we met again"]


async def test_who_is_named_is_found_first(talk: Talk) -> None:
    await talk.tell(None, "Ann: I like tea", "Bob: I like tea", "Cid: me too")
    assert await talk.recall("What does Bob like?") == ["Bob: I like tea"]


async def test_an_answer_is_found_by_its_question(talk: Talk) -> None:
    filler = ("good morning", "good evening", "what a day", "see you")
    await talk.tell(None, *filler, "where do you keep the spare key?", "under the red pot", "ah")
    found = await talk.recall("spare key place", embed=False, top_k=2)
    assert found == ["where do you keep the spare key?", "under the red pot"]


@pytest.mark.parametrize("embed", [True, False])
async def test_the_message_two_away_is_found_and_the_third_is_not(talk: Talk, embed: bool) -> None:
    before = ("good morning", "what a day", "by the way")
    await talk.tell(
        None, *before, "spare key?", "wait a moment", "under the pot", "ah", embed=embed
    )
    rare = await talk.asked("spare key", embed=False, top_k=9)
    found = ids(await talk.memory.recall(talk.owner, rare))
    assert found == ["what a day", "by the way", "spare key?", "wait a moment", "under the pot"]


LOUD = ("the boiler of the cellar", "oh no", "what now", "we will see", "well", "my boiler hums")
"""A strong match, and a weak one at some distance."""
HUMS = ("good day", "hello", "the boiler hums", "so what", "never mind", "all right")


@pytest.mark.parametrize("embed", [True, False])
async def test_of_like_texts_the_one_of_a_strong_matchs_session_is_found(
    talk: Talk, embed: bool
) -> None:
    await talk.tell(None, *LOUD, embed=embed)
    talk.made += 5 * 3600
    await talk.tell(LOUD[-1], *HUMS, embed=embed)
    assert await talk.recall("boiler cellar", embed=False, top_k=2) == [LOUD[0], LOUD[-1]]


async def test_a_short_pause_ends_no_session(talk: Talk) -> None:
    await talk.tell(None, *LOUD, embed=False)
    talk.made += 3 * 3600
    await talk.tell(LOUD[-1], *HUMS, embed=False)
    assert await talk.recall("boiler cellar", embed=False, top_k=2) == [LOUD[0], HUMS[2]]


async def test_another_thread_is_another_session(talk: Talk, stores: Stores) -> None:
    other = Talk(stores, talk.owner, "other")
    await talk.tell(None, *LOUD, embed=False)
    other.made = talk.made
    await other.tell(None, *HUMS, embed=False)
    found = await talk.recall("boiler cellar", embed=False, top_k=2, thread_id=None)
    assert found == [LOUD[0], LOUD[-1]]


async def test_a_session_alone_makes_no_match(talk: Talk) -> None:
    await talk.tell(None, *LOUD, embed=False)
    assert "we will see" not in await talk.recall("cellar", embed=False, top_k=9)


async def test_of_like_texts_the_newer_is_found(talk: Talk) -> None:
    await talk.tell(None, "the code is blue", "noted")
    talk.made += 100 * 24 * 3600
    await talk.tell("noted", "the code is blue!", "noted again")
    query = await talk.asked("code blue", now=NOW + timedelta(days=100))
    assert ids(await talk.memory.recall(talk.owner, query)) == ["the code is blue!"]


async def test_matches_come_with_what_stands_beside_them_in_order(talk: Talk) -> None:
    await talk.tell(None, "one", "two", "three", "zebra", "five", "six")
    query = await talk.asked("zebra", before=2, after=1)
    found = await talk.memory.recall(talk.owner, query)
    assert ids(found) == ["two", "three", "zebra", "five"]
    assert [r.match for r in found] == [False, False, True, False]
    assert [r.score is None for r in found] == [True, True, False, True]


async def test_what_stands_beside_two_matches_comes_once(talk: Talk) -> None:
    await talk.tell(None, "one", "two zebra", "three", "four zebra", "five", "six", "seven")
    found = await talk.recall("zebra", top_k=2, before=1, after=1)
    assert found == ["one", "two zebra", "three", "four zebra", "five"]


async def test_other_branches_are_not_searched(talk: Talk) -> None:
    await talk.tell(None, "question", "answer with a zebra")
    await talk.tell("question", "answer without one", "more")
    assert await talk.recall("zebra", embed=False) == []
    assert await talk.recall("answer", embed=False) == ["answer without one"]


async def test_a_turn_searches_the_path_of_its_input(talk: Talk) -> None:
    await talk.tell(None, "question", "answer with a zebra")
    await talk.tell("question", "other answer", "more")
    input = talk.message("again", "answer with a zebra")
    context = await talk.turn(input, "zebra", window=1)
    assert ids(context.recalled) == []  # it is in the window
    far = [f"filler {n}" for n in range(40)]
    await talk.tell("again", *far)
    input = talk.message("where", "filler 39")
    context = await talk.turn(input, "zebra", window=2)
    assert ids(context.recalled) == ["answer with a zebra"]
    elsewhere = await talk.turn(talk.message("there", "more"), "zebra", window=1, embed=False)
    assert ids(elsewhere.recalled) == []


async def test_what_the_window_shows_is_not_recalled(talk: Talk) -> None:
    await talk.tell(None, *[f"zebra {n}" for n in range(40)])
    input = talk.message("where", "zebra 39")
    context = await talk.turn(input, "zebra", window=10, top_k=100, after=2)
    shown = {m.id for m in context.history}
    assert "zebra 39" in shown
    assert len(context.recalled) + len(shown) == 40
    assert not shown & set(ids(context.recalled))


async def test_the_window_is_searched_too_where_who_asks_knows_what_is_shown(talk: Talk) -> None:
    await talk.tell(None, *[f"zebra {n}" for n in range(40)])
    input = talk.message("where", "zebra 39")
    for options in ({}, {"max_messages": 5}, {"pinned_depth": 9}):
        context = await talk.turn(input, "zebra", 10, options, top_k=100, whole_path=True)
        assert ids(context.recalled) == [f"zebra {n}" for n in range(40)]


async def test_neighbours_have_places_that_follow_each_other(talk: Talk, stores: Stores) -> None:
    other = Talk(stores, talk.owner, "a thread that sorts before")
    await other.tell(None, "hello", "zebra")
    await talk.tell(None, "one", "two zebra", "three", "four", "five", "six zebra", "seven")
    query = await talk.asked("zebra", thread_id=None, top_k=3, before=1, after=1, embed=False)
    found = await talk.memory.recall(talk.owner, query)
    (hello, zebra), (one, two, three, five, six, seven) = (
        [r.place for r in found if r.message.thread_id == thread.id] for thread in (other, talk)
    )
    assert zebra == hello + 1
    assert (two, three, five, six, seven) == (one + 1, one + 2, one + 4, one + 5, one + 6)


async def test_all_of_a_users_threads_are_searched_where_asked(talk: Talk, stores: Stores) -> None:
    other = Talk(stores, talk.owner, "other")
    await other.tell(None, "the elephant is grey", "yes it is")
    await talk.tell(None, "the zebra has stripes", "indeed")
    found = await talk.recall("elephant zebra", thread_id=None, top_k=2)
    assert sorted(found) == ["the elephant is grey", "the zebra has stripes"]
    assert await talk.recall("elephant", embed=False) == []


async def test_neighbours_of_another_thread_are_no_neighbours(talk: Talk, stores: Stores) -> None:
    other = Talk(stores, talk.owner, "a thread that sorts before")
    await other.tell(None, "hello", "zebra")
    await talk.tell(None, "first", "second")
    found = await talk.recall("zebra", thread_id=None, top_k=9, before=9, after=9, embed=False)
    assert found == ["hello", "zebra"]


async def test_texts_behind_the_newest_are_not_searched_and_a_turn_says_so(talk: Talk) -> None:
    await talk.tell(None, "a zebra", *[f"filler {n}" for n in range(8)])
    assert await talk.recall("zebra", embed=False, most_rows=8) == []
    context = await talk.turn(talk.message("new", "filler 7"), "zebra", window=1, most_rows=8)
    assert context.recall_cut
    assert "a zebra" not in ids(context.recalled)


async def test_a_scope_that_is_just_searched_whole_is_not_cut(talk: Talk) -> None:
    await talk.tell(None, "a zebra", *[f"filler {n}" for n in range(8)])
    assert await talk.recall("zebra", embed=False, most_rows=9) == ["a zebra"]
    context = await talk.turn(talk.message("new", "filler 7"), "zebra", window=1, most_rows=9)
    assert not context.recall_cut
    assert ids(context.recalled) == ["a zebra"]


async def test_a_word_of_most_texts_is_common(talk: Talk) -> None:
    texts = [f"Ann: number {n}" if n % 2 else f"word {n}" for n in range(20)]
    await talk.tell(None, *texts, embed=False)
    terms = recall.query_words("Ann 7 zebra January")
    common = await talk.memory.common_words(talk.owner, talk.agent, talk.id, terms)
    assert common == set(recall.query_words("Ann January"))
    assert await talk.memory.common_words(talk.owner, talk.agent, None, terms) == common
    assert await talk.memory.common_words(talk.owner, "sales", None, terms) == frozenset()


async def test_in_a_short_conversation_no_word_is_common(talk: Talk) -> None:
    await talk.tell(None, "Ann: tea", "Ann: coffee")
    assert await talk.memory.common_words(talk.owner, talk.agent, talk.id, ["ann"]) == frozenset()


@pytest.mark.parametrize("whole_rows", [None, 0])
async def test_both_stores_rank_alike(
    database: Database, owner: str, whole_rows: int | None
) -> None:
    random.seed(8)
    vocabulary = ["ann", "tea", "coffee", "zebra", "river", "stone", "paper", "key", "door"]
    texts = [f"{' '.join(random.choices(vocabulary, k=6))} t{n}" for n in range(60)]
    postgres = PostgresThreads(database, MemoryAdditions()), PostgresMemory(database)
    stores = in_memory(), Recalling(*postgres, whole_rows)
    found: list[list[tuple[str, float]]] = []
    for one in stores:
        talk, other = Talk(one, owner), Talk(one, owner, "other")
        await talk.tell(None, *texts[:20])
        talk.made += 5 * 3600
        await talk.tell(texts[19], *texts[20:40])
        await other.tell(None, *texts[40:])
        query = await talk.asked("zebra tea river", top_k=12, before=1, after=1, thread_id=None)
        answer = await one.memory.recall(owner, query)
        found.append([(r.message.id, r.score or 0.0) for r in answer])
    (memory_ids, memory_scores), (ids, scores) = (zip(*f, strict=True) for f in found)
    assert memory_ids == ids
    assert memory_scores == pytest.approx(scores, abs=0.005)
