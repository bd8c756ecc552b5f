"""Idle connections, a pool for each event loop."""

import asyncio

from layover.adapters.aws.connection import Answer, Connection, Target
from layover.adapters.tls import system_trust

CONNECT_TIMEOUT_S = 3.0
MAX_IDLE_S = 300.0
"""NAT gateways forget a connection after 350 s, and let the next request run into its time-out."""


class Pools:
    """The pools to one target. An event loop that was closed leaves its pool to the next one's first
    request; `aclose` closes it properly."""

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._size = size
        self._of: dict[asyncio.AbstractEventLoop, Pool] = {}

    def of_this_loop(self) -> "Pool":
        """The running loop's pool."""
        loop = asyncio.get_running_loop()
        pool = self._of.get(loop)
        if pool is None:
            for old_loop in [each for each in self._of if each.is_closed()]:
                self._of.pop(old_loop, None)
            pool = self._of[loop] = Pool(self._target, self._size)
        return pool

    async def aclose(self) -> None:
        """Close the running loop's idle connections."""
        pool = self._of.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            pool.close()
            await asyncio.sleep(0)  # A transport closes in the loop's next round.


class Pool:
    """At most `size` connections, the one that was used last first."""

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._room = asyncio.Semaphore(size)
        self._idle: list[Connection] = []

    async def exchange(self, request: bytes, timeout_s: float) -> Answer:
        """The answer to a request. Raises ConnectionBroken, TimeoutError, OSError."""
        async with self._room:
            connection = self._reused() or await self._connect()
            answer = await connection.exchange(request, timeout_s)
            self._idle.append(connection)
            return answer

    def close(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().abort()

    def _reused(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - MAX_IDLE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since > oldest and connection.is_reusable():
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        host, port, tls = self._target
        trust = system_trust() if tls else None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await loop.create_connection(Connection, host, port, ssl=trust)
        return connection
