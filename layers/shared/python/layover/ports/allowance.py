"""Daily allowances of users, and the switch that stops everything."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from layover.values.runs.usage import Usage


@dataclass(frozen=True)
class DayUse:
    """A user's spending since 00:00 UTC. `cost_usd`: of the models whose price is known."""

    tokens: int = 0
    cost_usd: Decimal = Decimal(0)


class Allowance(Protocol):
    """Counters of users' days, and the operator's switch."""

    def note(self, owner: str, usage: Usage) -> None:
        """Count what a model was paid for. Kept until `flush`; never raises."""
        ...

    async def flush(self) -> None:
        """Write what was noted. What cannot be written now is tried again with the next."""
        ...

    async def used(self, owner: str) -> DayUse:
        """Of today, as far as it was written."""
        ...

    async def stopped(self) -> bool:
        """True if the operator lets nothing run. May be `SEEN_AFTER` old."""
        ...


class NoAllowance:
    """`Allowance` where nothing is limited and nothing can be stopped."""

    def note(self, owner: str, usage: Usage) -> None:
        """Nothing."""

    async def flush(self) -> None:
        """Nothing."""

    async def used(self, owner: str) -> DayUse:
        """Nothing."""
        return DayUse()

    async def stopped(self) -> bool:
        """Never."""
        return False
