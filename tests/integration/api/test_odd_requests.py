"""Ids, cursors and numbers that no client of good will sends, on the stores in memory and on those that AWS
has: neither lets one through to where it is a fault of the service."""

import base64
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from functions.api.app import answer
from integration.api.kit import USE, Api, TestHost, http_event
from integration.api.test_unknown_ids import calls_of
from layover.adapters.blobs.s3 import S3Blobs
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.adapters.journal.journal import table_journal
from layover.adapters.journal.leases import TableLeases
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.ids import RandomIds
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from support.aws.emulator import LocalAws, aws, services_at
from support.postgres.server import TestPostgres
from support.worlds.sockets import SocketBench

__all__ = ["aws"]

EVERYTHING = f"{USE} layover/operate layover/audit"
ODD = {
    "nul": "\0",
    "nul in an id": "thread_1\0",
    "a lone surrogate": "\ud800",
    "a lone surrogate in an id": "msg_\udfff",
    "5,000 digits": "9" * 5000,
    "longer than a key": "x" * 2049,
    "longer than a sort key": "msg_" + "x" * 1025,
    "longer than a key in bytes": "😀" * 520,
    "longer than a sort key in bytes": "é" * 520,
    "blank": " ",
    "newline": "a\nb",
    "our own separators": "U#1#RUN#1",
    "the last character": "\U0010ffff",
}
IN_URLS = {name: text for name, text in ODD.items() if "surrogate" not in name}
"""What can come percent-encoded, in UTF-8."""
_numbers = itertools.count(1)


@pytest.fixture(params=["memory", pytest.param("stores", marks=pytest.mark.emulator)])
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    """The function on stores in memory, and on those of a deployment."""
    world = SocketBench()
    host = TestHost(world)
    if request.param == "memory":
        yield Api(world, host)
    else:
        local: LocalAws = request.getfixturevalue("aws")
        postgres: TestPostgres = request.getfixturevalue("postgres")
        # Of its own: their connections belong to the function's loop, which ends with the test.
        services, database = services_at(local.endpoint), Database(postgres.runtime)
        table = DynamoTable(services.client("dynamodb"), local.table)
        blobs = S3Blobs(lambda: local.client("s3"), local.bucket)
        world.journal = table_journal(table, blobs, world.clock)
        world.runtime = replace(
            world.runtime,
            journal=world.journal,
            threads=PostgresThreads(database, MemoryAdditions()),
            memory=PostgresMemory(database),
            blobs=blobs,
            leases=TableLeases(table),
            ids=RandomIds(),
        )
        yield Api(world, host)
        host.run(services.aclose())
        host.run(database.close())
    host.close()


@pytest.fixture
def user() -> str:
    return f"odd-{next(_numbers)}"


def started(api: Api, user: str) -> tuple[str, str]:
    """A thread with a run that has begun."""
    thread = api.post("/threads", {"agent": "support"}, sub=user).json["id"]
    run = api.post(f"/threads/{thread}/runs", {"input": "hello"}, sub=user).json["id"]
    return thread, run


def check_refused(response: Any, *statuses: int) -> None:
    assert response.status in (statuses or (404, 422)), (response.status, response.body)


@pytest.mark.parametrize("odd", IN_URLS.values(), ids=IN_URLS)
def test_odd_id_in_a_path_is_of_nothing(api: Api, user: str, odd: str) -> None:
    id = quote(odd, safe="")
    others = [
        ("GET", f"/files/{id}", None),
        ("DELETE", f"/files/{id}", None),
        ("PATCH", f"/memory/entries/{id}", {"content": "a cat"}),
        ("DELETE", f"/memory/entries/{id}", None),
        ("POST", f"/memory/entries/{id}/restore", None),
    ]
    for method, url, body in (*calls_of(id, id, id), *others):
        response = api.send(method, url, body, sub=user, scope=EVERYTHING)
        if "?thread_id=" in url:
            check_refused(response, 404, 422)
        elif response.status != 405:
            response.problem(404, "not-found")
    _, run = started(api, user)
    for verdict, body in (("approve", {}), ("deny", {}), ("resume", {"data": 1})):
        body = {**body, "attempt": 1}
        url = f"/runs/{run}/tool-calls/{id}/{verdict}"
        api.post(url, body, sub=user).problem(404, "not-found")
    api.get(f"/runs/{run}/tool-calls/{id}/result", sub=user).problem(404, "not-found")


@pytest.mark.parametrize("odd", IN_URLS.values(), ids=IN_URLS)
def test_odd_value_in_a_query_check_refused(api: Api, user: str, odd: str) -> None:
    thread, run = started(api, user)
    text = quote(odd, safe="")
    for url in (
        f"/threads/{thread}/messages?branch={text}",
        f"/approvals?thread_id={text}",
        f"/memory/profile?agent={text}",
        f"/memory/entries?agent={text}",
        f"/threads?cursor={text}",
        f"/threads/{thread}/runs?limit={text}",
        f"/runs/{run}/events?after={text}",
        f"/audit/decisions?from={text}",
        f"/usage?to={text}",
    ):
        check_refused(api.get(url, sub=user, scope=EVERYTHING))
    assert api.get(f"/memory/entries?agent=support&query={text}", sub=user).status in (200, 422)


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_value_in_a_body_is_refused_and_starts_nothing(api: Api, user: str, odd: str) -> None:
    thread = api.post("/threads", {"agent": "support"}, sub=user).json["id"]
    runs, part = f"/threads/{thread}/runs", {"type": "file", "file_id": odd}
    for url, body in (
        (runs, {"input": "hello", "parent_id": odd}),
        (runs, {"input": [part]}),
        (runs, {"input": "hello", "model": odd}),
        ("/threads", {"agent": odd}),
        ("/socket-tickets", {"run_id": odd}),
    ):
        check_refused(api.post(url, body, sub=user))
    assert api.get(runs, sub=user).json["items"] == []


