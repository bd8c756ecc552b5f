"""Runs in the hand of their writers: taking, steps and calls."""

from datetime import timedelta

import pytest

from layover.engine.state import RunState
from layover.errors import AttemptsUsedUp, Fenced
from layover.keys import call_key, step_key
from layover.ports import RunLog
from layover.values.note import Note, NoteKey
from layover.values.runs.run import (
    MAX_ATTEMPTS,
    TURN_EVENTS,
    CallState,
    DecisionKind,
    PinnedText,
    PromptSnapshot,
    RunSnapshot,
    Status,
)
from support.worlds.journal import JournalBench, cancelled, open_by, planned, settled

# Taking


@pytest.mark.parametrize("execution", ["another", ""])
async def test_history_of_another_execution_is_not_counted(
    world: JournalBench, execution: str
) -> None:
    run_id = await world.started()
    assert await world.journal.commands.spend(world.owner, run_id, execution, 5, 100) is None
    assert (await world.run(run_id)).history == 0


async def test_history_is_counted_until_another_execution_goes_on(world: JournalBench) -> None:
    log = await world.taken()
    run_id, execution = log.snapshot.meta.id, log.snapshot.meta.execution
    assert execution is not None
    spent = [
        await world.journal.commands.spend(world.owner, run_id, execution, 5, 100) for _ in range(2)
    ]
    assert spent == [TURN_EVENTS + 5, TURN_EVENTS + 10]
    assert (await world.run(run_id)).attempts == 1
    await world.journal.commands.spend(world.owner, run_id, execution, 5, 100, fresh=True)
    assert (await world.run(run_id)).attempts == 0
    await world.journal.commands.start_successor(world.owner, run_id, execution)
    assert (await world.run(run_id)).history == 0


async def test_faults_in_a_row_are_counted_until_somebody_takes_the_run(
    world: JournalBench,
) -> None:
    log = await world.taken()
    meta = log.snapshot.meta
    count_fault = world.journal.commands.count_fault
    assert [await count_fault(world.owner, meta.id, meta.epoch) for _ in range(3)] == [0, 1, 2]
    assert await count_fault(world.owner, meta.id, meta.epoch + 1) == 0
    assert (await world.run(meta.id)).attempts == 1


async def test_run_with_a_long_history_is_looked_at_at_once(world: JournalBench) -> None:
    log = await world.taken()
    run_id, execution = log.snapshot.meta.id, log.snapshot.meta.execution
    assert execution is not None
    later = world.clock.now() + timedelta(hours=1)
    await world.journal.watch.reschedule(await world.look(run_id), later)
    world.tick()
    for limit, due in ((1_000, False), (1, True)):
        await world.journal.commands.spend(world.owner, run_id, execution, 5, limit)
        found = await world.journal.watch.due(world.clock.now(), 1_000)
        assert (run_id in {w.run_id for w in found}) is due


async def test_run_that_is_unknown_or_driven_by_another_execution_is_not_taken(
    world: JournalBench,
) -> None:
    run_id = await world.started()
    before = await world.state(run_id)
    for take in (world.journal.writers.acquire, world.journal.writers.attach):
        assert await take(world.owner, "unknown", "unknown-1") is None
        assert await take(world.owner, run_id, f"{run_id}-2") is None
    assert await world.journal.writers.seize(world.owner, "unknown") is None
    assert await world.state(run_id) == before


async def test_queued_run_is_not_taken(world: JournalBench) -> None:
    head = await world.thread()
    await world.accept(head.id)
    queued = await world.queue(head.id)
    assert await world.journal.writers.acquire(world.owner, queued, f"{queued}-1") is None
    assert await world.journal.writers.attach(world.owner, queued, f"{queued}-1") is None
    assert await world.journal.writers.seize(world.owner, queued) is None


async def test_run_that_is_over_is_not_taken(world: JournalBench) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    await world.end(log)
    assert await world.journal.writers.acquire(world.owner, run_id, f"{run_id}-1") is None
    assert await world.journal.writers.attach(world.owner, run_id, f"{run_id}-1") is None
    assert await world.journal.writers.seize(world.owner, run_id) is None


