"""The way to a server of tools: where requests may go, and how much may come back (docs/security.md#mcp)."""

import asyncio
import ipaddress
import json
import re
import socket
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2

from layover.adapters.http.retry_after import retry_after
from layover.adapters.http.tls import system_trust
from layover.ports.tool_servers import ToolServerError
from layover.values.base import MAX_DEPTH

MAX_RESPONSE = 16 * 1024 * 1024
"""Bytes of one response, a stream of events as well."""
MAX_LEVELS = MAX_DEPTH + 50
"""Levels of nesting that are read of a response: more than any tool or result may have."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')
CONNECT_S = 5.0
"""Seconds for a connection."""
SILENCE_S = 300.0
"""Seconds without a byte. A call's own time-out is shorter, and the engine keeps it."""


@dataclass
class Trip:
    """The fate of one request. `sent`: it may have reached the server. `refused`: the status by which the
    server refused it; None: it did not."""

    sent: bool = False
    refused: int | None = None
    problem: str | None = None
    """Why the guard stopped it."""
    wait_s: float | None = None
    """The seconds after which the server that refused it wants to be asked again."""
    request_id: Any = None
    """The id of the newest request of the protocol in it. What comes back on its own way is its answer."""

    @property
    def in_doubt(self) -> bool:
        """True if the server may have done what it was asked, and nobody knows."""
        return self.sent and (self.refused is None or self.refused >= 500)

    @property
    def may_help(self) -> bool:
        """True if the same request may go better a moment later."""
        return self.problem is None and (self.refused is None or self.refused >= 500)


trip: ContextVar[Trip | None] = ContextVar("trip", default=None)
"""The request that the code at work belongs to."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to addresses that may be asked, and to no others: the address that was checked is the one that
    is connected to, whatever the name leads to a moment later."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._inner = httpx2.AsyncHTTPTransport(verify=system_trust(), retries=0)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises httpx2.ConnectError before anything is sent, httpx2.ReadError for a response
        that is too large or packed."""
        mine = trip.get()
        if mine is not None:
            # The handshake has several requests, and tries what older servers refuse.
            mine.refused = mine.wait_s = None
            request_id = _request_id(request)
            mine.request_id = mine.request_id if request_id is None else request_id
        host = request.url.host
        try:
            address = await _address(host, request.url.port or 443, private=self._private)
        except ToolServerError as error:
            if mine is not None:
                mine.problem = error.message
            raise httpx2.ConnectError(error.message) from None
        direct = httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        direct.headers["accept-encoding"] = "identity"
        try:
            response = await self._inner.handle_async_request(direct)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            raise
        except BaseException:
            if mine is not None:
                mine.sent = True
            raise
        if mine is not None:
            mine.sent = True
            if response.status_code >= 400:
                mine.refused = response.status_code
                mine.wait_s = retry_after(response.headers)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise _stopped(mine, "it answered with a packed response, which was not asked for")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Shallow(_Counted(response.stream, mine), is_events=is_events)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, mine: Trip | None) -> None:
        self._stream = stream
        self._mine = mine

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > MAX_RESPONSE:
                raise _stopped(self._mine, f"it answered with more than {MAX_RESPONSE // 2**20} MB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Shallow(httpx2.AsyncByteStream):
    """JSON, or events of it, with `null` in place of what is nested too deep: the client would refuse the
    whole list for one tool. What is left of that tool is still too deep to be taken."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, is_events: bool) -> None:
        self._stream = stream
        self._is_events = is_events
        self._depth = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line = bytearray()
        async for piece in self._stream:
            # No text of JSON has a line's end in it.
            *ended, rest = piece.split(b"\n")
            for each in ended:
                yield self._cut(bytes(line + each)) + b"\n"
                line.clear()
            line += rest
        if line:
            yield self._cut(bytes(line))

    def _cut(self, line: bytes) -> bytes:
        head = b""
        if self._is_events:
            if not line.startswith(b"data:"):
                self._depth = self._depth if line.strip(b"\r") else 0
                return line
            head, line = line[:5], line[5:]
        pieces, at = [head], 0 if self._depth <= MAX_LEVELS else len(line)
        for token in _TOKEN.finditer(line):
            if token[0] in b"{[":
                self._depth += 1
                if self._depth == MAX_LEVELS + 1:
                    pieces.append(line[at : token.start()] + b"null")
                    at = len(line)
            elif token[0] in b"}]":
                if self._depth == MAX_LEVELS + 1:
                    at = token.end()
                self._depth = max(0, self._depth - 1)
        return b"".join([*pieces, line[at:]])

    async def aclose(self) -> None:
        await self._stream.aclose()


def _stopped(mine: Trip | None, problem: str) -> httpx2.ReadError:
    if mine is not None:
        mine.problem = problem
    return httpx2.ReadError(problem)


def _request_id(request: httpx2.Request) -> Any:
    """Return the id of a request of the protocol; None: it is none, or one that was sent on, which has the
    id of the first. An answer to the server has an id, too."""
    try:
        message = json.loads(request.content) if request.method == "POST" else {}
    except httpx2.RequestNotRead:
        return None
    return message.get("id") if "method" in message else None


async def _address(host: str, port: int, *, private: bool) -> str:
    """Return the address to connect to. Raises ToolServerError if the name has none, or one that may not be
    asked: all of its addresses have to be allowed."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise ToolServerError("its name has no address") from None
    addresses = [str(info[4][0]) for info in infos]
    if not addresses or not all(may_ask(each, private=private) for each in addresses):
        raise ToolServerError(
            "its address is not a public one: give mcp() private=True for a server of your own network"
            if not private
            else "its address is one that is never asked"
        )
    return addresses[0]


def may_ask(address: str, *, private: bool) -> bool:
    """Return whether a server at this address may be asked. Addresses at which a cloud's machines get their
    credentials never may, nor those that hide another one."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or _translated(ip)
        if inner is not None:
            return may_ask(str(inner), private=private)
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or any(ip in n for n in _NEVER):
        return False
    return ip.is_global or (private and (ip.is_private or ip.is_loopback))


_NEVER = tuple(
    map(
        ipaddress.ip_network,
        (
            # Metadata and credentials: AWS (of instances, of pods), Oracle, Azure, Alibaba.
            "fd00:ec2::/32",
            "192.0.0.0/24",
            "168.63.129.16/32",
            "100.100.100.200/32",
            # An IPv4 address is somewhere in these: translation within a network, and Teredo.
            "64:ff9b:1::/48",
            "2001::/32",
        ),
    )
)
_EMBEDS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "::/96")))
"""Networks whose last 32 bits are an IPv4 address: NAT64, and "compatible" ones."""


def _translated(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    embeds = not ip.is_unspecified and not ip.is_loopback and any(ip in n for n in _EMBEDS)
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if embeds else None
