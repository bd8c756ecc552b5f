"""Leases on what is scarce, counted by owner."""

from datetime import datetime
from typing import Protocol

from layover.values.lease import Lease, LeaseKind


class Leases(Protocol):
    """Leases by owner and kind. One that has expired counts no more."""

    async def take(self, lease: Lease, most: int, now: datetime) -> bool:
        """Hold it from now on; repeatable. False: its owner holds `most` of this kind. Raises
        RetryableError."""
        ...

    async def give_back(self, lease: Lease) -> None:
        """Hold it no longer; repeatable. Raises RetryableError."""
        ...

    async def list_leases(self, owner: str, kind: LeaseKind, now: datetime) -> tuple[Lease, ...]:
        """Lists an owner's leases, in no order."""
        ...


class NoLeases:
    """`Leases` where everybody may hold everything."""

    async def take(self, lease: Lease, most: int, now: datetime) -> bool:
        """Always."""
        return True

    async def give_back(self, lease: Lease) -> None:
        """Nothing."""

    async def list_leases(self, owner: str, kind: LeaseKind, now: datetime) -> tuple[Lease, ...]:
        """Nothing."""
        return ()
