"""An ASGI application that uvicorn serves inside the loop that is already running."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from layover.desk.local.wire import listen_on_loopback

_START_LIMIT_S = 10.0
_GRACE_S = 1
_ABORTED_WITHIN_S = 2
# uvicorn's last resort comes this long after the abort, and is logged: a process that was paused for less
# still aborts before.
_LAST_RESORT_S = 10
# Longer than any client keeps an idle connection (httpx 5 s, uvicorn's own limit too; load balancers 60 s):
# a request that is sent as the server closes fails.
_KEEP_ALIVE_S = 75


class PortInUse(Exception):
    """Another program listens on the requested port."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepts = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell waiters that connections are accepted."""
        await super().startup(sockets)
        self.accepts.set()

    def abort(self) -> None:
        """Cut the remaining connections: a client that neither sends nor reads would never let go."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the runner."""
        yield


class _WebSocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which mistakes an answer that refuses the handshake for a missing one and logs an
    error."""

    async def send(self, message: Any) -> None:
        """Send as uvicorn does."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True


class HttpServer:
    """Serves `app` on a loopback port (0: a free one) until `stop`."""

    def __init__(self, app: Any, port: int = 0) -> None:
        self._socket = _listen(port)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            ws=_WebSocket,
            # API Gateway compresses no WebSocket either.
            ws_per_message_deflate=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S + _LAST_RESORT_S,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Base URL, without a slash at the end."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def start(self) -> None:
        """Accept connections from here on."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        async with asyncio.timeout(_START_LIMIT_S):
            await self._server.accepts.wait()

    async def stop(self) -> None:
        """Stop accepting, give open requests a second, close."""
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_GRACE_S)
            self._server.abort()
            await asyncio.wait([self._task], timeout=_ABORTED_WITHIN_S)
        self.close()

    def close(self) -> None:
        """Release the port (a server that was never started has nothing else)."""
        self._socket.close()


def _listen(port: int) -> socket.socket:
    try:
        listener = listen_on_loopback(port)
    except OSError as error:
        raise PortInUse(
            f"port {port} is in use or not allowed ({error.strerror}): give another one with --port "
            '(make dev ARGS="--port N")'
        ) from error
    listener.setblocking(False)
    return listener
