"""All that is stored of the caller: read out as one document, and gone."""

import json
from datetime import timedelta
from typing import Any

import pytest

from integration.api.kit import Api
from layover.files.uploads import UNUSED_LIVES
from layover.keys import Keys
from layover.recovery.sweep import sweep
from layover.retention import export as exports
from layover.values.memory.context import StepUsage
from layover.values.runs.usage import Usage
from support.worlds.services import ANN, BOB


def talk(api: Api, text: str = "hello") -> str:
    """A thread with a run that is over; its id."""
    thread_id = str(api.post("/threads", {"agent": "support", "title": "lamps"}).json["id"])
    run = api.post(f"/threads/{thread_id}/runs", {"input": text}).json
    api.do(api.world.finish(run["id"], "you are welcome"))
    return thread_id


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"][0]["text"] for m in messages]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/me/export"),
        ("GET", "/me/exports"),
        ("GET", "/me/exports/export_1"),
        ("DELETE", "/me"),
    ],
)
def test_nobody_without_a_token_is_exported_or_erased(api: Api, method: str, path: str) -> None:
    assert api.send(method, path, sub=None).status == 401


def test_who_has_nothing_gets_an_empty_document(api: Api) -> None:
    answer = api.get("/me/export")
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    names = ("threads", "decisions", "profiles", "working_memory", "entries", "usage", "files")
    assert {name: answer.json[name] for name in names} == {name: [] for name in names}
    assert answer.json["user"] == ANN


def test_everything_of_the_caller_is_in_the_document_and_nothing_of_others(api: Api) -> None:
    thread_id = talk(api, "a secret of Ann's")
    api.send("PUT", "/memory/profile?agent=support", {"profile": {"name": "Ann"}})
    file = api.post("/files", {"name": "a.txt", "mime_type": "text/plain", "size": 3}).json
    spent = StepUsage(
        step="s", agent="support", model="m", usage=Usage(input_tokens=3), at=api.world.clock.now()
    )
    api.world.threads.spend(ANN, "run", (spent,), "run")
    document = api.get("/me/export").json
    [thread] = document["threads"]
    assert (thread["id"], thread["title"]) == (thread_id, "lamps")
    assert texts(thread["messages"]) == ["a secret of Ann's", "you are welcome"]
    assert [run["status"] for run in thread["runs"]] == ["success"]
    assert [p["profile"] for p in document["profiles"]] == [{"name": "Ann"}]
    assert [f["id"] for f in document["files"]] == [file["id"]]
    assert [u["input_tokens"] for u in document["usage"]] == [3]
    assert "secret" not in api.get("/me/export", sub=BOB).body


