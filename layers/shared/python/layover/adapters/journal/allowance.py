"""Users' days and the operator's switch as items of the journal's table."""

import logging
import math
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from layover.adapters.once import change_once, write_once, written_by
from layover.dice import SYSTEM_DICE
from layover.errors import RetryableError
from layover.keys import RATE, SPENT, SWITCH, Keys
from layover.ports.allowance import DayLimits, DayUse, Reservation
from layover.ports.platform import Clock, Dice
from layover.ports.table import (
    Below,
    Item,
    Missing,
    Table,
    Update,
    all_of,
    any_of,
    same,
)
from layover.values.runs.usage import Usage

SEEN_AFTER = timedelta(seconds=5)
"""The longest time for which one read of the switch is reused. Every model call asks for it."""
RETENTION = timedelta(days=2)
"""A day's counters stay this long after the day begins; DynamoDB's TTL then removes them."""
HELD = timedelta(minutes=15)
"""The time until a step's reservation lapses if its process dies: no function lives longer."""
FIRST_STEP = timedelta(seconds=10)
"""The time for which the first step of a user's day keeps their other steps waiting, so that its size is
known to them. Most steps are shorter. Of a longer one, their own estimates have to do."""
_MILLIONTHS = 1_000_000
_HOLD = "hold_"
"""Attributes of a day that hold room for a run's step: tokens, millionths of a dollar, and the end of the
hold."""
_DONE = "done_"
"""Attributes with the use of a run's last step, until the next reservation reads them."""
_TRIES = 20
"""Attempts of a reservation while others of the same user are made."""
_log = logging.getLogger("layover")


class TableAllowance:
    """`ports.Allowance`. `counts`: False if no limit of a day is set; then no use is written.

    Use that a killed process had not written is not counted."""

    def __init__(
        self, table: Table, clock: Clock, *, counts: bool = True, dice: Dice = SYSTEM_DICE
    ) -> None:
        self._dice = dice
        self._counts = counts
        self._table = table
        self._clock = clock
        self._noted: Counter[tuple[str, datetime, str]] = Counter()
        self._switch_reading: tuple[datetime, bool] | None = None

    def note(self, owner: str, usage: Usage) -> None:
        """See `ports.Allowance`. Money is counted in millionths of a dollar, rounded up."""
        if not self._counts:
            return
        day = self._today()
        self._noted[owner, day, "tokens"] += usage.total_tokens
        self._noted[owner, day, "cost"] += math.ceil((usage.cost_usd or 0) * _MILLIONTHS)

    async def flush(self) -> None:
        """See `ports.Allowance`."""
        for owner, day in sorted({(owner, day) for owner, day, _ in self._noted}):
            await self._write(owner, day, dict(self._take(owner, day)))

    async def reserve(
        self, owner: str, run_id: str, need: DayUse, limits: DayLimits
    ) -> Reservation:
        """See `ports.Allowance`. One conditional write grants it, as long as the use so far and the holds of
        other runs leave any room. A hold is as large as the day's largest step, so that the steps under way
        fit. If the day knows no step yet, one of them goes first, by `FIRST_STEP` at most."""
        pk = Keys(owner).day(self._today())
        for _ in range(_TRIES):
            day = _Day(await self._table.get(pk, SPENT) or {}, run_id, self._clock.now())
            if limits.are_reached(day.spent):
                return Reservation.USED_UP
            if day.held is not None and (day.waits_for_first or limits.are_reached(day.with_held)):
                return Reservation.BUSY
            reservation = day.reservation(pk, need, self._today() + RETENTION)
            if await change_once(self._table, reservation, self._dice) is not None:
                return Reservation.GRANTED
        return Reservation.BUSY

    async def release(self, owner: str, run_id: str) -> None:
        """See `ports.Allowance`."""
        if not self._counts:
            return
        day = self._today()
        counts = dict(self._take(owner, day))
        last_step = None if not any(counts.values()) else f"{counts['tokens']}:{counts['cost']}"
        changes = {_HOLD + run_id: None, _DONE + run_id: last_step}
        await self._write(owner, day, counts, changes)

    async def release_all(self, owner: str, run_ids: Collection[str]) -> None:
        """See `ports.Allowance`."""
        if not self._counts:
            return
        day = self._today()
        pk, expires = Keys(owner).day(day), int((day + RETENTION).timestamp())
        try:
            for _ in range(_TRIES):
                item = await self._table.get(pk, SPENT) or {}
                # With a new version, so that a reservation fails that was made of what is read here.
                holds = {_HOLD + run_id for run_id in run_ids} & item.keys()
                removal = Update(
                    pk,
                    SPENT,
                    set={"expires": expires, **dict.fromkeys(sorted(holds))},
                    add={"version": 1},
                    when=same("version", item.get("version")),
                )
                if await change_once(self._table, removal, self._dice) is not None:
                    return
        except RetryableError as error:
            cause = str(error)
        else:
            cause = "others of the same user reserve room"
        # Holds lapse by themselves: no reason to keep a run from its end.
        _log.warning("the room of a run lapses later", extra={"cause": cause})

    async def admit(self, owner: str, per_minute: int) -> timedelta | None:
        """See `ports.Allowance`. Minutes are those of the clock."""
        now = self._clock.now()
        minute = now.replace(second=0, microsecond=0)
        after = minute + timedelta(minutes=1)
        fits = any_of(Missing("runs"), Below("runs", per_minute))
        expires = int((after + RETENTION).timestamp())
        counts = Update(
            Keys(owner).minute(minute), RATE, set={"expires": expires}, add={"runs": 1}, when=fits
        )
        is_admitted = await change_once(self._table, counts, self._dice) is not None
        return None if is_admitted else after - now

    async def used(self, owner: str) -> DayUse:
        """See `ports.Allowance`."""
        item = await self._table.get(Keys(owner).day(self._today()), SPENT) or {}
        return _use(int(item.get("tokens", 0)), int(item.get("cost", 0)))

    async def stopped(self) -> bool:
        """See `ports.Allowance`. The switch is on if the item exists, whatever it contains."""
        now = self._clock.now()
        if self._switch_reading is None or not now - SEEN_AFTER < self._switch_reading[0] <= now:
            self._switch_reading = now, await self._table.get(SWITCH, SWITCH) is not None
        return self._switch_reading[1]

    def _today(self) -> datetime:
        return self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    async def _write(
        self,
        owner: str,
        day: datetime,
        counts: dict[str, int],
        changes: dict[str, Any] | None = None,
    ) -> None:
        """Add to the day's counters."""
        addition = Update(
            Keys(owner).day(day),
            SPENT,
            set={"expires": int((day + RETENTION).timestamp()), **(changes or {})},
            add=counts,
        )
        try:
            await write_once(self._table, addition, written_by(self._dice))
        except RetryableError as error:
            self._noted.update({(owner, day, name): n for name, n in counts.items()})
            _log.warning("a day's use is written later", extra={"cause": str(error)})

    def _take(self, owner: str, day: datetime) -> Iterator[tuple[str, int]]:
        """Remove and return the noted use at once, because more may be noted while it is written."""
        for name in ("tokens", "cost"):
            yield name, self._noted.pop((owner, day, name), 0)


