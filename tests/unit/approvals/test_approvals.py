"""Deciding calls that wait."""

import asyncio
from datetime import timedelta

import pytest

from layover.approvals import decide as approvals
from layover.approvals import lists
from layover.approvals.decide import DecisionRequest, Verdict
from layover.approvals.schema_errors import schema_errors
from layover.errors import DecisionAlreadyMade, DecisionInvalid, NotFound
from layover.runs import read as runs
from layover.threads import threads
from layover.values.deployment.access import Actor
from layover.values.runs.run import DecisionKind, Status, SuspensionKind
from layover.values.runs.views import Run
from support.worlds.services import ANN, BOB, ServiceBench

ME = Actor(sub=ANN)
APPROVE = DecisionRequest(Verdict.APPROVE)
DENY = DecisionRequest(Verdict.DENY, reason="no\x00pe")


async def decide(
    world: ServiceBench,
    run: Run,
    request: DecisionRequest = APPROVE,
    call: str = "c1",
    by: Actor = ME,
) -> Run:
    answer = await approvals.decide(world.runtime, by, run.id, call, request)
    assert isinstance(answer.run, Run)
    return answer.run


async def still_waits(world: ServiceBench, run: Run) -> bool:
    found = await runs.get(world.runtime, ANN, run.id)
    return found.status is Status.SUSPENDED and len(found.pending) == 1


async def test_a_foreign_run_and_an_unknown_call_are_not_there(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    other, _ = await world.suspended()
    with pytest.raises(NotFound):
        await decide(world, run, by=Actor(sub=BOB))
    with pytest.raises(NotFound):
        await decide(world, run, call="c2")
    with pytest.raises(NotFound):
        await decide(world, run, call=other.id)
    assert await still_waits(world, run)


async def test_a_call_that_has_not_begun_cannot_be_decided(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    log = await world.take(run.id)
    step = await world.step(log, "", ("c1", "refund", {}), ("c2", "refund", {}))
    await world.suspend(log, step, "c1")
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, call="c2")


async def test_the_second_decision_of_a_call_is_refused(world: ServiceBench) -> None:
    run, call = await world.suspended()
    await decide(world, run)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, DENY)
    recorded = await world.journal.runs.call(ANN, run.id, call.key)
    assert recorded is not None
    assert recorded.decision is not None
    assert recorded.decision.kind is DecisionKind.APPROVED


async def test_one_of_many_decisions_at_once_wins(world: ServiceBench) -> None:
    run, call = await world.suspended()
    await world.token(call)
    verdicts = [APPROVE, DENY] * 5
    results = await asyncio.gather(
        *(decide(world, run, v) for v in verdicts), return_exceptions=True
    )
    assert sum(isinstance(r, Run) for r in results) == 5
    assert sum(isinstance(r, DecisionAlreadyMade) for r in results) == 5
    decided = (await runs.events(world.runtime, ANN, run.id, 0, 10)).items
    assert [e.type for e in decided] == ["tool-call-decided"]


async def test_a_late_decision_wakes_a_decided_call_again_before_it_is_refused(
    world: ServiceBench,
) -> None:
    run, call = await world.suspended()
    await world.token(call)
    world.callbacks.down = True
    await decide(world, run)
    world.callbacks.down = False
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, DENY)
    assert world.callbacks.woken == [f"token of {run.id}"]


async def test_a_settled_or_finished_call_cannot_be_decided(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    await world.finish(run.id)
    with pytest.raises(NotFound):
        await decide(world, run)


async def test_an_expired_call_cannot_be_decided(world: ServiceBench) -> None:
    run, _ = await world.suspended(expires_at=world.clock.now() + timedelta(minutes=1))
    world.clock.advance(timedelta(minutes=1))
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run)


async def test_a_decision_on_another_attempt_is_refused(world: ServiceBench) -> None:
    run, _ = await world.suspended(attempt=2)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, DecisionRequest(Verdict.APPROVE, attempt=1))
    assert await still_waits(world, run)
    await decide(world, run, DecisionRequest(Verdict.APPROVE, attempt=2))


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        (SuspensionKind.APPROVAL, DecisionRequest(Verdict.RESUME, data={"slot": "9:00"})),
        (SuspensionKind.INPUT, APPROVE),
        (SuspensionKind.CONNECT, APPROVE),
        (SuspensionKind.INPUT, DecisionRequest(Verdict.RESUME, data={"slot": 9})),
        (SuspensionKind.INPUT, DecisionRequest(Verdict.RESUME, data=None)),
        (SuspensionKind.APPROVAL, DecisionRequest(Verdict.APPROVE, args={"order_id": "o1"})),
        (
            SuspensionKind.APPROVAL,
            DecisionRequest(Verdict.APPROVE, args={"order_id": 1, "amount": "x"}),
        ),
    ],
)
async def test_a_decision_that_does_not_fit_leaves_the_call_waiting(
    world: ServiceBench, kind: SuspensionKind, request_: DecisionRequest
) -> None:
    run, _ = await world.suspended(kind)
    with pytest.raises(DecisionInvalid):
        await decide(world, run, request_)
    assert await still_waits(world, run)