def test_what_was_decided_is_in_the_document(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    assert api.get("/me/export").json["decisions"] == []
    api.post(f"/runs/{run.id}/tool-calls/c1/deny", {"attempt": 1, "reason": "too much"})
    [decision] = api.get("/me/export").json["decisions"]
    assert (decision["run_id"], decision["thread_id"]) == (run.id, run.thread_id)
    assert (decision["tool_call_id"], decision["kind"]) == ("c1", "denied")
    assert (decision["decided_by"], decision["reason"], decision["votes"]) == (ANN, "too much", [])


def test_all_branches_and_what_is_under_way_are_in_the_document(api: Api) -> None:
    thread_id = talk(api, "first")
    second = api.post(f"/threads/{thread_id}/runs", {"input": "second", "parent_id": None}).json
    api.do(api.world.finish(second["id"], "another root"))
    api.post(f"/threads/{thread_id}/runs", {"input": "under way"})
    [thread] = api.get("/me/export").json["threads"]
    said = texts(thread["messages"])
    assert sorted(said[:-1]) == ["another root", "first", "second", "you are welcome"]
    assert said[-1] == "under way"


def test_threads_that_are_read_side_by_side_stand_in_their_order(api: Api) -> None:
    assert [t["id"] for t in api.get("/me/export").json["threads"]] == []
    made = [talk(api, f"the talk {n}") for n in range(11)]
    threads = api.get("/me/export").json["threads"]
    assert [t["id"] for t in threads] == [t["id"] for t in api.get("/threads").json["items"]]
    said = {t["id"]: texts(t["messages"])[0] for t in threads}
    assert said == {id: f"the talk {n}" for n, id in enumerate(made)}


def test_files_that_are_read_side_by_side_are_all_in_the_document(api: Api) -> None:
    file = {"mime_type": "text/plain", "size": 3}
    made = [api.post("/files", {"name": f"{n}.txt", **file}).json["id"] for n in range(11)]
    files = api.get("/me/export").json["files"]
    assert sorted(f["id"] for f in files) == sorted(made)
    assert {f["name"] for f in files} == {f"{n}.txt" for n in range(11)}


def test_a_document_that_fits_no_answer_is_elsewhere_for_some_minutes(api: Api) -> None:
    thread_id = talk(api)
    for n in range(7):
        run = api.post(f"/threads/{thread_id}/runs", {"input": f"{n}" + "x" * 900_000}).json
        api.do(api.world.finish(run["id"]))
    answer = api.get("/me/export")
    assert (answer.status, answer.body) == (303, "")
    assert answer.headers["cache-control"] == "no-store"
    key = answer.headers["location"].removeprefix("memory:")
    assert key.startswith(Keys(ANN).blob("exports"))
    data = api.do(api.world.runtime.blobs.get(key)) or b""
    assert data.count(b"x" * 900_000) == 7
    kinds = [d.kind for d in api.do(api.world.journal.dues.of(ANN))]
    assert kinds == ["export"]


def test_a_document_that_takes_too_long_is_made_by_the_sweeper(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread_id = talk(api, "hello")
    expected = api.get("/me/export").json
    monkeypatch.setattr(exports, "REQUEST_WITHIN", timedelta(0))
    answer = api.get("/me/export")
    assert answer.status == 202
    path = answer.headers["location"]
    assert (path, answer.headers["retry-after"]) == (f"/me/exports/{answer.json['id']}", "60")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json["status"] == "making"
    waiting = api.get(path)
    assert (waiting.status, waiting.json, waiting.headers["location"]) == (202, answer.json, path)
    api.world.clock.advance(timedelta(minutes=1))
    api.do(sweep(api.world.runtime))
    ready = api.get(path)
    assert (ready.status, ready.body, ready.headers["cache-control"]) == (303, "", "no-store")
    key = ready.headers["location"].removeprefix("memory:")
    document = json.loads(api.do(api.world.runtime.blobs.get(key)) or b"")
    assert [thread["id"] for thread in document["threads"]] == [thread_id]
    assert {**document, "exported_at": ""} == {**expected, "exported_at": ""}
    [listed] = api.get("/me/exports").json["items"]
    assert (listed["id"], listed["status"]) == (answer.json["id"], "ready")
    assert listed.keys() == {"id", "status", "created_at", "finished_at", "expires_at", "size"}
    assert api.get(path, sub=BOB).status == 404
    assert api.get("/me/exports", sub=BOB).json["items"] == []


def test_an_export_is_gone_as_soon_as_its_user_is(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(api)
    monkeypatch.setattr(exports, "REQUEST_WITHIN", timedelta(0))
    path = api.get("/me/export").headers["location"]
    api.world.clock.advance(timedelta(seconds=1))
    assert api.send("DELETE", "/me").status == 202
    assert api.get(path).status == 404
    assert api.get("/me/exports").json["items"] == []


def test_an_export_that_failed_is_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(api)
    monkeypatch.setattr(exports, "REQUEST_WITHIN", timedelta(0))
    path = api.get("/me/export").headers["location"]
    api.world.clock.advance(timedelta(days=1))
    api.do(sweep(api.world.runtime))
    assert "ask for another" in api.get(path).problem(409, "conflict")["detail"]


def test_nothing_is_to_be_read_of_who_is_erased(api: Api) -> None:
    thread_id = talk(api)
    run_id = api.get(f"/threads/{thread_id}/runs").json["items"][0]["id"]
    api.send("PUT", "/memory/profile?agent=support", {"profile": {"name": "Ann"}})
    answer = api.send("DELETE", "/me")
    assert answer.status == 202
    assert answer.json.keys() == {"until"}
    assert api.get("/threads").json["items"] == []
    for path in (f"/threads/{thread_id}", f"/threads/{thread_id}/messages", f"/runs/{run_id}"):
        assert api.get(path).status == 404
    assert api.get("/memory/profile?agent=support").json["profile"] == {}
    document = api.get("/me/export").json
    assert [document[name] for name in ("threads", "profiles", "usage")] == [[], [], []]


def test_who_is_erased_may_begin_anew_at_once_and_be_erased_again(api: Api) -> None:
    for _ in range(2):
        api.world.clock.advance(UNUSED_LIVES)
        assert api.send("DELETE", "/me").status == 202
        api.world.clock.advance(UNUSED_LIVES)
        thread_id = talk(api)
        assert [t["id"] for t in api.get("/threads").json["items"]] == [thread_id]


def test_others_are_not_erased(api: Api) -> None:
    thread_id = talk(api)
    assert api.send("DELETE", "/me", sub=BOB).status == 202
    assert api.get(f"/threads/{thread_id}").status == 200


def test_a_profile_is_forgotten_with_a_thread_where_that_is_asked_for(api: Api) -> None:
    api.send("PUT", "/memory/profile?agent=support", {"profile": {"name": "Ann"}})
    assert api.send("DELETE", f"/threads/{talk(api)}").status == 204
    assert api.get("/memory/profile?agent=support").json["profile"] == {"name": "Ann"}
    assert api.send("DELETE", f"/threads/{talk(api)}?forget_profile=true").status == 204
    assert api.get("/memory/profile?agent=support").json["profile"] == {}
