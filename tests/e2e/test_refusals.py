"""What the API refuses, and that a refusal leaves nothing behind."""

import base64
import json
import re
from typing import Any

import httpx2
import pytest

from support.providers.openai import call, say
from support.system.documented import Answer
from support.system.system import Brain, Caller, Json, System

URN = re.compile(r"urn:layover:problem:[a-z-]+\Z")


def assert_problem(answer: Answer, status: int) -> Json:
    """The problem document, which has this status."""
    assert answer.status == status, answer
    assert answer.kind == "application/problem+json", answer
    problem: Json = answer.body
    assert {"type", "title", "status", "detail"} <= problem.keys()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in json.dumps(problem)
    return problem


BAD_BODIES: dict[str, tuple[Any, int]] = {
    "no body": (None, 422),
    "not JSON": ("{", 400),
    "not UTF-8": (b'{"input": "\xff\xfe"}', 400),
    "two documents": ('{"input": "a"} {}', 400),
    "NaN": ('{"input": NaN}', 400),
    "deep nesting": ("[" * 100_000, 400),
    "a list": ([], 422),
    "a text": ('"hello"', 422),
    "null": ("null", 422),
    "no input": ({}, 422),
    "input null": ({"input": None}, 422),
    "input a number": ({"input": 5}, 422),
    "input empty": ({"input": ""}, 422),
    "input an empty list": ({"input": []}, 422),
    "input a part of no kind": ({"input": [{"text": "x"}]}, 422),
    "input an unknown part": ({"input": [{"type": "tool_call", "text": "x"}]}, 422),
    "text no text": ({"input": [{"type": "text", "text": 5}]}, 422),
    "file unknown": ({"input": [{"type": "file", "file_id": "file_x"}]}, 422),
    "file over http": ({"input": [{"type": "file", "url": "http://a.test/x.png"}]}, 422),
    "file without source": ({"input": [{"type": "file", "name": "x"}]}, 422),
    "stream a text": ({"input": "a", "stream": "yes"}, 422),
    "on_busy unknown": ({"input": "a", "on_busy": "explode"}, 422),
    "parent unknown": ({"input": "a", "parent_id": "msg_unknown"}, 422),
    "parent a number": ({"input": "a", "parent_id": 7}, 422),
    "parent with NUL": ('{"input": "a", "parent_id": "msg\\u0000"}', 422),
    "parent a surrogate": ('{"input": "a", "parent_id": "\\ud800"}', 422),
    "no iterations": ({"input": "a", "max_iterations": 0}, 422),
    "iterations a float": ({"input": "a", "max_iterations": 1.5}, 422),
    "iterations huge": ({"input": "a", "max_iterations": 10**30}, 422),
    "an unknown field": ({"input": "a", "inptu": "b"}, 422),
    "input above 1 MB": ({"input": "x" * 1_100_000}, 413),
    "body above 5 MB": ({"input": "x" * 5_300_000}, 413),
    "body above 6 MB": ({"input": "x" * 7_000_000}, 413),
}


@pytest.fixture(scope="module")
def mia(system: System) -> Caller:
    """The user of the table, with one thread."""
    return system.caller("mia")


@pytest.fixture(scope="module")
def quiet(mia: Caller) -> str:
    """A thread in which nothing ever happens."""
    return mia.thread()


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_run_that_makes_no_sense_is_refused(mia: Caller, quiet: str, case: str) -> None:
    body, status = BAD_BODIES[case]
    before = mia.get(f"/threads/{quiet}")
    problem = assert_problem(mia.call("POST", f"/threads/{quiet}/runs", body), status)
    if status == 422:
        assert problem["errors"], problem
        assert all({"loc", "msg", "type"} <= e.keys() for e in problem["errors"])
    assert mia.get(f"/threads/{quiet}") == before
    assert before["active_run"] is None
    assert mia.get(f"/threads/{quiet}/runs")["items"] == []
    assert mia.messages(quiet) == []


BAD_THREADS: dict[str, tuple[Any, int]] = {
    "not JSON": ("nope", 400),
    "no agent": ({}, 422),
    "an unknown agent": ({"agent": "nobody"}, 422),
    "agent a number": ({"agent": 1}, 422),
    "agent with NUL": ('{"agent": "support\\u0000"}', 422),
    "agent a surrogate": ('{"agent": "\\udfff"}', 422),
    "title a list": ({"agent": "support", "title": []}, 422),
    "title too long": ({"agent": "support", "title": "x" * 501}, 422),
    "metadata a list": ({"agent": "support", "metadata": [1]}, 422),
    "metadata too large": ({"agent": "support", "metadata": {"a": "x" * 70_000}}, 413),
    "an unknown field": ({"agent": "support", "owner": "bob"}, 422),
}


