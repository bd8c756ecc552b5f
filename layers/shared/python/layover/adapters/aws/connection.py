"""One HTTP/1.1 connection on the event loop: a request, its whole answer, and the next request.

By hand, as a library's request costs more than all that DynamoDB's client does beside it
(docs/performance.md#aws-client). It reads what AWS's services send; anything else breaks the connection."""

import asyncio
import select
from typing import NamedTuple

MAX_HEAD = 65_536
"""Bytes of a status line with its headers."""
_END = b"\r\n"


class ConnectionBroken(Exception):
    """The connection ended before the answer did, or the bytes received are no answer."""


class Answer(NamedTuple):
    """A response. `headers`: names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Target(NamedTuple):
    """A connection's address."""

    host: str
    port: int
    tls: bool


class Connection(asyncio.Protocol):
    """A connection for one request at a time. Anything that ends a request early (an error, a time-out, a
    cancelled task) ends the connection, so that no answer is ever taken for another request's."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[Answer] | None = None
        self._buffer = bytearray()
        self._head: tuple[int, dict[str, str]] | None = None
        self._is_closed = False
        self.idle_since = 0.0

    async def exchange(self, request: bytes, timeout_s: float) -> Answer:
        """The answer to a request. Raises ConnectionBroken, TimeoutError, OSError."""
        if self._is_closed:
            raise ConnectionBroken("the connection was closed")
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, self._time_out)
        try:
            self._transport.write(request)
            return await self._waiter
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()
            self._waiter = None
            self.idle_since = self._loop.time()

    def is_reusable(self) -> bool:
        """Return whether another request may be sent. Data that the loop has not seen yet counts: a process
        that was frozen learns here that the other side has hung up."""
        if self._is_closed or self._transport.is_closing():
            return False
        socket = self._transport.get_extra_info("socket")
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLIN)
        return not poll.poll(0)

    def abort(self) -> None:
        """Close at once; a request that is under way fails."""
        self._is_closed = True
        self._transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.abort()  # Data without a request.
            return
        self._buffer += data
        try:
            answer = self._read()
        except (ValueError, IndexError, KeyError):
            self._fail(ConnectionBroken("the answer is no HTTP"))
            return
        if answer is not None:
            self._settle(answer)

    def eof_received(self) -> None:
        """The end of a body without a length; of any other answer, too early."""
        if self._head is not None and self._is_open_ended(self._head[1]):
            self._settle(Answer(*self._head, bytes(self._buffer)))
        self._is_closed = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._fail(exc or ConnectionBroken("the connection was closed"))

    # Parts of an answer

    def _settle(self, answer: Answer) -> None:
        if self._buffer and not self._is_open_ended(answer.headers):
            self._is_closed = True  # More bytes than the answer: the next one would be wrong.
        if answer.headers.get("connection", "").lower() == "close":
            self._is_closed = True
        self._buffer.clear()
        self._head = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _time_out(self) -> None:
        self._fail(TimeoutError())

    def _read(self) -> Answer | None:
        """The answer once it is whole."""
        while self._head is None:
            end = self._buffer.find(_END + _END)
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise ValueError("the head is too long")
                return None
            head = _parse_head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if head[0] >= 200:
                self._head = head
        status, headers = self._head
        if status in (204, 304):
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding", "").lower() == "chunked":
            chunked = _unchunked(self._buffer)
            if chunked is None:
                return None
            body, length = chunked
        elif self._is_open_ended(headers):
            return None
        else:
            length = int(headers["content-length"])
            if len(self._buffer) < length:
                return None
            body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return Answer(status, headers, body)

    def _is_open_ended(self, headers: dict[str, str]) -> bool:
        return not headers.keys() & {"content-length", "transfer-encoding"}


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ", 2)
    if not version.startswith("HTTP/1."):
        raise ValueError("no HTTP")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if version == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return int(status), headers


def _unchunked(data: bytearray) -> tuple[bytes, int] | None:
    """The body in chunks and the length of all of it, once it is whole."""
    parts: list[bytes] = []
    at = 0
    while (end := data.find(_END, at)) >= 0:
        size = int(data[at:end].split(b";")[0], 16)
        begin = end + 2
        if not size:
            # Trailers, if there are any, end with an empty line as well.
            after = begin + 2 if data[begin : begin + 2] == _END else data.find(_END * 2, begin) + 4
            whole = after <= len(data) and after > begin + 1
            return (b"".join(parts), after) if whole else None
        if data[begin + size : begin + size + 2] != _END and len(data) >= begin + size + 2:
            raise ValueError("a chunk is longer than it says")
        parts.append(bytes(data[begin : begin + size]))
        at = begin + size + 2
    return None
