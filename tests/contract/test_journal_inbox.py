"""Calls that wait for others than their owner: votes, the inbox, and the way from a run to its owner. In
memory and on DynamoDB."""

import asyncio
from datetime import timedelta

import pytest

from layover.errors import DecisionAlreadyMade
from layover.keys import POINTER, pointer_partition
from layover.ports import StaleCall
from layover.values.decision import ApprovalRule, Vote
from layover.values.runs.event import ToolCallApproval
from layover.values.runs.run import CallRecord, DecisionKind
from support.worlds.journal import BIG, JournalBench, noise

pytestmark = pytest.mark.both_stores


async def asked(world: JournalBench, *groups: str, to: tuple[str, ...] = ()) -> CallRecord:
    """A call that waits for members of these groups, and may be escalated to others; no other test's have
    the names."""
    names, others = ([f"{g} of {world.owner}" for g in some] for some in (groups, to))
    rule = ApprovalRule(by=tuple(names), quorum=2, escalate_to=tuple(others))
    suspension = world.suspension(approval=rule)
    log = await world.taken()
    [call] = await world.journaled(log, "c1")
    await log.suspend_calls([call.model_copy(update={"suspension": suspension})])
    await world.leave(log)
    world.tick()
    return await world.call(call)


async def inbox(world: JournalBench, *groups: str, size: int = 10) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        names = [f"{g} of {world.owner}" for g in groups]
        page = await world.journal.inbox.page(names, size, cursor)
        assert len(page.items) <= size
        assert {a.owner for a in page.items} <= {world.owner}
        found += [a.approval.run_id for a in page.items]
        if (cursor := page.next_cursor) is None:
            return found


def vote(world: JournalBench, by: str, **more: object) -> Vote:
    return Vote.model_validate({"by": by, "at": world.clock.now(), **more})


async def cast(world: JournalBench, call: CallRecord, *votes: Vote) -> CallRecord:
    run = await world.run(call.run_id)
    event = ToolCallApproval(at=world.clock.now(), tool_call_id="c1", by=votes[-1].by)
    return await world.journal.decisions.vote(run, call, votes, world.decision(), event)


async def test_a_vote_that_saw_another_state_is_refused(world: JournalBench) -> None:
    call = await asked(world, "finance")
    await cast(world, call, vote(world, "bob"))
    before = await world.state(call.run_id)
    with pytest.raises(StaleCall):
        await cast(world, call, vote(world, "carol"))
    run = await world.run(call.run_id)
    with pytest.raises(StaleCall):
        await world.journal.decisions.decide(
            run, call, world.decision(), votes=[vote(world, "carol")]
        )
    assert await world.state(call.run_id) == before


async def test_a_decided_call_takes_no_vote(world: JournalBench) -> None:
    call = await asked(world, "finance")
    await world.decide(call, kind=DecisionKind.DENIED)
    with pytest.raises(DecisionAlreadyMade):
        await cast(world, call, vote(world, "bob"))


async def test_a_run_that_asks_nobody_else_is_found_by_nobody(world: JournalBench) -> None:
    [call] = await world.waiting(await world.taken(), "c1")
    assert await world.journal.inbox.owner_of(call.run_id) is None
    assert await world.journal.inbox.owner_of("unknown") is None
    assert await inbox(world, "finance") == []


async def test_of_votes_at_once_that_saw_the_same_one_stands(world: JournalBench) -> None:
    call = await asked(world, "finance")
    votes = [vote(world, f"p{n}") for n in range(5)]
    done = await asyncio.gather(*(cast(world, call, v) for v in votes), return_exceptions=True)
    assert sum(isinstance(d, StaleCall) for d in done) == 4, done
    assert len((await world.call(call)).votes) == 1