@pytest.mark.parametrize("case", BAD_THREADS)
def test_a_thread_that_makes_no_sense_is_refused(mia: Caller, quiet: str, case: str) -> None:
    body, status = BAD_THREADS[case]
    assert_problem(mia.call("POST", "/threads", body), status)
    assert [t["id"] for t in mia.get("/threads")["items"]] == [quiet]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"title": 5}, 422), ({"metadata": "x"}, 422), ({"agent": "wide"}, 422), ("{", 400)],
)
def test_a_change_that_makes_no_sense_is_refused(
    mia: Caller, quiet: str, body: Any, status: int
) -> None:
    before = mia.get(f"/threads/{quiet}")
    assert_problem(mia.call("PATCH", f"/threads/{quiet}", body), status)
    assert mia.get(f"/threads/{quiet}") == before


@pytest.mark.parametrize(
    "query",
    [
        "/threads?limit=0",
        "/threads?limit=101",
        "/threads?limit=x",
        "/threads?cursor=nonsense",
        "/threads?cursor=%00",
        "/threads?cursor=" + "A" * 5000,
        "/approvals?cursor=nonsense",
        "/agents?cursor=nonsense",
        "/threads/{thread}/messages?cursor=nonsense",
        "/threads/{thread}/runs?cursor=nonsense",
    ],
)
def test_a_page_that_nobody_offered_is_refused(mia: Caller, quiet: str, query: str) -> None:
    assert_problem(mia.call("GET", query.replace("{thread}", quiet)), 422)


@pytest.mark.parametrize(
    ("path", "kind", "fields"),
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
    mia: Caller, quiet: str, path: str, kind: str, fields: list[str]
) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps([kind, *fields]).encode()).decode().rstrip("=")
    answer = mia.call("GET", f"{path.replace('{thread}', quiet)}?cursor={cursor}")
    assert answer.status in (200, 404, 422), answer
    if answer.status == 200:
        assert {i["id"] for i in answer.body["items"]} <= {quiet}


@pytest.mark.parametrize("query", ["after=-1", "after=x", "wait=x", "limit=0"])
def test_events_asked_for_in_a_wrong_way_are_refused(mia: Caller, brain: Brain, query: str) -> None:
    run = mia.ask(mia.thread("plain"), brain.plan(say("ok")))
    assert_problem(mia.call("GET", f"/runs/{run['id']}/events?{query}"), 422)
    mia.want(204, "DELETE", f"/threads/{run['thread_id']}")


ODD_IDS = [
    "unknown",
    "%00",
    "a%00b",
    "%ED%A0%80",
    "..%2F..",
    "%F0%9F%98%80",
    "x" * 250,
    "%20",
    "a%0Ab",
]


@pytest.mark.parametrize("odd", ODD_IDS)
def test_ids_that_nobody_gave_out_are_unknown(ann: Caller, odd: str) -> None:
    for method, path, body in paths_of(odd, odd, odd):
        assert_problem(ann.call(method, path, body), 404)


def paths_of(thread: str, run: str, call_id: str) -> list[tuple[str, str, Any]]:
    """Every call that names an id."""
    decision = f"/runs/{run}/tool-calls/{call_id}"
    return [
        ("GET", f"/threads/{thread}", None),
        ("PATCH", f"/threads/{thread}", {"title": "x"}),
        ("DELETE", f"/threads/{thread}", None),
        ("GET", f"/threads/{thread}/messages", None),
        ("GET", f"/threads/{thread}/runs", None),
        ("POST", f"/threads/{thread}/runs", {"input": "hello"}),
        ("GET", f"/approvals?thread_id={thread}", None),
        ("GET", f"/runs/{run}", None),
        ("GET", f"/runs/{run}?wait=1", None),
        ("GET", f"/runs/{run}/events?wait=1", None),
        ("POST", f"/runs/{run}/cancel", None),
        ("POST", f"{decision}/approve", {}),
        ("POST", f"{decision}/deny", {}),
        ("POST", f"{decision}/resume", {"data": {}}),
    ]


def test_somebody_elses_ids_are_unknown(ann: Caller, bob: Caller, brain: Brain) -> None:
    thread = ann.thread()
    run = ann.ask(thread, brain.plan(call("refund", order_id="private", amount=1), say("ok")))
    call_id = run["pending"][0]["tool_call_id"]
    for method, path, body in paths_of(thread, run["id"], call_id):
        problem = assert_problem(bob.call(method, path, body), 404)
        assert "private" not in json.dumps(problem)
    mine = bob.thread()
    message = ann.messages(thread)[0]["id"]
    started = bob.call("POST", f"/threads/{mine}/runs", {"input": "a", "parent_id": message})
    assert_problem(started, 422)
    assert_problem(bob.call("GET", f"/threads/{mine}/messages?branch={message}"), 404)
    assert ann.run(run["id"]) == run
    assert ann.decide(run["id"], call_id, "deny").status == 202


