"""Servers of the one-machine system send each piece of an answer at once."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import httpx2
import pytest

from layover.desk.local.aws.wsgi import WsgiServer
from layover.desk.local.http.server import HttpServer
from layover.desk.local.wire import Request, Response, WireServer, listen_on_loopback


def test_port_that_is_taken_is_an_error_and_leaves_no_socket() -> None:
    with listen_on_loopback() as listener, pytest.raises(OSError, match="in use"):
        listen_on_loopback(listener.getsockname()[1])


@asynccontextmanager
async def http() -> AsyncIterator[str]:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"whole"})

    server = HttpServer(answer)
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


@asynccontextmanager
async def wire() -> AsyncIterator[str]:
    async def answer(request: Request) -> Response:
        return Response(HTTPStatus.OK, b"whole")

    server = WireServer(answer)
    try:
        yield f"http://{await server.start()}"
    finally:
        server.close()


@asynccontextmanager
async def wsgi() -> AsyncIterator[str]:
    server = WsgiServer(
        lambda environ, start: [], lambda request: Response(HTTPStatus.OK, b"whole")
    )
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="lists its sockets as Linux does")
@pytest.mark.parametrize("serve", [http, wire, wsgi])
async def test_body_does_not_wait_until_its_head_is_acknowledged(
    serve: Callable[[], Any],
) -> None:
    """With Nagle's algorithm, whoever asks in quick succession waits 40 ms for each answer."""
    async with serve() as url, httpx2.AsyncClient(trust_env=False, verify=False) as client:
        assert (await client.get(url)).text == "whole"
        port = int(url.rpartition(":")[2])
        assert [_sends_at_once(end) for end in _ends_of(port)] == [True]


def _sends_at_once(end: socket.socket) -> bool:
    with end:
        return bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def _ends_of(port: int) -> list[socket.socket]:
    """The server's ends of the connections to this port, which are in this process."""
    ends = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            end = socket.fromfd(int(name), socket.AF_INET, socket.SOCK_STREAM)
            try:
                end.getpeername()
                is_servers = end.getsockname()[1:] == (port,)
            except OSError:
                is_servers = False
            if is_servers:
                ends.append(end)
            else:
                end.close()
    return ends
