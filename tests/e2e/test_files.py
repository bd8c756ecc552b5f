"""Files and long results: up to S3, into prompts, back to their owner, and gone with their thread."""

import base64
import json
from typing import Any

import httpx2
import pytest

from layover.keys import Keys
from support.providers.openai import call, calls, say
from support.system.system import Brain, Caller, Json, System, eventually

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20


def announced(user: Caller, name: str, mime_type: str, data: bytes) -> Json:
    """A file that waits for its bytes."""
    body = {"name": name, "mime_type": mime_type, "size": len(data)}
    file: Json = user.want(201, "POST", "/files", body)
    return file


def uploaded(user: Caller, name: str, mime_type: str, data: bytes) -> str:
    """A file, as a browser sends it; its id."""
    file = announced(user, name, mime_type, data)
    headers = {"content-type": mime_type, "origin": "http://127.0.0.1:8787"}
    with httpx2.Client(timeout=40, trust_env=False, verify=False) as browser:
        answer = browser.put(file["upload_url"], content=data, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["access-control-allow-origin"] in ("*", headers["origin"])
    return str(file["id"])


def content(text: str, *file_ids: str) -> list[Json]:
    """An input of a text and these files, in the wrong order."""
    return [{"type": "text", "text": text}, *({"type": "file", "file_id": i} for i in file_ids)]


def downloaded(user: Caller, path: str) -> httpx2.Response:
    """The bytes behind a link, fetched without a token."""
    answer = user.call("GET", path)
    assert answer.status == 302
    assert answer.headers["x-content-type-options"] == "nosniff"
    with httpx2.Client(timeout=40, trust_env=False, verify=False) as browser:
        return browser.get(answer.headers["location"])


def stored(system: System, user: Caller) -> list[str]:
    """Everything of this user in the bucket."""
    prefix = f"u/{Keys(user.name).hash}/"
    pages = system.aws("s3").get_paginator("list_objects_v2")
    found = pages.paginate(Bucket=system.services["bucket"], Prefix=prefix)
    return [o["Key"] for page in found for o in page.get("Contents", [])]


def said(request: Any) -> Any:
    """The content of the newest user message."""
    return [m for m in request.body["messages"] if m["role"] == "user"][-1]["content"]


def test_a_browser_may_upload_from_another_origin(ann: Caller) -> None:
    file = announced(ann, "a.png", "image/png", PNG)
    asks = {
        "origin": "http://127.0.0.1:8787",
        "access-control-request-method": "PUT",
        "access-control-request-headers": "content-type",
    }
    with httpx2.Client(timeout=40, trust_env=False, verify=False) as browser:
        answer = browser.request("OPTIONS", file["upload_url"], headers=asks)
    assert answer.status_code == 200
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert "content-type" in answer.headers["access-control-allow-headers"].lower()


def test_somebody_elses_file_is_in_no_message_of_mine(ann: Caller, bob: Caller) -> None:
    file_id = uploaded(bob, "b.png", "image/png", PNG)
    body = {"input": content("look", file_id)}
    ann.want(422, "POST", f"/threads/{ann.thread()}/runs", body)
    ann.want(404, "GET", f"/files/{file_id}")


def test_the_model_sees_files_first_and_the_same_bytes_each_turn(brain: Brain, ann: Caller) -> None:
    image = uploaded(ann, "a.png", "image/png", PNG)
    paper = uploaded(ann, "p.pdf", "application/pdf", b"%PDF-1.7")
    binary = uploaded(ann, "x.zip", "application/zip", b"PK\x03\x04\x14\x00")
    thread = ann.thread()
    first = brain.plan(say("seen"))
    run = ann.ask(thread, content(first, image, paper, binary))
    assert run["status"] == "success"
    parts = list(said(brain.requests(first)[0]))
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    data = "data:application/pdf;base64," + base64.b64encode(b"%PDF-1.7").decode()
    assert parts == [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "file", "file": {"filename": "p.pdf", "file_data": data}},
        {"type": "text", "text": "[file: x.zip, application/zip]"},
        {"type": "text", "text": first},
    ]
    shown = ann.messages(thread)[0]["content"]
    assert [p.get("name") for p in shown] == [None, "a.png", "p.pdf", "x.zip"]
    second = brain.plan(say("again"))
    ann.ask(thread, second)
    before = next(m for m in brain.requests(second)[0].body["messages"] if m["role"] == "user")
    assert before["content"] == parts


