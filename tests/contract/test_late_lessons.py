"""The contract of every store of memory for runs that are extracted late, or at the same time."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from layover.adapters.store.postgres.database import Database
from layover.plugins.memory.learns.rules import hash_of
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.ports import MemoryStore
from layover.ports.memory.notes import StaleState
from layover.values.memory.context import Extraction
from layover.values.memory.entry import FoundEntry, NewEntry
from layover.values.note import NoteKey
from support.postgres.server import TestPostgres
from support.worlds.threads import START, Conversation, Stores

PROFILE = NoteKey(kind="profile", scope="resource", key="support")
LEARNED = START + timedelta(days=1)


def after(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


class Life:
    """A user, an agent and one thread of theirs; every lesson is a run's."""

    def __init__(self, stores: Stores, owner: str) -> None:
        self.memory: MemoryStore = stores.memory
        self.talk = Conversation(stores.threads, owner)
        self.owner = owner
        self.runs = 0

    def lesson(self, said: int, *entries: NewEntry, **fields: Any) -> Extraction:
        self.runs += 1
        given = {"run_id": f"run{self.runs}", "thread_id": self.talk.id, "agent": "support"}
        times = {"said_at": after(said), "at": LEARNED}
        return Extraction.model_validate({**given, **times, "entries": entries, **fields})

    async def learn(self, said: int, *entries: NewEntry, **fields: Any) -> None:
        assert await self.memory.record_extraction(
            self.owner, self.lesson(said, *entries, **fields)
        )

    async def profile(self) -> Any:
        return (await self.memory.read_notes(self.owner, [PROFILE]))[0].value

    async def known(self) -> list[FoundEntry]:
        return list(await self.memory.list_entries(self.owner, "support", 10, None))

    async def version(self, agent: str = "support") -> int:
        return (await self.memory.known_entries(self.owner, agent, [])).version


@pytest.fixture
async def life(thread_stores: Stores, owner: str) -> Life:
    life = Life(thread_stores, owner)
    await life.talk.say(None, "q", "a")
    return life


def entry(content: str, said: int, id: str = "", **fields: Any) -> NewEntry:
    given = {"id": id or content, "agent": "support", "source": "user_assertion"}
    given |= {"evidence": content, "thread_id": "thread", "hash": hash_of(content)}
    return NewEntry.model_validate(
        {**given, "content": content, "created_at": after(said), **fields}
    )


async def test_an_older_turns_fact_does_not_replace_a_newer_turns(life: Life) -> None:
    await life.learn(5, profile={"city": "Paris", "pet": None})
    await life.learn(3, profile={"city": "Berlin", "pet": "a cat", "diet": "vegan"})
    assert await life.profile() == {"city": "Paris", "diet": "vegan"}
    (before,) = await life.memory.read_notes(life.owner, [PROFILE])
    await life.learn(4, profile={"city": "Rome"})
    assert await life.memory.read_notes(life.owner, [PROFILE]) == (before,)
    await life.learn(6, profile={"city": "Bern", "pet": "a dog"})
    assert await life.profile() == {"city": "Bern", "diet": "vegan", "pet": "a dog"}


@pytest.mark.parametrize("known", [True, False])
async def test_what_was_said_before_the_profile_was_deleted_is_learned_no_more(
    life: Life, known: bool
) -> None:
    if known:
        await life.learn(0, profile={"city": "Berlin"})
    await life.memory.delete_note(life.owner, PROFILE, after(5))
    await life.learn(4, profile={"city": "Berlin"})
    assert await life.profile() is None
    await life.learn(6, profile={"city": "Paris"})
    assert await life.profile() == {"city": "Paris"}


async def test_what_was_said_before_the_profile_was_put_is_learned_no_more(life: Life) -> None:
    await life.learn(6, profile={"city": "Berlin"})
    await life.memory.replace_note(life.owner, PROFILE, {"name": "Ann"}, after(5))
    await life.learn(4, profile={"city": "Berlin"})
    assert await life.profile() == {"name": "Ann"}
    await life.learn(5, profile={"city": "Paris"})
    assert await life.profile() == {"name": "Ann", "city": "Paris"}


async def test_a_deleted_profile_is_one_agents_and_one_users(life: Life, owner: str) -> None:
    other = PROFILE.model_copy(update={"key": "sales"})
    await life.memory.delete_note(life.owner, other, after(5))
    await life.memory.delete_note(f"{owner}-stranger", PROFILE, after(5))
    await life.learn(4, profile={"city": "Berlin"})
    assert await life.profile() == {"city": "Berlin"}


