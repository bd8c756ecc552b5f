"""Files: announced, uploaded, named in messages, handed out, erased."""

from datetime import timedelta

import pytest

from integration.api.kit import Api, Response
from layover.engine.run_files import RunFiles
from layover.values.lease import MAX_UPLOADS
from layover.values.message import FilePart
from layover.values.runs.run import CallRecord
from support.worlds.services import ANN, BOB

PNG = b"\x89PNG" + bytes(100)


def announce(api: Api, data: bytes = PNG, name: str = "a.png", mime_type: str = "image/png") -> str:
    """A file that waits for its bytes."""
    body = {"name": name, "mime_type": mime_type, "size": len(data)}
    answer = api.post("/files", body)
    assert answer.status == 201, answer.body
    assert answer.json.keys() == {"id", "upload_url", "expires_at"}
    return str(answer.json["id"])


def upload(api: Api, file_id: str, data: bytes = PNG) -> None:
    """Do what a PUT to the upload's URL does."""
    key = f"u/{_hash(api)}/uploads/{file_id}/data"
    api.do(api.world.runtime.blobs.put(key, data, "image/png"))


def _hash(api: Api) -> str:
    from layover.keys import Keys

    return Keys("ann").hash


def thread(api: Api) -> str:
    return str(api.post("/threads", {"agent": "support"}).json["id"])


def ask(api: Api, thread_id: str, file_id: str, sub: str = ANN) -> Response:
    body = {"input": [{"type": "text", "text": "look"}, {"type": "file", "file_id": file_id}]}
    return api.post(f"/threads/{thread_id}/runs", body, sub=sub)


def blobs(api: Api) -> list[str]:
    return api.do(api.world.runtime.blobs.keys("u/"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 256),
        ("name", "a\nb"),
        ("mime_type", "nonsense"),
        ("mime_type", "text/plain\r\nx: y"),
        ("mime_type", "multipart/form-data"),
        ("size", 0),
        ("size", "5"),
        ("size", True),
        ("extra", 1),
    ],
)
def test_a_file_that_cannot_be_is_refused(api: Api, field: str, value: object) -> None:
    body = {"name": "a.png", "mime_type": "image/png", "size": 5, field: value}
    api.post("/files", body).problem(422, "invalid-request")


@pytest.mark.parametrize(("mime_type", "most"), [("image/png", 5), ("application/pdf", 20)])
def test_a_file_has_a_largest_size_by_type(api: Api, mime_type: str, most: int) -> None:
    size = most * 1024 * 1024
    body = {"name": "a", "mime_type": mime_type, "size": size}
    assert api.post("/files", body).status == 201
    api.post("/files", {**body, "size": size + 1}).problem(413, "too-large")


def test_a_user_announces_so_many_files_and_uploads_them_before_more(api: Api) -> None:
    announced = [announce(api) for _ in range(MAX_UPLOADS)]
    body = {"name": "a.png", "mime_type": "image/png", "size": len(PNG)}
    api.post("/files", body).problem(429, "limit-reached")
    assert api.post("/files", body, sub=BOB).status == 201
    upload(api, announced[7])
    announce(api)
    api.post("/files", body).problem(429, "limit-reached")
    api.world.clock.advance(timedelta(minutes=15))
    announce(api)


@pytest.mark.parametrize("file_id", ["file_x", "", "x" * 3000, "../a", "a/b", "ü"])
def test_a_file_that_nobody_announced_is_in_no_message(api: Api, file_id: str) -> None:
    ask(api, thread(api), file_id).problem(422, "invalid-request")


def test_a_file_without_its_bytes_is_in_no_message(api: Api) -> None:
    file_id, thread_id = announce(api), thread(api)
    for data in (None, PNG[1:]):
        if data is not None:
            upload(api, file_id, data)
        problem = ask(api, thread_id, file_id).problem(422, "invalid-request")
        assert problem["errors"][0]["loc"] == ["body", "input", 1, "file_id"]
    upload(api, file_id)
    assert ask(api, thread_id, file_id).status == 202


def test_somebody_elses_file_is_not_there(api: Api) -> None:
    file_id = announce(api)
    upload(api, file_id)
    theirs = str(api.post("/threads", {"agent": "support"}, sub=BOB).json["id"])
    ask(api, theirs, file_id, sub=BOB).problem(422, "invalid-request")
    api.get(f"/files/{file_id}", sub=BOB).problem(404, "not-found")


def test_a_file_of_no_bytes_yet_has_no_link(api: Api) -> None:
    api.get(f"/files/{announce(api)}").problem(404, "not-found")
    api.get("/files/file_x").problem(404, "not-found")


