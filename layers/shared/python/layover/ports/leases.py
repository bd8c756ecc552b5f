"""Leases on scarce things, counted by owner."""

from datetime import datetime
from typing import Protocol

from layover.values.lease import Lease, LeaseKind


class Leases(Protocol):
    """Leases by owner and kind. An expired lease no longer counts."""

    async def take(self, lease: Lease, most: int, now: datetime) -> bool:
        """Take the lease; repeatable. If its owner holds `most` of this kind, the oldest expired one makes
        room; return False if none has expired. Raises RetryableError."""
        ...

    async def has(self, lease: Lease) -> bool:
        """Return whether the lease is still there. An expired one is, until another has needed its room.
        Raises RetryableError."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give the lease back; repeatable. Raises RetryableError."""
        ...

    async def list_leases(
        self, owner: str | None, kind: LeaseKind, now: datetime
    ) -> tuple[Lease, ...]:
        """Return an owner's leases, or those that count for all users (None), in no order."""
        ...


class NoLeases:
    """`Leases` without limits."""

    async def take(self, lease: Lease, most: int, now: datetime) -> bool:
        """Always grant."""
        return True

    async def has(self, lease: Lease) -> bool:
        """Return True: nothing takes a lease away."""
        return True

    async def release(self, lease: Lease) -> None:
        """Do nothing."""

    async def list_leases(
        self, owner: str | None, kind: LeaseKind, now: datetime
    ) -> tuple[Lease, ...]:
        """Return no leases."""
        return ()
