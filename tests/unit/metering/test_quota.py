"""Nothing begins while the operator has stopped the system, or when a user's day is used up."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from layover import Agent
from layover.adapters.inmemory.model import call, say
from layover.clock import ManualClock
from layover.errors import DayUsedUp, StoppedByOperator
from layover.ports import DayUse, NoAllowance
from layover.runs.accept import StartRun, keyed, start_run
from layover.values.deployment.settings import Settings
from layover.values.runs.run import OnBusy, Status
from layover.values.runs.usage import Usage
from support.worlds.runs import ANN, Bench, Ledger

LIMITED = Settings(daily_tokens=100, daily_cost_usd=Decimal("0.5"))
EVENING = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)


@dataclass
class Allowed(NoAllowance):
    """An allowance by hand."""

    use: DayUse = field(default_factory=DayUse)
    off: bool = False
    noted: int = 0

    def note(self, owner: str, usage: Usage) -> None:
        self.noted += usage.total_tokens

    async def used(self, owner: str) -> DayUse:
        return self.use

    async def stopped(self) -> bool:
        return self.off


def under(bench: Bench, allowed: Allowed) -> Bench:
    """The bench with this allowance."""
    bench.plain = replace(bench.plain, allowance=allowed)
    bench.runtime = replace(bench.runtime, allowance=allowed)
    return bench


def plain_bench(allowed: Allowed, settings: Settings = LIMITED) -> Bench:
    """An agent that says one word."""
    script = [say("one"), say("two")]
    bench = Bench(Agent("a", model="m"), script, settings=settings, clock=ManualClock(EVENING))
    return under(bench, allowed)


async def test_nothing_is_accepted_while_the_system_is_stopped() -> None:
    bench = plain_bench(Allowed(off=True))
    with pytest.raises(StoppedByOperator):
        await bench.start()


async def test_request_that_was_accepted_before_is_answered_while_stopped() -> None:
    allowed = Allowed()
    bench = plain_bench(allowed)
    first = await bench.start()
    await bench.drive(first)
    request = StartRun("again")
    key = keyed("k", "t1", request, bench.clock.now())
    run = await start_run(bench.plain, ANN, "t1", request, key)
    allowed.off = True
    assert (await start_run(bench.plain, ANN, "t1", request, key)).id == run.id


async def test_run_that_has_not_begun_waits_while_stopped() -> None:
    allowed = Allowed()
    bench = plain_bench(allowed)
    run_id = await bench.start()
    allowed.off = True
    for _ in range(7):
        # More often than a run has attempts: none of them is used up.
        assert (await bench.turn(run_id))["status"] == "paused"
    allowed.off = False
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).text == "one"


async def test_run_under_way_asks_the_model_no_more_while_stopped() -> None:
    allowed, ledger = Allowed(), Ledger()
    bench = under(ledger.bench(call("look", n=1), say("seen")), allowed)
    allowed.note = lambda owner, usage: setattr(allowed, "off", True)  # type: ignore[method-assign]
    run_id = await bench.start()
    assert (await bench.turn(run_id))["status"] == "yielded"
    assert ledger.done == [("look", 1)]
    assert (await bench.turn(run_id))["status"] == "paused"
    allowed.off = False
    del allowed.note
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).text == "seen"


@pytest.mark.parametrize(
    "use", [DayUse(100), DayUse(101), DayUse(1, Decimal("0.5")), DayUse(1, Decimal(9))]
)
async def test_user_whose_day_is_used_up_begins_nothing(use: DayUse) -> None:
    bench = plain_bench(Allowed(use))
    with pytest.raises(DayUsedUp) as refused:
        await bench.start()
    assert refused.value.retry_after == timedelta(hours=1)


async def test_queued_run_fails_when_its_users_day_is_used_up() -> None:
    allowed = Allowed()
    bench = plain_bench(allowed)
    first = await bench.start()
    queued = await bench.start(on_busy=OnBusy.ENQUEUE)
    assert await bench.drive(first) == "over"
    allowed.use = DayUse(100)
    assert (await bench.turn(queued))["status"] == "over"
    run = await bench.run(queued)
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "LimitReached"


async def test_run_that_has_begun_is_not_ended_by_the_day() -> None:
    allowed, ledger = Allowed(), Ledger()
    bench = under(ledger.bench(call("pay", amount=5), say("paid")), allowed)
    bench.plain = replace(bench.plain, settings=LIMITED)
    bench.runtime = replace(bench.runtime, settings=LIMITED)
    run = await bench.go()
    allowed.use = DayUse(100)
    await bench.decide(run.id, run.pending[0].tool_call_id, "approve")
    assert await bench.drive(run.id) == "over"
    assert (await bench.run(run.id)).text == "paid"


@pytest.mark.parametrize("use", [DayUse(99, Decimal("0.49")), DayUse()])
async def test_room_in_the_day_is_enough(use: DayUse) -> None:
    bench = plain_bench(Allowed(use))
    assert (await bench.go()).status is Status.SUCCESS


async def test_unlimited_users_are_not_looked_up() -> None:
    bench = plain_bench(Allowed(DayUse(10**9, Decimal(10**6))), settings=Settings())
    assert (await bench.go()).status is Status.SUCCESS


async def test_every_model_call_is_noted_for_its_user() -> None:
    allowed, ledger = Allowed(), Ledger()
    bench = under(ledger.bench(call("look", n=1), say("seen")), allowed)
    run = await bench.go()
    assert run.usage.total_tokens > 0
    assert allowed.noted == run.usage.total_tokens