async def test_a_session_keeps_when_its_fields_were_said(life: Life) -> None:
    said = {"objective": after(3)}
    await life.learn(3, session={"objective": "o"}, session_said=said, state_version=0)
    await life.memory.write_plan(life.owner, life.talk.id, {"goal": "g"}, LEARNED)
    state = await life.memory.read_state(life.owner, life.talk.id)
    assert (state.session, state.session_said) == ({"objective": "o"}, said)
    said |= {"state": after(4)}
    version = {"state_version": state.version}
    await life.learn(4, session={"state": "s"}, session_said=said, **version)
    state = await life.memory.read_state(life.owner, life.talk.id)
    assert (state.session, state.session_said) == ({"state": "s"}, said)


async def test_entries_that_were_compared_before_others_came_store_nothing_of_their_run(
    life: Life,
) -> None:
    seen = await life.version()
    await life.learn(1, entry("the disk is full", 1), entries_version=seen)
    late = life.lesson(2, entry("the disk is full!", 2), profile={"a": "1"}, entries_version=seen)
    with pytest.raises(StaleState):
        await life.memory.record_extraction(life.owner, late)
    assert await life.profile() is None
    fresh = late.model_copy(update={"entries_version": await life.version()})
    assert await life.memory.record_extraction(life.owner, fresh)
    assert len(await life.known()) == 2
    assert await life.version("sales") == 0


async def test_entries_that_were_compared_before_one_was_restored_are_compared_again(
    life: Life,
) -> None:
    await life.learn(1, entry("the disk is full", 1))
    await life.learn(2, entry("it has room", 2, supersedes=("the disk is full",)))
    seen = await life.version()
    await life.memory.restore_entry(life.owner, "the disk is full")
    restored = await life.version()
    late = life.lesson(3, entry("the disk is new", 3), entries_version=seen)
    with pytest.raises(StaleState):
        await life.memory.record_extraction(life.owner, late)
    # Nothing has changed for a lesson: the entry stands already.
    await life.memory.restore_entry(life.owner, "the disk is full")
    await life.learn(3, entry("the disk is new", 3), entries_version=restored)
    assert len(await life.known()) == 3


async def test_of_runs_that_learn_at_once_one_has_seen_what_is_stored(
    life: Life, request: pytest.FixtureRequest
) -> None:
    memories, databases = [life.memory] * 6, []
    if isinstance(life.memory, PostgresMemory):
        postgres: TestPostgres = request.getfixturevalue("postgres")
        databases = [Database(postgres.runtime) for _ in memories]
        memories = [PostgresMemory(d) for d in databases]
    lessons = [
        life.lesson(n, entry(f"the disk is full {n}", n), entries_version=0)
        for n in range(len(memories))
    ]
    done = await asyncio.gather(
        *(m.record_extraction(life.owner, e) for m, e in zip(memories, lessons, strict=True)),
        return_exceptions=True,
    )
    for database in databases:
        await database.close()
    assert done.count(True) == 1
    assert [type(d) for d in done if d is not True] == [StaleState] * (len(memories) - 1)
    assert len(await life.known()) == 1


async def test_what_was_superseded_holds_again_only_if_it_is_said_again_later(life: Life) -> None:
    await life.learn(0, entry("port 1", 0))
    await life.learn(5, entry("port 2", 5, supersedes=("port 1",)))
    await life.learn(3, entry("port 1", 3, "late"))
    assert [e.content for e in await life.known()] == ["port 2"]
    await life.learn(6, entry("port 1", 6, "again", supersedes=("port 2",)))
    assert [(e.content, e.created_at) for e in await life.known()] == [("port 1", after(6))]


async def test_what_was_doubted_is_verified_once_somebody_vouches_for_it(life: Life) -> None:
    await life.learn(0, entry("account 9", 0, verified=False), entry("account 1", 0))
    await life.learn(1, entry("account 9", 1, "new", supersedes=("account 1", "account 9")))
    assert [(e.content, e.verified) for e in await life.known()] == [("account 9", True)]
    await life.learn(2, entry("account 9", 2, "newer", verified=False))
    assert [e.verified for e in await life.known()] == [True]
