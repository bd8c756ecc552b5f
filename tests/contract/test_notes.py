"""The contract of every store of notes, thread states and iteration logs, in memory and on Postgres."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from layover.adapters.store.postgres.database import Database
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.ports import MemoryStore
from layover.ports.memory.notes import StaleState
from layover.values.memory.context import Extraction, LoggedAttempt, TurnContext
from layover.values.note import Note, NoteKey
from support.postgres.server import TestPostgres
from support.worlds.threads import START, Conversation, Stores

PROFILE = NoteKey(kind="profile", scope="resource", key="support")
OF_THREAD = NoteKey(kind="working", scope="thread", key="thread")
LATER = START + timedelta(hours=1)


@pytest.fixture
def stores(thread_stores: Stores) -> Stores:
    return thread_stores


@pytest.fixture
async def talk(stores: Stores, owner: str) -> Conversation:
    talk = Conversation(stores.threads, owner)
    await talk.say(None, "q", "a")
    return talk


@pytest.fixture
def memory(stores: Stores) -> MemoryStore:
    return stores.memory


async def value(memory: MemoryStore, owner: str, key: NoteKey = PROFILE) -> Any:
    return (await memory.read_notes(owner, [key]))[0].value


def attempt(task: str = "deploy", action: str = "push", **fields: Any) -> LoggedAttempt:
    return LoggedAttempt(task=task, action=action, **{"created_at": START, **fields})


def learned(run_id: str = "run", thread_id: str = "thread", **fields: Any) -> Extraction:
    common = {"run_id": run_id, "thread_id": thread_id, "agent": "support", "at": LATER}
    return Extraction.model_validate({**common, **fields})


async def test_what_was_never_written_has_version_0(memory: MemoryStore, owner: str) -> None:
    assert await memory.read_notes(owner, []) == ()
    keys = [PROFILE, OF_THREAD]
    assert await memory.read_notes(owner, keys) == tuple(Note(key=k) for k in keys)


async def test_a_text_that_changed_meanwhile_is_not_overwritten(
    memory: MemoryStore, owner: str
) -> None:
    first = await memory.replace_note(owner, PROFILE, "one", START, expected_version=0)
    assert (first.stored, first.note.version) == (True, 1)
    await memory.replace_note(owner, PROFILE, "two", LATER, "other", expected_version=1)
    late = await memory.replace_note(owner, PROFILE, "three", LATER, expected_version=1)
    assert (late.stored, late.note.value, late.note.run_id) == (False, "two", "other")
    unborn = await memory.replace_note(owner, PROFILE, "four", LATER, expected_version=0)
    assert not unborn.stored
    assert await value(memory, owner) == "two"


async def test_a_text_that_is_gone_is_not_written_under_its_old_version(
    memory: MemoryStore, owner: str
) -> None:
    await memory.replace_note(owner, PROFILE, "one", START)
    await memory.delete_note(owner, PROFILE, START)
    await memory.delete_note(owner, PROFILE, START)
    late = await memory.replace_note(owner, PROFILE, "two", START, expected_version=1)
    assert (late.stored, late.note.version) == (False, 0)


async def test_a_write_that_is_repeated_counts_as_done(memory: MemoryStore, owner: str) -> None:
    for _ in range(2):
        write = await memory.replace_note(owner, PROFILE, "one", START, expected_version=0)
        assert write.stored
    assert write.note.version == 1


async def test_a_note_that_is_made_anew_is_another_one(
    memory: MemoryStore, talk: Conversation
) -> None:
    owner = talk.owner
    made: list[Note] = []
    for days, way in enumerate(("replace", "learn")):
        at = START + timedelta(days=days)
        await memory.delete_note(owner, PROFILE, START)
        if way == "replace":
            await memory.replace_note(owner, PROFILE, {"a": 1}, at)
        else:
            assert await memory.record_extraction(owner, learned(profile={"a": 1}, at=at))
        made += await memory.read_notes(owner, [PROFILE])
        await memory.replace_note(owner, PROFILE, {"a": 2}, at + timedelta(hours=1))
        (changed,) = await memory.read_notes(owner, [PROFILE])
        assert (changed.created_at, changed.version) == (at, 2)
    assert [n.version for n in made] == [1, 1]
    assert not any(a.same_as(b) for a, b in pairwise(made))


async def test_another_users_notes_are_out_of_reach(memory: MemoryStore, owner: str) -> None:
    await memory.replace_note(owner, PROFILE, "mine", START)
    stranger = f"{owner}-stranger"
    assert await value(memory, stranger) is None
    await memory.delete_note(stranger, PROFILE, START)
    await memory.replace_note(stranger, PROFILE, {"a": 1}, START)
    assert await value(memory, owner) == "mine"


async def test_the_time_of_a_note_goes_forward_whatever_the_clock_says(
    memory: MemoryStore, owner: str
) -> None:
    await memory.replace_note(owner, PROFILE, {"a": 1}, LATER)
    write = await memory.replace_note(owner, PROFILE, {"a": 2}, START)
    assert write.note.updated_at is not None
    assert write.note.updated_at > LATER


async def test_notes_of_a_thread_go_with_it_and_come_no_more(
    memory: MemoryStore, talk: Conversation
) -> None:
    owner = talk.owner
    assert (await memory.replace_note(owner, OF_THREAD, {"a": 1}, START)).stored
    assert await memory.write_plan(owner, "thread", {"goal": "g"}, START)
    assert await memory.log_attempt(owner, "thread", attempt(), "1") == 1
    await memory.replace_note(owner, PROFILE, {"stays": True}, START)
    await talk.store.erase(owner, "thread")
    assert not (await memory.replace_note(owner, OF_THREAD, {"a": 1}, START)).stored
    assert not (await memory.replace_note(owner, OF_THREAD, "x", START)).stored
    assert not await memory.write_plan(owner, "thread", {"goal": "g"}, START)
    assert await memory.log_attempt(owner, "thread", attempt(), "2") is None
    assert not await memory.record_extraction(owner, learned(profile={"late": 1}))
    state = await memory.read_state(owner, "thread")
    assert (state.version, state.plan, state.attempts) == (0, None, ())
    assert await value(memory, owner, OF_THREAD) is None
    assert await value(memory, owner) == {"stays": True}


async def test_nothing_is_written_to_a_thread_that_never_was(
    memory: MemoryStore, owner: str
) -> None:
    assert not await memory.write_plan(owner, "nowhere", {}, START)
    assert await memory.log_attempt(owner, "nowhere", attempt(), "1") is None
    key = NoteKey(kind="working", scope="thread", key="nowhere")
    assert not (await memory.replace_note(owner, key, "x", START)).stored


async def test_attempts_are_counted_by_task_and_logged_once(
    memory: MemoryStore, talk: Conversation
) -> None:
    owner = talk.owner
    said = attempt(error="no disk", diagnosis="full", fix_applied="rm", run_id="run")
    assert await memory.log_attempt(owner, "thread", said, "1") == 1
    assert await memory.log_attempt(owner, "thread", said, "1") == 1
    again = attempt(created_at=LATER, result="ok")
    assert await memory.log_attempt(owner, "thread", again, "2") == 2
    assert await memory.log_attempt(owner, "thread", attempt("test"), "3") == 1
    log = await memory.attempts(owner, "thread", "deploy")
    assert log == (
        said.model_copy(update={"attempt": 1}),
        again.model_copy(update={"attempt": 2}),
    )
    newest = await memory.attempts(owner, "thread", limit=1)
    assert [a.attempt for a in newest] == [2]
    assert len((await memory.read_state(owner, "thread")).attempts) == 3
    assert await memory.attempts(f"{owner}-stranger", "thread") == ()


async def test_a_turn_reads_what_it_asks_for_in_the_same_round_trip(
    memory: MemoryStore, talk: Conversation
) -> None:
    await memory.replace_note(talk.owner, PROFILE, {"name": "Ann"}, START)
    await memory.write_plan(talk.owner, "thread", {"goal": "g", "steps": []}, START)
    await memory.log_attempt(talk.owner, "thread", attempt(), "1")
    query = talk.query(talk.message("q2", "a"))
    assert (await talk.store.open_turn(query)).notes == ()
    asked = query.model_copy(update={"notes": (OF_THREAD, PROFILE), "thread_state": True})
    context: TurnContext = await talk.store.open_turn(asked)
    assert [m.id for m in context.history] == ["q", "a"]
    assert [n.value for n in context.notes] == [None, {"name": "Ann"}]
    assert context.state.plan == {"goal": "g", "steps": []}
    assert [a.action for a in context.state.attempts] == ["push"]


async def test_what_was_learned_is_stored_once_and_whole(
    memory: MemoryStore, talk: Conversation
) -> None:
    owner = talk.owner
    await memory.replace_note(owner, PROFILE, {"city": "Rome", "diet": "vegan"}, START)
    first = learned(profile={"city": "Bern", "diet": None}, session={"objective": "move"})
    assert await memory.record_extraction(owner, first.model_copy(update={"state_version": 0}))
    again = learned(profile={"city": "Oslo"}, session={"objective": "stay"}, state_version=1)
    assert not await memory.record_extraction(owner, again)
    assert await value(memory, owner) == {"city": "Bern"}
    state = await memory.read_state(owner, "thread")
    assert (state.session, state.version) == ({"objective": "move"}, 1)


async def test_a_session_made_from_an_old_state_stores_nothing_of_its_run(
    memory: MemoryStore, talk: Conversation
) -> None:
    owner = talk.owner
    await memory.write_plan(owner, "thread", {"goal": "g"}, START)
    late = learned(profile={"a": 1}, session={"objective": "x"}, title="T", state_version=0)
    with pytest.raises(StaleState):
        await memory.record_extraction(owner, late)
    assert await value(memory, owner) is None
    fresh = late.model_copy(update={"state_version": 1})
    assert await memory.record_extraction(owner, fresh)
    state = await memory.read_state(owner, "thread")
    assert (state.session, state.plan) == ({"objective": "x"}, {"goal": "g"})


async def test_ten_writers_of_one_note_and_one_log_lose_nothing(
    stores: Stores, talk: Conversation, request: pytest.FixtureRequest
) -> None:
    owner, databases, memories = talk.owner, [], [stores.memory] * 10
    if isinstance(stores.memory, PostgresMemory):
        postgres: TestPostgres = request.getfixturevalue("postgres")
        databases = [Database(postgres.runtime) for _ in range(10)]
        memories = [PostgresMemory(d) for d in databases]

    async def write(n: int, memory: MemoryStore) -> int | None:
        for key in (PROFILE, OF_THREAD):
            (note,) = await memory.read_notes(owner, [key])
            for _ in range(10):
                fields = {**(note.value or {}), f"f{n}": n}
                write = await memory.replace_note(
                    owner, key, fields, START, expected_version=note.version
                )
                if write.stored:
                    break
                note = write.note
        return await memory.log_attempt(owner, "thread", attempt(action=str(n)), f"id{n}")

    numbers = await asyncio.gather(*(write(n, m) for n, m in enumerate(memories)))
    for database in databases:
        await database.close()
    assert sorted(n for n in numbers if n) == list(range(1, 11))
    everything = {f"f{n}": n for n in range(10)}
    assert await value(stores.memory, owner) == everything
    assert await value(stores.memory, owner, OF_THREAD) == everything


async def test_one_of_ten_writers_of_a_text_wins(memory: MemoryStore, owner: str) -> None:
    writes = await asyncio.gather(
        *(
            memory.replace_note(owner, PROFILE, f"text {n}", START, expected_version=0)
            for n in range(10)
        )
    )
    assert [w.stored for w in writes].count(True) == 1
    assert len({w.note.value for w in writes}) == 1
