"""All that a database has of one owner: read out, forgotten, expired. In memory and on Postgres."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from layover.ports.memory.personal import StoredKind
from layover.values.memory.context import Extraction, LoggedAttempt, StepUsage
from layover.values.memory.entry import NewEntry
from layover.values.note import NoteKey
from layover.values.runs.usage import DayUsage, Usage
from support.worlds.threads import START, Conversation, Stores

SECOND = timedelta(seconds=1)
PROFILE = NoteKey(kind="profile", scope="resource", key="support")
NOTES = NoteKey(kind="working", scope="resource", key="support")
KINDS: tuple[StoredKind, ...] = ("messages", "attempts", "entries", "notes", "usage")


def entry(id: str, thread: str, at: int) -> NewEntry:
    return NewEntry(
        id=id,
        agent="support",
        content=f"content of {id}",
        source="user_assertion",
        evidence=f"evidence of {id}",
        created_at=START + SECOND * at,
        thread_id=thread,
        hash=id,
    )


async def lived(stores: Stores, owner: str, id: str = "thread", at: int = 0) -> Conversation:
    """A thread of two messages that taught an entry and a profile, cost something, and has a log."""
    times = {"created_at": START + SECOND * at, "updated_at": START + SECOND * at}
    talk = Conversation(stores.threads, owner, id=id, head_fields=times, made=at)
    await talk.say(None, f"q {id}", f"a {id}")
    attempt = LoggedAttempt(task="build", action="make", created_at=START + SECOND * at)
    await stores.memory.log_attempt(owner, id, attempt, f"attempt {id}")
    row = StepUsage(
        step="extractor",
        agent="support",
        model="m",
        usage=Usage(input_tokens=3, output_tokens=1),
        at=START + SECOND * at,
    )
    learned = Extraction(
        run_id=f"run of {id}",
        thread_id=id,
        agent="support",
        said_at=START + SECOND * at,
        at=START + SECOND * at,
        profile={"name": "Ada"},
        entries=(entry(f"entry of {id}", id, at),),
        usage=(row,),
    )
    assert await stores.memory.record_extraction(owner, learned)
    return talk


async def all_of(
    stores: Stores, owner: str, kind: StoredKind, thread: str = "thread", limit: int = 1
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = await stores.memory.list_stored(owner, kind, cursor, limit, thread)
        found += page.items
        if (cursor := page.next_cursor) is None:
            return found


async def test_everything_is_read_out_a_page_at_a_time(thread_stores: Stores, owner: str) -> None:
    await lived(thread_stores, owner)
    read = {kind: await all_of(thread_stores, owner, kind) for kind in KINDS}
    assert [(m["id"], m["parent_id"]) for m in read["messages"]] == [
        ("q thread", None),
        ("a thread", "q thread"),
    ]
    assert read["messages"][0]["content"][0]["text"] == "text of q thread"
    assert read["messages"][0]["created_at"].endswith(".000000Z")
    [learned] = read["entries"]
    assert (learned["evidence"], learned["superseded_by"]) == ("evidence of entry of thread", None)
    [profile] = read["notes"]
    assert (profile["kind"], profile["value"]) == ("profile", {"name": "Ada"})
    assert [a["action"] for a in read["attempts"]] == ["make"]
    assert [(u["step"], u["input_tokens"]) for u in read["usage"]] == [("extractor", 3)]


async def test_branches_are_read_out_whole_and_once(thread_stores: Stores, owner: str) -> None:
    talk = Conversation(thread_stores.threads, owner)
    await talk.say(None, "q1", "a1")
    await talk.say("q1", "a2")
    await talk.say(None, "other root")
    for limit in (1, 2, 100):
        read = await all_of(thread_stores, owner, "messages", limit=limit)
        assert sorted(m["id"] for m in read) == ["a1", "a2", "other root", "q1"]


async def test_another_owner_reads_nothing_and_forgets_nothing(
    thread_stores: Stores, owner: str
) -> None:
    await lived(thread_stores, owner)
    stranger = f"{owner}-stranger"
    late = START + timedelta(days=1)
    await thread_stores.memory.forget(stranger, late, late)
    await thread_stores.memory.drop(stranger, late)
    assert await thread_stores.memory.expire_entries(stranger, late) is None
    for kind in KINDS:
        assert await all_of(thread_stores, stranger, kind) == []
        assert await all_of(thread_stores, owner, kind) != []


async def test_a_forgotten_user_has_nothing_left_but_what_came_later(
    thread_stores: Stores, owner: str
) -> None:
    await lived(thread_stores, owner, "old", 0)
    until = START + SECOND * 60
    await thread_stores.memory.replace_note(owner, NOTES, "old notes", START)
    for _ in range(2):
        await thread_stores.memory.forget(owner, until, until + SECOND)
        head = await thread_stores.threads.head(owner, "old")
        assert head is not None
        assert head.deleted
        for kind in ("entries", "notes", "usage"):
            assert await all_of(thread_stores, owner, kind, "old") == []
    await lived(thread_stores, owner, "new", 120)
    await thread_stores.threads.erase(owner, "old")
    await thread_stores.memory.forget(owner, until, until + SECOND)
    while await thread_stores.memory.drop(owner, until):
        pass
    assert await thread_stores.threads.head(owner, "old") is None
    assert await all_of(thread_stores, owner, "messages", "old") == []
    assert [h.id for h in await thread_stores.threads.heads(owner)] == ["new"]
    for kind in KINDS:
        assert len(await all_of(thread_stores, owner, kind, "new")) == (
            2 if kind == "messages" else 1
        )


async def test_what_a_late_turn_would_save_or_teach_is_dropped(
    thread_stores: Stores, owner: str
) -> None:
    talk = await lived(thread_stores, owner)
    until = START + SECOND * 60
    await thread_stores.memory.forget(owner, until, until)
    await talk.say("a thread", "late")
    late = Extraction(
        run_id="late run",
        thread_id="thread",
        agent="support",
        said_at=until + SECOND,
        at=until + SECOND,
        profile={"name": "Eve"},
        entries=(entry("late", "thread", 61),),
    )
    assert not await thread_stores.memory.record_extraction(owner, late)
    assert await all_of(thread_stores, owner, "notes") == []
    assert await all_of(thread_stores, owner, "entries") == []


async def test_notes_that_a_tool_wrote_a_moment_too_late_go_and_others_stay(
    thread_stores: Stores, owner: str
) -> None:
    await lived(thread_stores, owner)
    until = START + SECOND * 60
    await thread_stores.memory.forget(owner, until, until + SECOND * 2)
    write = thread_stores.memory.replace_note
    await write(owner, NOTES, "by a run that is gone", until + SECOND, "gone")
    await write(owner, PROFILE, {"by": "the owner"}, until + SECOND)
    await thread_stores.memory.forget(owner, until, until + SECOND * 2)
    assert [n["value"] for n in await all_of(thread_stores, owner, "notes")] == [
        {"by": "the owner"}
    ]


async def test_entries_that_are_too_old_go_and_the_oldest_that_is_left_is_told(
    thread_stores: Stores, owner: str
) -> None:
    await lived(thread_stores, owner, "one", 0)
    await lived(thread_stores, owner, "two", 100)
    expire = thread_stores.memory.expire_entries
    assert await expire(owner, START) == START
    assert await expire(owner, START + SECOND) == START + SECOND * 100
    assert [e["id"] for e in await all_of(thread_stores, owner, "entries")] == ["entry of two"]
    assert await expire(owner, START + timedelta(days=1)) is None


def row(step: str, hours: int, cost: str | None = "0.1", **fields: Any) -> StepUsage:
    usage = Usage(
        input_tokens=3,
        output_tokens=2,
        cached_input_tokens=1,
        cache_write_input_tokens=5,
        reasoning_tokens=4,
        cost_usd=None if cost is None else Decimal(cost),
    )
    about = {"agent": "support", "model": "m", **fields}
    return StepUsage(step=step, usage=usage, at=START + timedelta(hours=hours), **about)


async def spent_by_day(
    stores: Stores, owner: str, since: date | None = None, until: date | None = None
) -> list[DayUsage]:
    """Row by row."""
    found: list[DayUsage] = []
    after: list[str] | None = None
    while rows := await stores.memory.usage_by_day(owner, since, until, after, 1):
        assert len(rows) == 1
        found += rows
        last = rows[0]
        after = [str(last.day), last.agent, last.model, last.kind]
    return found


async def test_usage_is_summed_by_utc_day_agent_model_and_kind(
    thread_stores: Stores, owner: str
) -> None:
    talk = Conversation(thread_stores.threads, owner)
    usage = (
        row("a", 0),
        row("b", 23),
        row("c", 24, None),
        row("d", 24),
        row("e", 24, agent="Zoe"),
        row("f", 24, agent="Zoe", model="a"),
    )
    await talk.save(*talk.chain(None, "q", "a"), usage=usage)
    await lived(thread_stores, owner, "learned", 24 * 3600)
    found = await spent_by_day(thread_stores, owner)
    first, second = date(2026, 1, 1), date(2026, 1, 2)
    assert [(r.day, r.agent, r.model, r.kind, r.input_tokens, r.cost_usd) for r in found] == [
        (second, "Zoe", "a", "run", 3, Decimal("0.1")),
        (second, "Zoe", "m", "run", 3, Decimal("0.1")),
        (second, "support", "m", "background", 3, None),
        (second, "support", "m", "run", 6, None),
        (first, "support", "m", "run", 6, Decimal("0.2")),
    ]
    counts = found[-1].model_dump(include={n for n in DayUsage.model_fields if "tokens" in n})
    assert counts == {
        "input_tokens": 6,
        "output_tokens": 4,
        "cached_input_tokens": 2,
        "cache_write_input_tokens": 10,
        "reasoning_tokens": 8,
    }
    assert await spent_by_day(thread_stores, owner, since=second) == found[:4]
    assert await spent_by_day(thread_stores, owner, until=first) == found[4:]
    assert await spent_by_day(thread_stores, owner, first, second) == found
    assert await spent_by_day(thread_stores, f"{owner}-stranger") == []
