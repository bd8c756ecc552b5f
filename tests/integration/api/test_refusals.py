"""Requests that the API refuses, always with a problem document."""

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.api.kit import USE, Api
from integration.api.test_openapi import CALLS
from layover import Agent
from layover.runtime import Runtime
from layover.values.deployment.access import DECIDE, PROTECTED_RESOURCE, SLACK, is_open
from layover.values.runs.run import SuspensionKind


@pytest.mark.parametrize(
    ("method", "url"),
    [("GET", "/agents"), ("GET", "/threads"), ("POST", "/threads"), ("GET", "/approvals")],
)
def test_without_a_verified_token_nothing_is_answered(api: Api, method: str, url: str) -> None:
    for sub in (None, ""):
        answer = api.send(method, url, sub=sub)
        answer.problem(401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/nope", "/threads/", "/runs", "/memory/things", "/x" * 2000])
def test_a_path_that_is_not_there_is_not_found(api: Api, path: str) -> None:
    api.get(path).problem(404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/threads", "GET, POST"),
        ("DELETE", "/threads", "GET, POST"),
        ("OPTIONS", "/threads", "GET, POST"),
        ("POST", "/", "GET"),
        ("POST", "/threads/x", "DELETE, GET, PATCH"),
        ("DELETE", "/runs/x", "GET"),
        ("GET", "/runs/x/cancel", "POST"),
        ("GET", "/runs/x/tool-calls/y/approve", "POST"),
    ],
)
def test_a_method_that_a_path_does_not_have_is_named_with_those_it_has(
    api: Api, method: str, path: str, allowed: str
) -> None:
    answer = api.send(method, path)
    answer.problem(405, "method-not-allowed")
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    "text",
    ["{", "nope", "{} {}", '{"agent": NaN}', '{"agent": -1e999}', "\ufeff{}", '{"a":' * 100_000],
)
def test_a_body_that_is_no_json_is_malformed(api: Api, text: str) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    for method, url in (
        ("POST", "/threads"),
        ("PATCH", f"/threads/{thread}"),
        ("POST", f"/threads/{thread}/runs"),
    ):
        api.send(method, url, text=text).problem(400, "malformed-body")
    assert api.get(f"/threads/{thread}/runs").json["items"] == []
    assert len(api.get("/threads").json["items"]) == 1


@pytest.mark.parametrize("text", [base64.b64encode(b'{"agent":"\xff"}').decode(), "###"])
def test_a_body_that_is_no_utf_8_is_malformed(api: Api, text: str) -> None:
    api.post("/threads", text=text, is_base64=True).problem(400, "malformed-body")


@pytest.mark.parametrize("text", ["/w==", "A" * 8_000_000])
def test_a_call_that_takes_no_body_looks_at_none(api: Api, text: str) -> None:
    run, _ = api.do(api.world.suspended())
    for method, url, sub in (
        ("GET", "/healthz", None),
        ("GET", "/threads", "ann"),
        ("POST", f"/runs/{run.id}/cancel", "ann"),
        ("DELETE", f"/threads/{run.thread_id}", "ann"),
    ):
        assert api.send(method, url, text=text, is_base64=True, sub=sub).status in (200, 202, 204)


def test_a_wrong_query_is_named_whatever_lies_in_a_body_that_nobody_reads(api: Api) -> None:
    answer = api.send("GET", "/agents?limit=x", text="{")
    assert answer.problem(422, "invalid-request")["errors"][0]["loc"] == ["query", "limit"]


