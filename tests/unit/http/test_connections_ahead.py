"""Connections that were begun ahead of the request that needs them."""

import asyncio
import gc
import socket
import ssl
from pathlib import Path

import pytest

from layover.adapters.http import direct, pool
from layover.adapters.http.client import Response
from layover.adapters.http.direct import DirectClient
from layover.adapters.http.request import join_url
from layover.plugins.models.openai_chat import OpenAIChat
from support.aws.loopback import Loopback, loopback
from support.certificates import loopback_certificate

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


async def asked(client: DirectClient, url: str) -> str:
    response: Response = await client.post(join_url(url, "/v1"), {}, b"{}", 60.0)
    try:
        await response.read()
        return response.text
    finally:
        await response.aclose()


async def connected(served: Loopback, connections: int = 1) -> None:
    """Wait until the server has so many."""
    async with asyncio.timeout(60):
        while len(served.open) < connections:
            await asyncio.sleep(0)


async def test_a_server_that_is_away_is_the_requests_own_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    client = DirectClient()
    for _ in range(2):
        client.dial(join_url(url, ""))
        with pytest.raises(ConnectionRefusedError):
            await asked(client, url)


async def test_nobody_hears_of_a_failure_that_no_request_meets() -> None:
    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    async with loopback(OK) as served:
        pass
    client = DirectClient()
    client.dial(join_url(served.url, ""))
    for _ in range(10):
        await asyncio.sleep(0)
    del client
    gc.collect()
    assert heard == []


async def test_a_server_that_came_back_is_asked_though_the_first_attempt_failed() -> None:
    client = DirectClient()
    async with loopback(OK) as served:
        port = int(served.url.rpartition(":")[2])
    client.dial(join_url(served.url, ""))
    for _ in range(10):
        await asyncio.sleep(0)
    back = Loopback(served.url, [OK])
    server = await asyncio.start_server(back.serve, "127.0.0.1", port)
    try:
        assert await asked(client, served.url) == "hi"
    finally:
        await client.aclose()
        server.close()


async def test_a_connection_that_the_server_closed_before_its_request_is_not_used() -> None:
    client = DirectClient()
    async with loopback(OK) as served:
        client.dial(join_url(served.url, ""))
        await connected(served)
        served.open[0].close()
        await served.open[0].wait_closed()
        assert await asked(client, served.url) == "hi"
        assert [r.connection for r in served.requests] == [2]
        await client.aclose()


async def test_a_connection_that_waited_too_long_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct, "_LIMITS", pool.PoolLimits(10, 0.0, 5.0))
    client = DirectClient()
    async with loopback(OK) as served:
        client.dial(join_url(served.url, ""))
        await connected(served)
        assert await asked(client, served.url) == "hi"
        assert [r.connection for r in served.requests] == [2]
        await client.aclose()


async def test_a_request_takes_the_connection_that_is_under_way() -> None:
    client = DirectClient()
    async with loopback(OK) as served:
        client.dial(join_url(served.url, ""))
        client.dial(join_url(served.url, "/other"))
        assert await asked(client, served.url) == "hi"
        client.dial(join_url(served.url, ""))
        assert await asked(client, served.url) == "hi"
        assert len(served.open) == 1
        await client.aclose()


async def test_a_connection_over_tls_is_taken_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = loopback_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(pool, "system_trust", lambda: trust)
    client = DirectClient()
    async with loopback(OK, tls=tls) as served:
        client.dial(join_url(served.url, ""))
        await connected(served)
        assert await asked(client, served.url) == "hi"
        assert len(served.open) == 1
        await client.aclose()


async def test_a_client_that_closes_takes_along_what_nobody_asked_for() -> None:
    client = DirectClient()
    async with loopback(OK) as served:
        client.dial(join_url(served.url, ""))
        await connected(served)
        await client.aclose()
        async with asyncio.timeout(60):
            while not served.open[0].is_closing():
                await asyncio.sleep(0)


async def test_a_model_with_an_address_that_is_none_is_dialled_in_vain() -> None:
    OpenAIChat("key", "no address").dial("gpt-4o-mini")
    OpenAIChat("key", "http://[half").dial("gpt-4o-mini")
