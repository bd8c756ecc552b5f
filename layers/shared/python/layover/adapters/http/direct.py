"""Requests to any server, over connections of our own."""

import zlib
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import unquote_to_bytes

from layover.adapters.http.client import USER_AGENT, Response
from layover.adapters.http.connection import Connection, ConnectionBroken, Target
from layover.adapters.http.pool import Pool, PoolLimits, Pools
from layover.adapters.http.request import Url, encode_request

CONNECT_TIMEOUT_S = 5.0
KEEP_ALIVE_S = 120.0
"""A tool may run between two requests; some gateways forget a connection after four minutes."""
MAX_CONNECTIONS = 1000
NEXT_ADDRESS_S = 0.25
_LIMITS = PoolLimits(MAX_CONNECTIONS, KEEP_ALIVE_S, CONNECT_TIMEOUT_S, NEXT_ADDRESS_S)
_GZIP = 31
"""The number that zlib has for the format, with the largest window."""


class DirectClient:
    """A client without proxies. It follows no redirection, so that data goes only where the settings say."""

    def __init__(self) -> None:
        self._pools: dict[Target, Pools] = {}

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        """See Client."""
        own = {"host": url.host, "accept-encoding": "gzip", "user-agent": USER_AGENT}
        fields = {**own, **headers}
        if url.user:
            fields["authorization"] = f"Basic {b64encode(unquote_to_bytes(url.user)).decode()}"
        request = encode_request("POST", url.path, fields, body)
        pool = self._pool(url)
        connection = await pool.acquire()
        try:
            head = await connection.open(request, silence_s)
            decoder = _decoder(head.headers)
        except BaseException:
            pool.release(connection)
            raise
        return _DirectResponse(
            head.status,
            head.headers,
            pool=pool,
            connection=connection,
            silence_s=silence_s,
            decoder=decoder,
        )

    def dial(self, url: Url) -> None:
        """See Client."""
        self._pool(url).dial()

    def _pool(self, url: Url) -> Pool:
        pools = self._pools.get(url.target)
        if pools is None:
            pools = self._pools[url.target] = Pools(url.target, _LIMITS)
        return pools.of_this_loop()

    async def aclose(self) -> None:
        """See Client."""
        for pools in self._pools.values():
            await pools.aclose()


class _DirectResponse(Response):
    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        *,
        pool: Pool,
        connection: Connection,
        silence_s: float,
        decoder: "zlib._Decompress | None",
    ) -> None:
        super().__init__(status, headers)
        self._pool = pool
        self._connection: Connection | None = connection
        self._silence_s = silence_s
        self._decoder = decoder

    @property
    def is_whole(self) -> bool:
        return self._connection is not None and self._connection.is_idle

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        while self._connection is not None:
            piece = await self._connection.read(self._silence_s)
            if not piece:
                return
            yield self._decoded(piece)

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(connection)

    def _decoded(self, piece: bytes) -> bytes:
        if self._decoder is None:
            return piece
        try:
            return self._decoder.decompress(piece)
        except zlib.error as error:
            raise ConnectionBroken("the answer is not compressed as its header says") from error


def _decoder(headers: Mapping[str, str]) -> "zlib._Decompress | None":
    """The decompressor of the body; None for a plain one."""
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip"):
        return zlib.decompressobj(_GZIP)
    raise ConnectionBroken(f"the answer is compressed by {encoding}, which was not requested")
