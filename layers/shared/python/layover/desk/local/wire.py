"""HTTP/1.1 on loopback for clients that are programs: kept connections, whole requests, answers in one write.

For the Lambda Runtime API and for AWS's services, which answer some hundred requests a run. People and
browsers are served by `local/http/server.py`."""

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from layover.desk.local.doors import refusal_of

BACKLOG = 256
# The client puts a traceback of up to 1 MB into a header of an error.
_HEADER_LIMIT = 4 * 1024 * 1024


_MODE = "lambda-runtime-function-response-mode"
_ERROR_TYPE = "lambda-runtime-function-error-type"
_ERROR_BODY = "lambda-runtime-function-error-body"


def listen_on_loopback(port: int = 0) -> socket.socket:
    """Return a listener on 127.0.0.1 (port 0: a free one). Raises OSError: the port is in use.

    Only of sockets that are named TCP's does asyncio switch Nagle's algorithm off. With it, the body of an
    answer waits for the ACK of its head, which a client that asks in quick succession delays by 40 ms."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class StreamFailed(Exception):
    """The function failed in mid-stream; what it says is an error object in Lambda's shape."""

    def __init__(self, error: bytes) -> None:
        super().__init__("a response stream failed")
        self.error = error


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; header names are lower case, `path` is unchanged from what was sent. A response that
    a function streams comes in `pieces`, and has no body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    pieces: AsyncIterator[bytes] | None = None
    """Raises StreamFailed if the function failed in mid-stream."""


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP answer. `bare`: the head of an answer whose body is not sent (HEAD)."""

    status: HTTPStatus
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    bare: bool = False

    def encode(self) -> bytes:
        """Head and body together: in two writes Nagle and delayed ACK cost 40 ms an invocation."""
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if not any(name.lower() == "content-length" for name, _ in self.headers):
            lines.append(f"Content-Length: {len(self.body)}")
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        return head if self.bare else head + self.body


Respond = Callable[[Request], Awaitable[Response]]
Admits = Callable[[Request], bool]


class WireServer:
    """Serves `respond` on its own loopback port. Closed with `close`.

    Half a request is never carried out: its client was killed. Web pages are refused, except for requests
    that `admits_page` takes, and so is every host but this port's own.
    """

    def __init__(self, respond: Respond, admits_page: Admits = lambda _: False) -> None:
        self._respond = respond
        self._admits_page = admits_page
        self._port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, listener: socket.socket | None = None) -> str:
        """Listen on a free loopback port, or on this socket; answers `host:port`."""
        listener = listener or listen_on_loopback()
        self._server = await asyncio.start_server(
            self._connected, sock=listener, limit=_HEADER_LIMIT, backlog=BACKLOG
        )
        host, self._port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{self._port}"

    def close(self) -> None:
        """Stop listening and drop the client."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    request = await _read(reader, writer)
                    if (refused := self._refuse(request)) is not None:
                        # The body of a refused request may be unread: the connection ends with the answer.
                        writer.write(refused.encode())
                        await writer.drain()
                        return
                    writer.write((await self._respond(request)).encode())
                    await writer.drain()
                    if request.headers.get("connection", "").lower() == "close":
                        return
        finally:
            self._connections.discard(task)
            writer.close()

    def _refuse(self, request: Request) -> Response | None:
        refusal = refusal_of(request.headers, self._port)
        is_page = refusal is not None and refusal.status is HTTPStatus.FORBIDDEN
        if refusal is None or (is_page and self._admits_page(request)):
            return None
        headers = (("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close"))
        bare = request.method == "HEAD"
        return Response(refusal.status, f"{refusal.detail}\n".encode(), headers, bare)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.strip().lower()
        if name:
            value = value.strip()
            headers[name] = f"{headers[name]},{value}" if name in headers else value
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get(_MODE, "").lower() == "streaming":
        return Request(method, path, headers, b"", _pieces(reader))
    return Request(method, path, headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    return b"".join([chunk async for chunk in _pieces(reader)])


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The chunks of a body, as they come. Raises StreamFailed if the trailers say so."""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    trailers: dict[str, str] = {}
    while line := (await reader.readuntil(b"\r\n")).decode("latin-1").strip():
        name, _, value = line.partition(":")
        trailers[name.strip().lower()] = value.strip()
    if _ERROR_TYPE in trailers:
        raise StreamFailed(base64.b64decode(trailers.get(_ERROR_BODY, "")))
