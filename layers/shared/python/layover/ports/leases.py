"""Leases on scarce things, counted by owner."""

from datetime import datetime
from typing import Protocol

from layover.values.lease import Lease, LeaseKind


class Leases(Protocol):
    """Leases by owner and kind. An expired lease no longer counts."""

    async def take(self, lease: Lease, most: int, now: datetime) -> bool:
        """Take the lease; repeatable. Return False if its owner holds `most` of this kind. Raises
        RetryableError."""
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

    async def release(self, lease: Lease) -> None:
        """Do nothing."""

    async def list_leases(
        self, owner: str | None, kind: LeaseKind, now: datetime
    ) -> tuple[Lease, ...]:
        """Return no leases."""
        return ()