async def test_what_does_not_fit_is_not_repeated(world: ServiceBench) -> None:
    run, _ = await world.suspended(SuspensionKind.INPUT)
    with pytest.raises(DecisionInvalid) as refusal:
        await decide(world, run, DecisionRequest(Verdict.RESUME, data={"slot": ["secret"]}))
    assert refusal.value.errors == [
        {
            "loc": ["body", "data", "slot"],
            "msg": 'does not satisfy `type: "string"`',
            "type": "type",
        }
    ]


def test_what_is_missing_is_named_each_once() -> None:
    schema = {
        "type": "object",
        "required": ["slot", "day"],
        "properties": {"day": {"enum": [1, 2]}},
    }
    assert schema_errors(schema, {"secret": 5}) == [
        {"loc": ["body", "data", "slot"], "msg": "is required", "type": "required"},
        {"loc": ["body", "data", "day"], "msg": "is required", "type": "required"},
    ]
    assert schema_errors(schema, {"slot": 1, "day": "secret"}) == [
        {"loc": ["body", "data", "day"], "msg": "does not satisfy `enum: [1, 2]`", "type": "enum"}
    ]


async def test_a_decision_stands_though_the_call_cannot_be_woken(world: ServiceBench) -> None:
    run, call = await world.suspended()
    await world.token(call)
    world.callbacks.down = True
    assert (await decide(world, run)).status is Status.RUNNING


async def test_a_deleted_threads_calls_are_gone(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    await threads.delete(world.runtime, ANN, run.thread_id)
    assert (await lists.list_approvals(world.runtime, ME, None, 20, None)).items == ()
    with pytest.raises(NotFound):
        await decide(world, run)


async def test_a_foreign_threads_approvals_are_not_there(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    with pytest.raises(NotFound):
        await lists.list_approvals(world.runtime, Actor(sub=BOB), run.thread_id, 20, None)
    assert (await lists.list_approvals(world.runtime, Actor(sub=BOB), None, 20, None)).items == ()


async def test_deciding_never_needs_the_database(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    world.threads.asleep = True
    await lists.list_approvals(world.runtime, ME, run.thread_id, 20, None)
    await decide(world, run)
    assert world.threads.asked == 0


async def test_an_approval_is_recorded_told_and_wakes_the_call(world: ServiceBench) -> None:
    run, call = await world.suspended()
    await world.token(call)
    args = {"order_id": "o1", "amount": 8}
    shown = await decide(world, run, DecisionRequest(Verdict.APPROVE, args=args, reason="less"))
    assert (shown.status, shown.pending) == (Status.RUNNING, ())
    assert world.callbacks.woken == [f"token of {run.id}"]
    recorded = await world.journal.runs.call(ANN, run.id, call.key)
    assert recorded is not None
    decision = recorded.decision
    assert decision is not None
    assert (decision.kind, decision.decided_by) == (DecisionKind.APPROVED, ANN)
    assert (decision.args, decision.reason) == (args, "less")
    events = await runs.events(world.runtime, ANN, run.id, 0, 10)
    assert [(e.type, getattr(e, "decision", None)) for e in events.items] == [
        ("tool-call-decided", "approved")
    ]


async def test_what_is_shown_after_a_decision_is_what_is_journaled(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    shown = await decide(world, run)
    found = await runs.get(world.runtime, ANN, run.id)
    assert shown.model_copy(update={"updated_at": found.updated_at}) == found


async def test_edited_arguments_of_a_tool_that_is_gone_are_refused(world: ServiceBench) -> None:
    run, _ = await world.suspended()
    world.agents.clear()
    edit = DecisionRequest(Verdict.APPROVE, args={"anything": 1})
    with pytest.raises(DecisionInvalid):
        await decide(world, run, edit)
    assert await still_waits(world, run)
    await decide(world, run)


async def test_a_denial_keeps_its_reason_without_what_cannot_be_stored(world: ServiceBench) -> None:
    run, call = await world.suspended()
    await decide(world, run, DENY)
    recorded = await world.journal.runs.call(ANN, run.id, call.key)
    assert recorded is not None
    assert recorded.decision is not None
    assert recorded.decision.reason == "no�pe"


async def test_data_that_fits_resumes_the_call(world: ServiceBench) -> None:
    run, call = await world.suspended(SuspensionKind.INPUT)
    await decide(world, run, DecisionRequest(Verdict.RESUME, data={"slot": "9:00"}))
    recorded = await world.journal.runs.call(ANN, run.id, call.key)
    assert recorded is not None
    assert recorded.decision is not None
    assert recorded.decision.data == {"slot": "9:00"}


async def test_waiting_calls_are_listed_oldest_first_page_by_page(world: ServiceBench) -> None:
    one, _ = await world.suspended()
    two, _ = await world.suspended()
    first = await lists.list_approvals(world.runtime, ME, None, 1, None)
    second = await lists.list_approvals(world.runtime, ME, None, 1, first.next_cursor)
    assert [a.run_id for a in (*first.items, *second.items)] == [one.id, two.id]
    of_two = await lists.list_approvals(world.runtime, ME, two.thread_id, 20, None)
    assert [(a.run_id, a.agent, a.thread_id) for a in of_two.items] == [
        (two.id, "support", two.thread_id)
    ]
