"""One HTTP/1.1 connection on the event loop: a request, its answer whole or in pieces, and the next request.

Written by hand, because a library's request costs more than everything else that its callers do
(docs/performance.md#aws-client). llhttp (`httptools`) parses the answers."""

import asyncio
import select
import socket as system_socket
from socket import IPPROTO_TCP, SO_KEEPALIVE, SOL_SOCKET
from typing import NamedTuple, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_HEAD = 65_536
"""Bytes of a status line with its headers."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 30, "TCP_KEEPCNT": 4}
"""Seconds of silence before the system asks whether the other side is there, seconds between two such probes,
and the number of them. NAT gateways forget a connection after 350 s, and a model may think for longer before
it answers a request that is not streamed."""
MAX_UNREAD = 262_144
"""The most bytes of a body that wait for their reader. The other side waits with the rest."""


class ConnectionBroken(ConnectionError):
    """The connection ended before the answer did, or the bytes received are not an answer."""


class Head(NamedTuple):
    """The beginning of a response. `headers`: names in lower case, with the last of repeated ones."""

    status: int
    headers: dict[str, str]


class WholeResponse(NamedTuple):
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
        self._parser = HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._give_up_at = 0.0
        self._is_closed = False
        self.idle_since = 0.0
        self._reset()

    def _reset(self) -> None:
        self._is_over = True
        self._is_whole_wanted = True
        self._fault: Exception | None = None
        self._head: Head | None = None
        self._head_size = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._unread = 0
        self._is_paused = False

    # Requests

    async def exchange(self, request: bytes, timeout_s: float) -> WholeResponse:
        """The answer to a request. Raises OSError: ConnectionBroken, TimeoutError and the system's own."""
        self._begin(request, is_whole_wanted=True)
        await self._wait(timeout_s)
        assert self._head is not None
        return WholeResponse(*self._head, b"".join(self._pieces))

    async def open(self, request: bytes, silence_s: float) -> Head:
        """The head of the answer to a request; `read` gives its body. Raises as `exchange` does."""
        self._begin(request, is_whole_wanted=False)
        while self._head is None:
            await self._wait(silence_s)
        return self._head

    async def read(self, silence_s: float) -> bytes:
        """The next piece of the body; empty at its end. Raises as `exchange` does."""
        while not self._pieces and not self._is_over:
            await self._wait(silence_s)
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._unread = 0
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    @property
    def is_idle(self) -> bool:
        """True if the last answer is over and another may follow it, as far as the loop has seen."""
        return self._is_over and not self._is_closed and not self._transport.is_closing()

    def is_reusable(self) -> bool:
        """Return whether another request may be sent. Data that the loop has not seen yet counts: a process
        that was frozen learns here that the other side has hung up."""
        return self.is_idle and not self._poll.poll(0)

    def keep_alive(self) -> None:
        """Have the system send probes while the connection is silent, so that nothing on the way forgets it.
        One that is dead ends after three minutes of silence."""
        socket = self._transport.get_extra_info("socket")
        if socket is None:
            return
        socket.setsockopt(SOL_SOCKET, SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            option = getattr(system_socket, name, None)  # Some systems lack some of them.
            if option is not None:
                socket.setsockopt(IPPROTO_TCP, option, value)

    def abort(self) -> None:
        """Close at once; a request that is under way fails."""
        self._is_closed = True
        self._transport.abort()

    def _begin(self, request: bytes, *, is_whole_wanted: bool) -> None:
        if self._is_closed:
            raise ConnectionBroken("the connection was closed")
        self._reset()
        self._is_over = False
        self._is_whole_wanted = is_whole_wanted
        self._transport.write(request)

    async def _wait(self, timeout_s: float) -> None:
        """Wait for the expected part, or for the fault that ends the answer."""
        if self._fault is not None:
            raise self._fault
        self._waiter = self._loop.create_future()
        self._give_up_at = self._loop.time() + timeout_s
        # One timer serves many answers: it looks at the time when it is due, and goes on.
        if self._timer is None or self._timer.when() > self._give_up_at:
            self._set_timer()
        try:
            await self._waiter
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiter = None

    def _set_timer(self) -> None:
        self._stop_timer()
        self._timer = self._loop.call_at(self._give_up_at, self._look_at_time)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _look_at_time(self) -> None:
        self._timer = None
        if self._waiter is not None and self._loop.time() < self._give_up_at:
            self._set_timer()
        elif self._waiter is not None:
            self._fail(TimeoutError())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._is_over:
            return
        self._fault = self._fault or error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._fault)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not always a subclass: uvloop has its own transports.
        self._transport = cast("asyncio.Transport", transport)
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            self.abort()  # Data without a request.
            return
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._break_off()
            return
        if self._head is None:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                self._break_off()
        elif self._is_over or not self._is_whole_wanted:
            self._wake()
            self._hold_back(len(data))

    def _hold_back(self, size: int) -> None:
        """Let the other side wait while the reader of an unfinished body is far behind."""
        self._unread += size
        if self._unread > MAX_UNREAD and not (self._is_over or self._is_paused):
            self._is_paused = True
            self._transport.pause_reading()

    def _break_off(self) -> None:
        """End a connection whose bytes are not an answer, or are more than one."""
        self._is_closed = True
        if self._is_over:
            self._wake()
        else:
            self._fail(ConnectionBroken("the answer is not HTTP"))

    def eof_received(self) -> None:
        """The end of a body without a length. For any other answer, it comes too early."""
        self._is_closed = True
        if self._head is not None and not self._is_over and self._is_open_ended(self._head):
            self._is_over = True
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._stop_timer()
        self._fail(exc or ConnectionBroken("the connection was closed"))

    # Called by the parser

    def on_message_begin(self) -> None:
        self._headers = {}
        if self._is_over:
            self._is_closed = True  # More bytes than the answer: the next one would be wrong.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if not self._is_over and status >= 200:
            self._head = Head(status, self._headers)
            self._headers = {}  # Trailers follow.

    def on_body(self, body: bytes) -> None:
        if not self._is_over:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self._head is None:
            return  # An interim answer: another one follows.
        if not self._parser.should_keep_alive():
            self._is_closed = True
        self._is_over = True
        self.idle_since = self._loop.time()

    def _is_open_ended(self, head: Head) -> bool:
        return not head.headers.keys() & {"content-length", "transfer-encoding"}
