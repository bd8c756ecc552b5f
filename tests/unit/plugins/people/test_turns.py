"""A service that is busy is waited for, in turns, and not beyond the end of the invocation."""

import asyncio
from datetime import timedelta

import pytest

from layover.plugins.people.turns import KEPT_BACK, Turns
from layover.ports.channels import ChannelBusy
from layover.values.channels import Address
from support.worlds.loops import LoopClock, LoopDeadline, skipping

PAYOUTS = Address(channel="slack", to="#payouts")
BEA = Address(channel="mail", to="bea@example.com")
TIME = KEPT_BACK.total_seconds() + 10


class Service:
    """Takes a message `every` so many seconds, and asks whoever comes earlier to wait `asks` seconds."""

    def __init__(self, every: float, asks: float) -> None:
        self.every, self.asks = every, asks
        self.free_at = 0.0
        self.refusals = 0
        self.taken_at: list[float] = []

    async def send(self) -> str:
        now = asyncio.get_running_loop().time()
        if now < self.free_at:
            self.refusals += 1
            raise ChannelBusy("slow down", timedelta(seconds=self.asks))
        self.free_at = now + self.every
        self.taken_at.append(now)
        return "ref"


def make_turns() -> tuple[Turns, float]:
    """Turns of an invocation that has ten seconds to wait, and the time at which it began."""
    now = asyncio.get_running_loop().time()
    return Turns(LoopClock(), LoopDeadline(now + TIME)), now


@skipping
async def test_a_service_that_asks_for_more_time_than_there_is_is_not_waited_for() -> None:
    turns, began = make_turns()
    service = Service(every=11, asks=11)
    await turns.take(PAYOUTS, service.send)
    with pytest.raises(ChannelBusy):
        await turns.take(PAYOUTS, service.send)
    assert asyncio.get_running_loop().time() == began


@skipping
async def test_an_invocation_waits_as_long_as_it_has_time_and_no_longer() -> None:
    turns, began = make_turns()
    service = Service(every=100, asks=3)
    await turns.take(PAYOUTS, service.send)
    with pytest.raises(ChannelBusy):
        await turns.take(PAYOUTS, service.send)
    assert asyncio.get_running_loop().time() - began == 9


@skipping
async def test_messages_to_one_address_take_turns_and_ask_no_more_often_than_they_must() -> None:
    turns, began = make_turns()
    service = Service(every=1, asks=1)
    await asyncio.gather(*(turns.take(PAYOUTS, service.send) for _ in range(5)))
    assert [at - began for at in service.taken_at] == [0, 1, 2, 3, 4]
    assert service.refusals == 4


@skipping
async def test_a_busy_address_keeps_no_other_waiting() -> None:
    turns, began = make_turns()
    slow, quick = Service(every=5, asks=5), Service(every=0, asks=0)
    await turns.take(PAYOUTS, slow.send)
    waiting = asyncio.create_task(turns.take(PAYOUTS, slow.send))
    await turns.take(BEA, quick.send)
    assert quick.taken_at == [began]
    await waiting
    assert [at - began for at in slow.taken_at] == [0, 5]
