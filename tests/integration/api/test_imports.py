"""What other systems know, taken over: entries of memory, and threads with their messages."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from integration.api.kit import Api
from layover import Agent, EpisodicMemory, Memory, SemanticRecall
from layover.errors import DatabaseWaking, ModelError
from layover.ports import DayUse, NoAllowance
from layover.retention.expire import expire
from layover.testing import HashingEmbedder
from layover.values.deployment.settings import Settings
from layover.values.memory.context import RecallQuery
from layover.values.thread import ThreadHead
from support.worlds.services import ANN, BOB, SleepingThreads

FACT = "The left pump makes 4 bar since the repair"
WORDS = "since the repair the left pump makes 4 bar again"
RECALLS = Memory(semantic_recall=SemanticRecall(scope="resource"))
ENTRIES = "/memory/entries?agent=support"
TALK = [
    {
        "role": "user",
        "content": "Where is the key of the cellar?",
        "created_at": "2024-03-01T09:00:00Z",
    },
    {
        "role": "assistant",
        "content": "It hangs behind the fridge.",
        "created_at": "2024-03-01T09:00:05Z",
    },
]


def put(api: Api, content: str = FACT, **fields: Any) -> Any:
    return api.send("POST", "/memory/entries", {"agent": "support", "content": content, **fields})


def talk(api: Api, messages: Any = TALK, **fields: Any) -> Any:
    return api.send("POST", "/threads", {"agent": "support", "messages": messages, **fields})


def embed(api: Api, embedder: HashingEmbedder) -> None:
    api.world.runtime = replace(api.world.runtime, embedder=embedder)


def texts(api: Api, thread_id: str) -> list[str]:
    items = api.get(f"/threads/{thread_id}/messages?limit=100").json["items"]
    return ["".join(part["text"] for part in item["content"]) for item in items]


def entries(api: Api, url: str = ENTRIES, sub: str = ANN) -> list[str]:
    return [item["content"] for item in api.get(url, sub=sub).json["items"]]


# Entries


@pytest.mark.parametrize(
    "fields",
    [
        {"content": ""},
        {"content": " ... "},
        {"content": "x" * 2_001},
        {"evidence": "?"},
        {"evidence": "x" * 2_001},
        {"said_at": "2026-01-01T00:02:00Z"},
        {"said_at": "1969-12-31T23:59:59Z"},
        {"said_at": "0001-01-01T00:00:00+14:00"},
        {"said_at": 1_700_000_000},
        {"said_at": "2025-01-01T00:00:00"},
        {"source": "user_assertion"},
        {"verified": True},
    ],
)
def test_what_cannot_be_an_entry_is_refused_and_nothing_is_stored(
    api: Api, fields: dict[str, Any]
) -> None:
    put(api, **{"content": FACT, **fields}).problem(422, "invalid-request")
    assert entries(api) == []


def test_an_entry_of_an_unknown_agent_is_refused(api: Api) -> None:
    put(api, agent="nobody").problem(422, "unknown-agent")


def test_the_database_may_sleep_and_then_nothing_is_stored(api: Api) -> None:
    class Asleep:
        def __getattr__(self, name: str) -> Any:
            raise DatabaseWaking("the database is waking up")

    awake = api.world.runtime
    api.world.runtime = replace(awake, memory=Asleep())
    put(api).problem(503, "database-waking")
    api.world.runtime = awake
    assert entries(api) == []


def test_an_entry_without_evidence_is_imported_and_unverified(api: Api) -> None:
    answer = put(api, said_at="2024-05-01T12:00:00+02:00")
    assert answer.status == 201, answer.body
    entry = answer.json
    assert (entry["source"], entry["verified"], entry["evidence"]) == ("imported", False, FACT)
    assert (entry["thread_id"], entry["message_id"]) == (None, None)
    assert entry["said_at"] == entry["created_at"] == "2024-05-01T10:00:00.000000Z"
    assert entries(api) == [FACT]
    assert entries(api, sub=BOB) == []
    assert entries(api, "/memory/entries?agent=plain") == []


@pytest.mark.parametrize(
    ("evidence", "verified"),
    [
        (WORDS, True),
        ("it makes 5 bar since the repair, the left one", False),
        ("4 bar", False),
    ],
)
def test_evidence_verifies_only_what_it_says(api: Api, evidence: str, verified: bool) -> None:
    entry = put(api, evidence=evidence).json
    assert (entry["verified"], entry["evidence"]) == (verified, evidence)


def test_the_same_import_twice_is_one_entry_however_it_is_written(api: Api) -> None:
    first, again = put(api), put(api, FACT.upper() + " ")
    assert (first.status, again.status) == (201, 200)
    assert again.json["id"] == first.json["id"]
    assert entries(api) == [FACT]


def test_evidence_that_comes_later_vouches_for_what_is_stored(api: Api) -> None:
    put(api)
    better = put(api, evidence=WORDS)
    assert better.status == 201
    [entry] = api.get(ENTRIES).json["items"]
    assert (entry["verified"], entry["evidence"]) == (True, WORDS)


def test_a_corrected_entry_does_not_stand_in_the_way_of_its_former_words(api: Api) -> None:
    entry = put(api).json
    other = "Prefers mail to the phone, always"
    assert api.send("PATCH", f"/memory/entries/{entry['id']}", {"content": other}).status == 200
    assert put(api).status == 201
    assert sorted(entries(api)) == sorted([FACT, other])


def test_an_import_replaces_nothing_and_the_newer_is_listed_first(api: Api) -> None:
    old, new = "The office is open until 17 o'clock", "The office is open until 19 o'clock"
    said = {old: "2024-01-01T00:00:00Z", new: "2025-01-01T00:00:00Z"}
    for content in (new, old):
        answer = put(api, content, evidence=f"I say: {content}, every day", said_at=said[content])
        assert (answer.status, answer.json["content"]) == (201, content)
    assert entries(api) == [new, old]


def test_secrets_are_redacted(api: Api) -> None:
    entry = put(api, "The door opens with password=hunter2hunter2").json
    assert "hunter2" not in str(entry)


def test_an_agent_that_keeps_nothing_unverified_takes_only_what_has_evidence(api: Api) -> None:
    memory = Memory(episodic=EpisodicMemory(assistant_evidence="refuse"))
    api.world.agents["strict"] = Agent("strict", memory=memory)
    problem = put(api, agent="strict").problem(422, "invalid-request")
    assert problem["errors"][0]["loc"] == ["body", "evidence"]
    assert put(api, agent="strict", evidence=WORDS).status == 201


class Spy(HashingEmbedder):
    """An embedder that counts its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def embed(self, texts: Any) -> Any:
        self.asked += 1
        return await super().embed(texts)