def test_a_message_of_another_thread_is_no_parent(ann: Caller, brain: Brain) -> None:
    one, two = ann.thread("plain"), ann.thread("plain")
    ann.ask(one, brain.plan(say("ok")))
    parent = ann.messages(one)[-1]["id"]
    assert_problem(
        ann.call("POST", f"/threads/{two}/runs", {"input": "a", "parent_id": parent}), 422
    )
    assert ann.get(f"/threads/{two}")["active_run"] is None


def test_decisions_that_do_not_fit_leave_the_call_waiting(
    ann: Caller, brain: Brain, system: System
) -> None:
    asked = call("refund", order_id="misfit", amount=1)
    run = ann.ask(ann.thread(), brain.plan(asked, say("ok")))
    call_id = run["pending"][0]["tool_call_id"]
    path = f"/runs/{run['id']}/tool-calls/{call_id}"
    for verdict, body, status in (
        ("approve", {"args": {"amount": 5}}, 422),
        ("approve", {"args": {"order_id": "x", "amount": "much"}}, 422),
        ("approve", {"args": []}, 422),
        ("approve", {"approved": True}, 422),
        ("approve", {"attempt": 2}, 409),
        ("approve", {"attempt": "1"}, 422),
        ("approve", {"reason": 5}, 422),
        ("deny", {"args": {}}, 422),
        ("deny", {"reason": "x" * 10_001}, 422),
        ("resume", {"data": {"approved": True}}, 422),
        ("resume", {}, 422),
        ("approve", "{", 400),
        ("approve", [], 422),
        ("explode", {}, 404),
    ):
        assert_problem(ann.call("POST", f"{path}/{verdict}", body), status)
    assert_problem(ann.decide(run["id"], "call_unknown", "approve"), 404)
    assert ann.run(run["id"]) == run
    assert ann.decide(run["id"], call_id, "approve", attempt=1).status == 202
    ann.over(run["id"])
    assert len(system.ledger("misfit")) == 1
    assert_problem(ann.decide(run["id"], call_id, "approve"), 409)


def test_data_that_does_not_fit_leaves_the_call_waiting(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = ann.ask(ann.thread(), brain.plan(call("book", key="fits"), say("ok")))
    (pending,) = run["pending"]
    assert pending["kind"] == "input"
    assert pending["payload"] == {"slots": ["10:00", "11:00"]}
    call_id = pending["tool_call_id"]
    for data in ({}, {"slot": 5}, {"slot": None}, "10:00", [], None):
        assert_problem(ann.decide(run["id"], call_id, "resume", data=data), 422)
    for verdict in ("approve", "deny"):
        assert_problem(ann.decide(run["id"], call_id, verdict), 422)
    assert ann.run(run["id"]) == run
    assert ann.decide(run["id"], call_id, "resume", data={"slot": "10:00"}).status == 202
    assert ann.over(run["id"])["status"] == "success"
    assert [e["slot"] for e in system.ledger("fits")] == ["10:00"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("POST", "/", 405),
        ("GET", "/threads/", 404),
        ("PUT", "/threads", 405),
        ("DELETE", "/threads", 405),
        ("POST", "/threads/x", 405),
        ("GET", "/runs", 404),
        ("DELETE", "/runs/x", 405),
        ("GET", "/runs/x/cancel", 405),
        ("GET", "/runs/x/tool-calls/y/approve", 405),
        ("OPTIONS", "/threads", 405),
        ("GET", "/_local/nothing", 404),
        ("GET", "/" + "x" * 4000, 404),
    ],
)
def test_paths_and_methods_that_are_not_there_are_told_apart(
    ann: Caller, method: str, path: str, status: int
) -> None:
    answer = ann.call(method, path)
    assert_problem(answer, status)
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.parametrize(
    "value", [None, "", "Bearer", "Bearer nobody", "Basic dev:ann", "dev:ann", "Bearer dev:"]
)
def test_a_request_without_a_valid_token_is_refused(system: System, value: str | None) -> None:
    stranger = system.caller("-")
    headers = {} if value is None else {"authorization": value}
    for path in ("/threads", "/agents", "/approvals", "/runs/x"):
        answer = stranger.call("GET", path, **headers)
        assert_problem(answer, 401)
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/", "/healthz", "/docs", "/openapi.json"])
def test_open_pages_need_no_token(system: System, path: str) -> None:
    answer = httpx2.get(system.url + path, timeout=40, trust_env=False)
    assert answer.status_code == 200
    assert answer.text


@pytest.mark.parametrize("body", ["{", "{}", '{"advance_s": "x"}', '{"advance_s": NaN}', "[]"])
def test_the_local_clock_refuses_nonsense(system: System, ann: Caller, body: str) -> None:
    assert_problem(ann.call("POST", "/_local/clock", body), 422)