@pytest.mark.parametrize("text", ["[]", '[{"agent": "support"}]', '"support"', "1", "null", ""])
def test_a_body_that_is_no_object_has_the_wrong_shape(api: Api, text: str) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    for url in ("/threads", f"/threads/{thread}/runs"):
        assert api.post(url, text=text).problem(422, "invalid-request")["errors"]


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({}, ["body", "agent"]),
        ({"agent": 1}, ["body", "agent"]),
        ({"agent": "support", "titel": "secret"}, ["body", "titel"]),
        ({"agent": "support", "metadata": ["secret"]}, ["body", "metadata"]),
        ({"agent": "support", "title": "secret" * 100}, ["body", "title"]),
        ({"agent": "support", "title": ["secret"]}, ["body", "title"]),
        ({"agent": "support", "owner": "secret"}, ["body", "owner"]),
        ({"agent": "support\0"}, ["body", "agent"]),
        ({"agent": "\udfff"}, ["body", "agent"]),
    ],
)
def test_wrong_fields_are_named_and_not_repeated(api: Api, body: Any, loc: list[str]) -> None:
    answer = api.post("/threads", body)
    errors = answer.problem(422, "invalid-request")["errors"]
    assert [e["loc"] for e in errors] == [loc]
    assert all(e.keys() == {"loc", "msg", "type"} for e in errors)
    assert "secret" not in answer.body
    assert api.get("/threads").json["items"] == []


@pytest.mark.parametrize("body", [{"title": 5}, {"metadata": "x"}, {"agent": "plain"}])
def test_a_change_of_a_thread_that_cannot_be_changes_nothing(api: Api, body: Any) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    before = api.get(f"/threads/{thread}").json
    api.send("PATCH", f"/threads/{thread}", body).problem(422, "invalid-request")
    assert api.get(f"/threads/{thread}").json == before


def test_metadata_that_are_too_large_are_refused(api: Api) -> None:
    body = {"agent": "support", "metadata": {"a": "x" * 70_000}}
    api.post("/threads", body).problem(413, "too-large")
    assert api.get("/threads").json["items"] == []


def test_an_agent_that_is_not_served_is_named_among_those_that_are(api: Api) -> None:
    answers = (
        (api.post("/threads", {"agent": "secret"}), "body"),
        (api.get("/memory/profile?agent=secret"), "query"),
        (api.get("/memory/entries?agent=secret"), "query"),
    )
    for answer, where in answers:
        problem = answer.problem(422, "unknown-agent")
        assert problem["title"] == "There is no such agent"
        assert "support" in problem["detail"]
        assert [e["loc"] for e in problem["errors"]] == [[where, "agent"]]
        assert "secret" not in answer.body


def test_a_mistyped_agent_is_answered_with_the_nearest(api: Api) -> None:
    problem = api.post("/threads", {"agent": "suport"}).problem(422, "unknown-agent")
    assert "did you mean 'support'?" in problem["detail"]
    assert "'suport'" not in problem["detail"]