def test_a_file_comes_back_as_an_attachment(ann: Caller) -> None:
    file_id = uploaded(ann, 'ü "x".png', "image/png", PNG)
    answer = downloaded(ann, f"/files/{file_id}")
    assert answer.content == PNG
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-disposition"].startswith('attachment; filename="_ _x_.png"')


def test_files_and_whole_results_go_with_their_thread(
    brain: Brain, ann: Caller, bob: Caller, system: System
) -> None:
    thread = ann.thread("clerk")
    text = brain.plan(call("dump", key="end"), call("draw", key="d"), say("done"))
    run = ann.ask(thread, content(text, uploaded(ann, "a.png", "image/png", PNG)))
    assert run["status"] == "success", run
    messages = brain.requests(text)[2].body["messages"]
    dumped, drawn = (m["content"] for m in messages if m["role"] == "tool")
    told = json.loads(dumped)
    assert told["_truncated"] is True
    assert downloaded(ann, told["url"]).text == "a" * 250_000 + "end"
    bob.want(404, "GET", told["url"])
    [file] = [p for m in ann.messages(thread) for p in m["content"] if p.get("name") == "d.csv"]
    assert drawn.startswith(f"[file: d.csv, text/csv, {file['file_id']}]")
    answer = downloaded(ann, f"/files/{file['file_id']}")
    assert (answer.content, answer.headers["content-type"]) == (b"1,2\n", "text/csv")
    assert stored(system, ann)
    ann.want(204, "DELETE", f"/threads/{thread}")
    ann.want(404, "GET", told["url"])
    ann.want(404, "GET", f"/files/{file['file_id']}")
    eventually(lambda: stored(system, ann), lambda left: left == [])


def test_ten_calls_at_once_lose_nothing_of_a_node(
    brain: Brain, ann: Caller, system: System
) -> None:
    thread = ann.thread("clerk")
    first = brain.plan(calls(*(("remember", {"key": f"k{n}"}) for n in range(10))), say("done"))
    assert ann.ask(thread, first)["status"] == "success"
    second = brain.plan(call("remember", key="last"), say("done"))
    ann.ask(thread, second)
    answer = brain.requests(second)[1].body["messages"][-1]["content"]
    assert sorted(json.loads(answer)[:10]) == [f"k{n}" for n in range(10)]
    asked = brain.requests(second)[0].body["messages"]
    assert [m["content"] for m in asked[1:]] == [first, "done", second]
    folder = f"u/{Keys(ann.name).hash}/node_memory/clerk/{thread}"
    found = system.aws("s3").get_object(Bucket=system.services["bucket"], Key=f"{folder}/desk.json")
    document = json.loads(found["Body"].read())
    assert [m["content"] for m in document["messages"]] == [first, "done", second, "done"]
    ann.want(204, "DELETE", f"/threads/{thread}")
    eventually(lambda: stored(system, ann), lambda left: left == [])


@pytest.mark.parametrize("size", [len(PNG) - 1, len(PNG) + 1])
def test_bytes_of_another_length_are_not_the_file(ann: Caller, size: int) -> None:
    body = {"name": "a.png", "mime_type": "image/png", "size": size}
    file = ann.want(201, "POST", "/files", body)
    with httpx2.Client(timeout=40, trust_env=False, verify=False) as browser:
        browser.put(file["upload_url"], content=PNG, headers={"content-type": "image/png"})
    body = {"input": content("look", file["id"])}
    ann.want(422, "POST", f"/threads/{ann.thread()}/runs", body)
