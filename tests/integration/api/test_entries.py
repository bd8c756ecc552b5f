"""Entries of episodic memory, as their owner sees them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from integration.api.kit import Api
from layover.errors import DatabaseWaking, ModelError
from layover.plugins.memory.learns.rules import hash_of
from layover.testing import HashingEmbedder
from layover.values.cursor import encode_cursor
from layover.values.memory.context import Extraction
from layover.values.memory.entry import EntryQuery, FoundEntries, NewEntry
from support.worlds.services import ANN, BOB

ENTRIES = "/memory/entries?agent=support"


def learn(api: Api, *contents: str, owner: str = ANN, agent: str = "support") -> str:
    """A run of a new thread that taught these; the thread's id."""

    async def make() -> str:
        world = api.world
        thread = await world.thread(ANN)
        run = await world.run(thread.id)
        await world.finish(run.id)
        made = []
        for content in contents:
            world.clock.advance(timedelta(seconds=1))
            made.append(
                NewEntry(
                    id=f"ent_{hash_of(content)[:8]}",
                    agent=agent,
                    content=content,
                    source="user_assertion",
                    evidence=content,
                    created_at=world.clock.now(),
                    thread_id=thread.id,
                    message_id=run.id,
                    hash=hash_of(content),
                    vector=tuple((await HashingEmbedder().embed([content])).vectors[0]),
                    model=HashingEmbedder().model,
                )
            )
        found = Extraction(run_id=run.id, thread_id=thread.id, agent=agent, entries=tuple(made))
        assert await world.runtime.memory.record_extraction(owner, found)
        return thread.id

    return api.do(make())


def contents(api: Api, url: str = ENTRIES, **options: Any) -> list[str]:
    return [item["content"] for item in api.get(url, **options).json["items"]]


class Asleep:
    """A store of memory that was just woken."""

    def __getattr__(self, name: str) -> Any:
        async def ask(*args: Any, **kwargs: Any) -> Any:
            raise DatabaseWaking("the database is waking up")

        return ask