FILE = {"type": "file", "url": "https://example.com/a", "name": "a", "mime_type": "text/plain"}


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({}, ["input"]),
        ({"input": 5}, ["input"]),
        ({"input": {"text": "hi"}}, ["input"]),
        ({"input": ["hi"]}, ["input", 0]),
        ({"input": [{"type": "tool_call"}]}, ["input", 0]),
        ({"input": [{"type": "text"}]}, ["input", 0, "text"]),
        ({"input": [{"type": "text", "text": 5}]}, ["input", 0, "text"]),
        ({"input": [{"type": "text", "text": "hi"}, {**FILE, "url": 5}]}, ["input", 1, "url"]),
        ({"input": "hi", "max_iterations": "x"}, ["max_iterations"]),
    ],
)
def test_paths_of_errors_are_those_of_what_was_sent(
    api: Api, body: Any, loc: list[str | int]
) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    errors = api.post(f"/threads/{thread}/runs", body).problem(422, "invalid-request")["errors"]
    assert {tuple(e["loc"]) for e in errors} == {("body", *loc)}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": ""},
        {"input": []},
        {"input": 5},
        {"input": None},
        {"input": [{"type": "tool_call"}]},
        {"input": [{"text": "x"}]},
        {"input": [{"type": "text"}]},
        {"input": [{"type": "text", "text": 5}]},
        {"input": [{"type": "file", "name": "x"}]},
        {"input": [{"type": "file", "url": "http://example.com/a.png"}]},
        {"input": [{"type": "file", "file_id": "file_1"}]},
        {"input": "x", "stream": "yes"},
        {"input": "x", "on_busy": "wait"},
        {"input": "x", "max_iterations": 0},
        {"input": "x", "max_iterations": 1.5},
        {"input": "x", "max_iterations": 10**30},
        {"input": "x", "model": "openai/other"},
        {"input": "x", "model": ""},
        {"input": "x", "reasoning": "high"},
        {"input": "x", "reasoning": "huge"},
        {"input": "x", "max_tokens": 9},
        {"input": "x", "max_tokens": 0},
        {"input": "x", "inptu": "y"},
        {"input": "x", "parent_id": 5},
        {"input": "x", "parent_id": "msg\0"},
        {"input": "x", "parent_id": "\ud800"},
        {"input": "x", "parent_id": "msg_elsewhere"},
    ],
)
def test_a_run_that_is_asked_for_wrongly_is_not_started(api: Api, body: Any) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    before = api.get(f"/threads/{thread}").json
    assert api.post(f"/threads/{thread}/runs", body).problem(422, "invalid-request")["errors"]
    assert api.get(f"/threads/{thread}/runs").json["items"] == []
    assert api.get(f"/threads/{thread}").json == before


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=101", "limit=x", "limit=1&limit=2"),
        *("cursor=x", "cursor=nonsense", "cursor=%00", "cursor=" + "A" * 5000),
    ],
)
def test_a_page_that_cannot_be_is_refused(api: Api, query: str) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    for path in ("/threads", "/approvals", f"/threads/{thread}/runs", "/agents"):
        api.get(f"{path}?{query}").problem(422, "invalid-request")
    api.get(f"/threads/{thread}/messages?{query}").problem(422, "invalid-request")


def test_a_wait_that_is_no_number_is_refused(api: Api) -> None:
    api.get("/runs/run_1?wait=long").problem(422, "invalid-request")
    api.get("/runs/run_1/events?wait=long").problem(422, "invalid-request")
    for query in ("after=-1", "after=x", "limit=0"):
        api.get(f"/runs/run_1/events?{query}").problem(422, "invalid-request")


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_without_a_sensible_length_is_refused(api: Api, key: str) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    headers = {"Idempotency-Key": key}
    answer = api.post(f"/threads/{thread}/runs", {"input": "x"}, headers=headers)
    answer.problem(422, "invalid-request")


def test_too_large_an_input_and_too_large_a_body_are_refused(api: Api) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    for size in (1_100_000, 5_300_000):
        answer = api.post(f"/threads/{thread}/runs", {"input": "x" * size})
        answer.problem(413, "too-large")
    answer = api.post(f"/threads/{thread}/runs", {"input": "x" * 1_000_000})
    assert answer.status == 202


@pytest.mark.parametrize("path", ["/chat/support", "/ag-ui/support"])
def test_a_chat_that_has_outgrown_a_request_is_told_to_send_one_message(
    api: Api, path: str
) -> None:
    picture = {
        "type": "file",
        "mediaType": "image/png",
        "url": "data:image/png;base64," + "A" * 1_400_000,
    }
    messages = [{"id": f"u{n}", "role": "user", "parts": [picture]} for n in range(4)]
    answer = api.post(path, {"id": "c1", "threadId": "c1", "runId": "r1", "messages": messages})
    detail = answer.problem(413, "too-large")["detail"]
    assert "only the message that is read (`prepareSendMessagesRequest`" in detail
    assert "`requestInit`" in detail


def test_a_busy_thread_answers_with_its_active_run(api: Api) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    run = api.post(f"/threads/{thread}/runs", {"input": "one"}).json
    answer = api.post(f"/threads/{thread}/runs", {"input": "two"})
    assert answer.problem(409, "thread-busy")["active_run"] == run["id"]