class Broken(HashingEmbedder):
    """An embedder that fails."""

    async def embed(self, texts: Any) -> Any:
        raise ModelError("down")


def test_an_entry_gets_its_vector_at_once_and_without_an_embedder_words_find_it(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    embed(api, Spy())
    put(api)
    [found] = api.get(f"{ENTRIES}&query=left pump").json["items"]
    assert found["vector_score"] is not None
    embed(api, Broken())
    with caplog.at_level(logging.WARNING):
        assert put(api, "The cellar is dry in winter").status == 201
    assert "without a vector" in caplog.text
    assert entries(api, f"{ENTRIES}&query=cellar") == ["The cellar is dry in winter"]


class Stopped(NoAllowance):
    """The operator has stopped the system."""

    async def stopped(self) -> bool:
        return True


class UsedUp(NoAllowance):
    """Every user has spent 10 tokens today."""

    async def used(self, owner: str) -> DayUse:
        return DayUse(10)


@pytest.mark.parametrize("allowance", [Stopped(), UsedUp()])
def test_nothing_is_embedded_for_a_user_who_may_spend_nothing(
    api: Api, allowance: NoAllowance
) -> None:
    settings = Settings(daily_tokens=10)
    spy = Spy()
    api.world.agents["recalls"] = Agent("recalls", memory=RECALLS)
    api.world.runtime = replace(
        api.world.runtime, embedder=spy, allowance=allowance, settings=settings
    )
    assert put(api).status == talk(api, agent="recalls").status == 201
    assert spy.asked == 0


def test_an_entry_that_would_be_expired_is_refused_and_others_expire_by_their_own_time(
    api: Api,
) -> None:
    settings = Settings(entry_retention=timedelta(days=30))
    api.world.runtime = replace(api.world.runtime, settings=settings)
    put(api, said_at="2025-11-30T00:00:00Z").problem(422, "invalid-request")
    assert put(api, said_at="2025-12-20T00:00:00Z").status == 201
    api.world.clock.advance(timedelta(days=20))

    async def sweep() -> None:
        end = asyncio.get_running_loop().time() + 60
        await expire(api.world.runtime, api.world.clock.now(), end)

    api.do(sweep())
    assert entries(api) == []


def test_the_export_has_imported_entries_and_an_erasure_takes_them(api: Api) -> None:
    put(api, said_at="2024-05-01T00:00:00Z")
    [exported] = api.get("/me/export").json["entries"]
    assert (exported["source"], exported["thread_id"]) == ("imported", None)
    assert api.send("DELETE", "/me").status == 202
    assert entries(api) == []


# Threads


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "Obey."}],
        [{"role": "tool", "content": "42"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": [{"type": "text", "text": ""}]}],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": [{"type": "file", "url": "https://a.example/x.png"}]}],
        [{"role": "user", "content": "Hi", "created_at": "2026-01-01T00:02:00Z"}],
        [{"role": "user", "content": "Hi", "created_at": "1960-01-01T00:00:00Z"}],
        [{"role": "user", "content": "Hi", "id": "m1"}],
        [*TALK, {"role": "user", "content": "Ah.", "created_at": "2024-03-01T09:00:04Z"}],
        [{"role": "user", "content": "Hi"}] * 501,
    ],
)
def test_messages_that_no_import_takes_are_refused_and_no_thread_is_made(
    api: Api, messages: list[Any]
) -> None:
    talk(api, messages).problem(422, "invalid-request")
    assert api.get("/threads").json["items"] == []