async def test_sixth_attempt_without_a_step_is_refused(world: JournalBench) -> None:
    run_id = await world.started()
    for _ in range(MAX_ATTEMPTS):
        await world.take(run_id)
    with pytest.raises(AttemptsUsedUp):
        await world.take(run_id)
    assert await world.journal.writers.acquire(world.owner, run_id, "another-1") is None
    assert (await world.run(run_id)).epoch == MAX_ATTEMPTS
    log = await world.journal.writers.seize(world.owner, run_id)
    assert log is not None
    await world.end(log, status=Status.FAILED)


async def test_taking_raises_epoch_and_attempts_and_joining_neither(world: JournalBench) -> None:
    run_id = await world.started()
    for n in (1, 2):
        meta = (await world.take(run_id)).snapshot.meta
        assert (meta.epoch, meta.attempts, meta.history) == (n, n, n * TURN_EVENTS)
    meta = (await world.join(run_id)).snapshot.meta
    assert (meta.epoch, meta.attempts) == (2, 2)


async def test_progress_lets_the_attempts_begin_again(world: JournalBench) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    for progress in (
        lambda log: world.journaled(log, "c1", "c2"),
        lambda log: log.close_call(settled(planned(log, world.step(log), "c1"))),
        lambda log: suspend(world, log, "c2"),
    ):
        log = await world.take(run_id)
        assert (await world.run(run_id)).attempts > 0
        await progress(log)
        assert (await world.run(run_id)).attempts == 0


async def test_opening_a_call_is_no_progress(world: JournalBench) -> None:
    log = await world.taken()
    await world.journaled(log, "c1")
    log = await world.take(log.snapshot.meta.id)
    await log.open_calls([planned(log, world.step(log), "c1")])
    assert (await world.run(log.snapshot.meta.id)).attempts == 1


# Steps


async def test_step_is_journaled_once(world: JournalBench) -> None:
    log = await world.taken()
    await log.put_step(world.step(log, text="first"))
    joined = await world.join(log.snapshot.meta.id)
    with pytest.raises(Fenced):
        await joined.put_step(world.step(log, text="second"))
    snapshot = await snapshot_of(world, log)
    assert [s.message.text for s in snapshot.steps] == ["first"]


@pytest.mark.both_stores
async def test_next_writer_reads_what_was_journaled(world: JournalBench) -> None:
    log = await world.taken()
    now = world.clock.now()
    key = NoteKey(kind="profile", scope="resource", key="helper")
    note = Note(key=key, value={"b": 1, "a": [2]}, version=3, created_at=now, updated_at=now)
    base = PromptSnapshot(
        as_of=now, window_depth=4, notes=(note,), recalled=(PinnedText(id="m", text="x"),)
    )
    first = world.step(log, "c1", "c2").model_copy(update={"base": base})
    second = world.step(log, index=2)
    await log.put_step(first)
    await log.close_call(settled(planned(log, first, "c2"), {"x": [1, None, "é"]}))
    await log.put_step(second, is_complete=True)
    next_log = await world.take(log.snapshot.meta.id)
    snapshot = next_log.snapshot
    assert snapshot.steps == (first, second)
    assert '"value":{"b":1,"a":[2]}' in snapshot.steps[0].model_dump_json(), "in this order"
    assert (snapshot.steps[0].base, snapshot.meta.step_ended) == (base, 2)
    call = snapshot.call(call_key(first.key, "c2"))
    assert call is not None
    assert (call.state, call.result, call.model_output) == (
        CallState.SETTLED,
        {"x": [1, None, "é"]},
        "{'x': [1, None, 'é']}",
    )
    assert snapshot.call(call_key(first.key, "c1")) is None
    assert snapshot == await snapshot_of(world, log)


async def test_end_of_a_step_is_recorded_with_its_event(world: JournalBench) -> None:
    log = await world.taken()
    await world.journaled(log)
    await log.end_step(world.step(log), world.data("ended"))
    assert (await world.run(log.snapshot.meta.id)).step_ended == 1
    assert await world.said(log.snapshot.meta.id) == ["ended"]


