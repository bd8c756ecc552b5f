"""Requests from outside of a run: decisions, task tokens, the list of open approvals, a cancel, a new
execution."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from layover.errors import DecisionAlreadyMade, Fenced, NotFound
from layover.ports import CancelRequest, StaleCall
from layover.values.decision import Vote
from layover.values.deployment.access import Actor
from layover.values.runs.run import CallRecord, CallState, DecisionKind, Status
from layover.values.runs.views import OpenApproval
from support.worlds.journal import JournalBench, cancelled, open_by, planned, settled

EMPTY: list[str] = []
A_DAY = timedelta(days=1)


async def one_waiting(world: JournalBench) -> CallRecord:
    [call] = await world.waiting(await world.taken(), "c1")
    return call


# Deciding


async def test_second_decision_is_refused_and_changes_nothing(world: JournalBench) -> None:
    call = await one_waiting(world)
    first = await world.decide(call, kind=DecisionKind.DENIED, reason="no")
    before = await world.state(call.run_id)
    with pytest.raises(DecisionAlreadyMade):
        await world.decide(call, kind=DecisionKind.APPROVED)
    assert await world.state(call.run_id) == before
    assert (await world.call(call)).decision == first.decision


@pytest.mark.parametrize("settles", [True, False])
async def test_decision_in_a_thread_that_is_deleted_in_that_moment_finds_no_run(
    world: JournalBench, settles: bool
) -> None:
    meddled, table = world.meddled()
    call = await one_waiting(world)
    run = await world.run(call.run_id)
    decision = world.decision()
    decisions = meddled.journal.decisions

    async def deleted() -> None:
        await world.journal.erasure.mark_deleted(world.owner, run.thread_id)
        await world.journal.erasure.erase_runs(world.owner, run.thread_id)

    table.right_after(deleted)
    write: Callable[[], Awaitable[object]] = (
        (lambda: decisions.decide(run, call, decision))
        if settles
        else (lambda: decisions.vote(run, call, [], decision))
    )
    with pytest.raises(NotFound):
        await write()


async def waits_again(world: JournalBench, call: CallRecord) -> CallRecord:
    """The call, approved, and waiting for another decision."""
    decided = await world.decide(call)
    resume = await world.join(call.run_id)
    await resume.open_calls([decided])
    again = open_by(resume, decided).model_copy(update={"suspension": world.suspension()})
    await resume.suspend_calls([again])
    return await world.call(call)


async def test_decision_of_another_attempt_is_refused(world: JournalBench) -> None:
    call = await one_waiting(world)
    again = await waits_again(world, call)
    with pytest.raises(DecisionAlreadyMade):
        await world.decide(call)
    assert (await world.call(call)) == again
    assert again.undecided


async def test_call_that_does_not_wait_takes_no_decision(world: JournalBench) -> None:
    log = await world.taken()
    ready, other = await world.opened(log, "c1", "c2")
    await log.close_call(settled(ready))
    unknown = planned(log, world.step(log), "c9")
    for call in (ready, other, unknown):
        with pytest.raises(DecisionAlreadyMade):
            await world.decide(call)
    with pytest.raises(DecisionAlreadyMade):
        await world.decide(unknown.model_copy(update={"run_id": "unknown"}))
    assert await world.said(ready.run_id) == EMPTY


async def test_run_that_is_over_takes_no_decision(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    await world.end(log, status=Status.CANCELLED)
    before = await world.state(call.run_id)
    with pytest.raises(DecisionAlreadyMade):
        await world.decide(call)
    assert await world.state(call.run_id) == before


async def test_run_that_ends_during_the_decision_takes_none(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    meddled, table = world.meddled()
    table.before_next(lambda: world.end(log))
    with pytest.raises(DecisionAlreadyMade):
        await meddled.decide(call)
    assert [e.type for e in await world.events(call.run_id)][-1] == "finish"
    assert (await world.call(call)).decision is None


@pytest.mark.both_stores
async def test_decision_is_recorded_with_its_event_and_leaves_the_waiting(
    world: JournalBench,
) -> None:
    log = await world.taken()
    first, second = await world.waiting(log, "c1", "c2")
    world.tick()
    edit: dict[str, Any] = {"args": {"amount": 1}, "exact_args": {"amount": 1, "to": "x"}}
    decided = await world.decide(first, world.data("decided"), **edit, reason="ok")
    assert decided == await world.call(first)
    assert decided.decision == world.decision(**edit, reason="ok")
    assert (decided.state, decided.attempt) == (CallState.WAITING, 1)
    run = await world.run(first.run_id)
    assert (run.waiting, run.decided) == (frozenset({second.key}), frozenset({first.key}))
    assert run.updated_at == world.clock.now()
    assert await world.said(first.run_id) == ["decided"]


async def test_decision_without_events_leaves_room_for_those_that_follow(
    world: JournalBench,
) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    await world.decided(call, world.decision())
    log.emit(world.data("after"))
    await asyncio.wait_for(log.flush(), 60)
    assert await world.said(call.run_id) == ["after"]


async def test_decision_meets_events_that_were_written_meanwhile(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    meddled, table = world.meddled()

    async def speak() -> None:
        log.emit(world.data("before"), world.data("before"))
        await log.flush()

    table.before_next(speak)
    await meddled.decide(call, world.data("decided"))
    log.emit(world.data("after"))
    await log.flush()
    assert await world.said(call.run_id) == ["before", "before", "decided", "after"]


# What becomes of a wait


def later(world: JournalBench, call: CallRecord, days: int = 1) -> CallRecord:
    return call.model_copy(update={"extended_to": world.clock.now() + days * A_DAY})


async def amend(world: JournalBench, call: CallRecord, amended: CallRecord) -> None:
    run = await world.run(call.run_id)
    await world.journal.decisions.amend(run, call, amended, world.data("amended"))


@pytest.mark.both_stores
async def test_what_becomes_of_a_wait_is_recorded_with_its_event_and_listed(
    world: JournalBench,
) -> None:
    call = await one_waiting(world)
    amended = later(world, call)
    await amend(world, call, amended)
    assert await world.call(call) == amended.written()
    assert (await world.run(call.run_id)).waiting == {call.key}
    assert await world.said(call.run_id) == ["amended"]
    [listed] = (await world.journal.decisions.page_pending(world.owner, None, 10, None)).items
    assert listed.expires_at == amended.extended_to


async def test_a_call_that_is_decided_or_of_another_attempt_is_not_amended(
    world: JournalBench,
) -> None:
    first = await one_waiting(world)
    call = await waits_again(world, first)
    with pytest.raises(DecisionAlreadyMade):
        await amend(world, first, later(world, first))
    await world.decide(call)
    before = await world.state(call.run_id)
    with pytest.raises(DecisionAlreadyMade):
        await amend(world, call, later(world, call))
    assert await world.state(call.run_id) == before


async def test_a_call_of_a_run_that_is_over_is_not_amended(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    run = await world.run(call.run_id)
    await world.end(log, status=Status.CANCELLED)
    with pytest.raises(DecisionAlreadyMade):
        await world.journal.decisions.amend(run, call, later(world, call))


async def test_a_call_is_not_amended_from_an_older_state(world: JournalBench) -> None:
    call = await one_waiting(world)
    first = later(world, call, days=3)
    await amend(world, call, first)
    with pytest.raises(StaleCall):
        await amend(world, call, later(world, call, days=2))
    await amend(world, await world.call(call), later(world, call, days=4))
    assert await world.said(call.run_id) == ["amended", "amended"]


async def test_a_decision_in_the_middle_of_a_change_wins(world: JournalBench) -> None:
    call = await one_waiting(world)
    meddled, table = world.meddled()
    table.before_next(lambda: world.decide(call))
    with pytest.raises(DecisionAlreadyMade):
        await amend(meddled, call, later(world, call))
    assert (await world.call(call)).extended_to is None


async def test_votes_and_other_changes_keep_each_other(world: JournalBench) -> None:
    call = await one_waiting(world)
    run = await world.run(call.run_id)
    vote = Vote(by="bea", at=world.clock.now())
    voted = await world.journal.decisions.vote(run, call, [vote], world.decision())
    with pytest.raises(StaleCall):
        await amend(world, call, later(world, call))
    await amend(world, voted, later(world, voted))
    found = await world.call(call)
    assert (found.votes, found.extended_to) == ((vote,), later(world, call).extended_to)
    with pytest.raises(StaleCall):
        await world.decide(voted)
    await world.decide(found)


async def test_a_call_that_was_extended_in_the_meantime_does_not_expire(
    world: JournalBench,
) -> None:
    call = await one_waiting(world)
    meddled, table = world.meddled()
    table.before_next(lambda: amend(world, call, later(world, call)))
    with pytest.raises(StaleCall):
        await meddled.decide(call, kind=DecisionKind.EXPIRED)
    extended = await world.call(call)
    assert extended.undecided
    await world.decide(extended, kind=DecisionKind.EXPIRED)
    assert (await world.call(call)).decision is not None


@pytest.mark.parametrize("remind_after_s", [None, 60])
async def test_the_sweeper_looks_at_once_at_a_run_with_a_call_that_has_reminders(
    world: JournalBench, remind_after_s: int | None
) -> None:
    log = await world.taken()
    first, second = await world.journaled(log, "c1", "c2")
    run_id, now = first.run_id, world.clock.now()
    await log.suspend_calls([first.model_copy(update={"suspension": world.suspension()})])
    await world.journal.watch.reschedule(await world.look(run_id), now + A_DAY)
    world.tick()
    rule = {"by": (f"people of {world.owner}",), "remind_after_s": remind_after_s}
    suspension = world.suspension(approval=rule)
    await log.suspend_calls([second.model_copy(update={"suspension": suspension})])
    due = await world.journal.watch.due(world.clock.now(), 1_000)
    assert (run_id in {d.run_id for d in due}) == (remind_after_s is not None)


# Tokens


async def test_token_of_a_decided_call_is_not_stored(world: JournalBench) -> None:
    call = await one_waiting(world)
    await world.decide(call)
    assert await world.store_token(call, "late") is None
    assert (await world.call(call)).token is None


async def test_token_is_not_stored_for_another_attempt_call_or_execution(
    world: JournalBench,
) -> None:
    call = await one_waiting(world)
    for changed in ({"attempt": 2}, {"key": "STEP#0001#CALL#c9"}, {"run_id": "unknown"}):
        assert await world.store_token(call.model_copy(update=changed), "t") is None
    assert await world.store_token(call, "t", n=2) is None
    assert (await world.call(call)).token is None


async def test_token_is_not_stored_once_the_run_is_over(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    await world.end(log)
    assert await world.store_token(call, "late") is None


@pytest.mark.both_stores
async def test_stored_token_comes_with_the_decision(world: JournalBench) -> None:
    call = await one_waiting(world)
    stored = await world.store_token(call, "first")
    assert stored is not None
    assert stored.token == "first"
    again = await world.store_token(stored, "second")
    assert again is not None
    decided = await world.decided(again, world.decision(), world.data())
    assert decided.token == "second"


async def test_decision_before_any_token_has_none_to_wake(world: JournalBench) -> None:
    call = await one_waiting(world)
    decided = await world.decided(call, world.decision(), world.data())
    assert decided.token is None


async def test_token_that_is_stored_during_the_decision_is_woken(world: JournalBench) -> None:
    """The later of the two writes sees the earlier one: no wake-up is lost."""
    call = await one_waiting(world)
    meddled, table = world.meddled()
    table.before_next(lambda: world.store_token(call, "token"))
    with pytest.raises(StaleCall):
        await meddled.decided(call, world.decision(), world.data())
    decided = await meddled.decided(await world.call(call), world.decision(), world.data())
    assert decided.token == "token"


@pytest.mark.both_stores
async def test_parallel_decisions_of_different_calls_all_stand(world: JournalBench) -> None:
    names = [f"c{n}" for n in range(6)]
    calls = await world.waiting(await world.taken(), *names)
    await asyncio.gather(*(world.decide(c, world.data(c.tool_call_id)) for c in calls))
    run = await world.run(calls[0].run_id)
    assert (run.waiting, len(run.decided)) == (frozenset(), 6)
    assert sorted(await world.said(run.id)) == names


# Open approvals


async def listed(
    world: JournalBench, size: int = 10, thread_id: str | None = None
) -> list[OpenApproval]:
    found: list[OpenApproval] = []
    cursor = None
    while True:
        page = await world.journal.decisions.page_pending(world.owner, thread_id, size, cursor)
        assert len(page.items) <= size
        found += page.items
        if (cursor := page.next_cursor) is None:
            return found


async def names(world: JournalBench, size: int = 10, thread_id: str | None = None) -> list[str]:
    return [a.tool_call_id for a in await listed(world, size, thread_id)]


async def test_nothing_waits_where_nobody_asked(world: JournalBench) -> None:
    await world.opened(await world.taken(), "c1")
    assert await names(world) == EMPTY
    assert await names(world, thread_id="unknown") == EMPTY


@pytest.mark.parametrize("size", [1, 2, 3, 10])
async def test_open_approvals_are_listed_oldest_first_and_by_thread(
    world: JournalBench, size: int
) -> None:
    logs = [await world.taken(), await world.taken()]
    for n in range(6):
        log = logs[n % 2]
        call = planned(log, world.step(log), f"c{n}", suspension=world.suspension())
        await log.suspend_calls([call])
        world.tick()
    assert await names(world, size) == ["c0", "c1", "c2", "c3", "c4", "c5"]
    first, second = (log.snapshot.meta.thread_id for log in logs)
    assert await names(world, size, first) == ["c0", "c2", "c4"]
    assert await names(world, size, second) == ["c1", "c3", "c5"]


async def test_open_approval_says_what_it_is_about(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c#/1")
    meta = log.snapshot.meta
    [found] = await listed(world)
    assert call.suspension is not None
    assert (found.run_id, found.thread_id, found.agent) == (meta.id, meta.thread_id, "support")
    assert (found.tool_call_id, found.args, found.attempt) == ("c#/1", {"n": "c#/1"}, 1)
    assert found.requested_at == call.suspension.requested_at


async def test_approval_leaves_the_list_when_it_is_decided_and_comes_back_when_it_waits_again(
    world: JournalBench,
) -> None:
    log = await world.taken()
    call, _ = await world.waiting(log, "c1", "c2")
    decided = await world.decide(call)
    assert await names(world) == ["c2"]
    resume = await world.join(call.run_id)
    await resume.open_calls([decided])
    assert await names(world) == ["c2"]
    world.tick()
    again = open_by(resume, decided).model_copy(update={"suspension": world.suspension()})
    await resume.suspend_calls([again])
    assert [(a.tool_call_id, a.attempt) for a in await listed(world)] == [("c2", 1), ("c1", 2)]


async def test_a_decided_call_that_is_asked_for_again_waits_as_at_first(
    world: JournalBench,
) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    decided = await world.decide(call)
    resume = await world.join(call.run_id)
    world.tick()
    again = decided.model_copy(update={"suspension": world.suspension(args={"amount": 2})})
    await resume.suspend_calls([again])
    run = await world.run(call.run_id)
    assert (run.waiting, run.decided) == (frozenset({call.key}), frozenset())
    found = await world.call(call)
    assert (found.undecided, found.attempt, found.exact_args) == (True, 2, {"amount": 2})
    # The decision was about other arguments, and so is a second writer's news of it.
    with pytest.raises(Fenced):
        await log.suspend_calls([again])


async def test_settled_call_leaves_the_list_even_where_the_decision_lost_its_race(
    world: JournalBench,
) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    await log.cancel_calls([settled(call).model_copy(update={"state": CallState.SETTLED})])
    with pytest.raises(DecisionAlreadyMade):
        await world.decide(call)
    assert await names(world) == EMPTY
    with pytest.raises(Fenced):
        await log.open_calls([call])


# Cancelling, and the execution that follows


async def test_a_cancel_leaves_a_call_that_was_settled_meanwhile_as_it_is(
    world: JournalBench,
) -> None:
    """Its opener needs no epoch: what it says goes before what the end of the run says."""
    log = await world.taken()
    ran, runs = await world.opened(log, "c1", "c2")
    forced = await world.journal.writers.seize(world.owner, log.snapshot.meta.id)
    assert forced is not None
    await log.close_call(settled(ran, "kept"))
    with pytest.raises(Fenced):
        await forced.cancel_calls(cancelled([ran, runs]))
    assert (await world.call(ran)).result == "kept"
    # A writer that looks again ends the rest.
    await forced.cancel_calls(cancelled([runs]))
    assert (await world.call(runs)).result == "Cancelled"


async def test_cancel_flag_is_seen_by_the_holder(world: JournalBench) -> None:
    log = await world.taken()
    assert not await log.cancel_requested()
    flagged = await world.journal.commands.request_cancel(world.owner, log.snapshot.meta.id)
    assert flagged is not None
    assert flagged.cancel
    assert await log.cancel_requested()


async def test_holder_is_told_how_long_its_tools_may_go_on(world: JournalBench) -> None:
    log = await world.taken()
    await world.journal.commands.request_cancel(
        world.owner, log.snapshot.meta.id, timedelta(milliseconds=1_500)
    )
    world.tick(0.25)
    asked = await log.cancel_requested()
    assert asked == CancelRequest(timedelta(seconds=0.25), timedelta(seconds=1.5))


async def test_person_who_cancels_stays_when_nobody_asks_again(world: JournalBench) -> None:
    log = await world.taken()
    request_cancel = world.journal.commands.request_cancel
    run_id = log.snapshot.meta.id
    await request_cancel(world.owner, run_id)
    asked = await log.cancel_requested()
    assert asked is not None
    assert (asked.by, asked.on_behalf_of) == (None, None)
    for by in (Actor(sub="shop", on_behalf_of="bob"), None):
        await request_cancel(world.owner, run_id, by=by)
        asked = await log.cancel_requested()
        assert asked is not None
        assert (asked.by, asked.on_behalf_of) == ("shop", "bob")
    await request_cancel(world.owner, run_id, by=Actor(sub="bob"))
    asked = await log.cancel_requested()
    assert asked is not None
    assert (asked.by, asked.on_behalf_of) == ("bob", None)


async def test_run_that_is_over_takes_no_cancel_flag(world: JournalBench) -> None:
    log = await world.taken()
    await world.end(log)
    flagged = await world.journal.commands.request_cancel(world.owner, log.snapshot.meta.id)
    assert flagged is not None
    assert (flagged.status, flagged.cancel) == (Status.SUCCESS, False)
    assert await world.journal.commands.request_cancel(world.owner, "unknown") is None


async def test_next_execution_drives_the_run_and_the_one_before_does_not(
    world: JournalBench,
) -> None:
    run_id = await world.started()
    assert await world.journal.commands.start_successor(world.owner, "unknown", None) is None
    assert await world.journal.commands.start_successor(world.owner, run_id, f"{run_id}-7") is None
    assert await world.journal.commands.start_successor(world.owner, run_id, f"{run_id}-1") == 2
    assert await world.journal.commands.start_successor(world.owner, run_id, f"{run_id}-1") is None
    assert await world.journal.writers.acquire(world.owner, run_id, f"{run_id}-1") is None
    meta = (await world.take(run_id, 2)).snapshot.meta
    assert (meta.n, meta.execution) == (2, f"{run_id}-2")
    log = await world.take(run_id, 2)
    await world.end(log)
    assert await world.journal.commands.start_successor(world.owner, run_id, f"{run_id}-2") is None


# The watch


@pytest.mark.parametrize("skew_s", [-5, 1])
async def test_look_that_was_asked_for_meanwhile_is_not_put_off(
    world: JournalBench, skew_s: int
) -> None:
    """A sweeper saw the run wait; then it is decided, perhaps by a clock that is behind, and the token is
    never sent."""
    call = await one_waiting(world)
    look = await world.look(call.run_id)
    world.tick(skew_s)
    await world.decide(call)
    assert not await world.journal.watch.reschedule(look, world.clock.now() + A_DAY)
    assert call.run_id in await due(world)


async def test_look_at_a_run_that_is_over_is_not_put_off(world: JournalBench) -> None:
    log = await world.taken()
    run_id, seen = log.snapshot.meta.id, world.clock.now()
    look = await world.look(run_id)
    world.tick()
    await world.end(log, saved=False)
    assert not await world.journal.watch.reschedule(look, seen + A_DAY)
    assert run_id in await due(world)
    look = await world.look(run_id)
    await world.journal.expiry.set_ttl(world.owner, run_id, seen + A_DAY)
    assert not await world.journal.watch.reschedule(look, seen)
    assert run_id not in await due(world)


async def test_looks_that_failed_are_counted_until_one_did_not(world: JournalBench) -> None:
    run_id = (await one_waiting(world)).run_id
    for failures in range(3):
        look = await world.look(run_id)
        assert look.failures == failures
        await world.journal.watch.put_off(look, world.clock.now() + A_DAY * (failures + 1))
    assert run_id not in await due(world)
    await world.journal.watch.reschedule(await world.look(run_id), world.clock.now())
    assert (await world.look(run_id)).failures == 0
    assert run_id in await due(world)


async def test_cancel_that_is_not_finished_is_looked_at_soon(world: JournalBench) -> None:
    call = await one_waiting(world)
    now = world.clock.now()
    await world.journal.watch.reschedule(await world.look(call.run_id), now + A_DAY)
    await world.journal.commands.request_cancel(world.owner, call.run_id)
    assert call.run_id not in await due(world)
    world.tick(3)
    assert call.run_id in await due(world)


async def test_run_is_looked_at_again_when_it_was_said(world: JournalBench) -> None:
    call = await one_waiting(world)
    now = world.clock.now()
    await world.journal.watch.reschedule(await world.look(call.run_id), now + A_DAY)
    assert call.run_id not in await due(world)
    world.tick(A_DAY.total_seconds())
    assert call.run_id in await due(world)


async def due(world: JournalBench) -> list[str | None]:
    """Runs of this owner that the sweeper has to look at."""
    found = await world.journal.watch.due(world.clock.now(), 10_000)
    return [w.run_id for w in found if w.owner == world.owner]
