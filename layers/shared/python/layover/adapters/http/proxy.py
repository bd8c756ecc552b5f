"""The proxy that the environment names for a server, and a tunnel through it."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import unquote_to_bytes

from layover.adapters.http.connection import Connection, ConnectionBroken, Target
from layover.adapters.http.request import InvalidURL, Url, join_url
from layover.errors import ConfigurationError

MAX_HEAD = 16_384
"""Bytes of a proxy's answer to CONNECT."""


class ProxyRefused(ConnectionBroken):
    """The proxy opens no tunnel."""


class Proxy(NamedTuple):
    """`user`: `NAME:PASSWORD`, percent-encoded, or empty."""

    target: Target
    user: str


def proxy_for(url: Url, variables: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for requests to an https server, as boto3 finds it: `https_proxy` or `HTTPS_PROXY`,
    unless `no_proxy` or `NO_PROXY` names the host. None: the server is asked directly, as servers without TLS
    always are (those of one's own machine). Raises ConfigurationError for a variable that is not a URL."""
    address = variables.get("https_proxy") or variables.get("HTTPS_PROXY")
    if not address or not url.target.tls:
        return None
    # Imported only where there is a proxy: it would be part of every cold start.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed lacks it

    excluded = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
    if proxy_bypass_environment(url.host, {"no": excluded}):
        return None
    try:
        proxy = join_url(address if "://" in address else f"http://{address}", "")
    except InvalidURL as error:
        # The value may have a password in it.
        raise ConfigurationError(
            f"HTTPS_PROXY is not a proxy's URL, like http://proxy.example:3128: {error}"
        ) from None
    return Proxy(proxy.target, proxy.user)


async def open_tunnel(proxy: Proxy, target: Target, trust: ssl.SSLContext) -> Connection:
    """Return a connection to the target with TLS from end to end: the proxy sees only its name. Raises
    OSError: ProxyRefused, and what connecting raises."""
    loop = asyncio.get_running_loop()
    transport, handshake = await loop.create_connection(
        lambda: _Handshake(loop),
        proxy.target.host,
        proxy.target.port,
        ssl=trust if proxy.target.tls else None,
    )
    try:
        transport.write(_connect_request(proxy, target))
        await handshake.is_open
        return await _encrypt(transport, trust, target.host)
    except BaseException:
        transport.abort()
        raise


async def _encrypt(transport: asyncio.Transport, trust: ssl.SSLContext, host: str) -> Connection:
    connection = Connection()
    encrypted = await asyncio.get_running_loop().start_tls(
        transport, connection, trust, server_hostname=host
    )
    if encrypted is None:  # The other side hung up meanwhile.
        raise ConnectionBroken("the connection was closed")
    # The loop does not call this for a connection that becomes encrypted.
    connection.connection_made(encrypted)
    return connection


def _connect_request(proxy: Proxy, target: Target) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    lines = [f"CONNECT {host}:{target.port} HTTP/1.1", f"host: {host}:{target.port}"]
    if proxy.user:
        secret = b64encode(unquote_to_bytes(proxy.user)).decode()
        lines.append(f"proxy-authorization: Basic {secret}")
    return "\r\n".join([*lines, "", ""]).encode()


class _Handshake(asyncio.Protocol):
    """Reads the answer to CONNECT. `is_open` is done once the tunnel is open, or fails with OSError."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_open: asyncio.Future[None] = loop.create_future()
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._head += data
        if len(self._head) > MAX_HEAD:
            self._fail(ProxyRefused("the proxy's answer is too long"))
        elif b"\r\n\r\n" in self._head:
            self._judge()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ProxyRefused("the proxy closed the connection"))

    def _judge(self) -> None:
        status = self._head.split(b"\r\n", 1)[0].split(b" ", 2)[1:2]
        if status and status[0].startswith(b"2"):
            # Nothing may be lost between this protocol and the next one.
            self._transport.pause_reading()
            if not self.is_open.done():
                self.is_open.set_result(None)
        else:
            code = status[0].decode("latin-1")[:3] if status else "no status"
            self._fail(ProxyRefused(f"the proxy refused the connection ({code})"))

    def _fail(self, error: Exception) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(error)
