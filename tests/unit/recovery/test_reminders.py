"""Reminders and escalations of waiting calls, as sweeps send them: when, how often, and what a death or a
fault leaves."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, cast

import pytest

from layover import Agent, Approval, tool
from layover.approvals.decide import DecisionOutcome, DecisionRequest, Verdict, decide
from layover.approvals.extend import extend
from layover.approvals.lists import list_for_approver
from layover.approvals.token_answer import DECIDED
from layover.errors import NotAnApprover, NotFound, RetryableError
from layover.inmemory.callbacks import InMemoryCallbacks
from layover.inmemory.metrics import InMemoryMetrics
from layover.inmemory.model import call, say
from layover.ports import Callbacks
from layover.recovery.sweep import sweep
from layover.values.deployment.access import Actor
from layover.values.metrics import Metric
from layover.values.runs.views import ApproverItem
from support.worlds.runs import ANN, Bench, Crash, Power, Powered, suspended

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
    bench, run_id = await asked(expires_after=90 * MINUTE)
    await swept(bench, HOUR)
    later = bench.clock.now() + timedelta(days=1)
    await extend(bench.plain, BEA, run_id, "call_1", later, attempt=1)
    await swept(bench, HOUR)
    assert sent(bench) == [1, 2]


# Escalations

BOARD = Actor(sub="zoe", groups=frozenset({"board"}))
TO_THE_BOARD: dict[str, Any] = {
    "remind_after": None,
    "escalate_after": HOUR,
    "escalate_to": ["board", "finance"],
}


def escalations(bench: Bench) -> list[Mapping[str, Any]]:
    return [detail for kind, detail in bench.callbacks.events if kind == "ApprovalEscalated"]


async def told(bench: Bench, run_id: str) -> list[Any]:
    return [e.to for e in await bench.events(run_id) if e.type == "approval-escalated"]


async def verdict(bench: Bench, run_id: str, who: Actor, name: str = "approve") -> DecisionOutcome:
    return await decide(bench.plain, who, run_id, "call_1", DecisionRequest(Verdict(name)))


async def inbox(bench: Bench, who: Actor) -> list[ApproverItem]:
    return list((await list_for_approver(bench.plain, who, 10, None)).items)


async def test_before_the_escalation_its_groups_know_nothing_of_the_call() -> None:
    bench, run_id = await asked(**TO_THE_BOARD)
    assert await swept(bench) == {"driven": 1}
    assert await swept(bench, 59 * MINUTE) == {}
    with pytest.raises(NotFound):
        await verdict(bench, run_id, BOARD)
    assert (await inbox(bench, BOARD), escalations(bench)) == ([], [])


async def test_from_the_escalation_on_its_groups_find_the_call_and_decide_it() -> None:
    bench, run_id = await asked(**TO_THE_BOARD)
    await swept(bench, HOUR)
    [item] = await inbox(bench, BOARD)
    assert item.approval is not None
    assert (item.run_id, item.approval.by) == (run_id, ("finance", "board"))
    assert [i.run_id for i in await inbox(bench, BEA)] == [run_id]
    await verdict(bench, run_id, BOARD, "deny")
    record = await bench.call(run_id, "call_1")
    assert (record.decision.decided_by, record.escalated) == ("zoe", True)
    assert (await inbox(bench, BOARD), await inbox(bench, BEA)) == ([], [])
    assert (await verdict(bench, run_id, BOARD, "deny")).again


async def test_a_decision_of_an_escalated_group_is_repeated_after_the_end() -> None:
    bench, run_id = await asked(**TO_THE_BOARD)
    await swept(bench, HOUR)
    await verdict(bench, run_id, BOARD)
    await bench.drive(run_id, call=await bench.item(run_id, "call_1"), output=DECIDED)
    assert (await bench.meta(run_id)).status.over
    assert (await verdict(bench, run_id, BOARD)).again


async def test_an_escalation_is_told_once_with_the_detail_of_the_request() -> None:
    bench, run_id = await asked(**TO_THE_BOARD)
    for _ in range(3):
        await swept(bench, HOUR)
    (requested,), (detail,) = bench.published, escalations(bench)
    everybody = {**requested["approval"], "by": ["finance", "board"]}
    groups = ["board", "finance"]
    assert detail == {**requested, "approval": everybody, "to": groups}
    assert await told(bench, run_id) == [tuple(groups)]
    assert (await bench.run(run_id)).pending[0].approval.by == ("finance", "board")  # type: ignore[union-attr]


async def test_votes_of_before_the_escalation_count_after_it() -> None:
    bench, run_id = await asked(**TO_THE_BOARD, quorum=2)
    await verdict(bench, run_id, BEA)
    await swept(bench, HOUR)
    assert (await bench.call(run_id, "call_1")).undecided
    await verdict(bench, run_id, BOARD)
    record = await bench.call(run_id, "call_1")
    assert [vote.by for vote in record.votes] == ["bea", "zoe"]
    assert not record.undecided


async def test_whoever_asked_does_not_decide_as_a_member_of_an_escalated_group() -> None:
    owner = Actor(sub=ANN, groups=frozenset({"board"}))
    bench, run_id = await asked(**TO_THE_BOARD)
    await swept(bench, HOUR)
    with pytest.raises(NotAnApprover, match="finance or board who does not own the run"):
        await verdict(bench, run_id, owner)
    bench, run_id = await asked(**TO_THE_BOARD, requester=True)
    await swept(bench, HOUR)
    await verdict(bench, run_id, owner)


async def test_a_call_that_is_decided_or_expires_first_is_not_escalated() -> None:
    bench, run_id = await asked(**TO_THE_BOARD)
    await decided(bench, run_id)
    await swept(bench, HOUR)
    assert escalations(bench) == []
    bench, run_id = await asked(**TO_THE_BOARD, expires_after=HOUR)
    await swept(bench, HOUR)
    assert escalations(bench) == []


async def test_an_escalation_and_a_reminder_that_are_due_at_once_name_the_same_people() -> None:
    bench, _ = await asked(**{**TO_THE_BOARD, "remind_after": HOUR})
    await swept(bench, HOUR)
    later = [(kind, detail["approval"]["by"]) for kind, detail in bench.callbacks.events[1:]]
    groups = ["finance", "board"]
    assert later == [("ApprovalEscalated", groups), ("ApprovalReminder", groups)]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_sweeper_that_dies_anywhere_loses_no_escalation_and_logs_it_once(
    after: bool,
) -> None:
    for cut_at in count(1):
        power = Power(after=after)
        bench, run_id = await asked(power, **TO_THE_BOARD)
        bench.clock.advance(HOUR)
        power.calls, power.cut_at = 0, cut_at
        callbacks = cast(Callbacks, Powered(bench.callbacks, power))
        try:
            await sweep(replace(bench.runtime, callbacks=callbacks))
        except Crash:
            power.restore()
        await swept(bench, MINUTE)
        assert len(await told(bench, run_id)) == 1, cut_at
        assert 1 <= len(escalations(bench)) <= 2, cut_at
        assert [i.run_id for i in await inbox(bench, BOARD)] == [run_id], cut_at
        if not power.cuts:
            assert cut_at > 3
            return


def paying(account: str) -> Agent:
    """An agent whose tool pays to this account, unless the model names another."""
    rule = Approval(
        by=["finance"], remind_after=HOUR, escalate_after=2 * HOUR, escalate_to=["board"]
    )

    @tool(needs_approval=rule)
    async def pay_out(amount: int, account: str = account) -> str:
        """Pay out."""
        return f"paid {amount} to {account}"

    return Agent("payer", tools=[pay_out])


async def test_a_call_that_is_asked_for_again_begins_its_reminders_and_its_escalation_anew() -> (
    None
):
    bench = Bench(paying("a"), [call("pay_out", amount=9), say("Paid.")])
    run_id = (await suspended(bench)).id
    await bench.wait(run_id, "call_1")
    await swept(bench, 2 * HOUR)
    assert (sent(bench), len(escalations(bench))) == ([2], 1)
    bench.agents["payer"] = paying("b")
    await verdict(bench, run_id, BOARD)
    await bench.drive(run_id, call=await bench.item(run_id, "call_1"), output=DECIDED)
    again = await bench.call(run_id, "call_1")
    assert (again.attempt, again.reminders, again.escalated) == (2, 0, False)
    assert await inbox(bench, BOARD) == []
    assert [i.run_id for i in await inbox(bench, BEA)] == [run_id]
    await bench.wait(run_id, "call_1", "second")
    await swept(bench, HOUR)
    assert (sent(bench), len(escalations(bench))) == ([2, 1], 1)
    await swept(bench, HOUR)
    assert (sent(bench), len(escalations(bench))) == ([2, 1, 2], 2)


class Reading(InMemoryCallbacks):
    """Whoever is told reads the journal at once. `away`: how many escalations the bus does not take."""

    def __init__(self, bench: Bench, run_id: str, away: int = 0) -> None:
        super().__init__()
        self.started = bench.callbacks.started
        self.found: list[bool] = []
        self._bench, self._run_id, self._away = bench, run_id, away

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        if detail_type == "ApprovalEscalated":
            self.found.append((await self._bench.call(self._run_id, "call_1")).escalated)
            if len(self.found) <= self._away:
                raise RetryableError("PutEvents failed")
        await super().publish(detail_type, detail)


async def test_whoever_is_told_of_an_escalation_finds_it_in_the_journal() -> None:
    bench, run_id = await asked(**TO_THE_BOARD)
    callbacks = Reading(bench, run_id)
    bench.clock.advance(HOUR)
    await sweep(replace(bench.plain, callbacks=callbacks))
    assert callbacks.found == [True]
    assert not (await bench.meta(run_id)).owed


async def test_an_escalation_that_the_bus_does_not_take_is_told_later() -> None:
    bench, run_id = await asked(**TO_THE_BOARD)
    callbacks = Reading(bench, run_id, away=2)
    for _ in range(4):
        bench.clock.advance(HOUR)
        await sweep(replace(bench.plain, callbacks=callbacks))
    assert callbacks.found == [True] * 3
    assert [kind for kind, _ in callbacks.events] == ["ApprovalEscalated"]
    assert not (await bench.meta(run_id)).owed


async def test_an_escalation_that_the_bus_never_took_is_not_told_of_a_decided_call() -> None:
    bench, run_id = await asked(**TO_THE_BOARD)
    callbacks = Reading(bench, run_id, away=9)
    bench.clock.advance(HOUR)
    await sweep(replace(bench.plain, callbacks=callbacks))
    await verdict(bench, run_id, BOARD)
    bench.clock.advance(HOUR)
    await sweep(replace(bench.plain, callbacks=callbacks))
    assert callbacks.found == [True]