async def test_a_large_vote_goes_with_the_records_of_its_run(world: JournalBench) -> None:
    call = await asked(world, "finance")
    large = vote(world, "bob", args={"text": noise(BIG)})
    await cast(world, call, large)
    log = await world.join(call.run_id)
    await world.end(log)
    meta, expires = log.snapshot.meta, world.clock.now() + timedelta(days=30)
    await world.journal.expiry.set_ttl(world.owner, meta.id, expires)
    [due] = await world.journal.dues.of(world.owner)
    assert (due.kind, due.name, due.at) == ("run", f"{meta.thread_id}/{meta.id}", expires)
    pointer = await world.table.get(pointer_partition(meta.id), POINTER)
    assert pointer is not None
    assert pointer["expires"] == int(expires.timestamp())
    await world.journal.erasure.erase_run(world.owner, meta.thread_id, meta.id)
    assert await world.journal.inbox.owner_of(meta.id) is None
    assert await world.blobs.keys(world.keys.bodies(meta.thread_id, meta.id)) == []


async def test_a_vote_is_kept_as_it_was_given_however_large(world: JournalBench) -> None:
    call = await asked(world, "finance")
    given = vote(world, "bob", reason="fine", args={"text": noise(BIG)})
    voted = await cast(world, call, given)
    assert (voted.votes, voted.voted, voted.undecided) == ((given,), 1, True)
    run = await world.run(call.run_id)
    both = [given, vote(world, "carol")]
    decided = await world.journal.decisions.decide(run, voted, world.decision(), votes=both)
    assert decided.votes == tuple(both)
    resume = await world.join(call.run_id)
    await resume.open_calls([decided])
    assert (await world.call(call)).votes == tuple(both)


async def test_a_call_is_in_the_inbox_of_each_of_its_groups_until_it_is_decided(
    world: JournalBench,
) -> None:
    one, two = await asked(world, "finance"), await asked(world, "board", "finance")
    three = await asked(world, "ops")
    for size in (1, 2, 10):
        assert await inbox(world, "finance", "nobody", size=size) == [one.run_id, two.run_id]
    assert await inbox(world, "ops", "board") == [two.run_id, three.run_id]
    voted = await cast(world, two, vote(world, "bob"))
    assert await inbox(world, "board") == [two.run_id]
    await world.decide(voted)
    assert await inbox(world, "board", "finance") == [one.run_id]
    assert await world.journal.inbox.owner_of(two.run_id) == world.owner


async def test_the_way_to_the_owner_goes_with_the_run(world: JournalBench) -> None:
    call = await asked(world, "finance")
    log = await world.join(call.run_id)
    await world.end(log)
    thread_id = log.snapshot.meta.thread_id
    await world.journal.erasure.mark_deleted(world.owner, thread_id)
    await world.journal.erasure.erase_runs(world.owner, thread_id)
    assert await world.journal.inbox.owner_of(call.run_id) is None
    assert await inbox(world, "finance") == []


async def escalate(world: JournalBench, call: CallRecord) -> None:
    escalated = call.model_copy(update={"escalated": True})
    await world.journal.decisions.amend(await world.run(call.run_id), call, escalated)


async def test_an_escalated_call_is_in_the_lists_of_its_first_and_its_new_approvers_once(
    world: JournalBench,
) -> None:
    first, call = await asked(world, "board"), await asked(world, "finance", to=("board", "audit"))
    last = await asked(world, "finance", "board")
    await escalate(world, call)
    assert await inbox(world, "finance") == [call.run_id, last.run_id]
    assert await inbox(world, "audit") == [call.run_id]
    in_order = [first.run_id, call.run_id, last.run_id]
    assert await inbox(world, "finance", "board", "audit") == in_order
    assert await inbox(world, "finance", "board", "audit", size=1) == in_order
    await world.decide(await world.call(call))
    assert await inbox(world, "audit") == []


async def test_a_call_that_is_decided_is_not_escalated_and_stays_out_of_the_lists(
    world: JournalBench,
) -> None:
    call = await asked(world, "finance", to=("board",))
    await world.decide(call)
    with pytest.raises(DecisionAlreadyMade):
        await escalate(world, call)
    assert await inbox(world, "board", "finance") == []
