"""The same decision again: a caller that lost the answer asks once more, and gets the same answer."""

import asyncio

import pytest

from layover.approvals import decide as approvals
from layover.approvals.decide import DecisionOutcome, DecisionRequest, Verdict
from layover.errors import DecisionAlreadyMade
from layover.runs import read as runs
from layover.runs.cancel import cancel
from layover.values.deployment.access import Actor
from layover.values.runs.run import CallRecord, CallState, SuspensionKind
from layover.values.runs.views import Run
from support.worlds.services import ANN, ServiceBench

ME = Actor(sub=ANN)
SHOP = Actor(sub="shop", on_behalf_of=ANN)
ARGS = {"order_id": "o1", "amount": 8}
APPROVE = DecisionRequest(Verdict.APPROVE, args=ARGS, reason="less")


async def decide(
    world: ServiceBench, run: Run, request: DecisionRequest = APPROVE, by: Actor = ME
) -> DecisionOutcome:
    return await approvals.decide(world.runtime, by, run.id, "c1", request)


@pytest.mark.parametrize(
    "other",
    [
        DecisionRequest(Verdict.DENY, reason="less"),
        DecisionRequest(Verdict.APPROVE, args=ARGS),
        DecisionRequest(Verdict.APPROVE, reason="less"),
        DecisionRequest(Verdict.APPROVE, args={**ARGS, "amount": 9}, reason="less"),
        # JSON tells a number from a truth; Python does not.
        DecisionRequest(Verdict.APPROVE, args={"order_id": "o1", "amount": True}, reason="less"),
        DecisionRequest(Verdict.APPROVE, args=ARGS, reason="less", attempt=2),
    ],
)
async def test_another_decision_is_refused(world: ServiceBench, other: DecisionRequest) -> None:
    run, _ = await world.suspended()
    await decide(world, run)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, other)


@pytest.mark.parametrize(("first", "second"), [(ME, SHOP), (SHOP, ME)])
async def test_the_same_decision_of_somebody_else_is_refused(
    world: ServiceBench, first: Actor, second: Actor
) -> None:
    run, _ = await world.suspended()
    await decide(world, run, by=first)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, by=second)


async def test_what_the_system_decided_is_repeated_by_nobody(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    await cancel(world.runtime, ANN, run.id)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run)


@pytest.mark.parametrize("by", [ME, SHOP])
async def test_the_same_again_answers_as_the_first_and_changes_nothing(
    world: ServiceBench, by: Actor
) -> None:
    run, call = await world.suspended()
    await world.token(call)
    first = await decide(world, run, by=by)
    again = await decide(
        world, run, DecisionRequest(Verdict.APPROVE, args=ARGS, reason="less", attempt=1), by
    )
    assert (first.again, again.again) == (False, True)
    assert isinstance(first.run, Run)
    assert isinstance(again.run, Run)
    assert again.run.model_copy(update={"updated_at": first.run.updated_at}) == first.run
    assert [e.type for e in (await runs.events(world.runtime, ANN, run.id, 0, 9)).items] == [
        "tool-call-decided"
    ]
    # The first one may have died before it woke the call.
    assert world.callbacks.woken == [f"token of {run.id}"] * 2


async def test_the_same_many_times_at_once_is_recorded_once(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    answers = await asyncio.gather(*(decide(world, run) for _ in range(8)))
    assert sorted(a.again for a in answers) == [False] + [True] * 7
    assert len((await runs.events(world.runtime, ANN, run.id, 0, 99)).items) == 1


async def test_the_same_again_is_known_when_the_run_is_over(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    await decide(world, run)
    await cancel(world.runtime, ANN, run.id)
    again = await decide(world, run)
    assert (again.again, again.run.status) == (True, "cancelled")


async def test_a_decision_about_an_earlier_attempt_is_known_by_its_number(
    world: ServiceBench,
) -> None:
    run, call = await world.suspended(SuspensionKind.INPUT)
    other = DecisionRequest(Verdict.RESUME, data={"slot": "9:00"}, attempt=1)
    await decide(world, run, other)
    await suspend_again(world, call)
    assert (await decide(world, run, other)).again
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, DecisionRequest(Verdict.RESUME, data={"slot": "8:00"}, attempt=1))
    # Without a number it is about what waits now.
    assert not (
        await decide(world, run, DecisionRequest(Verdict.RESUME, data={"slot": "9:00"}))
    ).again


async def suspend_again(world: ServiceBench, call: CallRecord) -> None:
    """Suspend the call again, as a tool does that asks a second time."""
    log = await world.journal.writers.attach(ANN, call.run_id, f"{call.run_id}-1")
    assert log is not None
    decided = log.snapshot.call(call.key)
    assert decided is not None
    assert decided.decision is not None
    await log.open_calls([decided])
    past = ({"attempt": 1, **decided.decision.model_dump(mode="json")},)
    opened = decided.written(state=CallState.OPEN, opener=log.opener, past=past)
    await log.suspend_calls([opened])