@pytest.mark.parametrize(
    "fields",
    [
        {"external_id": ""},
        {"external_id": "x" * 256},
        {"external_id": "thread_unknown"},
        {"external_id": "thread_\n"},
        {"offset": -1},
        {"offset": "0"},
        {"offset": 1_000_001},
    ],
)
def test_places_that_no_import_has_are_refused(api: Api, fields: dict[str, Any]) -> None:
    talk(api, **fields).problem(422, "invalid-request")
    assert api.get("/threads").json["items"] == []


def test_messages_above_256_kb_are_too_large(api: Api) -> None:
    half = {"role": "user", "content": "x" * 131_072}
    talk(api, [half, half]).problem(413, "too-large")
    assert talk(api, [half]).status == 201


def test_anothers_thread_is_as_unknown_as_none(api: Api) -> None:
    mine = talk(api).json["id"]
    body = {"agent": "support", "messages": TALK, "external_id": mine, "offset": 2}
    api.send("POST", "/threads", body, sub=BOB).problem(422, "invalid-request")
    assert len(texts(api, mine)) == 2


def test_a_conversation_is_a_thread_with_its_own_times_and_words(api: Api) -> None:
    answer = talk(api, title="The cellar", metadata={"from": "elsewhere"})
    assert answer.status == 201, answer.body
    thread = answer.json
    assert answer.headers["location"] == f"/threads/{thread['id']}"
    assert (thread["title"], thread["metadata"]) == ("The cellar", {"from": "elsewhere"})
    user, assistant = api.get(f"/threads/{thread['id']}/messages").json["items"]
    assert (user["role"], assistant["role"]) == ("user", "assistant")
    assert user["created_at"] == "2024-03-01T09:00:00.000000Z"
    assert (user["run_id"], user["parent_id"]) == (None, None)
    assert assistant["parent_id"] == user["id"]
    assert [t["id"] for t in api.get("/threads").json["items"]] == [thread["id"]]
    assert api.get("/threads", sub=BOB).json["items"] == []


