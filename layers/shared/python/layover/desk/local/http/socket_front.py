"""The WebSocket front: an API Gateway WebSocket API, and its `@connections`."""

import asyncio
import base64
import json
import logging
import secrets
import time
import uuid
from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from layover.desk.local.functions.invocation import InvokeResult, LambdaError
from layover.desk.local.functions.lambda_service import result_in
from layover.desk.local.http.gateway import Functions, refuse
from layover.desk.local.http.streams import Receive, Scope, Send

logger = logging.getLogger(__name__)

FUNCTION = "sockets"
MESSAGE_LIMIT = 128 * 1024
"""Bytes of a message, either way."""
BACKLOG_LIMIT = 4 * 1024 * 1024
"""The most bytes that wait for a client that does not read. Beyond that, its connection is closed."""
GOING_AWAY, NORMAL, TOO_BIG = 1001, 1000, 1009
_CLOSE_TAKES_S = 1.0
_MAX_CONCURRENT = 4
"""The most messages of one connection that are handled at once. Their order is not guaranteed, as on AWS."""


@dataclass(frozen=True)
class Limits:
    """API Gateway's limits (docs/aws-facts.md#api-gateway)."""

    idle: timedelta = timedelta(minutes=10)
    life: timedelta = timedelta(hours=2)
    backlog: int = BACKLOG_LIMIT


class _Socket:
    """One open connection. Lives in the event loop."""

    def __init__(self, send: Send, limits: Limits) -> None:
        self.id = secrets.token_urlsafe(11) + "="
        # Only for others to read. The limits use a monotonic clock.
        self.connected_at = self.active_at = time.time()
        self._start = self._last_activity = time.monotonic()
        self.closed = asyncio.Event()
        self.code = NORMAL
        self.is_client_gone = False
        """The client closed, or is gone."""
        self.send = send
        self._limits = limits
        self._waiting: deque[str] = deque()
        self._size = 0
        self._more = asyncio.Event()

    def post(self, text: str) -> bool:
        """Queue a message. Return False if the connection is closed, or gets closed because its client does
        not read."""
        if self.closed.is_set():
            return False
        self._size += len(text)
        if self._size > self._limits.backlog:
            self.close(GOING_AWAY)
            return False
        self._waiting.append(text)
        self._more.set()
        self.touch()
        return True

    def touch(self) -> None:
        """Note activity of either side."""
        self.active_at = time.time()
        self._last_activity = time.monotonic()

    def close(self, code: int) -> None:
        """Close; no message goes out after this."""
        self.code = code
        self.closed.set()

    async def write(self) -> None:
        """Send what is queued, as fast as the client reads."""
        while True:
            while self._waiting:
                text = self._waiting.popleft()
                await self.send({"type": "websocket.send", "text": text})
                self._size -= len(text)
            self._more.clear()
            await self._more.wait()

    async def expire(self) -> None:
        """Close when the connection is too old or was idle for too long."""
        idle, life = self._limits.idle.total_seconds(), self._limits.life.total_seconds()
        while (rest := min(self._last_activity + idle, self._start + life) - time.monotonic()) > 0:
            await asyncio.sleep(rest)
        self.close(GOING_AWAY)