class _Day:
    """A user's day as read for the next step of a run."""

    def __init__(self, item: Item, run_id: str, now: datetime) -> None:
        self._item = item
        self._run_id = run_id
        self._now = now
        self._done = [_pair(v) for n, v in item.items() if n.startswith(_DONE)]
        others = {n: v for n, v in item.items() if n.startswith(_HOLD) and n != _HOLD + run_id}
        ends = {n: int(v.split(":")[2]) for n, v in others.items()}
        self._lost = {n for n, end in ends.items() if end <= now.timestamp()}
        self._oldest_end = min((e for n, e in ends.items() if n not in self._lost), default=None)
        reservations = [_pair(v) for n, v in others.items() if n not in self._lost]
        self.spent = _use(int(item.get("tokens", 0)), int(item.get("cost", 0)))
        room = _use(sum(p[0] for p in reservations), sum(p[1] for p in reservations))
        self.held = room if reservations else None
        """The room that the steps of other runs hold; None if there is none."""
        self.with_held = DayUse(
            self.spent.tokens + room.tokens, self.spent.cost_usd + room.cost_usd
        )

    @property
    def waits_for_first(self) -> bool:
        """True while another step that began a moment ago is to show how large the day's steps are."""
        if self.largest is not None or self._oldest_end is None:
            return False
        began = datetime.fromtimestamp(self._oldest_end, UTC) - HELD
        return self._now - began < FIRST_STEP

    @property
    def largest(self) -> tuple[int, int] | None:
        """Tokens and millionths of a dollar of the day's largest steps; None if the day has no steps yet."""
        largest = [_pair(str(self._item["largest"]))] if "largest" in self._item else []
        pairs = [*largest, *self._done]
        return (max(p[0] for p in pairs), max(p[1] for p in pairs)) if pairs else None

    def reservation(self, pk: str, need: DayUse, expires: datetime) -> Update:
        """Return the write that holds room for the step. It fails if the day has changed since it was
        read."""
        tokens, cost = self.largest or (0, 0)
        hold = (max(tokens, need.tokens), max(cost, math.ceil(need.cost_usd * _MILLIONTHS)))
        until = int((self._now + HELD).timestamp())
        expired = {
            n: None for n in (*self._item, *self._lost) if n.startswith(_DONE) or n in self._lost
        }
        largest_fields = {} if self.largest is None else {"largest": f"{tokens}:{cost}"}
        changes = {
            _HOLD + self._run_id: f"{hold[0]}:{hold[1]}:{until}",
            **expired,
            **largest_fields,
        }
        unchanged = all_of(
            *(same(name, self._item.get(name)) for name in ("version", "tokens", "cost"))
        )
        return Update(
            pk,
            SPENT,
            set={"expires": int(expires.timestamp()), **changes},
            add={"version": 1},
            when=unchanged,
        )


def _pair(text: str) -> tuple[int, int]:
    tokens, cost = text.split(":")[:2]
    return int(tokens), int(cost)


def _use(tokens: int, cost: int) -> DayUse:
    return DayUse(tokens=tokens, cost_usd=Decimal(cost) / _MILLIONTHS)