def test_messages_without_times_come_right_behind_those_before_them(api: Api) -> None:
    same = [{**each, "created_at": "2024-03-01T09:00:00Z"} for each in TALK]
    id = talk(api, [*same, {"role": "user", "content": "Thanks."}]).json["id"]
    times = [item["created_at"] for item in api.get(f"/threads/{id}/messages").json["items"]]
    assert times == [f"2024-03-01T09:00:00.00000{n}Z" for n in (0, 1, 2)]


def test_the_next_run_goes_on_behind_the_imported_messages(api: Api) -> None:
    id = talk(api).json["id"]
    run = api.do(api.world.run(id, "And the spare key?"))
    api.do(api.world.finish(run.id, "In the drawer."))
    said = [each["content"] for each in TALK]
    assert texts(api, id) == [*said, "And the spare key?", "In the drawer."]


def test_the_same_import_twice_is_one_thread(api: Api) -> None:
    first, again = talk(api), talk(api)
    assert (first.status, again.status) == (201, 200)
    assert again.json["id"] == first.json["id"]
    assert len(texts(api, first.json["id"])) == 2
    assert talk(api, TALK[:1]).json["id"] != first.json["id"]


def test_an_external_id_is_one_thread_and_the_chat_of_this_id(api: Api) -> None:
    id = talk(api, external_id="c-17").json["id"]
    assert talk(api, external_id="c-17").json["id"] == id
    page = api.get("/chat/support/c-17/messages").json["items"]
    said = [p["text"] for item in page for p in item["parts"] if p["type"] == "text"]
    assert said == [each["content"] for each in TALK]
    body = {"agent": "support", "messages": TALK, "external_id": "c-17"}
    assert api.send("POST", "/threads", body, sub=BOB).json["id"] != id


def test_a_long_conversation_comes_in_several_requests_each_of_which_may_be_repeated(
    api: Api,
) -> None:
    parts = [[{"role": "user", "content": f"{n}.{m}"} for m in range(3)] for n in range(3)]
    for n, part in enumerate(parts):
        for _ in range(2):
            answer = talk(api, part, external_id="long", offset=3 * n)
            assert answer.status in (200, 201)
    id = answer.json["id"]
    said = [each["content"] for part in parts for each in part]
    assert texts(api, id) == said
    # Also a part that others follow, and after the thread has gone on.
    assert talk(api, parts[0], external_id="long").status == 200
    run = api.do(api.world.run(id, "And now?"))
    assert talk(api, parts[2], external_id="long", offset=6).status == 200
    api.do(api.world.finish(run.id, "Now."))
    assert talk(api, parts[1], external_id=id, offset=3).status == 200
    assert texts(api, id) == [*said, "And now?", "Now."]


def test_messages_that_follow_nothing_are_refused(api: Api) -> None:
    talk(api, external_id="c", offset=2).problem(409, "conflict")
    id = talk(api, external_id="c").json["id"]
    talk(api, external_id="c", offset=3).problem(409, "conflict")
    other = [{"role": "user", "content": "Something else."}]
    talk(api, other, external_id="c").problem(409, "conflict")
    talk(api, other, external_id="c", offset=1).problem(409, "conflict")
    early = [{"role": "user", "content": "Hm", "created_at": "2024-03-01T09:00:04Z"}]
    talk(api, early, external_id="c", offset=2).problem(422, "invalid-request")
    assert len(texts(api, id)) == 2


def test_nothing_is_added_behind_a_run(api: Api) -> None:
    id = talk(api, external_id="c").json["id"]
    more = [{"role": "user", "content": "More."}]
    run = api.do(api.world.run(id, "And the spare key?"))
    problem = talk(api, more, external_id="c", offset=2).problem(409, "thread-busy")
    assert problem["active_run"] == run.id
    api.do(api.world.finish(run.id, "In the drawer."))
    talk(api, more, external_id="c", offset=2).problem(409, "conflict")
    assert "More." not in texts(api, id)


def test_another_agents_conversation_and_a_deleted_one_are_conflicts(api: Api) -> None:
    id = talk(api, external_id="c").json["id"]
    talk(api, external_id="c", agent="plain").problem(409, "conflict")
    assert api.send("DELETE", f"/threads/{id}").status == 204
    talk(api, external_id="c").problem(409, "conflict")
    assert talk(api, external_id="c2").status == 201


