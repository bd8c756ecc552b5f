"""Places of requests that wait and of streams. Each occupies an environment of its function. One user may
hold a few, and all users together may not hold every one. Waiting requests and streams count apart.

Nobody tells a function on Lambda that its reader has left (docs/aws-facts.md#lambda). A place is therefore a
lease, and only a reader renews it, by asking again. A waiting request is over before its lease. A stream may
outlive its lease, but only until another stream needs the place."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from layover.errors import LimitReached, RetryableError
from layover.runtime import Runtime
from layover.values.lease import Lease, LeaseKind

WAIT_LEASE = timedelta(seconds=35)
"""The longest wait of a request. API Gateway gives up after 30 s."""
STREAM_LEASE = timedelta(seconds=30)
"""A closed page keeps a place from its user's next page for this long."""
_PLACE_LOOKS = timedelta(seconds=5)
"""The time between two looks whether another stream has taken the place."""
_PATIENCE = timedelta(seconds=5)
"""The time after which a refused client may ask again: a guess, since nobody knows when a stream will end."""
_ID_BYTES = 4
logger = logging.getLogger("layover")


@asynccontextmanager
async def place_to_wait(runtime: Runtime, owner: str) -> AsyncIterator[bool]:
    """Hold a place while the request waits, and yield whether it may."""
    most = runtime.settings.max_user_waits
    async with _leases(runtime, owner, LeaseKind.WAIT, WAIT_LEASE, most) as leases:
        yield bool(leases)


class StreamPlace:
    """The place of an open stream, which another stream may take after `STREAM_LEASE`."""

    def __init__(self, runtime: Runtime, leases: Sequence[Lease]) -> None:
        self._runtime = runtime
        self._leases = leases
        self._look_at: datetime = leases[0].until

    async def is_lost(self) -> bool:
        """Return whether another stream has taken the place, as of the last look. Looks are 5 s apart."""
        now = self._runtime.clock.now()
        if now < self._look_at:
            return False
        self._look_at = now + _PLACE_LOOKS
        try:
            is_there = await asyncio.gather(*map(self._runtime.leases.has, self._leases))
        except RetryableError:
            return False
        return not all(is_there)


@asynccontextmanager
async def place_to_stream(runtime: Runtime, owner: str) -> AsyncIterator[StreamPlace | None]:
    """Hold a place while a stream is open, and yield it; None if no place is free."""
    most = runtime.settings.max_user_streams
    async with _leases(runtime, owner, LeaseKind.STREAM, STREAM_LEASE, most) as leases:
        yield StreamPlace(runtime, leases) if leases else None


async def check_place_to_stream(runtime: Runtime, owner: str) -> None:
    """Raise LimitReached if a stream of this owner would end at once. A free place may be taken a moment
    later."""
    settings, now = runtime.settings, runtime.clock.now()
    own, all_streams = await asyncio.gather(
        runtime.leases.list_leases(owner, LeaseKind.STREAM, now),
        runtime.leases.list_leases(None, LeaseKind.STREAM, now),
    )
    if len(own) >= settings.max_user_streams:
        raise LimitReached(f"{len(own)} streams of this user are open already", _PATIENCE)
    if len(all_streams) >= settings.max_waits:
        raise LimitReached("too many streams are open", _PATIENCE)


@asynccontextmanager
async def _leases(
    runtime: Runtime, owner: str, kind: LeaseKind, lives: timedelta, most: int
) -> AsyncIterator[list[Lease]]:
    """Yield the owner's lease and the one that counts for all users; none if either is refused."""
    until, id = runtime.clock.now() + lives, runtime.dice.hex(_ID_BYTES)
    own, everybodys = Lease(owner, kind, id, until), Lease(None, kind, id, until)
    leases = list[Lease]()
    try:
        may = await _take(runtime, own, most, leases) and await _take(
            runtime, everybodys, runtime.settings.max_waits, leases
        )
        yield leases if may else []
    finally:
        await asyncio.gather(*(_release(runtime, one) for one in leases))


async def _take(runtime: Runtime, lease: Lease, most: int, leases: list[Lease]) -> bool:
    try:
        if not await runtime.leases.take(lease, most, runtime.clock.now()):
            return False
    except RetryableError:
        # So many requests write the one item that counts for all users that enough of them must be waiting.
        return False
    leases.append(lease)
    return True


async def _release(runtime: Runtime, lease: Lease) -> None:
    try:
        await runtime.leases.release(lease)
    except RetryableError:
        logger.warning("a place is given back by its expiry", extra={"kind": lease.kind.value})
