"""Users' days and the operator's switch as items of the journal's table."""

import logging
import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from layover.adapters.journal.items.table import Table, Update
from layover.errors import RetryableError
from layover.keys import SPENT, SWITCH, Keys
from layover.ports.allowance import DayUse
from layover.ports.platform import Clock
from layover.values.runs.usage import Usage

SEEN_AFTER = timedelta(seconds=5)
"""How old the switch may be that is answered: it is asked before every model call."""
KEPT = timedelta(days=2)
"""How long a day's counters stay after its beginning; then they go by TTL."""
_MILLIONTHS = 1_000_000
_log = logging.getLogger("layover")


class TableAllowance:
    """`ports.Allowance`. `counts`: whether anybody limits days, else no use is written.

    Counters are added to without a transaction: a request that boto3 repeats may count twice, and
    what a killed process had not written is not counted."""

    def __init__(self, table: Table, clock: Clock, *, counts: bool = True) -> None:
        self._counts = counts
        self._table = table
        self._clock = clock
        self._noted: Counter[tuple[str, datetime, str]] = Counter()
        self._seen: tuple[datetime, bool] | None = None

    def note(self, owner: str, usage: Usage) -> None:
        """See `ports.Allowance`. Money is counted in millionths of a dollar, rounded up."""
        if not self._counts:
            return
        day = self._today()
        self._noted[owner, day, "tokens"] += usage.total_tokens
        self._noted[owner, day, "cost"] += math.ceil((usage.cost_usd or 0) * _MILLIONTHS)

    async def flush(self) -> None:
        """See `ports.Allowance`."""
        for owner, day in {(owner, day) for owner, day, _ in self._noted}:
            taken = dict(self._take(owner, day))
            try:
                await self._table.write(_added(owner, day, taken))
            except RetryableError as error:
                self._noted.update({(owner, day, name): n for name, n in taken.items()})
                _log.warning("a day's use is written later", extra={"cause": str(error)})

    async def used(self, owner: str) -> DayUse:
        """See `ports.Allowance`."""
        item = await self._table.get(Keys(owner).day(self._today()), SPENT) or {}
        cost = Decimal(int(item.get("cost", 0))) / _MILLIONTHS
        return DayUse(tokens=int(item.get("tokens", 0)), cost_usd=cost)

    async def stopped(self) -> bool:
        """See `ports.Allowance`. The switch is an item that is there or not, whatever is in it."""
        now = self._clock.now()
        if self._seen is None or not now - SEEN_AFTER < self._seen[0] <= now:
            self._seen = now, await self._table.get(SWITCH, SWITCH) is not None
        return self._seen[1]

    def _today(self) -> datetime:
        return self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    def _take(self, owner: str, day: datetime) -> Iterator[tuple[str, int]]:
        """What was noted, taken away at once: more may be noted while it is written."""
        for name in ("tokens", "cost"):
            yield name, self._noted.pop((owner, day, name), 0)


def _added(owner: str, day: datetime, counts: dict[str, int]) -> Update:
    expires = int((day + KEPT).timestamp())
    return Update(Keys(owner).day(day), SPENT, set={"expires": expires}, add=counts)
