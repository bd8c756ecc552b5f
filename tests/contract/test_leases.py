"""The contract of leases, in memory and on DynamoDB: a limit on how many at once, and none for ever."""

import asyncio
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from layover.adapters.journal.leases import TableLeases
from layover.clock import ManualClock
from layover.ports.table import Table
from layover.values.lease import Lease, LeaseKind

MOST = 3
A_MINUTE = timedelta(minutes=1)


@pytest.fixture
def leases(table: Table) -> TableLeases:
    return TableLeases(table)


@pytest.fixture
def now() -> datetime:
    return ManualClock().now()


@pytest.fixture
def owner() -> str:
    return f"owner-{uuid4()}"


def wait(owner: str, id: str, until: datetime) -> Lease:
    return Lease(owner, LeaseKind.WAIT, id, until)


@pytest.mark.both_stores
async def test_one_too_many_is_refused_and_holds_nothing(
    leases: TableLeases, now: datetime, owner: str
) -> None:
    for n in range(MOST):
        assert await leases.take(wait(owner, str(n), now + A_MINUTE), MOST, now)
    assert not await leases.take(wait(owner, "more", now + A_MINUTE), MOST, now)
    assert {lease.id for lease in await leases.list_leases(owner, LeaseKind.WAIT, now)} == {
        "0",
        "1",
        "2",
    }


@pytest.mark.both_stores
async def test_leases_of_all_users_are_listed_apart(
    leases: TableLeases, now: datetime, owner: str
) -> None:
    lease = Lease(None, LeaseKind.STREAM, owner, now + A_MINUTE)
    assert await leases.take(lease, 1_000, now)
    try:
        listed = await leases.list_leases(None, LeaseKind.STREAM, now)
        assert owner in [each.id for each in listed]
        assert await leases.list_leases(owner, LeaseKind.STREAM, now) == ()
    finally:
        await leases.release(lease)


async def test_none_is_given_where_none_is_allowed(
    leases: TableLeases, now: datetime, owner: str
) -> None:
    assert not await leases.take(wait(owner, "first", now + A_MINUTE), 0, now)


@pytest.mark.both_stores
async def test_of_many_at_once_no_more_than_may_get_one(
    leases: TableLeases, now: datetime, owner: str
) -> None:
    taking = [leases.take(wait(owner, str(n), now + A_MINUTE), MOST, now) for n in range(12)]
    assert (await asyncio.gather(*taking)).count(True) == MOST


async def test_what_another_user_holds_or_another_kind_counts_for_nobody_else(
    leases: TableLeases, now: datetime, owner: str
) -> None:
    for n in range(MOST):
        await leases.take(wait(owner, str(n), now + A_MINUTE), MOST, now)
    assert await leases.take(wait(f"{owner}-2", "own", now + A_MINUTE), MOST, now)
    socket = Lease(owner, LeaseKind.SOCKET, "c1", now + A_MINUTE)
    assert await leases.take(socket, MOST, now)


async def test_what_was_given_back_is_free(leases: TableLeases, now: datetime, owner: str) -> None:
    held = [wait(owner, str(n), now + A_MINUTE) for n in range(MOST)]
    for lease in held:
        await leases.take(lease, MOST, now)
    for _ in range(2):
        await leases.release(held[0])
    assert await leases.take(wait(owner, "next", now + A_MINUTE), MOST, now)
    assert not await leases.take(wait(owner, "more", now + A_MINUTE), MOST, now)


@pytest.mark.both_stores
async def test_what_nobody_gave_back_is_free_once_it_has_expired(
    leases: TableLeases, now: datetime, owner: str
) -> None:
    """The process that held it has died."""
    for n in range(MOST):
        await leases.take(wait(owner, str(n), now + A_MINUTE), MOST, now)
    almost, then = now + A_MINUTE - timedelta(seconds=1), now + A_MINUTE
    assert not await leases.take(wait(owner, "late", then + A_MINUTE), MOST, almost)
    assert await leases.take(wait(owner, "late", then + A_MINUTE), MOST, then)
    assert [lease.id for lease in await leases.list_leases(owner, LeaseKind.WAIT, then)] == ["late"]


async def test_to_give_back_what_was_never_held_leaves_nothing_behind(
    leases: TableLeases, table: Table, now: datetime, owner: str
) -> None:
    await leases.release(wait(owner, "never", now))
    assert await leases.list_leases(owner, LeaseKind.WAIT, now) == ()


@pytest.mark.both_stores
async def test_an_expired_lease_is_there_until_another_needs_its_room(
    leases: TableLeases, now: datetime, owner: str
) -> None:
    """Whoever is still at work goes on with it; of several, the oldest makes room."""
    ages = [wait(owner, str(n), now + n * A_MINUTE) for n in range(1, MOST + 1)]
    for lease in reversed(ages):
        assert await leases.take(lease, MOST, now)
    then = now + 2 * A_MINUTE
    assert [await leases.has(lease) for lease in ages] == [True] * MOST
    assert await leases.take(wait(owner, "next", then + A_MINUTE), MOST, then)
    assert [await leases.has(lease) for lease in ages] == [False, True, True]
    assert await leases.take(wait(owner, "after", then + A_MINUTE), MOST, then)
    assert [await leases.has(lease) for lease in ages] == [False, False, True]
    assert not await leases.take(wait(owner, "more", then + A_MINUTE), MOST, then)
    await leases.release(ages[-1])
    assert not await leases.has(ages[-1])
    assert not await leases.has(wait(f"{owner}-2", "never", then))


@pytest.mark.both_stores
async def test_of_many_that_need_room_at_once_each_gets_that_of_another(
    leases: TableLeases, now: datetime, owner: str
) -> None:
    for n in range(MOST):
        assert await leases.take(wait(owner, f"old-{n}", now + A_MINUTE), MOST, now)
    then = now + A_MINUTE
    taking = [leases.take(wait(owner, str(n), then + A_MINUTE), MOST, then) for n in range(12)]
    assert sum(await asyncio.gather(*taking)) == MOST


async def test_the_same_lease_is_taken_once(leases: TableLeases, now: datetime, owner: str) -> None:
    """A request that boto3 repeats."""
    lease = wait(owner, "same", now + A_MINUTE)
    for _ in range(2):
        assert await leases.take(lease, 1, now)
    assert len(await leases.list_leases(owner, LeaseKind.WAIT, now)) == 1