class Endless:
    """A store of memory whose searches find the same again and again."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    async def find_entries(self, owner: str, query: EntryQuery) -> FoundEntries:
        found: FoundEntries = await self._memory.find_entries(
            owner, query.model_copy(update={"skip": 0})
        )
        return found


def test_nobody_reads_without_a_token(api: Api) -> None:
    assert api.get(ENTRIES, sub=None).status == 401
    assert api.send("DELETE", "/memory/entries/x", sub=None).status == 401
    assert api.send("POST", "/memory/entries/x/restore", sub=None).status == 401


@pytest.mark.parametrize(
    ("method", "url"),
    [
        *(("GET", ENTRIES), ("GET", f"{ENTRIES}&query=x")),
        *(("DELETE", "/memory/entries/x"), ("PATCH", "/memory/entries/x")),
        ("POST", "/memory/entries/x/restore"),
    ],
)
def test_a_sleeping_database_is_told(api: Api, method: str, url: str) -> None:
    api.world.runtime = replace(api.world.runtime, memory=Asleep())
    body = {"content": "so it is"} if method == "PATCH" else None
    assert api.send(method, url, body).problem(503, "database-waking")


@pytest.mark.parametrize("content", ["", " .,- ", "x" * 2001, 5, None])
def test_a_correction_says_something_that_is_short_enough(api: Api, content: Any) -> None:
    learn(api, "the disk is full")
    [entry] = api.get(ENTRIES).json["items"]
    url = f"/memory/entries/{entry['id']}"
    api.send("PATCH", url, {"content": content}).problem(422, "invalid-request")
    assert api.get(ENTRIES).json["items"] == [entry]


def test_nobody_corrects_what_is_not_theirs_or_not_there(api: Api) -> None:
    learn(api, "the disk is full")
    [entry] = api.get(ENTRIES).json["items"]
    for url, sub in ((f"/memory/entries/{entry['id']}", BOB), ("/memory/entries/x", ANN)):
        api.send("PATCH", url, {"content": "it is empty"}, sub=sub).problem(404, "not-found")
    assert api.get(ENTRIES).json["items"] == [entry]


def test_a_correction_that_says_what_is_known_already_is_refused(api: Api) -> None:
    learn(api, "the disk is full", "the fan is loud")
    full = api.get(ENTRIES).json["items"][1]
    url = f"/memory/entries/{full['id']}"
    api.send("PATCH", url, {"content": "The fan  is LOUD"}).problem(409, "conflict")
    assert api.send("PATCH", url, {"content": "The disk is FULL"}).status == 200


def test_a_corrected_entry_says_what_its_owner_says_and_is_found_by_that(api: Api) -> None:
    api.world.runtime = replace(api.world.runtime, embedder=HashingEmbedder())
    thread = learn(api, "the disk is full")
    [before] = api.get(ENTRIES).json["items"]
    api.world.clock.advance(timedelta(hours=1))
    said = {"content": "  the fan of shop-7\nis broken, password: hunter2 "}
    answer = api.send("PATCH", f"/memory/entries/{before['id']}", said)
    entry = answer.json
    assert answer.status == 200
    assert (entry["id"], entry["thread_id"], entry["message_id"]) == (before["id"], thread, None)
    assert "hunter2" not in answer.body
    assert entry["content"].startswith("the fan of shop-7 is broken")
    assert entry["evidence"] == entry["content"]
    assert (entry["source"], entry["verified"]) == ("user_assertion", True)
    assert entry["created_at"] > before["created_at"]
    assert api.get(ENTRIES).json["items"] == [entry]
    assert contents(api, f"{ENTRIES}&query=disk") == []
    [found] = api.get(f"{ENTRIES}&query=fan").json["items"]
    assert found["vector_score"] is not None


def test_entries_belong_to_an_agent_that_is_there(api: Api) -> None:
    assert api.get("/memory/entries").status == 422
    problem = api.get("/memory/entries?agent=nobody").problem(422, "unknown-agent")
    assert problem["errors"][0]["loc"] == ["query", "agent"]
    assert api.get("/memory/entries?agent=nobody&query=x").status == 422


def test_what_an_agent_of_earlier_code_knows_is_still_shown(api: Api) -> None:
    learn(api, "the disk is full", agent="retired")
    assert contents(api, "/memory/entries?agent=retired") == ["the disk is full"]
    assert contents(api, "/memory/entries?agent=retired&query=disk") == ["the disk is full"]


@pytest.mark.parametrize("wrong", ["limit=0", "limit=101", "cursor=x", "cursor=WyJ0aHJlYWRzIl0"])
def test_wrong_pages_are_refused(api: Api, wrong: str) -> None:
    assert api.get(f"{ENTRIES}&{wrong}").status == 422
    assert api.get(f"{ENTRIES}&query=disk&{wrong}").status == 422


def test_a_cursor_belongs_to_its_list(api: Api) -> None:
    learn(api, *[f"disk {n}" for n in range(3)])
    newest = api.get(f"{ENTRIES}&limit=1").json["next_cursor"]
    found = api.get(f"{ENTRIES}&limit=1&query=disk").json["next_cursor"]
    assert api.get(f"{ENTRIES}&query=disk&cursor={newest}").status == 422
    assert api.get(f"{ENTRIES}&cursor={found}").status == 422


def test_foreign_and_unknown_entries_are_not_there(api: Api) -> None:
    learn(api, "the disk is full")
    (item,) = api.get(ENTRIES).json["items"]
    assert contents(api, sub=BOB) == []
    assert contents(api, f"{ENTRIES}&query=disk", sub=BOB) == []
    assert contents(api, "/memory/entries?agent=plain") == []
    api.send("DELETE", f"/memory/entries/{item['id']}", sub=BOB).problem(404, "not-found")
    api.send("DELETE", "/memory/entries/unknown").problem(404, "not-found")
    assert contents(api) == ["the disk is full"]


def test_entries_are_listed_newest_first_without_scores(api: Api) -> None:
    thread = learn(api, "the disk is full", "the fan is loud")
    items = api.get(ENTRIES).json["items"]
    assert [i["content"] for i in items] == ["the fan is loud", "the disk is full"]
    assert items[0]["created_at"].endswith("Z")
    assert items[0]["thread_id"] == thread
    assert items[0].keys() >= {"id", "agent", "source", "evidence", "message_id", "verified"}
    assert "vector" not in items[0]
    assert [items[0][s] for s in ("score", "text_score", "vector_score")] == [None] * 3


@pytest.mark.parametrize("query", ["", "&query=disk"])
def test_entries_come_page_by_page(api: Api, query: str) -> None:
    learn(api, *[f"disk {n}" for n in range(5)])
    seen, cursor = [], ""
    for _ in range(10):
        page = api.get(f"{ENTRIES}&limit=2{query}{cursor}").json
        assert len(page["items"]) <= 2
        seen += [i["content"] for i in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(seen) == [f"disk {n}" for n in range(5)]


def test_the_last_page_that_a_search_answers_names_no_next_one(api: Api) -> None:
    learn(api, "disk 1", "disk 2")
    api.world.runtime = replace(api.world.runtime, memory=Endless(api.world.runtime.memory))
    url = f"{ENTRIES}&limit=1&query=disk&cursor="
    page = api.get(f"{url}{encode_cursor('found-entries', '9999')}").json
    last = api.get(url + page["next_cursor"]).json
    assert (len(last["items"]), last["next_cursor"]) == (1, None)
    assert api.get(f"{url}{encode_cursor('found-entries', '10001')}").status == 422


def test_a_query_finds_the_best_with_its_scores(api: Api) -> None:
    learn(api, "the disk is full", "the fan is loud")
    (item,) = api.get(f"{ENTRIES}&query={quote('why is that disk slow?')}").json["items"]
    assert item["content"] == "the disk is full"
    assert item["text_score"] == 1.0
    assert item["score"] > 0.4
    assert item["vector_score"] is None
    assert contents(api, f"{ENTRIES}&query=submarine") == []


def test_with_an_embedder_a_query_finds_by_both(api: Api) -> None:
    learn(api, "the disk is full", "the fan is loud")
    api.world.runtime = replace(api.world.runtime, embedder=HashingEmbedder())
    (item, *_) = api.get(f"{ENTRIES}&query=disk+full").json["items"]
    assert item["vector_score"] > 0.5


def test_an_embedder_that_is_down_costs_no_search(api: Api) -> None:
    learn(api, "the disk is full")
    embedder = HashingEmbedder()
    embedder.fault = ModelError("down")
    api.world.runtime = replace(api.world.runtime, embedder=embedder)
    assert contents(api, f"{ENTRIES}&query=disk") == ["the disk is full"]


def test_a_deleted_entry_is_gone(api: Api) -> None:
    learn(api, "the disk is full", "the fan is loud")
    (item, _) = api.get(ENTRIES).json["items"]
    answer = api.send("DELETE", f"/memory/entries/{item['id']}")
    assert (answer.status, answer.body) == (204, "")
    assert contents(api) == ["the disk is full"]
    api.send("DELETE", f"/memory/entries/{item['id']}").problem(404, "not-found")


def supersede(api: Api, old: str, new: str) -> tuple[str, str]:
    """Teach both, of which the second supersedes the first; their ids."""
    learn(api, old)
    thread = learn(api, "another matter")
    ids = (f"ent_{hash_of(old)[:8]}", f"ent_{hash_of(new)[:8]}")
    api.world.clock.advance(timedelta(seconds=1))
    made = NewEntry(
        id=ids[1],
        agent="support",
        content=new,
        source="user_assertion",
        evidence=new,
        created_at=api.world.clock.now(),
        thread_id=thread,
        hash=hash_of(new),
        supersedes=(ids[0],),
    )
    found = Extraction(run_id="later", thread_id=thread, agent="support", entries=(made,))
    assert api.do(api.world.runtime.memory.record_extraction(ANN, found))
    return ids


def test_what_was_superseded_is_listed_on_request(api: Api) -> None:
    old, new = supersede(api, "the disk is full", "the disk is empty again")
    assert contents(api) == ["the disk is empty again", "another matter"]
    assert contents(api, f"{ENTRIES}&superseded=false") == contents(api)
    items = api.get(f"{ENTRIES}&superseded=true").json["items"]
    assert [(e["id"], e["superseded_by"]) for e in items][0::2] == [(new, None), (old, new)]
    assert all(e["said_at"] == e["created_at"] for e in items)
    assert contents(api, f"{ENTRIES}&superseded=true", sub=BOB) == []
    page = api.get(f"{ENTRIES}&superseded=true&limit=2").json
    rest = api.get(f"{ENTRIES}&superseded=true&cursor={quote(page['next_cursor'])}").json
    assert [e["id"] for e in rest["items"]] == [old]


def test_what_was_superseded_is_taken_back(api: Api) -> None:
    old, new = supersede(api, "the disk is full", "the disk is empty again")
    [*_, before] = api.get(f"{ENTRIES}&superseded=true").json["items"]
    for _ in range(2):
        answer = api.send("POST", f"/memory/entries/{old}/restore")
        assert (answer.status, answer.json) == (200, {**before, "superseded_by": None})
    assert [e["id"] for e in api.get(ENTRIES).json["items"]][0::2] == [new, old]
    assert {e["superseded_by"] for e in api.get("/me/export").json["entries"]} == {None}
    assert api.send("DELETE", f"/memory/entries/{new}").status == 204
    assert contents(api, f"{ENTRIES}&superseded=true") == ["another matter", "the disk is full"]


def test_nobody_takes_back_what_is_not_theirs_or_not_there(api: Api) -> None:
    old, new = supersede(api, "the disk is full", "the disk is empty again")
    url = f"/memory/entries/{old}/restore"
    foreign = api.send("POST", url, sub=BOB).problem(404, "not-found")
    unknown = api.send("POST", "/memory/entries/x/restore").problem(404, "not-found")
    assert foreign["detail"] == unknown["detail"]
    assert api.send("POST", url, headers={"X-Layover-Resource": ANN}, sub=BOB).status == 403
    assert contents(api) == ["the disk is empty again", "another matter"]
    api.send("DELETE", f"/memory/entries/{new}")
    api.send("POST", url).problem(404, "not-found")


def test_a_backend_takes_back_for_the_user_that_it_names(api: Api) -> None:
    old, _ = supersede(api, "the disk is full", "the disk is empty again")
    headers, scope = {"X-Layover-Resource": ANN}, "openid layover/use layover/act-as"
    url = f"/memory/entries/{old}/restore"
    assert api.send("POST", url, sub=BOB, headers=headers, scope=scope).status == 200
    assert "the disk is full" in contents(api)


def test_a_search_for_what_was_superseded_is_refused(api: Api) -> None:
    learn(api, "the disk is full")
    api.get(f"{ENTRIES}&superseded=true&query=disk").problem(422, "invalid-request")
    api.get(f"{ENTRIES}&superseded=perhaps").problem(422, "invalid-request")
    assert contents(api, f"{ENTRIES}&superseded=true&query=%20") == ["the disk is full"]
