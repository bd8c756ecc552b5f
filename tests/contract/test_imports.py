"""The contract of what is imported, in memory and on Postgres."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from layover import EpisodicMemory
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.plugins.memory.learns.rules import hash_of
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.reads.episodic.search import entry_query
from layover.values.memory.context import Extraction, IndexedText, RecallQuery
from layover.values.memory.entry import FoundEntry, NewEntry
from layover.values.message import Message, Role, TextPart
from layover.values.thread import ThreadHead
from support.worlds.threads import START, Conversation, Stores

AGENT = "support"


@pytest.fixture
def stores(thread_stores: Stores) -> Stores:
    return thread_stores


def entry(content: str, **fields: Any) -> NewEntry:
    given: dict[str, Any] = {
        "id": f"ent_{hash_of(content)[:8]}",
        "source": "imported",
        "evidence": content,
    }
    given |= {"agent": AGENT, "hash": hash_of(content), "created_at": START, "verified": False}
    return NewEntry(content=content, **{**given, **fields})


async def listed(stores: Stores, owner: str, *, superseded: bool = False) -> list[FoundEntry]:
    return list(await stores.memory.list_entries(owner, AGENT, 100, None, superseded=superseded))


# Entries


async def test_an_imported_entry_is_its_owners_and_of_no_thread(stores: Stores, owner: str) -> None:
    stored, is_new = await stores.memory.import_entry(owner, entry("a fact"))
    assert (stored.content, stored.source, stored.thread_id, is_new) == (
        "a fact",
        "imported",
        None,
        True,
    )
    assert await listed(stores, owner) == [stored]
    assert await listed(stores, f"{owner}-other") == []


@pytest.mark.parametrize("not_thread", [None, "t"])
async def test_a_search_finds_imported_entries_whichever_thread_it_leaves_out(
    stores: Stores, owner: str, not_thread: str | None
) -> None:
    await stores.memory.import_entry(owner, entry("the cellar is dry"))
    query = entry_query(AGENT, EpisodicMemory(), "a cellar?", START, top_k=9, not_thread=not_thread)
    found = (await stores.memory.find_entries(owner, query)).items
    assert [e.content for e in found] == ["the cellar is dry"]


async def test_the_same_content_stays_and_only_a_verified_one_takes_its_place(
    stores: Stores, owner: str
) -> None:
    first, _ = await stores.memory.import_entry(owner, entry("a fact"))
    again, is_new = await stores.memory.import_entry(owner, entry("a fact", id="ent_x"))
    assert (again, is_new) == (first, False)
    better = entry("a fact", id="ent_y", verified=True, evidence="somebody said so")
    vouched, is_new = await stores.memory.import_entry(owner, better)
    assert (vouched.id, vouched.verified, vouched.evidence, is_new) == (
        first.id,
        True,
        "somebody said so",
        True,
    )


async def test_a_lesson_supersedes_what_it_names_and_of_its_own_agent_only(
    stores: Stores, owner: str
) -> None:
    talk = Conversation(stores.threads, owner, "t", {"agent": AGENT})
    await talk.say(None, "q", "a")
    old, _ = await stores.memory.import_entry(owner, entry("old"))
    other, _ = await stores.memory.import_entry(owner, entry("foreign", agent="other"))
    new = entry("new", thread_id="t", source="user_assertion", supersedes=(old.id, other.id))
    learned = Extraction(run_id="r", thread_id="t", agent=AGENT, entries=(new,))
    assert await stores.memory.record_extraction(owner, learned)
    assert [e.content for e in await listed(stores, owner)] == ["new"]
    by = {e.content: e.superseded_by for e in await listed(stores, owner, superseded=True)}
    assert by == {"new": None, "old": new.id}
    assert len(await stores.memory.list_entries(owner, "other", 9, None)) == 1
    assert await stores.memory.delete_entry(owner, new.id)
    assert await listed(stores, owner, superseded=True) == []


async def test_the_end_of_a_thread_frees_what_its_entries_superseded(
    stores: Stores, owner: str
) -> None:
    talk = Conversation(stores.threads, owner, "t", {"agent": AGENT})
    await talk.say(None, "q", "a")
    old, _ = await stores.memory.import_entry(owner, entry("old"))
    taught = entry("new", thread_id="t", source="user_assertion", supersedes=(old.id,))
    learned = Extraction(run_id="r", thread_id="t", agent=AGENT, entries=(taught,))
    assert await stores.memory.record_extraction(owner, learned)
    assert [e.content for e in await listed(stores, owner)] == ["new"]
    await stores.threads.erase(owner, "t")
    assert [e.content for e in await listed(stores, owner)] == ["old"]


async def test_imported_entries_are_listed_expired_and_forgotten_by_their_own_time(
    stores: Stores, owner: str
) -> None:
    for days in (1, 2, 3):
        at = START + timedelta(days=days)
        await stores.memory.import_entry(owner, entry(f"day {days}", created_at=at))
    stored = await stores.memory.list_stored(owner, "entries", None, 9)
    assert {(r["source"], r["thread_id"]) for r in stored.items} == {("imported", None)}
    oldest = await stores.memory.expire_entries(owner, START + timedelta(days=2))
    assert oldest == START + timedelta(days=2)
    until = START + timedelta(days=2, hours=1)
    await stores.memory.forget(owner, until, until)
    assert [e.content for e in await listed(stores, owner)] == ["day 3"]


# Threads


def head_of(owner: str, **fields: Any) -> ThreadHead:
    given = {"id": "t", "agent": AGENT, "created_at": START, "updated_at": START}
    return ThreadHead(owner=owner, **{**given, **fields})


def chain(*ids: str, parent: str | None = None, at: int = 0) -> list[Message]:
    """Messages that follow each other, named by what they say."""
    messages: list[Message] = []
    for n, id in enumerate(ids):
        message = Message(
            id=id,
            thread_id="t",
            parent_id=messages[-1].id if messages else parent,
            role=Role.USER if n % 2 == 0 else Role.ASSISTANT,
            content=(TextPart(text=f"text of {id}"),),
            created_at=START + timedelta(seconds=at + n),
        )
        messages.append(message)
    return messages


def indexed(messages: Sequence[Message]) -> list[IndexedText]:
    return [IndexedText(thread_id="t", message_id=m.id, agent=AGENT, text=m.text) for m in messages]


async def ids(stores: Stores, owner: str) -> list[str]:
    head = await stores.threads.head(owner, "t")
    if head is None or head.leaf_id is None:
        return []
    return [m.id for m in await stores.threads.newest_messages(owner, "t", head.leaf_id, 100)]


async def recalled(stores: Stores, owner: str) -> set[str]:
    query = RecallQuery(agent=AGENT, text="text", now=START, before=0, after=0, top_k=100)
    return {each.message.id for each in await stores.memory.recall(owner, query)}


async def test_messages_come_with_their_thread_and_their_texts(stores: Stores, owner: str) -> None:
    messages = chain("a", "b", "c")
    head = head_of(owner, title="Old")
    assert await stores.threads.import_messages(head, messages, 0, indexed(messages))
    assert await ids(stores, owner) == ["a", "b", "c"]
    stored = await stores.threads.head(owner, "t")
    assert stored is not None
    assert (stored.title, stored.leaf_id, stored.last_created_at) == (
        "Old",
        "c",
        messages[-1].created_at,
    )
    assert await recalled(stores, owner) == {"a", "b", "c"}
    assert await ids(stores, f"{owner}-other") == []


async def test_an_import_is_repeatable_and_goes_on_where_it_ended(
    stores: Stores, owner: str
) -> None:
    first, second = chain("a", "b"), chain("c", "d", parent="b", at=2)
    for _ in range(2):
        assert await stores.threads.import_messages(head_of(owner), first, 0)
    for _ in range(2):
        assert await stores.threads.import_messages(head_of(owner), second, 2)
    assert await stores.threads.import_messages(head_of(owner), first, 0)
    assert await ids(stores, owner) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("names", "parent", "offset"),
    [
        (["x", "y"], None, 0),
        (["a", "x"], None, 0),
        (["a", "b", "c"], None, 0),
        (["x"], "b", 1),
        (["x"], "a", 1),
        (["x"], "b", 3),
        (["x"], None, 2),
        (["x"], "unknown", 2),
        (["x"], "b", 0),
    ],
)
async def test_messages_at_another_place_leave_nothing_at_all(
    stores: Stores, owner: str, names: list[str], parent: str | None, offset: int
) -> None:
    first = chain("a", "b", "q")
    assert await stores.threads.import_messages(head_of(owner), first, 0, indexed(first))
    wrong = chain(*names, parent=parent)
    assert not await stores.threads.import_messages(head_of(owner), wrong, offset, indexed(wrong))
    assert await ids(stores, owner) == ["a", "b", "q"]
    page = await stores.memory.list_stored(owner, "messages", None, 100, "t")
    assert sorted(row["id"] for row in page.items) == ["a", "b", "q"]
    assert await recalled(stores, owner) == {"a", "b", "q"}


async def test_a_look_writes_nothing(stores: Stores, owner: str) -> None:
    messages = chain("a", "b")
    look = stores.threads.import_messages
    assert not await look(head_of(owner), messages, 0, adds=False)
    assert await stores.threads.head(owner, "t") is None
    assert await look(head_of(owner), messages, 0)
    assert await look(head_of(owner), messages, 0, adds=False)


async def test_a_thread_that_is_gone_takes_no_import(stores: Stores, owner: str) -> None:
    messages = chain("a")
    await stores.threads.import_messages(head_of(owner), messages, 0)
    await stores.threads.erase(owner, "t")
    assert not await stores.threads.import_messages(head_of(owner), messages, 0, indexed(messages))
    assert await recalled(stores, owner) == set()


async def test_a_text_that_cannot_be_stored_leaves_none_of_its_messages(
    database: Database, owner: str
) -> None:
    """One transaction: half of an import cannot exist."""
    messages = chain("a", "b")
    texts = [
        *indexed(messages)[:1],
        indexed(messages)[1].model_copy(update={"vector": (1.0,) * 4_001}),
    ]
    store = PostgresThreads(database, MemoryAdditions())
    with pytest.raises(Exception, match="dimensions"):
        await store.import_messages(head_of(owner), messages, 0, texts)
    assert await store.head(owner, "t") is None
    assert await store.import_messages(head_of(owner), messages, 0)
