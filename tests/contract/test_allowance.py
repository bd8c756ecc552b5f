"""The contract of counters of users' days and of the operator's switch."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from layover.adapters.journal.allowance import FIRST_STEP, HELD, SEEN_AFTER, TableAllowance
from layover.clock import ManualClock
from layover.errors import RetryableError
from layover.keys import SPENT, SWITCH, Keys
from layover.ports import DayLimits, DayUse, Reservation
from layover.ports.table import Delete, Item, Put, Table, Write
from layover.values.runs.usage import Usage

EVENING = datetime(2026, 11, 21, 23, 59, 58, tzinfo=UTC)


class DyingTable:
    """A table whose next writes fail."""

    def __init__(self, table: Table, fails: int) -> None:
        self._table = table
        self.fails = fails

    async def write(self, action: Write) -> Item | None:
        """One write, or a passing fault."""
        if self.fails:
            self.fails -= 1
            raise RetryableError("throttled")
        return await self._table.write(action)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(EVENING)


@pytest.fixture
async def allowance(table: Table, clock: ManualClock) -> TableAllowance:
    await table.write(Delete(SWITCH, SWITCH))
    return TableAllowance(table, clock)


def usage(tokens: int, cost: str | None = None) -> Usage:
    return Usage(input_tokens=tokens, cost_usd=Decimal(cost) if cost else None)


async def test_what_was_not_flushed_is_not_seen(allowance: TableAllowance, owner: str) -> None:
    allowance.note(owner, usage(5))
    assert await allowance.used(owner) == DayUse()


async def test_use_that_could_not_be_written_is_written_with_the_next(
    table: Table, clock: ManualClock, owner: str
) -> None:
    allowance = TableAllowance(DyingTable(table, fails=1), clock)
    allowance.note(owner, usage(5, "0.5"))
    await allowance.flush()
    allowance.note(owner, usage(1))
    await allowance.flush()
    assert await allowance.used(owner) == DayUse(6, Decimal("0.5"))


async def test_each_user_has_a_day_of_their_own(allowance: TableAllowance, owner: str) -> None:
    allowance.note(owner, usage(5))
    allowance.note(f"{owner}2", usage(7))
    await allowance.flush()
    assert (await allowance.used(owner)).tokens == 5


async def test_day_begins_at_midnight_utc(
    allowance: TableAllowance, clock: ManualClock, owner: str
) -> None:
    allowance.note(owner, usage(5))
    clock.advance(timedelta(seconds=2))
    allowance.note(owner, usage(7))
    await allowance.flush()
    assert (await allowance.used(owner)).tokens == 7


@pytest.mark.both_stores
async def test_use_adds_up_over_writers(table: Table, clock: ManualClock, owner: str) -> None:
    writers = [TableAllowance(table, clock) for _ in range(4)]
    for writer in writers:
        writer.note(owner, usage(5, "0.000001"))
        writer.note(owner, usage(1, "0.0000001"))
    await asyncio.gather(*(writer.flush() for writer in writers))
    # A part of a millionth counts as one.
    assert await writers[0].used(owner) == DayUse(24, Decimal("0.000008"))


async def test_nothing_is_counted_twice(allowance: TableAllowance, owner: str) -> None:
    allowance.note(owner, usage(5))
    await allowance.flush()
    await allowance.flush()
    assert (await allowance.used(owner)).tokens == 5


async def test_days_go_by_themselves(
    allowance: TableAllowance, table: Table, clock: ManualClock, owner: str
) -> None:
    allowance.note(owner, usage(5))
    await allowance.flush()
    item = await table.get(Keys(owner).day(EVENING), SPENT)
    assert item is not None
    assert timedelta(0) < datetime.fromtimestamp(item["expires"], UTC) - EVENING < timedelta(days=2)


async def test_nothing_is_written_where_nothing_is_limited(
    table: Table, clock: ManualClock, owner: str
) -> None:
    allowance = TableAllowance(table, clock, counts=False)
    allowance.note(owner, usage(5))
    await allowance.flush()
    assert await allowance.used(owner) == DayUse()


async def test_switch_is_seen_soon_and_let_go_soon(
    allowance: TableAllowance, table: Table, clock: ManualClock
) -> None:
    assert not await allowance.stopped()
    await table.write(Put(SWITCH, SWITCH, {"reason": "too dear"}))
    clock.advance(SEEN_AFTER)
    assert await allowance.stopped()
    await table.write(Delete(SWITCH, SWITCH))
    clock.advance(SEEN_AFTER)
    assert not await allowance.stopped()


GRANTED, BUSY, USED_UP = Reservation
TOKENS = DayLimits(tokens=100)


async def step(allowance: TableAllowance, owner: str, tokens: int, run: str = "first") -> None:
    """One whole step of a run."""
    assert await allowance.reserve(owner, run, DayUse(1), TOKENS) is GRANTED
    allowance.note(owner, usage(tokens))
    await allowance.release(owner, run)


async def test_a_used_up_day_has_no_room(allowance: TableAllowance, owner: str) -> None:
    await step(allowance, owner, 100)
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is USED_UP
    cost = DayLimits(cost_usd=Decimal("0.5"))
    assert await allowance.reserve(owner, "b", DayUse(1), cost) is GRANTED
    allowance.note(owner, usage(0, "0.5"))
    await allowance.release(owner, "b")
    assert await allowance.reserve(owner, "b", DayUse(1), cost) is USED_UP


@pytest.mark.both_stores(in_every_tier=True)
async def test_steps_of_other_runs_hold_what_is_left(allowance: TableAllowance, owner: str) -> None:
    await step(allowance, owner, 10)
    assert await allowance.reserve(owner, "a", DayUse(90), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is BUSY
    assert await allowance.reserve(f"{owner}2", "b", DayUse(1), TOKENS) is GRANTED
    await allowance.release(owner, "a")
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is GRANTED
    assert await allowance.used(owner) == DayUse(10)


async def test_the_first_step_of_a_day_goes_alone(allowance: TableAllowance, owner: str) -> None:
    assert await allowance.reserve(owner, "a", DayUse(1), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is BUSY
    allowance.note(owner, usage(1))
    await allowance.release(owner, "a")
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "c", DayUse(1), TOKENS) is GRANTED


async def test_first_step_that_hangs_keeps_nobody_waiting_for_long(
    allowance: TableAllowance, clock: ManualClock, owner: str
) -> None:
    clock.advance(timedelta(minutes=1))
    assert await allowance.reserve(owner, "hangs", DayUse(40), TOKENS) is GRANTED
    clock.advance(FIRST_STEP - timedelta(seconds=1))
    assert await allowance.reserve(owner, "b", DayUse(40), TOKENS) is BUSY
    clock.advance(timedelta(seconds=1))
    assert await allowance.reserve(owner, "b", DayUse(40), TOKENS) is GRANTED
    # Nor does b, which began just now; what is held counts.
    assert await allowance.reserve(owner, "c", DayUse(40), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "d", DayUse(1), TOKENS) is BUSY


@pytest.mark.both_stores(in_every_tier=True)
async def test_run_that_ends_holds_nothing_more(allowance: TableAllowance, owner: str) -> None:
    await step(allowance, owner, 10)
    assert await allowance.reserve(owner, "cut", DayUse(45), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "its_child", DayUse(45), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is BUSY
    await allowance.release_all(owner, ["cut", "its_child", "never_held"])
    assert await allowance.reserve(owner, "b", DayUse(80), TOKENS) is GRANTED
    assert await allowance.used(owner) == DayUse(10)


async def test_end_of_a_run_does_not_depend_on_its_day(
    table: Table, clock: ManualClock, owner: str
) -> None:
    class AwayTable(DyingTable):
        async def get(self, *args: Any, **kwargs: Any) -> Item | None:
            raise RetryableError("throttled")

    await TableAllowance(AwayTable(table, fails=9), clock).release_all(owner, ["cut"])


async def test_a_step_holds_as_much_as_the_largest_of_the_day(
    allowance: TableAllowance, owner: str
) -> None:
    await step(allowance, owner, 40)
    await step(allowance, owner, 2)
    assert await allowance.reserve(owner, "a", DayUse(1), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is GRANTED
    # 42 are spent, 80 are held.
    assert await allowance.reserve(owner, "c", DayUse(1), TOKENS) is BUSY


async def test_a_run_holds_for_one_step_at_a_time(allowance: TableAllowance, owner: str) -> None:
    await step(allowance, owner, 1)
    for _ in range(3):
        assert await allowance.reserve(owner, "a", DayUse(60), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "b", DayUse(60), TOKENS) is GRANTED
    assert await allowance.reserve(owner, "c", DayUse(1), TOKENS) is BUSY


async def test_what_a_dead_process_held_is_free_after_a_while(
    allowance: TableAllowance, clock: ManualClock, owner: str
) -> None:
    clock.advance(timedelta(minutes=1))
    await step(allowance, owner, 1)
    assert await allowance.reserve(owner, "a", DayUse(100), TOKENS) is GRANTED
    clock.advance(HELD - timedelta(seconds=1))
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is BUSY
    clock.advance(timedelta(seconds=1))
    assert await allowance.reserve(owner, "b", DayUse(1), TOKENS) is GRANTED


@pytest.mark.both_stores(in_every_tier=True)
async def test_reservations_at_once_fit_together(
    table: Table, clock: ManualClock, owner: str
) -> None:
    await step(TableAllowance(table, clock), owner, 1)
    writers = [TableAllowance(table, clock) for _ in range(6)]
    asked = (w.reserve(owner, f"run{n}", DayUse(40), TOKENS) for n, w in enumerate(writers))
    answers = await asyncio.gather(*asked)
    # 1 is spent; the third takes what is left and a step beyond.
    assert sorted(answers) == [BUSY] * 3 + [GRANTED] * 3


@pytest.mark.both_stores(in_every_tier=True)
async def test_runs_of_a_minute_are_counted_for_each_user(
    allowance: TableAllowance, clock: ManualClock, owner: str
) -> None:
    assert [await allowance.admit(owner, 2) for _ in range(2)] == [None, None]
    assert await allowance.admit(owner, 2) == timedelta(seconds=2)
    assert await allowance.admit(f"{owner}2", 2) is None
    clock.advance(timedelta(seconds=2))
    assert await allowance.admit(owner, 2) is None
