"""Idle connections, a pool for each event loop."""

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

from layover.adapters.http.connection import Connection, Target, WholeResponse
from layover.adapters.http.proxy import Proxy, open_tunnel
from layover.adapters.http.tls import system_trust


class PoolLimits(NamedTuple):
    """`size`: connections at once; `max_idle_s`: an older idle one is not used; `next_address_s`: how long
    one of a host's addresses is tried before the next joins in (RFC 8305); None if one address is enough."""

    size: int
    max_idle_s: float
    connect_timeout_s: float
    next_address_s: float | None = None


class Pools:
    """The pools to one target. The first request of the next event loop disposes of a closed loop's pool;
    `aclose` closes it properly."""

    def __init__(self, target: Target, limits: PoolLimits, proxy: Proxy | None = None) -> None:
        self._target = target
        self._limits = limits
        self._proxy = proxy
        self._of: dict[asyncio.AbstractEventLoop, Pool] = {}

    def of_this_loop(self) -> "Pool":
        """The running loop's pool."""
        loop = asyncio.get_running_loop()
        pool = self._of.get(loop)
        if pool is None:
            for old_loop in [each for each in self._of if each.is_closed()]:
                self._of.pop(old_loop, None)
            pool = self._of[loop] = Pool(self._target, self._limits, self._proxy)
        return pool

    async def aclose(self) -> None:
        """Close the running loop's idle connections."""
        pool = self._of.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            pool.close()
            await asyncio.sleep(0)  # A transport closes in the loop's next round.


class Pool:
    """Connections to one target, the most recently used one first. `proxy`: opens them."""

    def __init__(self, target: Target, limits: PoolLimits, proxy: Proxy | None = None) -> None:
        self._target = target
        self._limits = limits
        self._proxy = proxy
        self._room = asyncio.Semaphore(limits.size)
        self._idle: list[Connection] = []
        self._attempt: asyncio.Task[Connection] | None = None
        self._is_closed = False

    def dial(self) -> None:
        """Begin to connect, unless a connection is idle. The next request takes the connection once it is
        open."""
        connection = self._reused()
        if connection is not None:
            self._idle.append(connection)
        elif self._attempt is None:
            self._attempt = asyncio.create_task(self._connect())
            # A failure is ignored, since the next request connects by itself.
            self._attempt.add_done_callback(_is_there)

    async def exchange(self, request: bytes, timeout_s: float) -> WholeResponse:
        """The answer to a request. Raises OSError."""
        connection = await self.acquire()
        try:
            return await connection.exchange(request, timeout_s)
        finally:
            self.release(connection)

    async def acquire(self) -> Connection:
        """A connection that only the caller uses until it is released. Raises OSError."""
        await self._room.acquire()
        try:
            return self._reused() or await self._take_attempt() or await self._connect()
        except BaseException:
            self._room.release()
            raise

    def release(self, connection: Connection) -> None:
        """Keep the connection for the next request; one whose answer was not read to its end is closed."""
        self._room.release()
        if connection.is_idle and not self._is_closed:
            self._idle.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        """Close idle connections; those in use close when they are released."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().abort()
        if self._attempt is not None:
            self._attempt.add_done_callback(_abort)

    async def _take_attempt(self) -> Connection | None:
        """The connection that `dial` began, if it succeeded."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return None
        with suppress(OSError):
            self._idle.append(await attempt)
        return self._reused()

    def _reused(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - self._limits.max_idle_s
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since > oldest and connection.is_reusable():
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        async with asyncio.timeout(self._limits.connect_timeout_s):
            if self._proxy is not None:
                connection = await open_tunnel(self._proxy, self._target, system_trust())
            else:
                connection = await self._connect_directly()
        connection.keep_alive()
        connection.idle_since = asyncio.get_running_loop().time()
        return connection

    async def _connect_directly(self) -> Connection:
        host, port, tls = self._target
        trust = system_trust() if tls else None
        loop = asyncio.get_running_loop()
        more: dict[str, Any] = {}
        if self._limits.next_address_s and isinstance(loop, asyncio.BaseEventLoop):
            # uvloop, in which an application may run agents, has no such argument.
            more["happy_eyeballs_delay"] = self._limits.next_address_s
        _, connection = await loop.create_connection(Connection, host, port, ssl=trust, **more)
        return connection


def _is_there(attempt: asyncio.Task[Connection]) -> bool:
    return not attempt.cancelled() and attempt.exception() is None


def _abort(attempt: asyncio.Task[Connection]) -> None:
    if _is_there(attempt):
        attempt.result().abort()
