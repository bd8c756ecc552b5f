"""Ids that a caller was never given: made up, or another user's. The answers do not tell which."""

import base64
import json
from typing import Any

import pytest

from integration.api.kit import USE, Api
from support.worlds.services import BOB

OPERATE = f"{USE} layover/operate"
ODD_IDS = [
    *("unknown", "%00", "a%00b", "%ED%A0%80", "..%2F..", "%F0%9F%98%80", "x" * 250, "%20", "a%0Ab")
]


def calls_of(thread: str, run: str, call_id: str) -> list[tuple[str, str, Any]]:
    """Every call that names an id."""
    decision = f"/runs/{run}/tool-calls/{call_id}"
    return [
        ("GET", f"/threads/{thread}", None),
        ("PATCH", f"/threads/{thread}", {"title": "x"}),
        ("DELETE", f"/threads/{thread}", None),
        ("GET", f"/threads/{thread}/messages", None),
        ("GET", f"/threads/{thread}/memory", None),
        ("GET", f"/threads/{thread}/runs", None),
        ("POST", f"/threads/{thread}/runs", {"input": "hello"}),
        ("GET", f"/approvals?thread_id={thread}", None),
        ("GET", f"/runs/{run}", None),
        ("GET", f"/runs/{run}?wait=1", None),
        ("GET", f"/runs/{run}/events?wait=1", None),
        ("POST", f"/runs/{run}/cancel", None),
        ("POST", f"/runs/{run}/feedback", {"score": -1}),
        ("DELETE", f"/runs/{run}/feedback", None),
        ("POST", f"/runs/{run}/redrive", None),
        ("GET", f"{decision}/result", None),
        ("GET", f"/me/exports/{thread}", None),
        ("POST", f"{decision}/approve", {"attempt": 1}),
        ("POST", f"{decision}/deny", {"attempt": 1}),
        ("POST", f"{decision}/resume", {"attempt": 1, "data": {}}),
        ("POST", f"{decision}/extend", {"attempt": 1, "expires_at": "2999-01-31T12:00:00Z"}),
    ]


@pytest.mark.parametrize("odd", ODD_IDS)
def test_ids_that_nobody_gave_out_are_unknown(api: Api, odd: str) -> None:
    for method, url, body in calls_of(odd, odd, odd):
        api.send(method, url, body, scope=OPERATE).problem(404, "not-found")


def test_somebody_elses_ids_are_unknown(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    before = api.get(f"/runs/{run.id}").json
    for method, url, body in calls_of(run.thread_id, run.id, "c1"):
        answer = api.send(method, url, body, sub=BOB, scope=OPERATE)
        answer.problem(404, "not-found")
        assert "o1" not in answer.body
    assert api.get(f"/runs/{run.id}").json == before
    assert api.get("/threads", sub=BOB).json == {"items": [], "next_cursor": None}


def test_a_message_of_another_thread_or_user_is_no_parent_and_no_branch(api: Api) -> None:
    run = api.do(api.world.run(api.do(api.world.thread()).id))
    api.do(api.world.finish(run.id))
    url = f"/threads/{run.thread_id}"
    message = api.get(f"{url}/messages").json["items"][-1]["id"]
    for sub in ("ann", BOB):
        thread = api.post("/threads", {"agent": "support"}, sub=sub).json["id"]
        answer = api.post(f"/threads/{thread}/runs", {"input": "a", "parent_id": message}, sub=sub)
        answer.problem(422, "invalid-request")
        branch = api.get(f"/threads/{thread}/messages?branch={message}", sub=sub)
        branch.problem(404, "not-found")
        assert api.get(f"/threads/{thread}", sub=sub).json["active_run"] is None


@pytest.mark.parametrize(
    ("url", "kind", "fields"),
    [
        ("/threads", "threads", ["x"]),
        ("/threads", "threads", ["\ud800\0"]),
        ("/threads", "threads", ["T#\uffff"]),
        ("/threads/{thread}/runs", "runs", ["x"]),
        ("/threads/{thread}/messages", "messages", ["x", "y", "z"]),
        ("/approvals", "approvals", ["x"]),
        ("/approvals", "approvals", ["A#\uffff"]),
    ],
)
def test_a_forged_cursor_shows_nothing_of_others_and_breaks_nothing(
    api: Api, url: str, kind: str, fields: list[str]
) -> None:
    api.do(api.world.suspended())
    mine = api.post("/threads", {"agent": "support"}, sub=BOB).json["id"]
    cursor = base64.urlsafe_b64encode(json.dumps([kind, *fields]).encode()).decode().rstrip("=")
    answer = api.get(f"{url.replace('{thread}', mine)}?cursor={cursor}", sub=BOB)
    assert answer.status in (200, 404, 422), answer.body
    if answer.status == 200:
        assert {item["id"] for item in answer.json["items"]} <= {mine}
