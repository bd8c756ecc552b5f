"""Streams over HTTP: the callers that may read one, its beginning, and its content."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import Api, http_event
from layover.ports import RunLog
from layover.values.lease import Lease, LeaseKind
from support.worlds.services import ANN, BOB
from support.worlds.sockets import SocketBench

STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


def open_stream(
    api: Api,
    url: str,
    headers: Mapping[str, str] = STREAM,
    sub: str | None = ANN,
    body: Any = None,
) -> dict[str, Any]:
    """Return the answer of the function `streams`."""
    method = "GET" if body is None else "POST"
    text = None if body is None else json.dumps(body)
    return answer(http_event(method, url, text, headers, sub), None, api.host, streams=True)


def frames(api: Api, answered: dict[str, Any]) -> list[tuple[str | None, str, Any]]:
    """`(id, event, data)` of a stream that ends."""
    assert answered["statusCode"] == 200, answered
    assert answered["headers"]["Content-Type"] == "text/event-stream"
    found = []
    blocks = whole(api, answered).split("\n\n")
    assert "\ndata: " in blocks[0], blocks[0]
    for block in blocks:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line)
        if "data" in fields:
            found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
    return found


async def finished(world: SocketBench) -> RunLog:
    log = await world.running()
    await world.tell(log, "a", "b", "c")
    await world.end(log)
    return log


def test_a_stream_is_the_log(api: Api, world: SocketBench) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    items = api.get(f"/runs/{run_id}/events").json["items"]
    found = frames(api, open_stream(api, f"/runs/{run_id}/events"))
    assert found == [(str(e["seq"]), e["type"], e) for e in items]


def test_the_last_event_id_wins(api: Api, world: SocketBench) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    url = f"/runs/{run_id}/events?after=1"
    assert frames(api, open_stream(api, url))[0][0] == "2"
    known = {**STREAM, "Last-Event-ID": "3"}
    assert frames(api, open_stream(api, url, known))[0][0] == "4"
    odd = {**STREAM, "Last-Event-ID": "odd"}
    assert frames(api, open_stream(api, url, odd))[0][0] == "2"


def test_a_foreign_run_is_not_there(api: Api, world: SocketBench) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    assert open_stream(api, f"/runs/{run_id}/events", sub=BOB)["statusCode"] == 404
    assert open_stream(api, f"/runs/{run_id}/events", sub=None)["statusCode"] == 401


def test_a_function_that_cannot_stream_says_where_to_ask(api: Api, world: SocketBench) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    api.get(f"/runs/{run_id}/events", headers=STREAM).problem(406, "not-acceptable")
    both = {"Accept": "application/json, text/event-stream"}
    assert api.get(f"/runs/{run_id}/events", headers=both).json["done"]
    assert api.get(f"/runs/{run_id}/events", headers={"Accept": "*/*"}).json["done"]


def test_a_run_that_is_started_with_a_stream_comes_first(api: Api, world: SocketBench) -> None:
    thread = api.do(world.thread())
    answered = open_stream(api, f"/threads/{thread.id}/runs", body={"input": "hello"})
    (run,) = api.get(f"/threads/{thread.id}/runs").json["items"]
    meta = api.do(world.journal.runs.get(ANN, run["id"]))
    assert meta is not None
    assert meta.stream
    api.do(world.finish(run["id"]))
    found = frames(api, answered)
    assert found[0][:2] == (None, "run")
    assert found[0][2]["id"] == run["id"]
    assert [id for id, _, _ in found[1:]] == [str(n) for n in range(1, len(found))]


def test_a_run_that_is_refused_is_a_problem_and_no_stream(api: Api, world: SocketBench) -> None:
    thread = api.do(world.thread())
    refused = open_stream(api, f"/threads/{thread.id}/runs", body={"input": ""})
    assert refused["statusCode"] == 422
    assert refused["headers"]["Content-Type"] == "application/problem+json"


def test_a_ticket_opens_the_streams_of_its_run_alone(api: Api, world: SocketBench) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    other = api.do(finished(world)).snapshot.meta.id
    made = api.post("/socket-tickets", {"run_id": run_id})
    assert (made.status, made.headers["cache-control"]) == (201, "no-store")
    ticket = made.json["ticket"]
    assert made.json["url"].endswith(f"/runs/{run_id}/events?ticket={ticket}")
    for _ in range(2):
        url = f"/runs/{run_id}/events?ticket={ticket}"
        assert len(frames(api, open_stream(api, url, sub=None))) > 3
    for path in (
        f"/runs/{other}/events?ticket={ticket}",
        f"/runs/{run_id}/events?ticket={ticket}x",
        f"/runs/{run_id}/events?ticket=",
        f"/runs/{run_id}?ticket={ticket}",
        f"/threads?ticket={ticket}",
    ):
        assert open_stream(api, path, sub=None)["statusCode"] == 401


def test_a_browser_that_has_everything_is_told_not_to_come_back(
    api: Api, world: SocketBench
) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    url = f"/runs/{run_id}/events?ticket={api.post('/socket-tickets', {'run_id': run_id}).json['ticket']}"
    last = frames(api, open_stream(api, url, sub=None))[-1][0]
    known = {**STREAM, "Last-Event-ID": str(last)}
    assert open_stream(api, url, known, sub=None)["statusCode"] == 204


def test_a_reader_that_comes_back_to_a_run_that_waits_is_told_to_take_time(
    api: Api, world: SocketBench
) -> None:
    """Not so where the run goes on: then there is no place just now."""
    run, _ = api.do(world.suspended())
    last = api.get(f"/runs/{run.id}/events").json["last_seq"]
    assert whole(api, open_stream(api, f"/runs/{run.id}/events?after={last}")) == (
        "retry: 1000\nretry: 5000\n\n"
    )
    running, now = api.do(world.running()).snapshot.meta.id, world.clock.now()
    most = world.runtime.settings.max_user_streams
    for n in range(most):
        lease = Lease(ANN, LeaseKind.STREAM, str(n), now + timedelta(minutes=1))
        assert api.do(world.runtime.leases.take(lease, most, now))
    assert whole(api, open_stream(api, f"/runs/{running}/events?after=99")) == "retry: 1000\n"


def whole(api: Api, answered: dict[str, Any]) -> str:
    """All of a stream that ends at once."""
    body: AsyncIterator[bytes] = answered["body"]

    async def read() -> str:
        async with asyncio.timeout(30):
            return b"".join([piece async for piece in body]).decode()

    return api.do(read())


def test_a_stream_ticket_lives_for_an_hour_and_opens_no_socket(
    api: Api, world: SocketBench
) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    ticket = api.post("/socket-tickets", {"run_id": run_id}).json["ticket"]
    redeem = world.ports.connections.redeem(ticket, world.clock.now())
    assert api.do(redeem) is None
    url = f"/runs/{run_id}/events?ticket={ticket}"
    world.clock.advance(timedelta(seconds=3599))
    assert open_stream(api, url, sub=None)["statusCode"] == 200
    world.clock.advance(timedelta(seconds=2))
    assert open_stream(api, url, sub=None)["statusCode"] == 401


def test_a_sockets_ticket_opens_no_stream(api: Api, world: SocketBench) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    ticket = api.post("/socket-tickets").json["ticket"]
    url = f"/runs/{run_id}/events?ticket={ticket}"
    assert open_stream(api, url, sub=None)["statusCode"] == 401


def test_a_ticket_is_made_for_ones_own_runs_alone(api: Api, world: SocketBench) -> None:
    run_id = api.do(finished(world)).snapshot.meta.id
    api.post("/socket-tickets", {"run_id": run_id}, sub=BOB).problem(404, "not-found")