async def test_end_of_a_sub_agents_step_is_kept_with_that_step_and_not_with_the_run(
    world: JournalBench,
) -> None:
    log = await world.taken()
    [call, other] = await world.opened(log, "c1", "c2")
    ended, going, told = (
        world.step(log).model_copy(update={"key": step_key(f"{c.key}/", index)})
        for c, index in ((call, 1), (call, 2), (other, 1))
    )
    await log.put_step(ended, is_complete=True)
    await log.put_step(going)
    await log.put_step(told)
    await log.end_step(told, world.data("ended"))
    snapshot = await snapshot_of(world, log)
    marks = {step.key: step.ended for step in snapshot.steps if "/" in step.key}
    assert marks == {ended.key: True, going.key: False, told.key: True}
    assert snapshot.meta.step_ended == 0
    inner = planned(log, going, "inner")
    await log.open_calls([inner])
    await log.close_call(settled(open_by(log, inner)), world.data("end"), ended_step=going)
    after = await snapshot_of(world, log)
    assert [s.ended for s in after.steps if s.key == going.key] == [True]


async def test_odd_call_ids_and_sub_agents_steps_keep_their_places(world: JournalBench) -> None:
    log = await world.taken()
    odd = ["a/b", "a#CALL#b", "ü ~", "a"]
    calls = await world.opened(log, *odd)
    child = world.step(log).model_copy(update={"key": step_key(f"{calls[0].key}/", 1)})
    await log.put_step(child)
    snapshot = (await world.take(log.snapshot.meta.id)).snapshot
    assert sorted(c.tool_call_id for c in snapshot.calls) == sorted(odd)
    assert [s.key for s in snapshot.steps] == ["STEP#0001", child.key]


# Open calls


@pytest.mark.both_stores
async def test_window_of_calls_opens_whole_or_not_at_all(world: JournalBench) -> None:
    log = await world.taken()
    calls = await world.journaled(log, "c1", "c2")
    await log.open_calls(calls[1:])
    with pytest.raises(Fenced):
        await log.open_calls(calls)
    assert await world.journal.runs.call(world.owner, calls[0].run_id, calls[0].key) is None


