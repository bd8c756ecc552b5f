"""Daily allowances of users, and the switch that stops everything."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from layover.values.runs.usage import Usage


@dataclass(frozen=True)
class DayUse:
    """A user's spending since 00:00 UTC. `cost_usd`: of the models whose price is known."""

    tokens: int = 0
    cost_usd: Decimal = Decimal(0)


@dataclass(frozen=True)
class DayLimits:
    """A user's limits of a UTC day; None: no limit."""

    tokens: int | None = None
    cost_usd: Decimal | None = None

    def are_reached(self, use: DayUse) -> bool:
        """True if the day is used up."""
        tokens = self.tokens is not None and use.tokens >= self.tokens
        return tokens or (self.cost_usd is not None and use.cost_usd >= self.cost_usd)


class Reservation(StrEnum):
    """The answer to a request for room in a day. `BUSY`: steps of other runs hold what is left of it."""

    GRANTED = "granted"
    BUSY = "busy"
    USED_UP = "used-up"


class Allowance(Protocol):
    """Counters of users' days, the operator's switch, and rates."""

    async def reserve(
        self, owner: str, run_id: str, need: DayUse, limits: DayLimits
    ) -> Reservation:
        """Hold room in the owner's day for the next step of a run, in place of the run's previous hold.
        `need`: an estimate. A step that exceeded all estimates raises those of the next steps. Held until
        `release`, or for `HELD` without a release."""
        ...

    async def release(self, owner: str, run_id: str) -> None:
        """Release the run's hold, and write the use that was noted for its user."""
        ...

    async def release_all(self, owner: str, run_ids: Collection[str]) -> None:
        """Release what the frames of a run that ends still hold. The use of a step that was cut off is not
        known, and not counted. A reservation that was cut off may arrive later: it holds nothing then. Raises
        nothing while the store is busy: holds lapse after `HELD`."""
        ...

    async def admit(self, owner: str, per_minute: int) -> timedelta | None:
        """Count one more run of the owner in this minute. None: it may begin; else the time to wait."""
        ...

    def note(self, owner: str, usage: Usage) -> None:
        """Note the usage of a model call, which is kept until `flush`. Never raises."""
        ...

    async def flush(self) -> None:
        """Write the noted use. Use that cannot be written now is written with the next flush."""
        ...

    async def used(self, owner: str) -> DayUse:
        """Return today's use, as far as it has been written."""
        ...

    async def stopped(self) -> bool:
        """Return whether the operator has stopped everything. May be `SEEN_AFTER` old."""
        ...


class NoAllowance:
    """`Allowance` without limits and without a switch."""

    async def reserve(
        self, owner: str, run_id: str, need: DayUse, limits: DayLimits
    ) -> Reservation:
        """Always grant."""
        return Reservation.GRANTED

    async def release(self, owner: str, run_id: str) -> None:
        """Do nothing."""

    async def release_all(self, owner: str, run_ids: Collection[str]) -> None:
        """Do nothing."""

    async def admit(self, owner: str, per_minute: int) -> timedelta | None:
        """Always admit."""
        return None

    def note(self, owner: str, usage: Usage) -> None:
        """Do nothing."""

    async def flush(self) -> None:
        """Do nothing."""

    async def used(self, owner: str) -> DayUse:
        """Return no use."""
        return DayUse()

    async def stopped(self) -> bool:
        """Never stopped."""
        return False
