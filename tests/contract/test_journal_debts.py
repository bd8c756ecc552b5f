"""What a run owes stays in its record until it is paid, whatever becomes of its calls and of itself. In
memory and on DynamoDB."""

from datetime import timedelta

import pytest

from layover.values.decision import Vote
from layover.values.runs.debts import WAKE_CUT, Debt, DebtKind
from layover.values.runs.run import CallRecord, CallState, DecisionKind, Status
from support.worlds.journal import JournalBench

DAY = timedelta(days=1)


def of(call: CallRecord, kind: DebtKind = DebtKind.DECIDED) -> str:
    return str(Debt(kind, call.attempt, call.key))


async def owed(world: JournalBench, run_id: str) -> frozenset[str]:
    return (await world.run(run_id)).owed


async def one_waiting(world: JournalBench) -> CallRecord:
    [call] = await world.waiting(await world.taken(), "c1")
    return call


async def test_a_decision_is_owed_from_its_own_write_on(world: JournalBench) -> None:
    call = await one_waiting(world)
    assert await owed(world, call.run_id) == frozenset()
    await world.decide(call)
    assert await owed(world, call.run_id) == {of(call)}


async def test_settling_a_call_erases_no_debt(world: JournalBench) -> None:
    call = await world.decide(await one_waiting(world))
    log = await world.take(call.run_id)
    await log.open_calls([call])
    opened = await world.call(call)
    await log.close_call(opened)
    assert await owed(world, call.run_id) == {of(call)}


@pytest.mark.parametrize("way", ["opened", "declined", "asked again"])
async def test_the_write_that_takes_a_call_up_says_what_was_paid(
    world: JournalBench, way: str
) -> None:
    call = await world.decide(await one_waiting(world))
    log = await world.join(call.run_id)
    log.pay(frozenset({of(call)}))
    assert log.owed == frozenset()
    if way == "opened":
        await log.open_calls([call])
    elif way == "declined":
        await log.close_call(call)
    else:
        await log.suspend_calls([call])
    assert await owed(world, call.run_id) == frozenset()


async def test_a_debt_that_came_meanwhile_is_not_paid_with_another(world: JournalBench) -> None:
    first, second = await world.waiting(await world.taken(), "c1", "c2")
    first = await world.decide(first)
    log = await world.join(first.run_id)
    await world.decide(second)
    log.pay(frozenset({of(first)}))
    await log.open_calls([first])
    assert await owed(world, first.run_id) == {of(second)}


async def test_a_cut_call_is_owed_and_keeps_the_token_of_its_branch(world: JournalBench) -> None:
    first, second = await world.waiting(await world.taken(), "c1", "c2")
    await world.store_token(first, "a token")
    log = await world.journal.writers.seize(world.owner, first.run_id)
    assert log is not None
    cut = world.decision(kind=DecisionKind.CANCELLED)
    calls = [
        (await world.call(each)).model_copy(
            update={"state": CallState.SETTLED, "decision": cut, "is_error": True}
        )
        for each in (first, second)
    ]
    await log.cancel_calls(calls)
    debts = {of(first), of(second), WAKE_CUT}
    assert log.owed == await owed(world, first.run_id) == debts
    assert (await world.call(first)).token == "a token"
    log.pay(frozenset({of(first), of(second)}))
    ended = await log.end(world.outcome(log.snapshot.meta, Status.CANCELLED))
    assert ended.owed == await owed(world, first.run_id) == {WAKE_CUT}


async def test_a_run_that_owes_is_not_retired_and_stays_in_the_watch(world: JournalBench) -> None:
    call = await world.decide(await one_waiting(world))
    log = await world.take(call.run_id)
    await log.close_call(call)
    ended = await log.end(world.outcome(log.snapshot.meta), retention=DAY)
    assert not ended.retired
    assert ended.owed == {of(call)}
    await world.journal.expiry.set_ttl(world.owner, call.run_id, world.clock.now() + DAY)
    due = await world.journal.watch.due(world.clock.now(), 10_000)
    assert call.run_id in {each.run_id for each in due}
    paid = frozenset({of(call)})
    await world.journal.expiry.set_ttl(world.owner, call.run_id, world.clock.now() + DAY, paid)
    due = await world.journal.watch.due(world.clock.now(), 10_000)
    assert call.run_id not in {each.run_id for each in due}
    assert await owed(world, call.run_id) == frozenset()


async def test_a_look_of_the_sweeper_says_what_it_told(world: JournalBench) -> None:
    call = await world.decide(await one_waiting(world))
    look, paid = await world.look(call.run_id), frozenset({of(call)})
    assert await world.journal.watch.reschedule(look, world.clock.now() + DAY, paid=paid)
    assert await owed(world, call.run_id) == frozenset()


async def test_what_a_run_owes_is_looked_at_at_once(world: JournalBench) -> None:
    call = await one_waiting(world)
    await world.journal.watch.reschedule(await world.look(call.run_id), world.clock.now() + DAY)
    debt = Debt(DebtKind.REQUESTED, 1, call.key)
    await world.journal.commands.owe(world.owner, call.run_id, debt)
    assert await owed(world, call.run_id) == {str(debt)}
    assert (await world.look(call.run_id)).at == world.clock.now()


async def test_a_vote_is_owed_from_its_own_write_on(world: JournalBench) -> None:
    call = await one_waiting(world)
    run, vote = await world.run(call.run_id), Vote(by="bea", at=world.clock.now())
    await world.journal.decisions.vote(run, call, [vote], world.decision())
    assert await owed(world, call.run_id) == {of(call, DebtKind.VOTED)}
