"""The WebSocket front: API Gateway's events, its limits, and `@connections`."""

import asyncio
import json
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from layover.desk.local.http import socket_front
from layover.desk.local.http.socket_front import MESSAGE_LIMIT, Limits, WebSocketFront
from support.worlds.fronts import LIMIT_S, Clock, Function, serving

SOON = timedelta(seconds=0.05)


async def ended(client: ClientConnection) -> int | None:
    """The code that the server closes with; what comes before is read."""
    async with asyncio.timeout(LIMIT_S):
        with suppress(ConnectionClosed):
            while True:
                await client.recv()
    return client.close_code


async def call(method: str, url: str, **more: Any) -> int:
    async with httpx2.AsyncClient(timeout=LIMIT_S, trust_env=False, verify=False) as http:
        return (await http.request(method, url, **more)).status_code


@pytest.mark.parametrize(
    ("answer", "status"), [({"statusCode": 401}, 401), (None, 502), ({}, 502), ("text", 502)]
)
async def test_a_handshake_that_the_function_refuses_is_refused_without_a_word_in_the_terminal(
    answer: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as served:
        served.function.answers = lambda _: answer
        with pytest.raises(InvalidStatus) as refused:
            await served.connect().__aenter__()
        assert refused.value.response.status_code == status
        assert served.function.of("$disconnect") == []
    assert caplog.records == []


async def test_a_handshake_under_another_name_of_this_machine_never_reaches_the_function() -> None:
    """A page whose name leads here (DNS rebinding)."""
    async with serving() as served:
        with pytest.raises(InvalidStatus) as refused:
            await served.connect(name="evil.example").__aenter__()
        assert refused.value.response.status_code == 421
        assert served.function.events == []


async def test_events_have_the_shape_of_api_gateways() -> None:
    async with serving() as served:
        async with served.connect("?ticket=a%2Bb&x=") as client:
            await client.send("hello")
            await served.function.asked("$default")
        await served.function.asked("$disconnect")
        came, said, left = served.function.events
    assert came["queryStringParameters"] == {"ticket": "a+b"}
    assert came["headers"]["upgrade"] == "websocket"
    assert (said["body"], said["isBase64Encoded"]) == ("hello", False)
    kinds = [e["requestContext"]["eventType"] for e in (came, said, left)]
    assert kinds == ["CONNECT", "MESSAGE", "DISCONNECT"]
    assert len({e["requestContext"]["connectionId"] for e in (came, said, left)}) == 1
    assert all("authorizer" not in e["requestContext"] for e in (came, said, left))


async def test_a_message_that_the_function_fails_on_is_told() -> None:
    async with serving() as served, served.connect() as client:
        served.function.answers = lambda _: None
        await client.send("hello")
        told = json.loads(await asyncio.wait_for(client.recv(), LIMIT_S))
        assert told["message"] == "Internal server error"
        assert told["connectionId"] == await served.id_of(client)


async def test_a_message_that_is_too_large_closes_the_connection() -> None:
    async with serving() as served, served.connect() as client:
        await client.send("x" * MESSAGE_LIMIT)
        await served.function.asked("$default")
        await client.send("x" * (MESSAGE_LIMIT + 1))
        assert await ended(client) == 1009
        await served.function.asked("$disconnect")


@pytest.mark.parametrize(
    "limits",
    [Limits(idle=timedelta(seconds=0.3)), Limits(life=timedelta(seconds=0.3))],
    ids=["idle", "life"],
)
async def test_a_connection_ends_at_its_limits(limits: Limits) -> None:
    async with serving(limits) as served, served.connect() as client:
        assert await ended(client) == 1001
        await served.function.asked("$disconnect")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The front's."""
    made = Clock()
    monkeypatch.setattr(socket_front, "time", made)
    return made


async def test_words_keep_an_idle_connection_open(clock: Clock) -> None:
    async with serving(Limits(idle=SOON)) as served, served.connect() as client:
        for count in range(1, 6):
            clock.now += 0.04
            await client.send("still here")
            await served.function.asked("$default", count)
            await clock.complete()
        assert served.function.of("$disconnect") == []
        clock.now += 0.06
        assert await ended(client) == 1001


async def test_posts_keep_an_idle_connection_open_but_not_an_old_one(clock: Clock) -> None:
    limits = Limits(idle=SOON, life=timedelta(seconds=0.22))
    async with serving(limits) as served, served.connect() as client:
        connection_id = await served.id_of(client)
        for _ in range(5):
            clock.now += 0.04
            assert await asyncio.to_thread(served.front.post, connection_id, b"still here") == 200
            await clock.complete()
        assert served.function.of("$disconnect") == []
        clock.now += 0.04
        assert await ended(client) == 1001


@pytest.mark.parametrize("step", [86400.0, -86400.0])
async def test_a_clock_that_is_put_right_neither_ends_a_connection_nor_keeps_it(
    clock: Clock, step: float
) -> None:
    async with serving(Limits(idle=SOON)) as served, served.connect() as client:
        connection_id = await served.id_of(client)
        clock.step = step
        await clock.complete()
        assert served.function.of("$disconnect") == []
        await client.send("what time is it?")
        await served.function.asked("$default")
        described = served.front.describe(connection_id)
        assert described is not None
        since = [datetime.fromisoformat(described[k]) for k in ("connectedAt", "lastActiveAt")]
        assert since[1] - since[0] == timedelta(seconds=step)
        clock.now += 0.06
        assert await ended(client) == 1001


async def test_a_client_that_dies_in_its_handshake_is_let_go_all_the_same() -> None:
    function = Function()
    front = WebSocketFront(function)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        raise ConnectionResetError

    with suppress(OSError):
        await front.serve({"query_string": b"", "headers": []}, receive, send)
    (came,), (left,) = function.of("$connect"), function.of("$disconnect")
    connection_id = came["requestContext"]["connectionId"]
    assert left["requestContext"]["connectionId"] == connection_id
    assert front.describe(connection_id) is None


async def test_a_client_that_does_not_read_is_let_go() -> None:
    async with serving(Limits(backlog=300_000)) as served, served.connect() as client:
        connection_id = await served.id_of(client)
        client.transport.pause_reading()
        data = b"x" * 100_000
        posts = [
            await asyncio.to_thread(served.front.post, connection_id, data) for _ in range(200)
        ]
        assert (posts[0], posts[-1]) == (200, 410)
        await served.function.asked("$disconnect")


async def test_connections_are_posted_to_described_and_closed() -> None:
    async with serving() as served, served.connect() as client:
        url = f"{served.endpoint}/@connections/{await served.id_of(client)}"
        assert await call("POST", url, content="grüße".encode()) == 200
        assert await asyncio.wait_for(client.recv(), LIMIT_S) == "grüße"
        assert await call("GET", url) == 200
        assert await call("POST", url, content=b"x" * (MESSAGE_LIMIT + 1)) == 413
        assert await call("DELETE", url) == 204
        assert await ended(client) == 1000
        await served.function.asked("$disconnect")
        for method in ("GET", "POST", "DELETE"):
            assert await call(method, url) == 410


async def test_messages_posted_one_after_another_arrive_in_order() -> None:
    async with serving() as served, served.connect() as client:
        connection_id = await served.id_of(client)
        for number in range(300):
            await asyncio.to_thread(served.front.post, connection_id, str(number).encode())
        came = [await asyncio.wait_for(client.recv(), LIMIT_S) for _ in range(300)]
    assert came == [str(n) for n in range(300)]