class WebSocketFront:
    """Every handshake, message and end becomes an event for the function `sockets`."""

    def __init__(self, functions: Functions, limits: Limits | None = None) -> None:
        self._functions = functions
        self._limits = limits or Limits()
        self._sockets: dict[str, _Socket] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, from the handshake to its end."""
        self._loop = asyncio.get_running_loop()
        await receive()
        socket = _Socket(send, self._limits)
        status = await self._connect(socket, scope)
        if status != HTTPStatus.OK:
            return await refuse(send, status)
        self._sockets[socket.id] = socket
        try:
            # The function also learns of a client that has died since, because it has recorded that client.
            await send({"type": "websocket.accept"})
            await self._open(socket, scope, receive)
        finally:
            del self._sockets[socket.id]
            socket.closed.set()
            await self._invoke(_event(socket, scope, "$disconnect", "DISCONNECT"))
        return None

    def post(self, connection_id: str, data: bytes) -> HTTPStatus:
        """`POST /@connections/{id}`; from any thread."""
        if len(data) > MESSAGE_LIMIT:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        socket = self._sockets.get(connection_id)
        if socket is None or not self._in_loop(_post(socket, data.decode("utf-8", "replace"))):
            return HTTPStatus.GONE
        return HTTPStatus.OK

    def close(self, connection_id: str) -> HTTPStatus:
        """`DELETE /@connections/{id}`; from any thread."""
        socket = self._sockets.get(connection_id)
        if socket is None or self._loop is None:
            return HTTPStatus.GONE
        self._loop.call_soon_threadsafe(socket.close, NORMAL)
        return HTTPStatus.NO_CONTENT

    def describe(self, connection_id: str) -> dict[str, str] | None:
        """`GET /@connections/{id}`; from any thread."""
        socket = self._sockets.get(connection_id)
        if socket is None:
            return None
        return {"connectedAt": _iso(socket.connected_at), "lastActiveAt": _iso(socket.active_at)}

    def _in_loop(self, work: Coroutine[Any, Any, bool]) -> bool:
        """The answer of `work`; False if the loop ends, and every connection with it."""
        assert self._loop is not None
        try:
            return result_in(self._loop, work)
        except LambdaError:
            return False

    async def _connect(self, socket: _Socket, scope: Scope) -> int:
        event = _event(socket, scope, "$connect", "CONNECT")
        if query := dict(parse_qsl(scope["query_string"].decode("latin-1"))):
            event["queryStringParameters"] = query
        result = await self._invoke(event)
        if result is None or result.function_error is not None:
            return HTTPStatus.BAD_GATEWAY
        try:
            return int(json.loads(result.payload)["statusCode"])
        except (ValueError, TypeError, KeyError):
            return HTTPStatus.BAD_GATEWAY

    async def _open(self, socket: _Socket, scope: Scope, receive: Receive) -> None:
        """Serve until either side closes."""
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._read(socket, scope, receive),
                socket.write(),
                socket.expire(),
                socket.closed.wait(),
            )
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, OSError):
                logger.warning("a socket failed: %s", type(result).__name__)
        if not socket.is_client_gone:
            # The client may have gone, in one of many ways, or may not read.
            with suppress(Exception):
                closing = socket.send({"type": "websocket.close", "code": socket.code})
                await asyncio.wait_for(closing, _CLOSE_TAKES_S)

    async def _read(self, socket: _Socket, scope: Scope, receive: Receive) -> None:
        """Each message becomes an event, until the client goes."""
        room = asyncio.Semaphore(_MAX_CONCURRENT)
        async with asyncio.TaskGroup() as messages:
            while (message := await receive())["type"] == "websocket.receive":
                socket.touch()
                body, is_base64 = _body(message)
                if len(body) > MESSAGE_LIMIT:
                    return socket.close(TOO_BIG)
                await room.acquire()
                event = _event(socket, scope, "$default", "MESSAGE")
                event |= {"body": body, "isBase64Encoded": is_base64}
                task = messages.create_task(self._message(socket, event))
                task.add_done_callback(lambda _: room.release())
            socket.is_client_gone = True
            socket.closed.set()
        return None

    async def _message(self, socket: _Socket, event: dict[str, Any]) -> None:
        """Send a message to the function. If it fails, the client is told as API Gateway does."""
        result = await self._invoke(event)
        if result is not None and result.function_error is None:
            return
        context = event["requestContext"]
        problem = {"message": "Internal server error", "connectionId": socket.id}
        socket.post(json.dumps({**problem, "requestId": context["requestId"]}))

    async def _invoke(self, event: Mapping[str, Any]) -> InvokeResult | None:
        try:
            return await self._functions.invoke(FUNCTION, json.dumps(event).encode())
        except LambdaError:
            return None


async def _post(socket: _Socket, text: str) -> bool:
    return socket.post(text)


def _event(socket: _Socket, scope: Scope, route: str, kind: str) -> dict[str, Any]:
    """An event as a WebSocket API makes it. Only the handshake has headers."""
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
    now = time.time()
    context = {
        "routeKey": route,
        "eventType": kind,
        "messageDirection": "IN",
        "connectionId": socket.id,
        "connectedAt": int(socket.connected_at * 1000),
        "requestId": str(uuid.uuid4()),
        "requestTime": time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now)),
        "requestTimeEpoch": int(now * 1000),
        "domainName": headers.get("host", ""),
        "stage": "local",
        "apiId": "local",
        "identity": {"sourceIp": (scope.get("client") or ("127.0.0.1", 0))[0]},
    }
    event: dict[str, Any] = {"requestContext": context, "isBase64Encoded": False}
    return event | ({"headers": headers} if route == "$connect" else {})


def _body(message: Mapping[str, Any]) -> tuple[str, bool]:
    if message.get("text") is not None:
        return str(message["text"]), False
    return base64.b64encode(message.get("bytes") or b"").decode("ascii"), True


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
