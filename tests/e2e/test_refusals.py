"""Requests that pass the front and that the API refuses. Refusals of the API alone are proved without a
system (tests/integration/api); the front's own limits, tokens and paths in tests/integration/local."""

import json
from typing import Any

import httpx2
import pytest

from support.system.documented import Response
from support.system.system import Caller, Json, System

BODIES: dict[str, tuple[Any, int]] = {
    "no body": (None, 422),
    "not JSON": ("{", 400),
    "not UTF-8": (b'{"input": "\xff\xfe"}', 400),
    "deep nesting": ("[" * 100_000, 400),
    "parent with NUL": ('{"input": "a", "parent_id": "msg\\u0000"}', 422),
    "parent a surrogate": ('{"input": "a", "parent_id": "\\ud800"}', 422),
    "input above 1 MB": ({"input": "x" * 1_100_000}, 413),
    "body above 5 MB": ({"input": "x" * 5_300_000}, 413),
    "body above 6 MB": ({"input": "x" * 7_000_000}, 413),
}
"""Requests that the front passes on unchanged, or refuses itself."""


def assert_problem(answer: Response, status: int) -> Json:
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


def test_bodies_that_make_no_sense_are_refused_and_leave_nothing_behind(ann: Caller) -> None:
    thread = ann.thread()
    before = ann.get(f"/threads/{thread}")
    for body, status in BODIES.values():
        assert_problem(ann.call("POST", f"/threads/{thread}/runs", body), status)
    assert ann.get(f"/threads/{thread}") == before
    assert before["active_run"] is None
    assert ann.get(f"/threads/{thread}/runs")["items"] == []


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
def test_ids_that_nobody_gave_out_are_unknown_however_they_are_encoded(
    ann: Caller, odd: str
) -> None:
    assert_problem(ann.call("GET", f"/threads/{odd}"), 404)
    assert_problem(ann.call("POST", f"/runs/{odd}/tool-calls/{odd}/approve", {"attempt": 1}), 404)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/threads", 405),
        ("OPTIONS", "/threads", 405),
        ("GET", "/threads/", 404),
        ("GET", "/_local/nothing", 403),
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


@pytest.mark.parametrize("value", [None, "Bearer nobody", "Basic dev:ann"])
def test_a_request_without_a_valid_token_is_refused(system: System, value: str | None) -> None:
    headers = {} if value is None else {"authorization": value}
    answer = system.caller("-").call("GET", "/threads", **headers)
    assert_problem(answer, 401)
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/", "/healthz", "/docs", "/openapi.json"])
def test_open_pages_need_no_token(system: System, path: str) -> None:
    answer = httpx2.get(system.url + path, timeout=40, trust_env=False, verify=False)
    assert answer.status_code == 200
    assert answer.text
