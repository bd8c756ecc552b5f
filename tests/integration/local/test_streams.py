"""Streamed responses from a process to a client: piece by piece, and never half of one for the whole."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from .conftest import Served, eventually

HEADERS = {"Authorization": "Bearer dev:ann", "Accept": "text/event-stream"}


@pytest.fixture
async def http(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    url = served.runner.url
    async with httpx2.AsyncClient(
        base_url=url, timeout=30, headers=HEADERS, verify=False
    ) as client:
        yield client


def note(served: Served, do: str) -> Path:
    """Return the file that the toy writes when its stream is over, and waits for with `wait`."""
    return served.notes / f"stream-{do}"


async def test_the_first_piece_comes_before_the_last_is_written(
    http: httpx2.AsyncClient, served: Served
) -> None:
    async with http.stream("GET", "/runs/r/events?wait") as answer:
        assert (answer.status_code, answer.headers["x-toy"]) == (201, "1")
        lines = answer.aiter_lines()
        assert int(await anext(lines)) != os.getpid()
        note(served, "wait").touch()
        assert [line async for line in lines] == ["second"]


async def test_one_process_serves_one_stream_after_the_other(http: httpx2.AsyncClient) -> None:
    pids = {(await http.get(f"/runs/r/events?{n}")).text.split()[0] for n in range(3)}
    assert len(pids) == 1


@pytest.mark.parametrize("do", ["fail", "exit"])
async def test_a_stream_that_breaks_off_does_not_look_whole(
    http: httpx2.AsyncClient, do: str
) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        await http.get(f"/runs/r/events?{do}")


async def test_a_function_that_fails_before_it_streams_is_a_bad_gateway(
    http: httpx2.AsyncClient,
) -> None:
    assert (await http.get("/runs/r/events?raise")).status_code == 502


async def test_a_client_that_leaves_sets_the_process_free(
    http: httpx2.AsyncClient, served: Served
) -> None:
    async with http.stream("GET", "/runs/r/events?waitlong") as answer:
        pid = int(await anext(answer.aiter_lines()))
    await eventually(lambda: note(served, "waitlong").exists())
    busy = {e["pid"]: e["busy"] for e in served.runner.functions.environments()}
    assert pid in busy
    assert (await http.get("/runs/r/events?after")).text.split()[0] == str(pid)


async def test_a_client_that_leaves_goes_unnoticed_where_that_is_asked_for(
    http: httpx2.AsyncClient, served: Served
) -> None:
    """As on Lambda: the function streams to its end, and is busy until then."""
    local = {"X-Layover-Local": "1"}
    switched = await http.post("/_local/readers", json={"noticed": False}, headers=local)
    assert switched.json() == {"noticed": False}
    try:
        async with http.stream("GET", "/runs/r/events?waitunread") as answer:
            pid = int(await anext(answer.aiter_lines()))
        others = [(await http.get(f"/runs/r/events?{n}")).text.split()[0] for n in range(3)]
        assert str(pid) not in others
        assert {e["pid"]: e["busy"] for e in served.runner.functions.environments()}[pid]
        assert not note(served, "waitunread").exists()
        note(served, "waitunread").touch()
        await eventually(lambda: pid not in busy(served))
    finally:
        await http.post("/_local/readers", json={"noticed": True}, headers=local)


async def test_a_switch_that_is_neither_on_nor_off_changes_nothing(
    http: httpx2.AsyncClient, served: Served
) -> None:
    local = {"X-Layover-Local": "1"}
    for wrong in ('{"noticed": 0}', "{}", "[]", ""):
        headers = {**local, "Content-Type": "application/json"}
        refused = await http.post("/_local/readers", content=wrong, headers=headers)
        assert refused.status_code == 422
        assert "noticed" in refused.json()["detail"]
    assert served.runner.functions.notices_readers


def busy(served: Served) -> set[object]:
    """Processes that are at work."""
    return {e["pid"] for e in served.runner.functions.environments() if e["busy"]}


async def test_a_stream_needs_a_token_or_a_ticket(served: Served) -> None:
    accept = {"Accept": "text/event-stream"}
    async with httpx2.AsyncClient(
        base_url=served.runner.url, headers=accept, verify=False
    ) as client:
        assert (await client.get("/runs/r/events")).status_code == 401
        assert (await client.get("/runs/r/events?ticket=t")).status_code == 201
        assert (await client.get("/threads?ticket=t")).status_code == 401
        assert (await client.post("/threads/t/runs?ticket=t")).status_code == 401


async def test_what_invokes_a_stream_without_reading_it_gets_the_whole(served: Served) -> None:
    result = await served.runner.functions.invoke("streams", b'{"rawQueryString": "whole"}')
    assert result.function_error is None
    assert result.payload.endswith(b"second\n")


async def test_a_request_that_asks_for_no_stream_goes_to_api(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/runs/r/events", headers={"Accept": "application/json"})
    assert answer.json()["rawPath"] == "/runs/r/events"