def test_a_full_queue_is_a_limit(api: Api) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    body = {"input": "x", "on_busy": "enqueue"}
    answers = [api.post(f"/threads/{thread}/runs", body) for _ in range(102)]
    assert [a.status for a in answers[:101]] == [202] * 101
    answers[101].problem(429, "limit-reached")


def test_a_sleeping_database_says_when_to_come_again(api: Api) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    run = api.post(f"/threads/{thread}/runs", {"input": "one"}).json
    api.do(api.world.finish(run["id"]))
    api.world.threads.asleep = True
    answer = api.get(f"/threads/{thread}/messages")
    answer.problem(503, "database-waking")
    assert answer.headers["retry-after"] == "5"


def test_a_passing_fault_may_be_tried_again(api: Api) -> None:
    from layover.errors import RetryableError

    def throttled() -> Runtime:
        raise RetryableError("the journal did not answer")

    api.host.runtime = throttled  # type: ignore[method-assign]
    answer = api.get("/threads")
    answer.problem(503, "try-again")
    assert answer.headers["retry-after"] == "1"


def test_a_failure_that_nobody_foresaw_tells_nothing_but_where_to_look(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Runtime:
        raise ValueError("secret text of a user")

    api.host.runtime = broken  # type: ignore[method-assign]
    answer = api.get("/threads")
    assert answer.problem(500, "internal-error")["request_id"] == "req-1"
    assert "secret" not in answer.body
    logged = vars(caplog.records[-1])
    assert "secret" not in str(logged)
    assert (logged["request_id"], logged["error"], logged["levelname"]) == (
        "req-1",
        "ValueError",
        "ERROR",
    )


def test_on_one_machine_a_failure_names_the_file_that_says_why(api: Api) -> None:
    def broken() -> Mapping[str, Agent]:
        raise ValueError("secret text of a user")

    local = api.world.runtime.settings.model_copy(update={"log_file": "/logs/api.log"})
    api.world.runtime = replace(api.world.runtime, agents=broken, settings=local)
    problem = api.get("/agents").problem(500, "internal-error")
    assert problem["detail"] == "the request failed; /logs/api.log says why"


def test_an_event_that_api_gateway_would_not_send_is_answered_all_the_same(api: Api) -> None:
    from functions.api.app import answer

    assert answer({}, None, api.host)["statusCode"] in (401, 404, 500)


def test_an_attempt_that_does_not_wait_is_refused(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    url = f"/runs/{run.id}/tool-calls/c1"
    api.post(f"{url}/approve", {"attempt": 2}).problem(409, "decision-already-made")
    for verdict, body in (
        ("approve", {"attempt": "1"}),
        ("approve", {"args": []}),
        ("approve", {"approved": True}),
        ("approve", {"reason": 5}),
        ("approve", []),
        ("deny", {"args": {}}),
        ("deny", {"reason": "x" * 10_001}),
        ("resume", {}),
    ):
        api.post(f"{url}/{verdict}", body).problem(422, "invalid-request")
    api.post(f"{url}/resume", {"attempt": 1, "data": {"approved": True}}).problem(
        422, "decision-invalid"
    )
    api.post(f"{url}/approve", text="{").problem(400, "malformed-body")
    # As if it were a call of that id, which can only be read.
    api.post(f"{url}/explode", {}).problem(405, "method-not-allowed")
    api.post(f"/runs/{run.id}/tool-calls/c9/approve", {"attempt": 1}).problem(404, "not-found")
    answer = api.post(f"{url}/approve", {"attempt": 1, "args": {"amount": "secret"}})
    errors = answer.problem(422, "decision-invalid")["errors"]
    assert {tuple(e["loc"]) for e in errors} == {
        ("body", "args", "order_id"),
        ("body", "args", "amount"),
    }
    assert "secret" not in answer.body
    assert api.get(f"/runs/{run.id}").json["pending"], "it still waits"
    assert api.post(f"{url}/approve", {"attempt": 1}).status == 202
    api.post(f"{url}/deny", {"attempt": 1}).problem(409, "decision-already-made")


@pytest.mark.parametrize("data", [{}, {"slot": 5}, {"slot": None}, "10:00", [], None])
def test_data_that_does_not_fit_leaves_the_call_waiting(api: Api, data: Any) -> None:
    run, _ = api.do(api.world.suspended(SuspensionKind.INPUT))
    url = f"/runs/{run.id}/tool-calls/c1"
    before = api.get(f"/runs/{run.id}").json
    api.post(f"{url}/resume", {"attempt": 1, "data": data}).problem(422, "decision-invalid")
    api.post(f"{url}/approve", {"attempt": 1}).problem(422, "decision-invalid")
    assert api.get(f"/runs/{run.id}").json == before
    assert api.post(f"{url}/resume", {"attempt": 1, "data": {"slot": "10:00"}}).status == 202


@pytest.mark.parametrize("body", [None, {}, {"reason": "fine"}])
@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_a_decision_that_names_no_attempt_is_about_the_first(
    api: Api, verdict: str, body: Any
) -> None:
    """A repetition would otherwise decide an attempt that nobody was shown."""
    asked_again, _ = api.do(api.world.suspended(attempt=2))
    url = f"/runs/{asked_again.id}/tool-calls/c1/{verdict}"
    api.post(url, body).problem(409, "decision-already-made")
    item = {"run_id": asked_again.id, "tool_call_id": "c1", "decision": verdict, **(body or {})}
    (outcome,) = api.post("/approvals/decisions", {"items": [item]}).json["items"]
    assert outcome["status"] == 409
    assert api.get(f"/runs/{asked_again.id}").json["pending"][0]["attempt"] == 2
    first, _ = api.do(api.world.suspended())
    assert api.post(f"/runs/{first.id}/tool-calls/c1/{verdict}", body).status == 202


@pytest.mark.parametrize("body", [None, {}, {"attempt": 1}])
def test_an_answer_without_data_is_refused_with_what_to_send(api: Api, body: Any) -> None:
    run, _ = api.do(api.world.suspended(SuspensionKind.INPUT))
    url = f"/runs/{run.id}/tool-calls/c1/resume"
    api.post(url, body).problem(422, "invalid-request")
    assert api.get(f"/runs/{run.id}").json["pending"][0]["attempt"] == 1


def test_an_edit_of_a_tool_that_no_deployed_code_knows_is_refused(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    api.world.agents["support"] = Agent("support", model="m")
    edit = {"attempt": 1, "args": {"amount": 5}}
    call = {"run_id": run.id, "tool_call_id": "c1"}
    problem = api.post(f"/runs/{run.id}/tool-calls/c1/approve", edit).problem(
        422, "decision-invalid"
    )
    assert [(e["loc"], e["type"]) for e in problem["errors"]] == [
        (["body", "args"], "unknown_tool")
    ]
    items = {"items": [{**call, **edit, "decision": "approve"}]}
    (item,) = api.post("/approvals/decisions", items).json["items"]
    assert (item["status"], item["problem"]["detail"]) == (422, problem["detail"])
    assert api.get(f"/runs/{run.id}").json["pending"][0]["attempt"] == 1


def test_whatever_does_not_fit_is_named(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    other = api.post("/threads", {"agent": "support"}).json["id"]
    for text in ("one", "two"):
        api.post(f"/threads/{other}/runs", {"input": text, "on_busy": "enqueue"})
    cursor = api.get(f"/threads/{other}/runs?limit=1").json["next_cursor"]
    deep: Any = 1
    for _ in range(101):
        deep = [deep]
    calls = f"/runs/{run.id}/tool-calls/c1"
    for answer, slug, loc in (
        (api.post(f"{calls}/resume", {"attempt": 1, "data": {}}), "decision-invalid", ["path"]),
        (
            api.post(f"{calls}/approve", {"attempt": 1, "args": {"x": deep}}),
            "invalid-request",
            ["body"],
        ),
        (
            api.get(f"/threads/{run.thread_id}/runs?cursor={cursor}"),
            "invalid-request",
            ["query", "cursor"],
        ),
    ):
        assert [e["loc"] for e in answer.problem(422, slug)["errors"]] == [loc]


def test_agents_that_cannot_be_loaded_are_explained_in_the_log(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    from layover.errors import DefinitionError

    def broken() -> Runtime:
        raise DefinitionError("the module `my_agents` has no agents")

    api.host.runtime = broken  # type: ignore[method-assign]
    api.get("/agents").problem(500, "internal-error")
    assert vars(caplog.records[-1])["says"] == "the module `my_agents` has no agents"


def test_where_the_agents_cannot_be_loaded_callers_learn_it_and_authors_find_it_in_the_log(
    api: Api, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from layover.declare.registry import load_agents

    waiting, _ = api.do(api.world.suspended())
    (tmp_path / "my_agents.py").write_text("raise ValueError('the key sk-1 is wrong')")
    monkeypatch.syspath_prepend(tmp_path)
    local = api.world.runtime.settings.model_copy(update={"log_file": "/logs/api.log"})
    runtime = replace(api.world.runtime, agents=lambda: load_agents("my_agents"), settings=local)
    api.host.runtime = lambda: runtime  # type: ignore[method-assign]
    for answer in (
        api.post("/threads", {"agent": "support"}),
        api.get("/agents"),
        api.get(f"/threads/{waiting.thread_id}/memory"),
        api.post(f"/runs/{waiting.id}/tool-calls/c1/approve", {"attempt": 1, "args": {}}),
    ):
        problem = answer.problem(500, "agents-not-loaded")
        told = (
            "the agents' module 'my_agents' cannot be imported: ValueError; /logs/api.log says more"
        )
        assert problem["detail"] == told
        assert "sk-1" not in answer.body
        assert "sk-1" in vars(caplog.records[-1])["says"]


@pytest.mark.parametrize(
    ("text", "loc"),
    [
        ('{"agent": "support", "agent": "plain"}', ["agent"]),
        ('{"agent": "support", "agent": "support"}', ["agent"]),
        (
            '{"agent": "support", "metadata": {"a": [1, {"b": 1, "\\u0062": 2}]}}',
            ["metadata", "a", 1, "b"],
        ),
        ('{"agent": "support", "metadata": {"a": 1}, "metadata": {"b": 1}}', ["metadata"]),
        ('{"agent": "support", "x": {"c": 1, "c": 1}, "x": 1}', ["c"]),
    ],
)
def test_a_key_that_stands_twice_is_named(api: Api, text: str, loc: list[str | int]) -> None:
    answer = api.post("/threads", text=text)
    (error,) = answer.problem(422, "invalid-request")["errors"]
    assert (error["loc"], error["type"]) == (["body", *loc], "duplicate_key")
    assert api.get("/threads").json["items"] == []


def test_a_key_that_stands_twice_decides_and_asks_nothing(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    before = api.get(f"/runs/{run.id}").json
    calls = f"/runs/{run.id}/tool-calls/c1"
    twice = '{"attempt": 1, "args": {"order_id": "o1", "amount": 1, "amount": 900}}'
    for url, text in (
        (f"{calls}/approve", twice),
        (f"{calls}/deny", '{"attempt": 1, "reason": "a", "reason": "b"}'),
        (f"{calls}/resume", '{"attempt": 1, "data": {"approved": false, "approved": true}}'),
        (f"/threads/{run.thread_id}/runs", '{"input": "a", "on_busy": "enqueue", "input": "b"}'),
        ("/files", '{"name": "a", "mime_type": "text/plain", "size": 1, "size": 2}'),
        ("/socket-tickets", '{"run_id": "a", "run_id": "b"}'),
    ):
        (error,) = api.post(url, text=text).problem(422, "invalid-request")["errors"]
        assert error["type"] == "duplicate_key"
    profile = '{"profile": {"tea": "green", "tea": "black"}}'
    api.send("PUT", "/memory/profile?agent=support", text=profile).problem(422, "invalid-request")
    assert api.get(f"/runs/{run.id}").json == before


@pytest.mark.parametrize(
    ("method", "url", "nearest"),
    [
        ("GET", "/threads?limt=5", "'limit'"),
        ("GET", "/threads?Limit=5", "'limit'"),
        ("GET", "/approvals?role=approver", "'as'"),
        ("GET", "/usage?since=2026-01-01", "'from'"),
        ("GET", "/memory/entries?agent=support&q=cat", "'query'"),
        ("GET", "/runs/x?waits=1", "'wait'"),
        ("GET", "/runs/x/events?tickets=1", "'ticket'"),
        ("DELETE", "/threads/x?forget_profil=true", "'forget_profile'"),
        ("POST", "/threads?agent=support", ""),
        ("POST", "/runs/x/cancel?wait=1", ""),
        ("GET", "/me/export?format=xml", ""),
        ("GET", "/threads?limit=5&", None),
        ("GET", "/threads?=5", "'limit'"),
    ],
)
def test_a_query_parameter_that_a_call_does_not_have_is_answered_with_those_it_has(
    api: Api, method: str, url: str, nearest: str | None
) -> None:
    answer = api.send(method, url, {"agent": "support"} if method == "POST" else None)
    if nearest is None:
        assert answer.status == 200
        return
    (error,) = answer.problem(422, "invalid-request")["errors"]
    assert error["loc"][0] == "query"
    assert error["type"] == "unknown_parameter"
    assert nearest in error["msg"]
    assert api.get("/threads").json["items"] == []


def test_every_unknown_query_parameter_is_named(api: Api) -> None:
    problem = api.get("/threads?limt=5&cursr=x&limit=3").problem(422, "invalid-request")
    assert [e["loc"] for e in problem["errors"]] == [["query", "limt"], ["query", "cursr"]]


def test_open_paths_take_whatever_a_page_or_a_monitor_adds(api: Api) -> None:
    for path in ("/healthz?t=1", "/?code=a&state=b", "/openapi.json?v=2"):
        assert api.get(path, sub=None).status == 200


def test_without_a_token_a_query_parameter_is_not_looked_at(api: Api) -> None:
    api.get("/threads?limt=5", sub=None).problem(401, "unauthenticated")
    api.send("PUT", "/threads?limt=5").problem(405, "method-not-allowed")
    api.get("/thread?limt=5").problem(404, "not-found")


@pytest.mark.parametrize(("method", "path"), sorted(CALLS))
def test_no_call_passes_a_query_parameter_over_that_it_does_not_have(
    api: Api, method: str, path: str
) -> None:
    url = re.sub(r"\{\w+\}", "x", path)
    body: dict[str, Any] | None = {} if method in ("post", "put", "patch") else None
    scope = f"{USE} layover/operate layover/audit"
    answer = api.send(method.upper(), f"{url}?nothing_like_it=1", body, scope=scope)
    if path == SLACK:
        answer.problem(401, "unsigned")
        return
    if is_open(path):
        # One machine has nobody who gives tokens.
        expected = {PROTECTED_RESOURCE: 404, DECIDE: 404 if method == "get" else 422}
        assert answer.status == expected.get(path, 200)
        return
    (error,) = answer.problem(422, "invalid-request")["errors"]
    assert error["loc"] == ["query", "nothing_like_it"]
