"""People who decline to answer a call that waits for input."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from layover.approvals import decide as approvals
from layover.approvals.decide import DecisionOutcome, DecisionRequest, Verdict, decide_all
from layover.errors import DecisionAlreadyMade, DecisionInvalid, NotAnApprover, NotFound, TooLarge
from layover.runs import read as runs
from layover.runs.cancel import cancel
from layover.values.decision import ApprovalRule
from layover.values.deployment.access import Actor
from layover.values.runs.run import DecisionKind, SuspensionKind
from layover.values.runs.views import Run
from support.worlds.services import ANN, BOB, ServiceBench

ME = Actor(sub=ANN)
BEA = Actor(sub="bea", groups=frozenset({"finance"}))
DECLINE = DecisionRequest(Verdict.DENY, reason="too private", attempt=1)
ANSWER = DecisionRequest(Verdict.RESUME, data={"slot": "9:00"})


async def asked(world: ServiceBench, **options: Any) -> Run:
    run, _ = await world.suspended(SuspensionKind.INPUT, **options)
    return run


async def decide(
    world: ServiceBench, run: Run, request: DecisionRequest = DECLINE, by: Actor = ME
) -> DecisionOutcome:
    return await approvals.decide(world.runtime, by, run.id, "c1", request)


async def waits(world: ServiceBench, run: Run) -> bool:
    return bool((await runs.get(world.runtime, ANN, run.id)).pending)


async def test_a_question_cannot_be_approved_and_the_refusal_says_what_it_takes(
    world: ServiceBench,
) -> None:
    run = await asked(world)
    with pytest.raises(DecisionInvalid, match="waits for input takes deny or resume"):
        await decide(world, run, DecisionRequest(Verdict.APPROVE))
    assert await waits(world, run)


async def test_somebody_else_declines_nothing(world: ServiceBench) -> None:
    run = await asked(world)
    with pytest.raises(NotFound):
        await decide(world, run, by=Actor(sub=BOB))
    assert await waits(world, run)


async def test_a_reason_that_a_rule_requires_is_asked_for(world: ServiceBench) -> None:
    run = await asked(world, approval=ApprovalRule(by=("finance",), reason_required=True))
    for reason in (None, "", " "):
        with pytest.raises(DecisionInvalid, match="needs a reason"):
            await decide(world, run, DecisionRequest(Verdict.DENY, reason=reason), BEA)
    with pytest.raises(NotAnApprover):
        await decide(world, run)
    assert await waits(world, run)
    assert not (await decide(world, run, by=BEA)).again


async def test_one_of_a_quorum_declines_for_all(world: ServiceBench) -> None:
    run = await asked(world, approval=ApprovalRule(by=("finance",), quorum=2))
    await decide(world, run, by=BEA)
    assert not await waits(world, run)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, ANSWER, Actor(sub="carl", groups=BEA.groups))


async def test_a_reason_that_is_too_large_is_refused(world: ServiceBench) -> None:
    run = await asked(world)
    with pytest.raises(TooLarge):
        await decide(world, run, DecisionRequest(Verdict.DENY, reason="x" * 2_000_000))
    assert await waits(world, run)


async def test_an_expired_question_cannot_be_declined(world: ServiceBench) -> None:
    run = await asked(world, expires_at=world.clock.now() + timedelta(minutes=1))
    world.clock.advance(timedelta(minutes=1))
    with pytest.raises(DecisionAlreadyMade, match="expired"):
        await decide(world, run)


async def test_a_question_of_another_attempt_is_not_declined(world: ServiceBench) -> None:
    run = await asked(world, attempt=2)
    with pytest.raises(DecisionAlreadyMade, match="attempt 2"):
        await decide(world, run)
    assert await waits(world, run)


async def test_a_question_of_a_cancelled_run_cannot_be_declined(world: ServiceBench) -> None:
    run = await asked(world)
    await cancel(world.runtime, ANN, run.id)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run)


@pytest.mark.parametrize(
    "other",
    [ANSWER, DecisionRequest(Verdict.DENY), DecisionRequest(Verdict.DENY, reason="another")],
)
async def test_after_a_decline_every_other_decision_is_refused(
    world: ServiceBench, other: DecisionRequest
) -> None:
    run = await asked(world)
    await decide(world, run)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, other)


async def test_an_answered_question_cannot_be_declined(world: ServiceBench) -> None:
    run = await asked(world)
    await decide(world, run, ANSWER)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run)


async def test_of_an_answer_and_a_decline_at_once_one_wins(world: ServiceBench) -> None:
    run = await asked(world)
    results = await asyncio.gather(
        *(decide(world, run, r) for r in (ANSWER, DECLINE)), return_exceptions=True
    )
    assert sorted(type(r).__name__ for r in results) == ["DecisionAlreadyMade", "DecisionOutcome"]
    assert len((await runs.events(world.runtime, ANN, run.id, 0, 9)).items) == 1


async def test_the_same_decline_again_changes_nothing(world: ServiceBench) -> None:
    run, call = await world.suspended(SuspensionKind.INPUT)
    await world.token(call)
    first = await decide(world, run)
    again = await decide(world, run)
    assert (first.again, again.again) == (False, True)
    events = (await runs.events(world.runtime, ANN, run.id, 0, 9)).items
    told = [(e.type, e.decision, e.decided_by, e.reason) for e in events]  # type: ignore[union-attr]
    assert told == [("tool-call-decided", "denied", ANN, "too private")]
    # The first one may have died before it woke the call.
    assert world.callbacks.woken == [f"token of {run.id}"] * 2
    record = await world.journal.runs.call(ANN, run.id, call.key)
    assert record is not None
    assert record.decision is not None
    assert record.decision.kind is DecisionKind.DENIED


async def test_many_questions_and_approvals_are_declined_in_one_request(
    world: ServiceBench,
) -> None:
    form, approval = await asked(world), (await world.suspended())[0]
    bad = DecisionRequest(Verdict.RESUME, data={"slot": 3})
    wrong = await asked(world)
    requests = [(form.id, "c1", DECLINE), (wrong.id, "c1", bad), (approval.id, "c1", DECLINE)]
    results = await decide_all(world.runtime, ME, requests)
    names = [type(r).__name__ for r in results]
    assert names == ["DecisionOutcome", "DecisionInvalid", "DecisionOutcome"]
