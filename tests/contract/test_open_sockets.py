"""Open connections: in memory, and through the functions' client and the local front's `@connections`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from websockets.exceptions import ConnectionClosed

from layover.adapters.sockets.apigateway import ApiGatewaySockets, LambdaPush, management_client
from layover.errors import RetryableError
from layover.ports.sockets import MAX_FRAME, SocketGone, Sockets, SocketUnsure
from layover.values.socket import Subscription
from support.aws.emulator import services_at
from support.inmemory.sockets import InMemorySockets
from support.worlds.fronts import LIMIT_S, serving


@dataclass
class Open:
    """The port with one open connection; `received` takes what comes to its client next."""

    sockets: Sockets
    id: str
    received: Callable[[], Awaitable[str | None]]


@pytest.fixture(params=["memory", "apigateway"])
async def open_socket(
    request: pytest.FixtureRequest,
) -> AsyncIterator[Open]:
    if request.param == "memory":
        yield _in_memory()
        return
    async with serving() as served, served.connect() as client:

        async def received() -> str | None:
            try:
                return str(await asyncio.wait_for(client.recv(), LIMIT_S))
            except ConnectionClosed:
                return None

        management = management_client(services_at(served.endpoint), served.endpoint)
        port = ApiGatewaySockets(management)
        yield Open(port, await served.id_of(client), received)
        await management.aclose()


def _in_memory() -> Open:
    port = InMemorySockets("c1=")

    async def received() -> str | None:
        frames = port.frames["c1="]
        return frames.pop(0) if frames or "c1=" in port.open else None

    return Open(port, "c1=", received)


async def test_what_is_posted_comes_in_order(open_socket: Open) -> None:
    texts = ["one", "zwei ä", "x" * MAX_FRAME]
    for text in texts:
        await open_socket.sockets.post(open_socket.id, text)
    assert [await open_socket.received() for _ in texts] == texts


async def test_posting_to_nobody_is_gone(open_socket: Open) -> None:
    with pytest.raises(SocketGone):
        await open_socket.sockets.post("nobody=", "x")


async def test_a_frame_that_is_too_large_is_refused(open_socket: Open) -> None:
    with pytest.raises(SocketUnsure):
        await open_socket.sockets.post(open_socket.id, "ä" * (MAX_FRAME // 2) + "x")


async def test_a_closed_connection_is_gone_and_may_be_closed_again(open_socket: Open) -> None:
    await open_socket.sockets.close(open_socket.id)
    assert await open_socket.received() is None
    with pytest.raises(SocketGone):
        await open_socket.sockets.post(open_socket.id, "x")
    await open_socket.sockets.close(open_socket.id)


# What only a network can do


NOBODY = "http://127.0.0.1:9"


async def test_a_post_without_an_answer_is_unsure_and_a_close_may_be_repeated() -> None:
    port = ApiGatewaySockets(management_client(services_at(NOBODY), NOBODY))
    with pytest.raises(SocketUnsure):
        await port.post("c", "x")
    with pytest.raises(RetryableError):
        await port.close("c")


async def test_what_is_left_may_be_left_again_where_lambda_does_not_answer() -> None:
    client = services_at(NOBODY).client("lambda")
    with pytest.raises(RetryableError):
        await LambdaPush(client, "sockets").later(Subscription("ann", "run_1", "c"))