def test_a_sleeping_database_leaves_no_thread(api: Api) -> None:
    threads: SleepingThreads = api.world.threads
    threads.asleep = True
    talk(api, external_id="c").problem(503, "database-waking")
    assert api.get("/threads").json["items"] == []
    threads.asleep = False
    assert talk(api, external_id="c").status == 201


def test_a_thread_whose_process_died_before_its_head_is_made_by_the_sweeper(api: Api) -> None:
    assert api.get("/threads").json["items"] == []  # the journal knows all from now on
    world = api.world
    journal = world.runtime.journal
    put_head = journal.heads.put

    async def die(head: ThreadHead) -> None:
        raise SystemExit

    journal.heads.put = die  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        talk(api, external_id="c")
    journal.heads.put = put_head  # type: ignore[method-assign]
    assert api.get("/threads").json["items"] == []
    world.clock.advance(timedelta(hours=1))

    async def sweep() -> None:
        end = asyncio.get_running_loop().time() + 60
        await expire(world.runtime, world.clock.now(), end)

    api.do(sweep())
    [thread] = api.get("/threads").json["items"]
    assert len(texts(api, thread["id"])) == 2
    assert talk(api, external_id="c").status == 200


def recall(api: Api, text: str) -> list[str]:
    query = RecallQuery(
        agent="recalls", text=text, now=api.world.clock.now(), top_k=1, before=0, after=0
    )
    found = api.do(api.world.runtime.memory.recall(ANN, query))
    return [each.message.text for each in found if each.match]


@pytest.mark.parametrize("embedder", [Spy, Broken])
def test_recall_finds_imported_messages_at_once_by_words_if_the_embedder_fails(
    api: Api, embedder: type[HashingEmbedder], caplog: pytest.LogCaptureFixture
) -> None:
    api.world.agents["recalls"] = Agent("recalls", memory=RECALLS)
    embed(api, embedder())
    assert talk(api, agent="recalls").status == 201
    assert recall(api, "cellar key") == [TALK[0]["content"]]


def test_the_export_has_an_imported_thread_and_its_deletion_takes_all_of_it(api: Api) -> None:
    id = talk(api).json["id"]
    [exported] = api.get("/me/export").json["threads"]
    assert [m["created_at"] for m in exported["messages"]] == [
        "2024-03-01T09:00:00.000000Z",
        "2024-03-01T09:00:05.000000Z",
    ]
    assert api.send("DELETE", f"/threads/{id}").status == 204
    assert api.get(f"/threads/{id}").status == 404
    assert api.get("/me/export").json["threads"] == []


def test_a_backend_imports_for_the_user_that_it_names_and_nobody_else_does(api: Api) -> None:
    body = {"agent": "support", "messages": TALK}
    headers = {"X-Layover-Resource": BOB}
    entry = {"agent": "support", "content": FACT}
    for url, sent in (("/threads", body), ("/memory/entries", entry)):
        assert api.send("POST", url, sent, headers=headers).status == 403
        scope = "openid layover/use layover/act-as"
        assert api.send("POST", url, sent, headers=headers, scope=scope).status == 201
    assert entries(api, sub=BOB) == [FACT]
    assert len(api.get("/threads", sub=BOB).json["items"]) == 1
    assert entries(api) == api.get("/threads").json["items"] == []


def test_a_part_whose_process_died_before_it_was_seen_is_whole_once_it_is_repeated(
    api: Api,
) -> None:
    id = talk(api, external_id="c").json["id"]
    heads = api.world.runtime.journal.heads
    advance = heads.advance

    async def die(*_: Any) -> None:
        raise SystemExit

    more = [{"role": "user", "content": "More."}, {"role": "assistant", "content": "Even more."}]
    heads.advance = die  # type: ignore[method-assign, assignment]
    with pytest.raises(SystemExit):
        talk(api, more, external_id="c", offset=2)
    heads.advance = advance  # type: ignore[method-assign]
    assert len(texts(api, id)) == 2
    assert talk(api, more, external_id="c", offset=2).status == 200
    assert texts(api, id)[2:] == ["More.", "Even more."]
