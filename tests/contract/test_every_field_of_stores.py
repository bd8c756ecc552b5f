"""No field of what outlives a run is lost in the stores, in memory and on Postgres.

Each value has something in every field (`support.filled`). A test says which fields do not come back."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from layover.adapters.store.postgres.threads import PostgresThreads
from layover.clock import ManualClock
from layover.ports.memory.personal import StoredKind
from layover.records.past_runs import past_run, tree_of
from layover.values.memory.compaction import Generation, NewGeneration
from layover.values.memory.context import (
    Extraction,
    IndexedText,
    LoggedAttempt,
    RecallQuery,
    StepUsage,
    ThreadState,
    TurnQuery,
    TurnRecord,
)
from layover.values.memory.entry import (
    EntryCorrection,
    EntryQuery,
    FoundEntry,
    MemoryEntry,
    NewEntry,
)
from layover.values.message import Message
from layover.values.note import Note, NoteKey
from layover.values.runs.run import RunMeta
from layover.values.runs.usage import DayUsage, Usage
from layover.values.runs.views import Run
from layover.values.thread import ThreadEdit, ThreadHead
from support.filled import filled, lost, not_shown
from support.postgres.server import TestPostgres
from support.worlds.builder import build_runtime
from support.worlds.threads import START, Conversation, Stores

LATER = 1_000
"""The first number of a value that differs from another one in everything."""
NOT_IN_JSON = {"model_output", "provider_state", "token_count"}
"""Fields of a message that callers do not see (docs/reference/http-api.md#objects)."""


@pytest.fixture
def stores(thread_stores: Stores) -> Stores:
    return thread_stores


@pytest.fixture
def talk(stores: Stores, owner: str) -> Conversation:
    return Conversation(stores.threads, owner)


async def stored(
    stores: Stores, owner: str, kind: StoredKind, thread_id: str = "thread"
) -> Sequence[dict[str, Any]]:
    """All that an export reads of one kind."""
    return (await stores.memory.list_stored(owner, kind, None, 100, thread_id)).items


# Threads


OF_THE_JOURNAL = {
    "active_run": "the journal alone hands a thread from run to run",
    "queue": "likewise",
    "waiting_runs": "likewise",
    "ready": "likewise",
    "interrupts": "likewise",
    "unsaved": "of runs that the database does not have yet",
    "windows": "what refusals taught, which the next turn reads with the head",
    "unplaced": "of runs whose messages have no place yet",
    "forget_profile": "a wish to the eraser, which reads the journal",
    "empty_again_at": "likewise",
}
"""Fields of a head that the database does not have."""


TIMES = ("created_at", "updated_at")


def head_of(owner: str, first: int = 1, **given: Any) -> ThreadHead:
    return filled(ThreadHead, first, id="thread", owner=owner, **{"deleted": False, **given})


async def save(stores: Stores, head: ThreadHead, *messages: Message, **parts: Any) -> None:
    """Save a turn of these messages."""
    run = filled(RunMeta, id=messages[-1].run_id, owner=head.owner)
    await stores.threads.save_turn(
        TurnRecord(head=head, run=run, input=messages[0], response=messages[1:], **parts)
    )


async def test_every_field_of_a_thread_is_read_as_it_was_stored(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    head = head_of(owner)
    [message] = talk.chain(None, "q")
    await stores.threads.open_turn(TurnQuery(head=head, run_id="run", input=message, window=20))
    ends = {"leaf_id": message.id, "last_created_at": message.created_at}
    read = await stores.threads.head(owner, head.id)
    assert lost(head.model_copy(update=ends), read) == set(OF_THE_JOURNAL)
    assert await stores.threads.heads(owner) == (read,)


async def test_every_field_of_a_thread_that_changed_is_read_as_it_is_now(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    head = head_of(owner)
    [message] = talk.chain(None, "q")
    await save(stores, head, message)
    changed = head_of(owner, LATER)
    await save(stores, changed, message)
    ends: dict[str, Any] = {"leaf_id": message.id, "last_created_at": message.created_at}
    ends["created_at"] = head.created_at
    read = await stores.threads.head(owner, head.id)
    assert lost(changed.model_copy(update=ends), read) == set(OF_THE_JOURNAL)


async def test_an_erased_thread_has_no_field_but_which_it_was(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    head = head_of(owner)
    await save(stores, head, *talk.chain(None, "q"))
    await stores.threads.erase(owner, head.id)
    read = await stores.threads.head(owner, head.id)
    assert read is not None
    which = {"id": head.id, "owner": owner, "agent": head.agent, "created_at": head.created_at}
    tombstone = ThreadHead.model_validate({**which, "updated_at": read.updated_at, "deleted": True})
    assert read == tombstone


async def test_a_thread_of_a_user_who_is_erased_has_none_of_their_words(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    head = head_of(owner)
    await save(stores, head, *talk.chain(None, "q"))
    await stores.memory.forget(owner, head.created_at, head.created_at)
    read = await stores.threads.head(owner, head.id)
    wordless = ThreadHead(**{n: getattr(head, n) for n in ("id", "owner", "agent", *TIMES)})
    assert {n for n in ThreadEdit.__annotations__ if n in lost(wordless, read)} == set()


# Messages


def message_of(id: str, parent_id: str, first: int = 1, **given: Any) -> Message:
    own = {"id": id, "thread_id": "thread", "run_id": "run", "parent_id": parent_id}
    times = {"created_at": START + timedelta(days=first)}
    return filled(Message, first, **own, **times, **given)


async def test_every_field_of_a_message_is_read_as_it_was_stored(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "root")
    message = message_of("m", "root")
    answer = message_of("n", "m", LATER)
    await save(stores, talk.head(), message, answer)
    for each in (message, answer):
        assert lost(each, await stores.threads.message(owner, "thread", each.id)) == set()


async def test_every_field_of_a_message_is_in_the_history_of_the_next_turn(
    stores: Stores, talk: Conversation
) -> None:
    await talk.say(None, "root")
    message = message_of("m", "root")
    await save(stores, talk.head(), message)
    query = talk.query(talk.message("next", "m"))
    [_, read] = (await stores.threads.open_turn(query)).history
    assert lost(message, read) == set()


async def test_every_field_of_a_message_on_another_branch_is_read_as_it_was_stored(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "root", "first")
    message, answer = message_of("m", "root"), message_of("n", "m", LATER)
    await save(stores, talk.head(), message, answer)
    for each in (message, answer):
        assert lost(each, await stores.threads.message(owner, "thread", each.id)) == set()


async def test_every_field_of_a_message_is_in_a_page_but_what_only_its_provider_reads(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "root")
    message = message_of("m", "root")
    await save(stores, talk.head(), message)
    page = await stores.threads.messages(owner, "thread", "m", 10, None)
    span = await stores.memory.span(owner, "thread", "root", "m")
    assert page is not None
    assert span is not None
    for read in (page.items[-1], *span.messages):
        assert lost(message, read) - {"provider_state"} == set()


async def test_every_field_of_a_message_is_recalled(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "root")
    # What is refused is not recalled.
    message = message_of("m", "root").model_copy(update={"refused": False})
    await save(stores, talk.head(), message)
    row = filled(IndexedText, thread_id="thread", message_id="m", agent="support")
    await stores.memory.index_messages(owner, [row])
    asked = {"agent": "support", "text": row.text, "vector": row.vector, "model": row.model}
    [read] = await stores.memory.recall(owner, RecallQuery(**asked, now=START, before=0))
    assert lost(message, read.message) == set()
    assert None not in (read.score, read.text_score, read.vector_score)


async def test_every_field_of_a_message_is_in_the_export_that_callers_see(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "root")
    message = message_of("m", "root")
    await save(stores, talk.head(), message)
    [_, row] = await stored(stores, owner, "messages")
    assert not_shown(message, row) == set()
    assert row.keys() & NOT_IN_JSON == set()


# Usage


NOT_IN_USAGE = {
    "sub_agents": "a sub-agent's usage has rows of its own",
    "total_tokens": "a sum",
}


def usage_of(first: int = 1, **given: Any) -> StepUsage:
    return filled(StepUsage, first, **{"step": "step", "agent": "support", "model": "m", **given})


async def rows_of_usage(stores: Stores, owner: str) -> list[dict[str, Any]]:
    rows = await stored(stores, owner, "usage")
    return [{**row, "cost_usd": float(row["cost_usd"])} for row in rows]


def assert_in_row(usage: StepUsage, kind: str, row: dict[str, Any]) -> None:
    assert not_shown(usage.usage, row) == set(NOT_IN_USAGE)
    assert not_shown(usage, {**row, "usage": usage.usage.model_dump(mode="json")}) == set()
    assert (row["run_id"], row["kind"]) == ("run", kind)


async def test_every_field_of_a_runs_usage_is_read_as_it_was_stored(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    usage = usage_of()
    await talk.save(*talk.chain(None, "q", "a"), usage=(usage,))
    [row] = await rows_of_usage(stores, owner)
    assert_in_row(usage, "run", row)


async def test_every_field_of_the_usage_of_a_run_that_went_on_is_read_as_it_is_now(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    messages, usage = talk.chain(None, "q", "a"), usage_of(LATER)
    await talk.save(*messages, usage=(usage_of(),))
    await talk.save(*messages, usage=(usage,))
    [row] = await rows_of_usage(stores, owner)
    assert_in_row(usage, "run", row)


async def test_every_field_of_usage_in_the_background_is_read_as_it_was_stored(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    usage = usage_of()
    query = talk.query(talk.message("q", None)).model_copy(update={"usage": (usage,)})
    await stores.threads.open_turn(query)
    [row] = await rows_of_usage(stores, owner)
    assert_in_row(usage, "background", row)


async def test_every_field_of_usage_is_in_the_sums_of_its_day(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    usage = usage_of()
    await talk.save(*talk.chain(None, "q", "a"), usage=(usage,))
    [day] = await stores.memory.usage_by_day(owner, None, None, None, 10)
    assert lost(usage.usage, day) == {"sub_agents"}
    facts = {"day": usage.at.date(), "agent": usage.agent, "model": usage.model, "kind": "run"}
    assert {name: getattr(day, name) for name in facts} == facts
    assert facts.keys() | Usage.model_fields.keys() - {"sub_agents"} == DayUsage.model_fields.keys()


# Runs that are over


@pytest.mark.parametrize("spent", [True, False])
async def test_every_field_of_a_past_run_is_read_as_it_was_saved(
    stores: Stores, owner: str, talk: Conversation, spent: bool
) -> None:
    await talk.say(None, "root")
    input, answer = message_of("m", "root"), message_of("n", "m", LATER)
    # Feedback is kept beside the run, and may come after its end.
    whole = {"input": input, "messages": (answer,), "text": "", "feedback": None}
    children = (filled(Run, LATER, feedback=None),)
    run = filled(Run, id="run", thread_id="thread", children=children, **whole)
    usage = (usage_of(),) if spent else ()
    await save(stores, talk.head(), input, answer, usage=usage, snapshot=tree_of(run))
    clock = ManualClock(START + timedelta(days=9_999))
    runtime = build_runtime(threads=stores.threads, memory=stores.memory, clock=clock)
    read = await past_run(runtime, owner, "run")
    assert read is not None
    missing = lost(run, read)
    assert {path for path in missing if path.rpartition(".")[2] not in NOT_IN_JSON} == set()


# Episodic memory


def entry_of(first: int = 1, **given: Any) -> NewEntry:
    own = {"agent": "support", "thread_id": "thread", "run_id": f"run {first}", "supersedes": ()}
    return filled(NewEntry, first, **{**own, **given})


async def learn(stores: Stores, owner: str, entry: NewEntry) -> None:
    about = {"thread_id": "thread", "agent": "support", "entries": (entry,)}
    extraction = Extraction(run_id=str(entry.run_id), **about)
    assert await stores.memory.record_extraction(owner, extraction)


def shown(entry: NewEntry, **changes: Any) -> MemoryEntry:
    return MemoryEntry.model_validate({**entry.model_dump(), **changes})


async def listed(stores: Stores, owner: str) -> FoundEntry:
    [entry] = await stores.memory.list_entries(owner, "support", 10, None)
    return entry


async def test_every_field_of_an_entry_is_read_as_it_was_stored(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "q")
    entry = entry_of()
    await learn(stores, owner, entry)
    assert lost(shown(entry), await listed(stores, owner)) == set()
    [row] = await stored(stores, owner, "entries")
    assert not_shown(shown(entry), row) == set()


async def test_every_field_of_an_entry_is_found(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "q")
    entry = entry_of()
    await learn(stores, owner, entry)
    asked = {"agent": "support", "text": entry.content, "model": entry.model}
    ranked = {"top_k": 5, "least_cosine": 0.1, "half_life": timedelta(days=9), "now": START}
    query = EntryQuery(**asked, **ranked, vector=entry.vector)
    [found] = (await stores.memory.find_entries(owner, query)).items
    assert lost(shown(entry), found) == set()
    assert None not in (found.score, found.text_score, found.vector_score)
    [known] = (await stores.memory.known_entries(owner, "support", [entry.id])).items
    assert lost(shown(entry), known) == set()


async def test_every_field_of_an_entry_that_is_vouched_for_later_is_read_as_it_is_now(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "q")
    first = entry_of()
    again = entry_of(LATER, hash=first.hash, verified=True)
    await learn(stores, owner, first)
    await learn(stores, owner, again)
    assert lost(shown(again, id=first.id), await listed(stores, owner)) == set()


async def test_every_field_of_a_corrected_entry_is_read_as_it_is_now(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "q")
    entry = entry_of(source="verified_assistant_finding")
    await learn(stores, owner, entry)
    correction = filled(EntryCorrection, LATER, id=entry.id)
    corrected = await stores.memory.correct_entry(owner, correction)
    said = {"content": correction.content, "evidence": correction.content}
    vouched = {"source": "user_assertion", "verified": True, "message_id": None}
    now = shown(entry, **said, **vouched, created_at=correction.at)
    assert lost(now, corrected) == set()
    assert lost(now, await listed(stores, owner)) == set()


async def test_every_field_of_a_restored_entry_is_read_as_it_was(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "q")
    entry = entry_of()
    await learn(stores, owner, entry)
    await learn(stores, owner, entry_of(LATER, supersedes=(entry.id,)))
    restored = await stores.memory.restore_entry(owner, entry.id)
    assert lost(shown(entry), restored) == set()


async def test_every_field_of_a_new_entry_is_a_column(
    stores: Stores, owner: str, talk: Conversation, postgres: TestPostgres
) -> None:
    if not isinstance(stores.threads, PostgresThreads):
        return  # The twin keeps the value itself.
    await talk.say(None, "q")
    old, entry = entry_of(LATER), entry_of(supersedes=("id 1000",))
    await learn(stores, owner, old)
    await learn(stores, owner, entry)
    with psycopg.connect(postgres.superuser, row_factory=psycopg.rows.dict_row) as connection:
        query = "select * from memory_entries where resource_id = %s order by created_at"
        row, superseded = connection.execute(query, [owner]).fetchall()
    vector = [round(n, 4) for n in entry.vector or ()]
    assert [round(float(n), 4) for n in row["embedding"].strip("[]").split(",")] == vector
    elsewhere = {"vector": "the column `embedding`", "supersedes": "a column of the older entry"}
    assert {n for n in NewEntry.model_fields if row.get(n) != getattr(entry, n)} == set(elsewhere)
    assert superseded["superseded_by"] == entry.id


# Notes and states


@pytest.mark.parametrize("kind", ["profile", "working"])
async def test_every_field_of_a_note_is_read_as_it_was_written(
    stores: Stores, owner: str, kind: str
) -> None:
    key = NoteKey(kind=kind, scope="resource", key="support")
    note = filled(Note, key=key, version=2)
    assert note.created_at is not None
    assert note.updated_at is not None
    await stores.memory.replace_note(owner, key, "another", note.created_at)
    write = await stores.memory.replace_note(owner, key, note.value, note.updated_at, note.run_id)
    assert lost(note, write.note) == set()
    assert await stores.memory.read_notes(owner, [key]) == (note,)
    [row] = await stored(stores, owner, "notes")
    internal = {"version": "a count of writes", "run_id": "who wrote it last"}
    assert not_shown(note, {**row, "key": key.model_dump()}) == set(internal)
    assert not_shown(key, row) == set()


async def test_every_field_of_a_threads_state_is_read_as_it_was_written(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "q")
    attempt = filled(LoggedAttempt, attempt=1)
    state = filled(ThreadState, version=4, attempts=(attempt,))
    another = filled(ThreadState, LATER)
    for version, each in enumerate((another, state)):
        extraction = Extraction(
            run_id=f"run {version}",
            thread_id="thread",
            at=START,
            session=each.session,
            session_said=each.session_said,
            state_version=version,
        )
        assert await stores.memory.record_extraction(owner, extraction)
    for each in (another, state):
        assert await stores.memory.write_plan(owner, "thread", each.plan, START)
    assert await stores.memory.log_attempt(owner, "thread", attempt, "id") == 1
    query = talk.query(talk.message("next", "q")).model_copy(update={"thread_state": True})
    for read in (
        await stores.memory.read_state(owner, "thread"),
        (await stores.threads.open_turn(query)).state,
    ):
        assert lost(state, read) == set()
    assert await stores.memory.attempts(owner, "thread") == (attempt,)
    [row] = await stored(stores, owner, "attempts")
    assert not_shown(attempt, row) == set()


# Compaction


NOT_EXPORTED = {
    "after_depth": "`through_message_id` tells its place",
    "through_depth": "likewise",
    "token_count": "an estimate for prompts",
    "left_out": "its thread has the messages",
    "taken": "likewise",
    "prompt_version": "of the product",
    "model": "of the deployment",
}
"""Fields of a generation that an export does not have."""


@pytest.mark.parametrize("kind", ["observations", "summary"])
async def test_every_field_of_a_generation_is_read_as_it_was_stored(
    stores: Stores, owner: str, talk: Conversation, kind: str
) -> None:
    await talk.say(None, "root", "a", "b")
    ends = {"after_message_id": "root", "through_message_id": "b"}
    new = filled(NewGeneration, kind=kind, **ends)
    memory = stores.memory
    made = (
        await memory.add_slice(owner, "thread", new, "run")
        if kind == "observations"
        else await memory.replace(owner, "thread", new, None, "run")
    )
    place = {"number": 1, "after_depth": 0, "through_depth": 2, "active": kind == "summary"}
    given = {**dict(new), "created_at": new.at, **place}
    assert lost(Generation.model_validate(given), made) == set()
    assert [g for g, _ in await memory.observations(owner, "thread", "b")] == [made]
    [row] = await stored(stores, owner, "generations")
    assert made is not None
    assert not_shown(made, row) == set(NOT_EXPORTED)


async def test_every_field_of_a_generation_is_in_what_a_prompt_shows(
    stores: Stores, owner: str, talk: Conversation
) -> None:
    await talk.say(None, "root", "a", "b")
    shown = filled(
        NewGeneration, kind="observations", after_message_id=None, through_message_id="a"
    )
    ahead = filled(
        NewGeneration, LATER, kind="observations", after_message_id="a", through_message_id="b"
    )
    memory = stores.memory
    first = await memory.add_slice(owner, "thread", shown, "run")
    second = await memory.add_slice(owner, "thread", ahead, "run")
    assert first is not None
    assert await memory.activate(owner, "thread", [first.number], None)
    compacted = await memory.compacted(owner, "thread", "b", "observations")
    assert compacted.generation == first.model_copy(update={"active": True})
    assert compacted.observations == shown.observations
    assert compacted.slices == (second,)
