"""Reminders of waiting calls, as sweeps send them: when, how often, and what a death or a fault leaves."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, cast

import pytest

from layover import Agent, Approval, tool
from layover.adapters.inmemory.callbacks import InMemoryCallbacks
from layover.adapters.inmemory.metrics import InMemoryMetrics
from layover.adapters.inmemory.model import call, say
from layover.errors import RetryableError
from layover.ports import Callbacks
from layover.recovery.sweep import sweep
from layover.values.deployment.access import Actor
from layover.values.metrics import Metric
from support.worlds.runs import Bench, Crash, Power, Powered, suspended

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
BEA = Actor(sub="bea", groups=frozenset({"finance"}))


async def asked(
    power: Power | None = None, expires_after: timedelta | None = None, **rule: Any
) -> tuple[Bench, str]:
    """A run that waits for finance, and reminds it after an hour. Its branch listens."""
    approval = Approval(**{"by": ["finance"], "remind_after": HOUR, **rule})

    @tool(needs_approval=approval, expires_after=expires_after)
    async def pay_out(amount: int) -> str:
        """Pay out."""
        return f"paid {amount}"

    agent = Agent("payer", tools=[pay_out])
    bench = Bench(agent, [call("pay_out", amount=9), say("Paid.")], power=power)
    run = await suspended(bench)
    await bench.wait(run.id, "call_1")
    return bench, run.id


async def swept(bench: Bench, after: timedelta = timedelta(0)) -> dict[str, int]:
    bench.clock.advance(after)
    return await sweep(bench.plain)


def sent(bench: Bench) -> list[int]:
    """The numbers of the reminders on the bus."""
    return [d["n"] for kind, d in bench.callbacks.events if kind == "ApprovalReminder"]


async def logged(bench: Bench, run_id: str) -> list[Any]:
    return [e.n for e in await bench.events(run_id) if e.type == "approval-reminder"]


async def test_reminders_come_after_1_2_4_and_8_times_the_delay() -> None:
    bench, run_id = await asked()
    times: dict[int, timedelta] = {}
    for minute in range(0, 9 * 60 + 1, 15):
        await swept(bench, timedelta(minutes=15) if minute else timedelta(0))
        for n in sent(bench):
            times.setdefault(n, timedelta(minutes=minute))
    assert times == {1: HOUR, 2: 2 * HOUR, 3: 4 * HOUR, 4: 8 * HOUR}
    assert sent(bench) == await logged(bench, run_id) == [1, 2, 3, 4]


async def test_the_sweeper_looks_when_a_reminder_is_due_and_not_before() -> None:
    bench, _ = await asked()
    assert await swept(bench) == {"driven": 1}
    assert await swept(bench, 59 * MINUTE) == {}
    assert await swept(bench, MINUTE) == {"driven": 1}
    assert sent(bench) == [1]


async def test_of_several_reminders_that_were_missed_the_newest_is_sent() -> None:
    bench, run_id = await asked()
    await swept(bench, 5 * HOUR)
    assert sent(bench) == await logged(bench, run_id) == [3]
    await swept(bench, 3 * HOUR)
    assert sent(bench) == [3, 4]


async def test_a_reminder_has_the_detail_of_the_request_and_its_number() -> None:
    bench, run_id = await asked()
    await swept(bench, HOUR)
    (requested,), (kind, detail) = bench.published, bench.callbacks.events[-1]
    assert (kind, detail) == ("ApprovalReminder", {**requested, "n": 1})
    assert (detail["task_token"], detail["approval"]["by"]) == ("token", ["finance"])
    assert (await bench.call(run_id, "call_1")).reminders == 1


async def test_nobody_is_reminded_of_a_call_without_the_option_or_that_is_decided() -> None:
    bench, _ = await asked(remind_after=None)
    await swept(bench, 5 * HOUR)
    assert sent(bench) == []
    bench, run_id = await asked()
    await decided(bench, run_id)
    await swept(bench, 5 * HOUR)
    assert sent(bench) == []


async def decided(bench: Bench, run_id: str) -> None:
    from layover.approvals.decide import DecisionRequest, Verdict, decide

    await decide(bench.plain, BEA, run_id, "call_1", DecisionRequest(Verdict.APPROVE))


async def test_nobody_is_reminded_of_a_call_that_expires_first() -> None:
    bench, _ = await asked(expires_after=HOUR)
    await swept(bench)
    await swept(bench, HOUR)
    await swept(bench, HOUR)
    assert sent(bench) == []


class Meddling(InMemoryCallbacks):
    """The call is decided while the bus takes the reminder."""

    def __init__(self, bench: Bench, run_id: str) -> None:
        super().__init__()
        self.started = bench.callbacks.started
        self._bench, self._run_id = bench, run_id

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        await super().publish(detail_type, detail)
        await decided(self._bench, self._run_id)


async def test_a_decision_that_comes_while_a_reminder_is_sent_stands() -> None:
    bench, run_id = await asked()
    other = Meddling(bench, run_id)
    bench.clock.advance(HOUR)
    await sweep(replace(bench.plain, callbacks=other))
    assert [kind for kind, _ in other.events] == ["ApprovalReminder"]
    record = await bench.call(run_id, "call_1")
    assert (record.decision.decided_by, record.reminders) == ("bea", 0)
    assert await logged(bench, run_id) == []


class Deaf(InMemoryCallbacks):
    """EventBridge takes nothing."""

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        raise RetryableError("PutEvents failed")


async def test_a_reminder_that_the_bus_does_not_take_is_sent_a_minute_later() -> None:
    bench, run_id = await asked()
    deaf, metrics = Deaf(), InMemoryMetrics()
    deaf.started = bench.callbacks.started
    bench.clock.advance(HOUR)
    assert await sweep(replace(bench.plain, callbacks=deaf, metrics=metrics)) == {"driven": 1}
    assert Metric.PUBLISH_FAILED in [c.name for c in metrics.counted]
    assert await logged(bench, run_id) == []
    await swept(bench, MINUTE)
    assert sent(bench) == await logged(bench, run_id) == [1]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_sweeper_that_dies_anywhere_loses_no_reminder_and_logs_it_once(
    after: bool,
) -> None:
    for cut_at in count(1):
        power = Power(after=after)
        bench, run_id = await asked(power)
        bench.clock.advance(HOUR)
        power.calls, power.cut_at = 0, cut_at
        callbacks = cast(Callbacks, Powered(bench.callbacks, power))
        try:
            await sweep(replace(bench.runtime, callbacks=callbacks))
        except Crash:
            power.restore()
        await swept(bench, MINUTE)
        assert await logged(bench, run_id) == [1], cut_at
        assert set(sent(bench)) == {1}, cut_at
        assert len(sent(bench)) <= 2, cut_at
        assert (await bench.call(run_id, "call_1")).undecided
        if not power.cuts:
            assert cut_at > 3
            return


async def test_two_sweeps_at_once_count_one_reminder() -> None:
    bench, run_id = await asked()
    bench.clock.advance(HOUR)
    other = Sweeping(bench)
    await sweep(replace(bench.plain, callbacks=other))
    assert await logged(bench, run_id) == [1]
    assert (await bench.call(run_id, "call_1")).reminders == 1
    await swept(bench, HOUR)
    assert await logged(bench, run_id) == [1, 2]


class Sweeping(InMemoryCallbacks):
    """Another sweep sends the same reminder at the same time."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.started = bench.callbacks.started
        self._bench = bench

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        await super().publish(detail_type, detail)
        await sweep(self._bench.plain)


async def test_a_run_that_was_lost_reminds_all_the_same() -> None:
    bench, run_id = await asked()
    bench.callbacks.stopped.append(f"{run_id}-1")
    assert await swept(bench, HOUR) == {"lost": 1}
    assert sent(bench) == [1]


async def test_more_time_brings_the_reminders_that_the_first_expiry_left_out() -> None:
    from layover.approvals.extend import extend

    bench, run_id = await asked(expires_after=90 * MINUTE)
    await swept(bench, HOUR)
    later = bench.clock.now() + timedelta(days=1)
    await extend(bench.plain, BEA, run_id, "call_1", later)
    await swept(bench, HOUR)
    assert sent(bench) == [1, 2]
