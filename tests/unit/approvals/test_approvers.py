"""Calls that others than the run's owner decide, alone or together."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover.approvals import decide as approvals
from layover.approvals import lists
from layover.approvals.approvers import edit_of
from layover.approvals.decide import DecisionOutcome, DecisionRequest, Verdict
from layover.approvals.lists import list_decisions
from layover.errors import DecisionAlreadyMade, DecisionInvalid, NotAnApprover, NotFound
from layover.runs import read as runs
from layover.runs.cancel import cancel
from layover.threads import threads
from layover.values.decision import ApprovalRule
from layover.values.deployment.access import Actor
from layover.values.runs.event import ToolCallApproval
from layover.values.runs.run import CallState, SuspensionKind
from layover.values.runs.views import Run, RunGlimpse, VotedGlimpse, VotedRun
from support.worlds.services import ANN, ServiceBench

APPROVE, DENY = DecisionRequest(Verdict.APPROVE), DecisionRequest(Verdict.DENY)
FINANCE = ApprovalRule(by=("finance", "board"))
OWNER = Actor(sub=ANN)


def member(sub: str, *groups: str, **more: Any) -> Actor:
    return Actor(sub=sub, groups=frozenset(groups or ("finance",)), **more)


BOB, CAROL = member("bob"), member("carol", "board", "ops")


async def asked(world: ServiceBench, **rule: Any) -> Run:
    run, call = await world.suspended(approval=FINANCE.model_copy(update=rule))
    await world.token(call)
    return run


async def decide(
    world: ServiceBench, run: Run, by: Actor, request: DecisionRequest = APPROVE
) -> DecisionOutcome:
    return await approvals.decide(world.runtime, by, run.id, "c1", request)


async def told(world: ServiceBench, run: Run) -> list[tuple[str, str]]:
    events = (await runs.events(world.runtime, ANN, run.id, 0, 99)).items
    return [(e.type, str(getattr(e, "by", None) or getattr(e, "decided_by", ""))) for e in events]


async def inbox(world: ServiceBench, who: Actor, size: int = 20) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = await lists.list_for_approver(world.runtime, who, size, cursor)
        found += [a.run_id for a in page.items]
        if (cursor := page.next_cursor) is None:
            return found


# Callers that may not decide


@pytest.mark.parametrize(
    "who",
    [
        OWNER,
        member(ANN),
        Actor(sub="shop", on_behalf_of=ANN, groups=frozenset({"finance"})),
        member(ANN, on_behalf_of="bob"),
    ],
    ids=["owner", "owner in the group", "backend for the owner", "owner for somebody else"],
)
@pytest.mark.parametrize("request_", [APPROVE, DENY, DecisionRequest(Verdict.APPROVE, attempt=7)])
async def test_whoever_asked_does_not_decide(
    world: ServiceBench, who: Actor, request_: DecisionRequest
) -> None:
    run = await asked(world)
    refusal = NotAnApprover if who.owner == ANN else NotFound
    with pytest.raises(refusal):
        await decide(world, run, who, request_)
    assert (await told(world, run), world.callbacks.woken) == ([], [])


async def test_the_refusal_names_who_decides(world: ServiceBench) -> None:
    with pytest.raises(NotAnApprover, match="a member of finance or board") as refused:
        await decide(world, await asked(world), OWNER)
    assert refused.value.by == ("finance", "board")


@pytest.mark.parametrize(
    "who", [Actor(sub="bob"), member("bob", "ops"), member("bob", "financial")]
)
async def test_for_members_of_no_group_of_it_the_run_is_not_there(
    world: ServiceBench, who: Actor
) -> None:
    run = await asked(world)
    with pytest.raises(NotFound) as refused:
        await decide(world, run, who)
    with pytest.raises(NotFound) as unknown:
        await approvals.decide(world.runtime, who, "run_unknown", "c1", APPROVE)
    assert (refused.value.message, set(refused.value.ids)) == (
        unknown.value.message,
        set(unknown.value.ids),
    )
    assert await inbox(world, who) == []


async def test_an_approver_decides_nothing_else_of_the_run(world: ServiceBench) -> None:
    run = await world.run((await world.thread()).id)
    log = await world.take(run.id)
    step = await world.step(
        log, "", ("c1", "refund", {}), ("c2", "refund", {}), ("c3", "refund", {})
    )
    await world.suspend(log, step, "c1", approval=FINANCE)
    await world.suspend(log, step, "c2", SuspensionKind.INPUT)
    for call in ("c2", "c3", "c9"):
        with pytest.raises(NotFound):
            await approvals.decide(world.runtime, BOB, run.id, call, APPROVE)
    with pytest.raises(NotFound):
        await runs.get(world.runtime, "bob", run.id)


async def test_an_approver_of_a_deleted_thread_finds_nothing(world: ServiceBench) -> None:
    run = await asked(world)
    await threads.delete(world.runtime, ANN, run.thread_id)
    assert await inbox(world, BOB) == []
    with pytest.raises(NotFound):
        await decide(world, run, BOB)


@pytest.mark.parametrize("reason", [None, "", " \n"])
@pytest.mark.parametrize("verdict", [Verdict.APPROVE, Verdict.DENY])
async def test_a_reason_that_is_required_is_asked_for(
    world: ServiceBench, verdict: Verdict, reason: str | None
) -> None:
    run = await asked(world, reason_required=True)
    with pytest.raises(DecisionInvalid) as refused:
        await decide(world, run, BOB, DecisionRequest(verdict, reason=reason))
    assert refused.value.errors[0]["loc"] == ["body", "reason"]
    await decide(world, run, BOB, DecisionRequest(verdict, reason="because"))


# Callers that may decide


async def test_a_member_decides_and_sees_nothing_but_the_status(world: ServiceBench) -> None:
    run = await asked(world)
    answer = await decide(world, run, BOB, DecisionRequest(Verdict.APPROVE, reason="fine"))
    assert answer == DecisionOutcome(RunGlimpse(id=run.id, status="running"))
    assert await told(world, run) == [("tool-call-decided", "bob")]
    assert world.callbacks.woken == [f"token of {run.id}"]
    again = await decide(world, run, BOB, DecisionRequest(Verdict.APPROVE, reason="fine"))
    assert again == DecisionOutcome(RunGlimpse(id=run.id, status="running"), again=True)
    with pytest.raises(DecisionAlreadyMade):
        await decide(world, run, CAROL)


async def test_an_owner_decides_where_the_rule_lets_members_who_asked(world: ServiceBench) -> None:
    run = await asked(world, requester=True)
    with pytest.raises(NotAnApprover):
        await decide(world, run, OWNER)
    answer = await decide(world, run, member(ANN))
    assert isinstance(answer.run, Run)


async def test_whoever_runs_the_agent_themselves_decides_alone(world: ServiceBench) -> None:
    run = await asked(world, quorum=3)
    await decide(world, run, Actor(sub=ANN, in_process=True))
    assert await told(world, run) == [("tool-call-decided", ANN)]


# What waits for them


async def test_an_inbox_shows_what_its_groups_decide_over_all_users_oldest_first(
    world: ServiceBench,
) -> None:
    every = [await asked(world, by=by) for by in (("finance",), ("ops",), ("board", "finance"))]
    mine, _ = await world.suspended()
    assert mine.id not in await inbox(world, member("bob", "finance", "ops", "board"))
    for size in (1, 2, 20):
        assert await inbox(world, BOB, size) == [every[0].id, every[2].id]
        assert await inbox(world, CAROL, size) == [every[1].id, every[2].id]
    assert await inbox(world, member(ANN)) == []
    assert await inbox(world, Actor(sub="bob")) == []


async def test_an_item_has_what_it_takes_to_decide_and_nothing_of_the_thread(
    world: ServiceBench,
) -> None:
    run = await asked(world, quorum=2)
    await decide(world, run, CAROL)
    [item] = (await lists.list_for_approver(world.runtime, BOB, 20, None)).items
    [own] = (await runs.get(world.runtime, ANN, run.id)).pending
    shown = item.model_dump(mode="json")
    of_the_run = {"owner": ANN, "run_id": run.id, "agent": run.agent}
    assert shown == own.model_dump(mode="json") | of_the_run
    approval = shown["approval"]
    assert (approval["by"], approval["quorum"]) == (["finance", "board"], 2)
    [given] = approval["given"]
    assert (given.keys(), given["by"]) == ({"by", "at"}, "carol")


@pytest.mark.parametrize(
    ("owner", "requester", "listed"),
    [
        (OWNER, False, False),
        (OWNER, True, False),
        (member(ANN), False, False),
        (member(ANN), True, True),
        (Actor(sub="shop", on_behalf_of=ANN), True, False),
        (Actor(sub="shop", on_behalf_of=ANN, groups=BOB.groups), True, True),
        (Actor(sub=ANN, in_process=True), False, True),
    ],
    ids=[
        "owner",
        "owner outside of its groups",
        "owner in a group that decides for others only",
        "owner in a group of it",
        "backend outside of its groups",
        "backend in a group of it",
        "process that runs the agent",
    ],
)
async def test_an_owner_is_shown_exactly_the_calls_that_the_owner_may_decide(
    world: ServiceBench, owner: Actor, requester: bool, listed: bool
) -> None:
    run = await asked(world, requester=requester)
    own, _ = await world.suspended()
    items = (await lists.list_approvals(world.runtime, owner, None, 20, None)).items
    assert [a.run_id for a in items] == ([run.id, own.id] if listed else [own.id])
    for_thread = await lists.list_approvals(world.runtime, owner, run.thread_id, 20, None)
    assert len(for_thread.items) == int(listed)
    # What the list leaves out is still with the run.
    assert len((await runs.get(world.runtime, ANN, run.id)).pending) == 1
    if listed:
        assert (await decide(world, run, owner)).run.status == "running"
    else:
        with pytest.raises(NotAnApprover):
            await decide(world, run, owner)


async def test_calls_of_others_do_not_end_the_owners_list(world: ServiceBench) -> None:
    for _ in range(3):
        await asked(world)
    own, _ = await world.suspended()
    listed: list[str] = []
    cursor, more = None, True
    while more:
        page = await lists.list_approvals(world.runtime, OWNER, None, 1, cursor)
        listed += [a.run_id for a in page.items]
        cursor, more = page.next_cursor, page.next_cursor is not None
    assert listed == [own.id]


async def test_a_call_stays_in_the_list_of_a_voter_who_may_change_the_vote(
    world: ServiceBench,
) -> None:
    run = await asked(world, quorum=2)
    await decide(world, run, BOB)
    assert await inbox(world, BOB) == [run.id]
    assert isinstance((await decide(world, run, BOB, DENY)).run, VotedGlimpse)
    assert await inbox(world, BOB) == []


async def test_what_is_settled_leaves_the_inbox_at_once(world: ServiceBench) -> None:
    decided, cut, again = [await asked(world) for _ in range(3)]
    await decide(world, decided, BOB, DENY)
    assert await inbox(world, BOB) == [cut.id, again.id]
    await cancel(world.runtime, ANN, cut.id)
    assert await inbox(world, BOB) == [again.id]


async def test_a_call_that_waits_again_is_in_the_inbox_again(world: ServiceBench) -> None:
    run = await asked(world)
    await decide(world, run, BOB)
    log = await world.journal.writers.attach(ANN, run.id, f"{run.id}-1")
    assert log is not None
    [decided] = log.snapshot.calls
    await log.open_calls([decided])
    assert await inbox(world, BOB) == []
    await log.suspend_calls([decided.written(state=CallState.OPEN, opener=log.opener)])
    assert await inbox(world, BOB) == [run.id]


async def test_a_long_wait_stays_in_the_inbox(world: ServiceBench) -> None:
    run = await asked(world)
    world.clock.advance(timedelta(days=365))
    assert await inbox(world, BOB) == [run.id]


# Several of them


async def test_one_approval_of_two_settles_nothing(world: ServiceBench) -> None:
    run = await asked(world, quorum=2)
    answer = await decide(world, run, BOB)
    assert type(answer.run) is VotedGlimpse
    assert (answer.run.id, answer.run.status) == (run.id, "suspended")
    assert await told(world, run) == [("tool-call-approval", "bob")]
    assert (world.callbacks.woken, await inbox(world, CAROL)) == ([], [run.id])
    rows = (await list_decisions(world.runtime, None, None, 9, None)).items
    assert [(r.decided_by, r.decision, r.settled) for r in rows] == [("bob", "approved", False)]


def count(answer: DecisionOutcome) -> tuple[list[str], int, bool]:
    assert isinstance(answer.run, VotedRun | VotedGlimpse)
    return [v.person for v in answer.run.given], answer.run.quorum, answer.run.settled


async def test_a_votes_answer_counts_the_votes_and_says_whether_they_settle(
    world: ServiceBench,
) -> None:
    run = await asked(world, quorum=2)
    assert count(await decide(world, run, BOB)) == (["bob"], 2, False)
    assert count(await decide(world, run, BOB)) == (["bob"], 2, False)
    last = await decide(world, run, CAROL)
    assert count(last) == (["bob", "carol"], 2, True)
    # Told again, whoever asks: the first answer may have been lost.
    for who in (BOB, CAROL):
        again = await decide(world, run, who)
        assert (again.again, count(again)) == (True, count(last))


async def test_votes_for_other_arguments_are_counted_and_settle_nothing(
    world: ServiceBench,
) -> None:
    run = await asked(world, quorum=2)
    less = DecisionRequest(Verdict.APPROVE, args={"order_id": "o1", "amount": 8})
    await decide(world, run, BOB, less)
    assert count(await decide(world, run, CAROL)) == (["bob", "carol"], 2, False)


async def test_a_denials_answer_says_that_it_settles(world: ServiceBench) -> None:
    run = await asked(world, quorum=3)
    await decide(world, run, CAROL)
    assert count(await decide(world, run, BOB, DENY)) == (["carol"], 3, True)


async def test_an_owner_who_votes_gets_the_run_with_the_votes(world: ServiceBench) -> None:
    run = await asked(world, quorum=2, requester=True)
    answer = await decide(world, run, member(ANN))
    assert count(answer) == ([ANN], 2, False)
    assert isinstance(answer.run, VotedRun)
    seen = await runs.get(world.runtime, ANN, run.id)
    assert answer.run.model_dump(exclude={"given", "quorum", "settled"}) == seen.model_dump()


@pytest.mark.parametrize("rule", [{"quorum": 1}, None], ids=["one approver", "the owner"])
async def test_a_decision_that_takes_one_person_has_no_votes_in_its_answer(
    world: ServiceBench, rule: dict[str, int] | None
) -> None:
    if rule is None:
        run, call = await world.suspended()
        await world.token(call)
        assert type((await decide(world, run, OWNER)).run) is Run
    else:
        assert type((await decide(world, await asked(world, **rule), BOB)).run) is RunGlimpse


@pytest.mark.parametrize(
    "second",
    [BOB, member("bob", "board"), Actor(sub="shop", on_behalf_of="bob", groups=BOB.groups)],
    ids=["herself", "in another group", "through a backend"],
)
async def test_a_person_counts_once(world: ServiceBench, second: Actor) -> None:
    run = await asked(world, quorum=2)
    await decide(world, run, BOB)
    assert (await decide(world, run, second)).run.status == "suspended"
    await decide(world, run, CAROL)
    assert (await told(world, run))[-1] == ("tool-call-decided", "carol")


async def test_the_same_vote_again_is_told_once(world: ServiceBench) -> None:
    run = await asked(world, quorum=2)
    await decide(world, run, BOB)
    assert (await decide(world, run, BOB)).again
    assert await told(world, run) == [("tool-call-approval", "bob")]
    await decide(world, run, CAROL)
    assert (await decide(world, run, BOB)).again
    assert (await decide(world, run, CAROL)).again


async def test_one_denial_settles_whoever_approved_before(world: ServiceBench) -> None:
    run = await asked(world, quorum=3)
    await decide(world, run, CAROL)
    await decide(world, run, BOB, DENY)
    assert await told(world, run) == [("tool-call-approval", "carol"), ("tool-call-decided", "bob")]


async def test_approvals_of_other_arguments_are_no_approval_of_these(world: ServiceBench) -> None:
    run = await asked(world, quorum=2)
    less = DecisionRequest(Verdict.APPROVE, args={"order_id": "o1", "amount": 8})
    same = DecisionRequest(Verdict.APPROVE, args={"order_id": "o1", "amount": 80})
    await decide(world, run, BOB, less)
    assert (await decide(world, run, CAROL)).run.status == "suspended"
    # A voter who sends the model's own arguments approves its request; a voter who changes their mind does
    # so.
    await decide(world, run, BOB, same)
    assert (await told(world, run))[-1] == ("tool-call-decided", "bob")


async def test_the_events_of_votes_say_what_the_call_has(world: ServiceBench) -> None:
    """Who follows a run counts as the API does: each person once, by the arguments."""
    run = await asked(world, quorum=3)
    less = {"order_id": "o1", "amount": 8}
    same = {"amount": 80, "order_id": "o1"}
    carol = Actor(sub="shop", on_behalf_of="carol", groups=BOB.groups)
    await decide(world, run, BOB, DecisionRequest(Verdict.APPROVE, args=less, reason="enough"))
    await decide(world, run, carol, DecisionRequest(Verdict.APPROVE, args=same))
    await decide(world, run, BOB, DecisionRequest(Verdict.APPROVE, args=less))
    items = (await runs.events(world.runtime, ANN, run.id, 0, 99)).items
    votes = [e for e in items if isinstance(e, ToolCallApproval)]
    facts = [(v.by, v.on_behalf_of, v.args, v.reason) for v in votes]
    assert facts == [
        ("bob", None, less, "enough"),
        # Arguments that are those of the request are no edit.
        ("shop", "carol", None, None),
        ("bob", None, less, None),
    ]
    newest = {vote.vote.person: vote.vote for vote in votes}
    snapshot = await world.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    [call] = snapshot.calls
    assert {v.person: (v.at, edit_of(call, v), v.reason) for v in call.votes} == {
        person: (v.at, v.args, v.reason) for person, v in newest.items()
    }


async def test_a_decided_call_says_who_approved_it(world: ServiceBench) -> None:
    run = await asked(world, quorum=2)
    await decide(world, run, BOB, DecisionRequest(Verdict.APPROVE, reason="it is right"))
    await decide(world, run, CAROL)
    log = await world.journal.writers.attach(ANN, run.id, f"{run.id}-1")
    assert log is not None
    [decided] = log.snapshot.calls
    await log.open_calls([decided])
    opened = decided.written(state=CallState.OPEN, opener=log.opener)
    await log.close_call(opened.model_copy(update={"result": "paid"}))
    view = await runs.get(world.runtime, ANN, run.id)
    [note] = [p.decision for m in view.messages for p in m.content if p.type == "tool_result"]
    assert note is not None
    assert [(v.by, v.reason) for v in note.given] == [("bob", "it is right"), ("carol", None)]


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_the_race_a_quorum_is_as_many_persons_as_it_says(
    world: ServiceBench, seed: int
) -> None:
    """Many persons, each several times and on several ways, all at once."""
    dice = random.Random(seed)
    quorum, persons = dice.randint(2, 4), dice.randint(1, 6)
    run = await asked(world, quorum=quorum)
    shops = [Actor(sub="shop", on_behalf_of=f"p{n}", groups=BOB.groups) for n in range(persons)]
    voters = [*(member(f"p{n}") for n in range(persons)), *shops] * 2
    dice.shuffle(voters)
    answers = await asyncio.gather(
        *(decide(world, run, who) for who in voters), return_exceptions=True
    )
    assert all(isinstance(a, DecisionOutcome | DecisionAlreadyMade) for a in answers), answers
    events = [kind for kind, _ in await told(world, run)]
    settled = persons >= quorum
    assert events.count("tool-call-decided") == int(settled)
    assert events[-1] == ("tool-call-decided" if settled else "tool-call-approval")
    snapshot = await world.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    [call] = snapshot.calls
    assert len({v.person for v in call.votes}) == len(call.votes) == min(quorum, persons)
    assert (call.decision is not None) == settled
    rows = (await list_decisions(world.runtime, None, None, 100, None)).items
    assert len(rows) == len(events)
    assert [r.settled for r in rows].count(True) == int(settled)


async def test_a_denial_among_many_approvals_at_once_leaves_one_outcome(
    world: ServiceBench,
) -> None:
    run = await asked(world, quorum=3)
    wanted = [(member(f"p{n}"), APPROVE) for n in range(6)] + [(CAROL, DENY)]
    await asyncio.gather(*(decide(world, run, *w) for w in wanted), return_exceptions=True)
    events = [kind for kind, _ in await told(world, run)]
    assert events.count("tool-call-decided") == 1
    assert events[-1] == "tool-call-decided"


async def test_votes_of_an_earlier_attempt_count_for_nothing(world: ServiceBench) -> None:
    run = await asked(world, quorum=2)
    await decide(world, run, BOB)
    await decide(world, run, CAROL)
    log = await world.journal.writers.attach(ANN, run.id, f"{run.id}-1")
    assert log is not None
    [decided] = log.snapshot.calls
    await log.open_calls([decided])
    opened = decided.written(state=CallState.OPEN, opener=log.opener)
    await log.suspend_calls([opened])
    fresh = replace(APPROVE, attempt=2)
    assert (await decide(world, run, BOB, fresh)).run.status == "suspended"
    await decide(world, run, CAROL, fresh)
    assert (await told(world, run))[-1] == ("tool-call-decided", "carol")
