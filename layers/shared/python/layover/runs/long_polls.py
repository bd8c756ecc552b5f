"""Requests that wait. Each occupies an environment of `api`: a user may hold some of them, all users together
not all. A request that may not wait is answered at once."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from layover.errors import LimitReached, RetryableError
from layover.ports import Runtime
from layover.values.lease import Lease, LeaseKind

LEASE_LIVES = timedelta(seconds=35)
"""No request waits longer: API Gateway gives up after 30 s."""
_PATIENCE = timedelta(seconds=5)
"""The time after which a refused client may ask again: a guess, since streams end when they end."""
_ID_BYTES = 4
logger = logging.getLogger("layover")


@asynccontextmanager
async def place_to_wait(
    runtime: Runtime,
    owner: str,
    everybodys_kind: LeaseKind = LeaseKind.WAIT,
    lives: timedelta = LEASE_LIVES,
) -> AsyncIterator[bool]:
    """Yield whether the request may wait, as long as it does. A user's polls and streams count together;
    those of all users by kind, because they occupy environments of different functions."""
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
        for one in leases:
            await _release(runtime, one)


async def check_place_to_stream(runtime: Runtime, owner: str) -> None:
    """Raise LimitReached if a stream of this owner would end at once. A place may be gone a moment later."""
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
        # Many requests write the one item that counts for all users: enough of them wait already.
        return False
    leases.append(lease)
    return True


async def _release(runtime: Runtime, lease: Lease) -> None:
    try:
        await runtime.leases.release(lease)
    except RetryableError:
        logger.warning("a wait is given back by its expiry", extra={"kind": lease.kind.value})
