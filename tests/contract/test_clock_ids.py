"""Clocks and ids: what everything that reads the time or makes a name relies on."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from layover.clock import (
    MICROSECOND,
    ManualClock,
    SystemClock,
    from_rfc3339,
    install_offset,
    rfc3339,
)
from layover.ids import RandomIds, SequentialIds, derive_id
from layover.ports import Clock, Ids


@pytest.fixture(params=[SystemClock, ManualClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


@pytest.fixture(params=[RandomIds, SequentialIds])
def ids(request: pytest.FixtureRequest) -> Ids:
    made: Ids = request.param()
    return made


@pytest.fixture
def ahead() -> Iterator[timedelta]:
    install_offset(lambda: timedelta(days=400))
    yield timedelta(days=400)
    install_offset(None)


def test_clock_says_utc_and_never_goes_back(clock: Clock) -> None:
    first, second = clock.now(), clock.now()
    assert first.utcoffset() == timedelta(0)
    assert second >= first


async def test_a_sleep_takes_the_clocks_own_time(clock: Clock) -> None:
    began = clock.now()
    await clock.sleep(timedelta(milliseconds=20))
    # The loop's own clock is as coarse as a few milliseconds.
    assert clock.now() - began >= timedelta(milliseconds=15)


async def test_a_manual_clock_sleeps_without_waiting() -> None:
    clock = ManualClock()
    began = clock.now()
    await clock.sleep(timedelta(days=400))
    assert clock.now() - began == timedelta(days=400)


def test_system_clock_is_the_machines_own() -> None:
    before, now, after = datetime.now(UTC), SystemClock().now(), datetime.now(UTC)
    assert before <= now <= after


def test_host_moves_every_system_clock(ahead: timedelta) -> None:
    assert SystemClock().now() - datetime.now(UTC) > ahead - timedelta(minutes=1)


def test_manual_clock_moves_only_when_told_to() -> None:
    clock = ManualClock(datetime(2026, 2, 3, tzinfo=UTC))
    assert clock.now() == clock.now() == datetime(2026, 2, 3, tzinfo=UTC)
    clock.advance(MICROSECOND)
    assert clock.now() == datetime(2026, 2, 3, 0, 0, 0, 1, tzinfo=UTC)


def test_times_as_text_sort_as_times_and_come_back() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    steps = [timedelta(0), MICROSECOND, timedelta(milliseconds=1), timedelta(seconds=1)]
    times = [start + s for s in (*steps, timedelta(days=40), timedelta(days=3000))]
    texts = [rfc3339(t) for t in times]
    assert texts == sorted(texts)
    assert [from_rfc3339(t) for t in texts] == times
    assert {len(t) for t in texts} == {27}


def test_time_of_another_zone_is_written_in_utc() -> None:
    moment = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert rfc3339(moment) == "2025-12-31T23:00:00.000000Z"


def test_ids_are_never_given_twice_and_safe_everywhere(ids: Ids) -> None:
    made = [ids.new("run") for _ in range(1_000)]
    assert len(set(made)) == 1_000
    assert all(re.fullmatch(r"run_[0-9a-z]+", each) for each in made)
    # `{run_id}-{n}` is the name of an execution: at most 80 characters.
    assert all(len(f"{each}-1000000") <= 80 for each in made)


def test_a_messages_id_is_the_shortest() -> None:
    ids = RandomIds()
    made = [ids.new("msg") for _ in range(1_000)]
    assert len(set(made)) > 990, "unique within a thread, which makes a few a second"
    assert all(re.fullmatch(r"msg_[0-9a-z]{16}", each) for each in made)
    assert re.fullmatch(r"run_[0-9a-z]{26}", ids.new("run"))


def test_kinds_count_apart() -> None:
    ids = SequentialIds()
    assert [ids.new("run"), ids.new("msg"), ids.new("run")] == ["run_1", "msg_1", "run_2"]


def test_random_ids_sort_by_the_time_they_were_made() -> None:
    ids = RandomIds()
    made = []
    for _ in range(3):
        made.append(ids.new("run"))
        until = time.time_ns() // 1_000_000 + 1
        while time.time_ns() // 1_000_000 < until:
            pass
    assert made == sorted(made)


def test_derived_id_depends_on_its_parts_and_their_borders() -> None:
    assert derive_id("msg", "run", 1) == derive_id("msg", "run", "1")
    others = [derive_id("msg", "run1"), derive_id("msg", "ru", "n1"), derive_id("idem", "run", "1")]
    assert len({derive_id("msg", "run", "1"), *others}) == 4
    assert re.fullmatch(r"msg_[0-9a-z]{26}", derive_id("msg", "ü", None, 2))
