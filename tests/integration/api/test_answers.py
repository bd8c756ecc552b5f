"""The API's answers: the shapes of docs/reference/http-api.md#objects."""

import base64
import gzip
import json
import re
from datetime import timedelta
from typing import Any

import pytest

from integration.api.kit import Api
from layover.values.memory.context import Extraction
from layover.values.runs.event import TextDelta
from layover.values.runs.run import SuspensionKind
from support.worlds.services import ANN

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")


def new_thread(api: Api, **fields: Any) -> str:
    thread: str = api.post("/threads", {"agent": "support", **fields}).json["id"]
    return thread


def test_health_needs_no_token(api: Api) -> None:
    answer = api.get("/healthz", sub=None)
    assert (answer.status, answer.json) == (200, {"status": "ok"})


def test_the_front_page_says_what_this_is(api: Api) -> None:
    answer = api.get("/", sub=None)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "Layover" in answer.body


def test_agents_are_listed_with_their_tools(api: Api) -> None:
    page = api.get("/agents").json
    assert page["next_cursor"] is None
    assert page["items"] == [
        {"name": "plain", "model": "openai/gpt-5-nano", "tools": []},
        {
            "name": "support",
            "description": "Answers questions about orders, and pays back.",
            "model": "openai/gpt-5-mini",
            "tools": [
                {"name": "refund", "description": "Pay back.", "needs_approval": True},
                {
                    "name": "look_up",
                    "description": "Look up what is known of an order.",
                    "needs_approval": False,
                },
            ],
        },
    ]


def test_agents_come_page_by_page(api: Api) -> None:
    first = api.get("/agents?limit=1").json
    second = api.get(f"/agents?limit=1&cursor={first['next_cursor']}").json
    assert [a["name"] for p in (first, second) for a in p["items"]] == ["plain", "support"]
    assert second["next_cursor"] is None


def test_a_thread_lives_from_post_to_delete(api: Api) -> None:
    made = api.post("/threads", {"agent": "support", "title": "Hi", "metadata": {"a": [1]}})
    assert made.status == 201
    thread = made.json
    assert thread.keys() == {
        "id",
        "agent",
        "title",
        "metadata",
        "created_at",
        "updated_at",
        "active_run",
        "waiting_runs",
    }
    assert TIME.match(thread["created_at"])
    url = f"/threads/{thread['id']}"
    assert api.get(url).json == thread
    assert api.get("/threads").json == {"items": [thread], "next_cursor": None}
    assert api.send("PATCH", url, {"title": "Ho"}).json["title"] == "Ho"
    patched = api.send("PATCH", url, {"title": None, "metadata": {"b": 2}}).json
    assert (patched["title"], patched["metadata"]) == (None, {"b": 2})
    assert api.send("PATCH", url, {}).json["metadata"] == {"b": 2}
    deleted = api.send("DELETE", url)
    assert (deleted.status, deleted.body) == (204, "")
    api.get(url).problem(404, "not-found")
    api.get(f"{url}/messages").problem(404, "not-found")


def test_a_run_has_every_field_of_the_contract(api: Api) -> None:
    thread = new_thread(api)
    answer = api.post(f"/threads/{thread}/runs", {"input": "hello\x00"})
    assert answer.status == 202
    run = answer.json
    assert run.keys() == {
        *("id", "thread_id", "agent", "status", "finish_reason", "text", "output", "messages"),
        *("pending", "unexecuted", "usage", "model", "error", "input", "children"),
        *("created_at", "updated_at"),
    }
    assert run["status"] == "running"
    assert run["usage"] == {
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
        "cached_input_tokens": 0,
        "cache_write_input_tokens": 0,
        "reasoning_tokens": 0,
        "cost_usd": None,
        "sub_agents": [],
    }
    assert run["input"]["content"] == [{"type": "text", "text": "hello�"}]
    assert api.get(f"/runs/{run['id']}").json == run
    assert api.get(f"/threads/{thread}/runs").json["items"] == [run]
    assert api.get(f"/threads/{thread}").json["active_run"] == {
        "id": run["id"],
        "status": "running",
    }
    assert api.get(f"/threads/{thread}/messages").json["items"] == [run["input"]]
    assert api.world.callbacks.started == [f"{run['id']}-1"]