async def test_open_call_names_its_opener(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    assert await world.call(call) == call
    assert (call.state, call.opener) == (CallState.OPEN, log.opener)


@pytest.mark.both_stores
async def test_forty_calls_open_in_one_transaction(world: JournalBench) -> None:
    log = await world.taken()
    calls = await world.opened(log, *(f"c{n}" for n in range(40)))
    snapshot = await snapshot_of(world, log)
    assert {c.key for c in snapshot.calls} == {c.key for c in calls}
    await log.cancel_calls(cancelled(calls), world.data())
    snapshot = await snapshot_of(world, log)
    assert {c.state for c in snapshot.calls} == {CallState.SETTLED}


async def test_opener_closes_its_call_after_the_epoch_moved(world: JournalBench) -> None:
    """It ran, and no other writer may close it: the result is kept."""
    log = await world.taken()
    first, second = await world.opened(log, "c1", "c2")
    await world.take(first.run_id)
    await log.close_call(settled(first), world.data("closed"))
    assert (await world.call(first)).result == "done"
    assert await world.said(first.run_id) == ["closed"]
    await world.journal.commands.start_successor(world.owner, first.run_id, f"{first.run_id}-1")
    await log.close_call(settled(second))
    assert (await world.call(second)).result == "done"


async def test_call_is_closed_by_nobody_but_its_opener_under_an_old_epoch(
    world: JournalBench,
) -> None:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    sibling = await world.join(call.run_id)
    await world.take(call.run_id)
    with pytest.raises(Fenced):
        await sibling.close_call(settled(call))
    with pytest.raises(Fenced):
        await sibling.close_call(settled(open_by(sibling, call)))
    assert (await world.call(call)).state is CallState.OPEN


async def test_call_is_closed_once(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    await log.close_call(settled(call, "first"))
    with pytest.raises(Fenced):
        await log.close_call(settled(call, "second"))
    assert (await world.call(call)).result == "first"


async def test_next_attempt_settles_or_reopens_a_call_that_was_left_open(
    world: JournalBench,
) -> None:
    log = await world.taken()
    left, again = await world.opened(log, "c1", "c2")
    turn = await world.take(left.run_id)
    await turn.close_call(settled(left, "in doubt"))
    await turn.open_calls([again])
    for call in (left, again):
        with pytest.raises(Fenced):
            await log.close_call(settled(call))
    assert (await world.call(left)).result == "in doubt"
    assert (await world.call(again)).opener == turn.opener


async def test_last_call_of_a_step_ends_it_in_the_same_write(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    await log.close_call(settled(call), world.data("turn-end"), ended_step=world.step(log))
    assert RunState(await snapshot_of(world, log)).step_ended == 1
    await log.put_step(world.step(log, "c2", index=2))
    assert (await world.run(call.run_id)).step_ended == 1
    assert RunState(await snapshot_of(world, log)).step_ended == 1


@pytest.mark.both_stores
async def test_end_of_a_run_keeps_the_newest_step_that_ended(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    await log.close_call(settled(call), world.data("turn-end"), ended_step=world.step(log))
    await log.put_step(world.step(log, index=2), world.data("turn-end"), is_complete=True)
    await world.end(log)
    assert (await world.run(call.run_id)).step_ended == 2


@pytest.mark.both_stores
@pytest.mark.parametrize("crashes", [False, True], ids=["at once", "after a crash"])
async def test_end_of_a_run_counts_the_step_that_its_last_call_ended(
    world: JournalBench, crashes: bool
) -> None:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    await log.close_call(settled(call), world.data("turn-end"), ended_step=world.step(log))
    assert (await world.run(call.run_id)).step_ended == 0, "the call has it, META is not written"
    if crashes:
        log = await world.take(call.run_id)
    await world.end(log)
    assert (await world.run(call.run_id)).step_ended == 1


async def test_a_step_opens_its_calls_with_itself(world: JournalBench) -> None:
    log = await world.taken()
    step = world.step(log, "c1", "c2")
    first, _ = (planned(log, step, c) for c in ("c1", "c2"))
    await log.put_step(step, world.data("both"), open_calls=[first])
    snapshot = await snapshot_of(world, log)
    assert [(c.tool_call_id, c.state, c.opener) for c in snapshot.calls] == [
        ("c1", CallState.OPEN, log.opener)
    ]
    again = await world.take(log.snapshot.meta.id)
    before = await world.state(log.snapshot.meta.id)
    late = world.step(log, "c3", index=2)
    with pytest.raises(Fenced):
        await log.put_step(late, open_calls=[planned(log, late, "c3")])
    assert await world.state(again.snapshot.meta.id) == before


async def test_a_writer_that_made_no_step_itself_sets_the_attempts_back_with_a_call(
    world: JournalBench,
) -> None:
    [call] = await world.opened(await world.taken(), "c1")
    log = await world.take(call.run_id)
    await log.open_calls([call.model_copy(update={"state": CallState.OPEN, "opener": call.opener})])
    assert (await world.run(call.run_id)).attempts == 1
    await log.close_call(settled(open_by(log, call)), world.data("turn-end"))
    assert (await world.run(call.run_id)).attempts == 0


async def test_a_call_that_is_closed_late_goes_nowhere_after_the_end(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    later = await world.take(call.run_id)
    await world.end(later)
    before = await world.state(call.run_id)
    with pytest.raises(Fenced):
        await log.close_call(settled(call), world.data("late"))
    assert await world.state(call.run_id) == before


# Waiting calls


async def suspend(world: JournalBench, log: RunLog, call_id: str) -> None:
    call = planned(log, world.step(log), call_id, suspension=world.suspension())
    await log.suspend_calls([call])


async def test_call_without_a_suspension_cannot_wait(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.journaled(log, "c1")
    with pytest.raises(ValueError, match="suspension"):
        await log.suspend_calls([call])


async def test_waiting_call_reads_back_and_the_run_shows_as_suspended(world: JournalBench) -> None:
    log = await world.taken()
    expires = world.clock.now() + timedelta(days=2)
    suspension = world.suspension(expires_at=expires, payload={"x": 1})
    [call] = await world.waiting(log, "c1", suspension=suspension)
    assert (call.state, call.attempt, call.undecided) == (CallState.WAITING, 1, True)
    assert (call.token, call.opener, call.suspension) == (None, None, suspension)
    run = await world.run(call.run_id)
    assert (run.waiting, run.shown_status) == (frozenset({call.key}), Status.SUSPENDED)


async def test_undecided_call_is_neither_opened_nor_closed(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    with pytest.raises(Fenced):
        await log.open_calls([call])
    with pytest.raises(Fenced):
        await log.close_call(settled(call))
    assert await world.call(call) == call


async def test_decided_call_is_opened_once(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    decided = await world.decide(call)
    first, second = await world.join(call.run_id), await world.join(call.run_id)
    await first.open_calls([decided])
    with pytest.raises(Fenced):
        await second.open_calls([decided])
    assert (await world.call(call)).opener == first.opener
    assert (await world.call(call)).decision == decided.decision


async def test_denied_call_is_settled_without_being_opened(world: JournalBench) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    decided = await world.decide(call, kind=DecisionKind.DENIED, reason="no")
    assert (await world.run(call.run_id)).decided == {call.key}
    await log.close_call(settled(decided))
    closed = await world.call(call)
    assert (closed.state, closed.decision) == (CallState.SETTLED, decided.decision)
    run = await world.run(call.run_id)
    assert (run.waiting, run.decided) == (frozenset(), frozenset())


@pytest.mark.both_stores
async def test_waiting_again_is_a_new_attempt_without_token_and_decision(
    world: JournalBench,
) -> None:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    await world.store_token(call, "token")
    decided = await world.decide(await world.call(call))
    resume = await world.join(call.run_id)
    await resume.open_calls([decided])
    past = ({"attempt": 1, "kind": "approved"},)
    suspension = world.suspension(payload="more")
    again = open_by(resume, decided).model_copy(update={"suspension": suspension, "past": past})
    await resume.suspend_calls([again])
    now = await world.call(call)
    assert (now.state, now.attempt, now.token, now.decision) == (CallState.WAITING, 2, None, None)
    assert (now.suspension, now.past) == (suspension, past)
    run = await world.run(call.run_id)
    assert (run.waiting, run.decided) == (frozenset({call.key}), frozenset())
    # What looked at the first attempt finds it gone.
    assert await world.store_token(call, "late") is None
    with pytest.raises(Fenced):
        await resume.open_calls([decided])


@pytest.mark.both_stores
async def test_calls_are_cancelled_whatever_they_were(world: JournalBench) -> None:
    log = await world.taken()
    step = world.step(log, "c1", "c2", "c3")
    await log.put_step(step)
    await log.open_calls([planned(log, step, "c1")])
    await suspend(world, log, "c2")
    forced = await world.journal.writers.seize(world.owner, log.snapshot.meta.id)
    assert forced is not None
    third = planned(log, step, "c3")
    await forced.cancel_calls(cancelled([*forced.snapshot.calls, third]), world.data())
    with pytest.raises(Fenced):
        await log.close_call(settled(open_by(log, planned(log, step, "c1"))))
    snapshot = await snapshot_of(world, log)
    assert [(c.state, c.result) for c in snapshot.calls] == [(CallState.SETTLED, "Cancelled")] * 3
    assert snapshot.meta.waiting == frozenset()
    assert (await world.journal.decisions.page_pending(world.owner, None, 9, None)).items == ()


async def snapshot_of(world: JournalBench, log: RunLog) -> RunSnapshot:
    snapshot = await world.journal.runs.snapshot(world.owner, log.snapshot.meta.id)
    assert snapshot is not None
    return snapshot
