"""Waiting requests. Each occupies an environment of `api`. One user may hold a few, and all users together
may not hold every one. A request that may not wait is answered at once."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from layover.errors import LimitReached, RetryableError
from layover.runtime import Runtime
from layover.values.lease import Lease, LeaseKind

MAX_WAIT = 25.0
"""Seconds: API Gateway gives up after 30."""
LEASE_LIVES = timedelta(seconds=35)
"""The longest wait of a request. API Gateway gives up after 30 s."""
_PATIENCE = timedelta(seconds=5)
"""The time after which a refused client may ask again: a guess, since nobody knows when a stream will end."""
_ID_BYTES = 4
logger = logging.getLogger("layover")

T = TypeVar("T")


@dataclass(frozen=True)
class Pace:
    """The rhythm of a caller's wait, both in seconds; tests give their own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.monotonic


def loose_looks() -> Iterator[float]:
    """Yield pauses in seconds: looks come after 27, 66 and 123 ms, ten within 2.1 s, then every 0.5 s."""
    pause = 0.027
    while True:
        yield pause
        pause = min(pause * 1.45, 0.5)


def close_looks() -> Iterator[float]:
    """Yield pauses in seconds, for looks that cost little. The first is 25 ms long, those after 1 to 8 s of
    waiting are 0.155 s, and later ones 2 % of the wait so far, up to 0.5 s. A caller therefore learns of news
    within 80 ms on average, or within 1 % of its wait."""
    pause, waited = 0.025, 0.0
    while True:
        yield pause
        waited += pause
        pause = max(min(pause * 1.25, 0.155), min(0.02 * waited, 0.5))


async def wait_for(
    runtime: Runtime,
    owner: str,
    look: Callable[[], Awaitable[T | None]],
    wait: float,
    pace: Pace,
    pauses: Callable[[], Iterator[float]] = loose_looks,
) -> T | None:
    """Return the first result of `look` that is true; None after `wait` seconds (`MAX_WAIT` at most), or if
    no place is free. The first look comes after a pause, because the caller has just looked."""
    if wait <= 0:
        return None
    async with place_to_wait(runtime, owner) as may_wait:
        end = pace.now() + (min(wait, MAX_WAIT) if may_wait else 0)
        for pause in pauses():
            left = end - pace.now()
            if left <= 0:
                break
            await pace.sleep(min(pause, left))
            if value := await look():
                return value
        return None


@asynccontextmanager
async def place_to_wait(
    runtime: Runtime,
    owner: str,
    everybodys_kind: LeaseKind = LeaseKind.WAIT,
    lives: timedelta = LEASE_LIVES,
) -> AsyncIterator[bool]:
    """Hold a place while the request waits, and yield whether it may. A user's polls and streams count
    together. Across all users each kind counts separately, because they occupy environments of different
    functions."""
    settings, leases = runtime.settings, list[Lease]()
    until = runtime.clock.now() + lives
    lease = Lease(owner, LeaseKind.WAIT, secrets.token_hex(_ID_BYTES), until)
    everybodys = Lease(None, everybodys_kind, lease.id, until)
    try:
        yield (
            await _take_lease(runtime, lease, settings.max_user_waits, leases)
            and await _take_lease(runtime, everybodys, settings.max_waits, leases)
        )
    finally:
        await asyncio.gather(*(_release(runtime, one) for one in leases))


async def check_place_to_stream(runtime: Runtime, owner: str) -> None:
    """Raise LimitReached if a stream of this owner would end at once. A free place may be taken a moment
    later."""
    settings, now = runtime.settings, runtime.clock.now()
    own, all_streams = await asyncio.gather(
        runtime.leases.list_leases(owner, LeaseKind.WAIT, now),
        runtime.leases.list_leases(None, LeaseKind.STREAM, now),
    )
    if len(own) >= settings.max_user_waits:
        raise LimitReached(f"{len(own)} requests of this user wait already", _PATIENCE)
    if len(all_streams) >= settings.max_waits:
        raise LimitReached("too many streams are open", _PATIENCE)


async def _take_lease(runtime: Runtime, lease: Lease, most: int, leases: list[Lease]) -> bool:
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
        logger.warning("a wait is given back by its expiry", extra={"kind": lease.kind.value})