def test_an_input_of_parts_keeps_its_order(api: Api) -> None:
    parts = [
        {"type": "file", "url": "https://example.com/a.png", "mime_type": "image/png"},
        {"type": "text", "text": "what is this?"},
        {"type": "data", "name": "page", "data": {"n": 1}},
    ]
    run = api.post(f"/threads/{new_thread(api)}/runs", {"input": parts}).json
    assert [p["type"] for p in run["input"]["content"]] == ["file", "text", "data"]


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-www-form-urlencoded", "text/plain"]
)
def test_a_body_is_json_whatever_the_client_calls_it(api: Api, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    assert api.post("/threads", {"agent": "support"}, headers=headers).status == 201


def test_a_body_in_base64_is_decoded(api: Api) -> None:
    text = base64.b64encode('{"agent":"support","title":"Tür"}'.encode()).decode()
    assert api.post("/threads", text=text, is_base64=True).json["title"] == "Tür"


def test_the_same_key_and_request_give_the_same_run(api: Api) -> None:
    url = f"/threads/{new_thread(api)}/runs"
    headers = {"Idempotency-Key": "a key, with a comma"}
    first = api.post(url, {"input": "x"}, headers=headers)
    again = api.post(url, {"stream": False, "input": "x"}, headers=headers)
    assert (again.status, again.json["id"]) == (202, first.json["id"])
    api.post(url, {"input": "y"}, headers=headers).problem(409, "conflict")


@pytest.mark.parametrize("prefer", ["wait=0", "respond-async, wait=0", 'wait="0"; foo=bar'])
def test_a_run_that_goes_on_after_the_wait_is_accepted(api: Api, prefer: str) -> None:
    url = f"/threads/{new_thread(api)}/runs"
    answer = api.post(url, {"input": "x"}, headers={"Prefer": prefer})
    assert (answer.status, answer.headers["preference-applied"]) == (202, "wait=0")


@pytest.mark.parametrize("prefer", ["wait=soon", "await=5", "return=minimal", "wait=-1"])
def test_a_preference_that_is_none_is_ignored(api: Api, prefer: str) -> None:
    url = f"/threads/{new_thread(api)}/runs"
    answer = api.post(url, {"input": "x"}, headers={"Prefer": prefer})
    assert answer.status == 202
    assert "preference-applied" not in answer.headers


def test_a_run_that_is_over_within_the_wait_is_answered_as_done(api: Api) -> None:
    url = f"/threads/{new_thread(api)}/runs"
    headers = {"Idempotency-Key": "k"}
    run = api.post(url, {"input": "x"}, headers=headers).json
    api.do(api.world.finish(run["id"], "there"))
    answer = api.post(url, {"input": "x"}, headers={**headers, "Prefer": "wait=60"})
    assert (answer.status, answer.headers["preference-applied"]) == (200, "wait=25")
    assert (answer.json["status"], answer.json["text"]) == ("success", "there")
    assert answer.json["finish_reason"] == "stop"


def test_a_run_is_remembered_within_the_wait_where_that_is_preferred(api: Api) -> None:
    url = f"/threads/{new_thread(api)}/runs"
    headers = {"Idempotency-Key": "k"}
    run = api.post(url, {"input": "x"}, headers=headers).json
    api.do(api.world.finish(run["id"], "there"))
    prefer = {**headers, "Prefer": "wait=1, remembered"}
    answer = api.post(url, {"input": "x"}, headers=prefer)
    assert (answer.status, answer.headers["preference-applied"]) == (200, "wait=1")
    taught = Extraction(run_id=run["id"], thread_id=run["thread_id"], agent="support")
    api.do(api.world.runtime.memory.record_extraction(ANN, taught))
    answer = api.post(url, {"input": "x"}, headers=prefer)
    assert (answer.status, answer.headers["preference-applied"]) == (200, "wait=1, remembered")
    assert answer.json["id"] == run["id"]


def test_a_run_that_failed_teaches_nothing_and_nobody_waits_for_that(api: Api) -> None:
    url = f"/threads/{new_thread(api)}/runs"
    headers = {"Idempotency-Key": "k", "Prefer": "wait=25, remembered"}
    run = api.post(url, {"input": "x"}, headers={"Idempotency-Key": "k"}).json
    api.post(f"/runs/{run['id']}/cancel")
    answer = api.post(url, {"input": "x"}, headers=headers)
    assert (answer.status, answer.headers["preference-applied"]) == (200, "wait=25")


def test_a_run_that_took_long_to_accept_is_waited_for_less_long(api: Api) -> None:
    url, headers = f"/threads/{new_thread(api)}/runs", {"Idempotency-Key": "k"}
    run = api.post(url, {"input": "x"}, headers=headers).json
    api.do(api.world.finish(run["id"], "there"))
    for took, waited in ((20.0, "wait=7"), (60.0, "wait=0")):
        times = iter((0.0, took))
        api.now = times.__next__
        answer = api.post(url, {"input": "x"}, headers={**headers, "Prefer": "wait=25"})
        assert (answer.status, answer.headers["preference-applied"]) == (200, waited)


def test_a_run_that_waits_for_a_person_is_shown_and_decided(api: Api) -> None:
    run, call = api.do(api.world.suspended(expires_at=api.world.clock.now() + timedelta(days=2)))
    api.do(api.world.token(call))
    shown = api.get(f"/runs/{run.id}?wait=99").json
    assert shown["status"] == "suspended"
    [pending] = shown["pending"]
    assert pending.keys() == {
        *("tool_call_id", "tool_name", "args", "kind", "payload", "resume_schema"),
        *("args_schema", "attempt", "agent_path", "requested_at", "expires_at"),
        *("summary", "risk", "denied_before"),
    }
    [listed] = api.get("/approvals").json["items"]
    assert listed == {
        **pending,
        "run_id": run.id,
        "thread_id": run.thread_id,
        "agent": "support",
    }
    answer = api.post(f"/runs/{run.id}/tool-calls/c1/approve", {"attempt": 1, "reason": "fine"})
    assert (answer.status, answer.json["status"]) == (202, "running")
    assert api.world.callbacks.woken == [f"token of {run.id}"]
    assert api.get("/approvals").json["items"] == []
    [event] = api.get(f"/runs/{run.id}/events").json["items"]
    assert event == {
        "seq": 1,
        "run_id": run.id,
        "at": event["at"],
        "type": "tool-call-decided",
        "tool_call_id": "c1",
        "decision": "approved",
        "decided_by": "ann",
        "on_behalf_of": None,
        "reason": "fine",
        "via": "api",
    }


def test_the_same_decision_again_is_answered_as_the_first(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    url = f"/runs/{run.id}/tool-calls/c1"
    first = api.post(f"{url}/approve", {"attempt": 1, "reason": "fine"})
    again = api.post(f"{url}/approve", {"attempt": 1, "reason": "fine"})
    assert (first.status, again.status) == (202, 200)
    assert again.json | {"updated_at": None} == first.json | {"updated_at": None}
    api.post(f"{url}/approve", {"attempt": 1, "reason": "good"}).problem(
        409, "decision-already-made"
    )
    api.post(f"{url}/deny", {"attempt": 1, "reason": "fine"}).problem(409, "decision-already-made")


def test_a_call_is_denied_and_another_is_resumed(api: Api) -> None:
    denied, _ = api.do(api.world.suspended())
    assert (
        api.post(f"/runs/{denied.id}/tool-calls/c1/deny", {"attempt": 1, "reason": "no"}).status
        == 202
    )
    resumed, _ = api.do(api.world.suspended(SuspensionKind.INPUT))
    body = {"data": {"slot": "9:00"}, "attempt": 1}
    assert api.post(f"/runs/{resumed.id}/tool-calls/c1/resume", body).status == 202


@pytest.mark.parametrize("call_id", ["call/1", "a%2Fb", "ä#?\n ", "c/approve"])
def test_whatever_a_provider_calls_a_call_it_can_be_decided(api: Api, call_id: str) -> None:
    from urllib.parse import quote

    async def waiting() -> str:
        world = api.world
        run = await world.run((await world.thread()).id)
        log = await world.take(run.id)
        step = await world.step(log, "", (call_id, "refund", {}))
        await world.suspend(log, step, call_id)
        return run.id

    run_id = api.do(waiting())
    url = f"/runs/{run_id}/tool-calls/{quote(call_id, safe='')}/approve"
    assert api.post(url, {"attempt": 1}).status == 202


def test_cancelling_answers_with_the_run(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    answer = api.post(f"/runs/{run.id}/cancel")
    assert (answer.status, answer.json["status"]) == (202, "cancelled")
    assert answer.json["finish_reason"] == "cancelled"
    events = api.get(f"/runs/{run.id}/events").json
    assert [e["type"] for e in events["items"]][-1] == "finish"
    [decided] = [e for e in events["items"] if e["type"] == "tool-call-decided"]
    assert (decided["decision"], decided["decided_by"], decided["via"]) == ("cancelled", ANN, "api")
    assert events["done"]
    assert api.get("/approvals").json["items"] == []


def test_events_follow_a_seq(api: Api) -> None:
    run = api.post(f"/threads/{new_thread(api)}/runs", {"input": "x"}).json
    api.do(api.world.finish(run["id"]))
    page = api.get(f"/runs/{run['id']}/events?wait=5").json
    assert [(e["seq"], e["type"]) for e in page["items"]] == [(1, "finish"), (2, "agent-end")]
    assert (page["last_seq"], page["done"]) == (2, True)
    page = api.get(f"/runs/{run['id']}/events?after=1&wait=5").json
    assert [e["type"] for e in page["items"]] == ["agent-end"]
    page = api.get(f"/runs/{run['id']}/events?after=2&wait=5").json
    assert page == {"items": [], "last_seq": 2, "done": True}


def test_events_that_do_not_fit_into_one_answer_come_in_several(api: Api) -> None:
    run = api.post(f"/threads/{new_thread(api)}/runs", {"input": "x"}).json

    async def talk() -> None:
        log = await api.world.take(run["id"])
        for _ in range(4):
            log.emit(TextDelta(at=api.world.clock.now(), step=1, text='"' * 1_000_000))
            await log.flush()

    api.do(talk())
    after, seen = 0, []
    for _ in range(4):
        answer = api.get(f"/runs/{run['id']}/events?after={after}")
        assert len(json.dumps(answer.raw)) < 6_000_000
        seen += [e["seq"] for e in answer.json["items"]]
        after = answer.json["last_seq"]
    assert seen[:4] == [1, 2, 3, 4]


def test_messages_that_do_not_fit_into_one_answer_come_in_several(api: Api) -> None:
    thread = new_thread(api)
    for _ in range(7):
        run = api.post(f"/threads/{thread}/runs", {"input": "x" * 1_000_000}).json
        api.do(api.world.finish(run["id"]))
    url, seen = f"/threads/{thread}/messages?limit=100", 0
    answer = api.get(url)
    assert len(json.dumps(answer.raw)) < 6_000_000
    seen += len(answer.json["items"])
    while cursor := answer.json["next_cursor"]:
        answer = api.get(f"{url}&cursor={cursor}")
        seen += len(answer.json["items"])
    assert seen == 14


def test_a_large_answer_is_compressed_for_a_client_that_takes_it(api: Api) -> None:
    run = api.post(f"/threads/{new_thread(api)}/runs", {"input": "x" * 1_000_000}).json
    answer = api.get(f"/runs/{run['id']}", headers={"Accept-Encoding": "gzip, br"})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.raw["isBase64Encoded"]
    assert json.loads(gzip.decompress(base64.b64decode(answer.body))) == run


def test_the_stage_of_a_deployment_is_no_part_of_the_path(api: Api) -> None:
    from functions.api.app import answer
    from integration.api.kit import http_event

    event = http_event("GET", "/prod/healthz", None, {}, None)
    event["requestContext"]["stage"] = "prod"
    assert answer(event, None, api.host)["statusCode"] == 200