NUMBERS = [10**30, -1, 2**63, 1e300]


@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_odd_number_is_refused_or_of_nothing(api: Api, user: str, number: float) -> None:
    _, run = started(api, user)
    for url in (
        f"/runs/{run}/events?after={number}",
        f"/runs/{run}/events?limit={number}",
        f"/threads?limit={number}",
    ):
        check_refused(api.get(url, sub=user), 200, 422)
    # A wait ends at once when there is nothing to wait for.
    api.post(f"/runs/{run}/cancel", sub=user)
    check_refused(api.get(f"/runs/{run}?wait={number}", sub=user), 200, 422)
    response = api.post(f"/runs/{run}/tool-calls/c1/approve", {"attempt": number}, sub=user)
    check_refused(response, 404, 409, 422)


CURSORS: list[tuple[str, str, int]] = [
    ("/threads", "threads", 1),
    ("/threads/{thread}/runs", "runs", 1),
    ("/threads/{thread}/messages", "messages", 3),
    ("/approvals", "approvals", 1),
    ("/approvals?as=approver", "inbox", 1),
    ("/audit/decisions", "audit", 1),
    ("/audit/operations", "operations", 1),
    ("/operate/runs", "operate", 1),
    ("/usage", "usage", 4),
    ("/agents", "agents", 1),
    ("/memory/entries?agent=support", "entries", 2),
    ("/memory/entries?agent=support&query=cat", "found-entries", 1),
    ("/chat/support/{thread}/messages", "chat", 1),
]


@pytest.mark.parametrize(
    "odd", [*ODD.values(), "-1", "1e9", "9" * 40], ids=[*ODD, "negative", "float", "40 digits"]
)
def test_cursor_that_was_made_up_is_refused_or_shows_nothing(api: Api, user: str, odd: str) -> None:
    thread, _ = started(api, user)
    for url, kind, count in CURSORS:
        places: list[list[str | None]] = [[odd] * count]
        places += [[odd if n == at else None for n in range(count)] for at in range(count)]
        for fields in places:
            cursor = base64.urlsafe_b64encode(json.dumps([kind, *fields]).encode()).decode()
            at = f"{url}{'&' if '?' in url else '?'}cursor={cursor.rstrip('=')}"
            response = api.get(at.format(thread=thread), sub=user, scope=EVERYTHING)
            check_refused(response, 200, 404, 422)


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_chat_with_an_odd_id_is_answered_or_refused(api: Api, user: str, odd: str) -> None:
    hello = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    again = {"trigger": "regenerate-message"}
    bodies: list[dict[str, Any]] = [
        {"messageId": odd, "messages": [hello]},
        {"messageId": odd, "messages": [hello], **again},
        {"messages": [{**hello, "id": odd}]},
        {"messages": [{**hello, "id": odd}], **again},
        {"messages": [decided(odd, {"id": odd})]},
        {"messages": [decided(odd, {"id": odd, "approved": True})]},
        {"messages": [decided(odd, {"id": f"1:{odd}", "approved": True})]},
        {"id": odd, "messages": [hello]},
        {"id": f"thread_{odd}", "messages": [hello]},
    ]
    for n, body in enumerate(bodies):
        sent = json.dumps({"id": f"chat-{n}", **body})
        assert streamed(api, "/chat/support", sent, user) in (200, 404, 409, 422)


def decided(id: str, approval: dict[str, Any]) -> dict[str, Any]:
    """An assistant's message with a person's answer to an approval."""
    part = {"type": "tool-x", "state": "approval-responded", "approval": approval}
    return {"id": id, "role": "assistant", "parts": [part]}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_ag_ui_with_an_odd_id_is_answered_or_refused(api: Api, user: str, odd: str) -> None:
    hello = {"id": "u1", "role": "user", "content": "hello"}
    bodies: list[dict[str, Any]] = [
        {"messages": [{**hello, "id": odd}]},
        {"threadId": odd, "messages": [hello]},
        {"threadId": f"thread_{odd}", "messages": [hello]},
        {"runId": odd, "messages": [hello]},
        {"messages": [hello], "resume": [{"interruptId": odd, "status": "resolved"}]},
        {"messages": [hello], "resume": [{"interruptId": f"1:{odd}", "status": "cancelled"}]},
    ]
    for n, body in enumerate(bodies):
        sent = json.dumps({"threadId": f"t-{n}", "runId": "r", **body})
        assert streamed(api, "/ag-ui/support", sent, user) in (200, 404, 409, 422)


def streamed(api: Api, url: str, text: str, user: str) -> int:
    """The status of an answer of `streams`, whose stream is left at once."""
    result = answer(http_event("POST", url, text, {}, user), None, api.host, streams=True)
    if not isinstance(result["body"], str):
        api.do(result["body"].aclose())
    api.world.clock.advance(timedelta(seconds=1))
    return int(result["statusCode"])


@pytest.mark.parametrize("odd", IN_URLS.values(), ids=IN_URLS)
def test_odd_header_is_answered_or_refused(api: Api, user: str, odd: str) -> None:
    thread, run = started(api, user)
    for method, url, name in (
        ("POST", f"/threads/{thread}/runs", "Idempotency-Key"),
        ("GET", f"/runs/{run}/events", "Last-Event-ID"),
        ("POST", f"/threads/{thread}/runs", "Prefer"),
        ("GET", "/threads", "X-Layover-Resource"),
    ):
        body = {"input": "hello", "on_busy": "enqueue"} if method == "POST" else None
        response = api.send(method, url, body, sub=user, headers={name: odd})
        assert response.status < 500, response.body