def test_a_message_names_its_file(api: Api) -> None:
    file_id, thread_id = announce(api), thread(api)
    upload(api, file_id)
    run = ask(api, thread_id, file_id).json
    stored = api.do(api.world.journal.runs.get("ann", run["id"]))
    assert stored is not None
    part = {"type": "file", "file_id": file_id, "url": None, "name": "a.png"}
    part["mime_type"] = "image/png"
    assert stored.input.model_dump()["content"][1] == part


def test_a_file_needs_no_database(api: Api) -> None:
    thread_id = thread(api)
    api.world.threads.asleep = True
    file_id = announce(api)
    upload(api, file_id)
    assert ask(api, thread_id, file_id).status == 202
    assert api.get(f"/files/{file_id}").status == 302


def test_bytes_never_change_once_a_message_names_them(api: Api) -> None:
    file_id = announce(api)
    upload(api, file_id)
    ask(api, thread(api), file_id)
    upload(api, file_id, bytes(len(PNG)))
    location = api.get(f"/files/{file_id}").headers["location"]
    assert api.do(api.world.runtime.blobs.get(location.removeprefix("memory:"))) == PNG


def test_a_link_is_an_attachment_that_no_browser_guesses_at(api: Api) -> None:
    file_id = announce(api)
    upload(api, file_id)
    answer = api.get(f"/files/{file_id}")
    assert (answer.status, answer.body) == (302, "")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert file_id in answer.headers["location"]


@pytest.mark.parametrize("first", [0, 1])
def test_a_file_goes_with_the_last_thread_that_has_it(api: Api, first: int) -> None:
    file_id, threads = announce(api), [thread(api), thread(api)]
    upload(api, file_id)
    for each in threads:
        ask(api, each, file_id)
    assert api.send("DELETE", f"/threads/{threads[first]}").status == 204
    location = api.get(f"/files/{file_id}").headers["location"]
    assert api.do(api.world.runtime.blobs.get(location.removeprefix("memory:"))) == PNG
    assert api.send("DELETE", f"/threads/{threads[1 - first]}").status == 204
    api.get(f"/files/{file_id}").problem(404, "not-found")
    assert blobs(api) == []


def test_a_deleted_threads_file_is_gone_before_it_is_erased(api: Api) -> None:
    file_id, first = announce(api), thread(api)
    upload(api, file_id)
    ask(api, first, file_id)
    api.do(api.world.journal.erasure.mark_deleted("ann", first))
    api.get(f"/files/{file_id}").problem(404, "not-found")
    ask(api, thread(api), file_id).problem(422, "invalid-request")


def test_the_whole_of_a_cut_result_is_its_owners(api: Api) -> None:
    run = ask_text(api)
    snapshot = api.do(api.world.journal.runs.snapshot("ann", run["id"]))
    assert snapshot is not None
    belongings = RunFiles(api.world.runtime, snapshot.meta, "support")
    call = CallRecord(
        key="STEP#0001#CALL#a", run_id=run["id"], tool_call_id="a/b", tool_name="t", args={}
    )
    path = f"/runs/{run['id']}/tool-calls/a%2Fb/result"
    api.get(path).problem(404, "not-found")
    assert api.do(belongings.keep_result(call, '{"rows": [1]}'))
    answer = api.get(path)
    assert answer.status == 302
    key = answer.headers["location"].removeprefix("memory:")
    assert api.do(api.world.runtime.blobs.get(key)) == b'{"rows": [1]}'
    api.get(path, sub=BOB).problem(404, "not-found")
    api.send("DELETE", f"/threads/{run['thread_id']}")
    api.get(path).problem(404, "not-found")
    assert not api.do(belongings.keep_result(call, "late")), "the thread is gone"
    assert blobs(api) == []


def test_a_file_that_a_tool_makes_is_the_threads(api: Api) -> None:
    run = ask_text(api)
    snapshot = api.do(api.world.journal.runs.snapshot("ann", run["id"]))
    assert snapshot is not None
    belongings = RunFiles(api.world.runtime, snapshot.meta, "support")
    part = api.do(belongings.save_file("a.csv", "text/csv", b"1,2"))
    assert part == FilePart(file_id=part.file_id, name="a.csv", mime_type="text/csv")
    assert api.get(f"/files/{part.file_id}").status == 302
    for name, kind, data in (("", "text/csv", b""), ("a", "x", b""), ("a", "image/png", BIG)):
        with pytest.raises(ValueError, match="file"):
            api.do(belongings.save_file(name, kind, data))
    api.send("DELETE", f"/threads/{run['thread_id']}")
    assert blobs(api) == []


BIG = bytes(5 * 1024 * 1024 + 1)


def ask_text(api: Api) -> dict[str, str]:
    run: dict[str, str] = api.post(f"/threads/{thread(api)}/runs", {"input": "hello"}).json
    return run
