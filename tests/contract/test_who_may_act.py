"""Who may act on a run (docs/run-lifecycle.md#phases): the phase says which writer, the rev of each call
which of two that have read the same record."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.adapters.journal.heads import as_it_waits
from layover.errors import DecisionAlreadyMade, Fenced
from layover.ports import BeingEnded, RunLog, SetAside, StaleCall
from layover.ports.table import Action, Update, holds
from layover.values.decision import Vote
from layover.values.runs.run import WAITS_BY, CallRecord, DecisionKind, Phase, RunMeta, Status
from support.examples import examples
from support.filled import filled
from support.worlds.journal import JournalBench, cancelled, open_by, settled

REFUSED = (Fenced, StaleCall, DecisionAlreadyMade, BeingEnded)
_BASE = filled(RunMeta)


@dataclass
class Scene:
    """A run, and one call of it as every writer has read it."""

    call: CallRecord
    opener: RunLog
    """The writer that has the call open, if it is open."""


# The writers of one call


Writer = Callable[[JournalBench, Scene], Awaitable[None]]


async def decides(world: JournalBench, scene: Scene) -> None:
    await world.decide(scene.call)


async def expires(world: JournalBench, scene: Scene) -> None:
    await world.decide(scene.call, kind=DecisionKind.EXPIRED)


async def votes(world: JournalBench, scene: Scene) -> None:
    run, vote = await world.run(scene.call.run_id), Vote(by="bea", at=world.clock.now())
    await world.journal.decisions.vote(run, scene.call, [vote], world.decision())


async def extends(world: JournalBench, scene: Scene) -> None:
    later = scene.call.model_copy(update={"extended_to": world.clock.now()})
    run = await world.run(scene.call.run_id)
    await world.journal.decisions.amend(run, scene.call, later, world.data())


async def reminds(world: JournalBench, scene: Scene) -> None:
    reminded = scene.call.model_copy(update={"reminders": 1})
    run = await world.run(scene.call.run_id)
    await world.journal.decisions.amend(run, scene.call, reminded, world.data())


async def stores_a_token(world: JournalBench, scene: Scene) -> None:
    await world.store_token(scene.call, "a token")


async def cancels(world: JournalBench, scene: Scene) -> None:
    run = await world.run(scene.call.run_id)
    log = await world.journal.writers.seize(world.owner, run.id)
    assert log is not None
    await log.cancel_calls(cancelled([scene.call]), world.data())


async def branch_opens(world: JournalBench, scene: Scene) -> None:
    log = await world.join(scene.call.run_id)
    await log.open_calls([scene.call])


async def branch_settles(world: JournalBench, scene: Scene) -> None:
    log = await world.join(scene.call.run_id)
    await log.close_call(settled(scene.call), world.data())


async def branch_asks_again(world: JournalBench, scene: Scene) -> None:
    log = await world.join(scene.call.run_id)
    again = scene.call.model_copy(update={"suspension": world.suspension()})
    await log.suspend_calls([again])


async def next_turn(world: JournalBench, run_id: str) -> RunLog:
    log = await world.journal.writers.acquire(world.owner, run_id, f"{run_id}-1")
    if log is None:
        raise Fenced("somebody ends the run", run_id=run_id)
    return log


async def turn_opens(world: JournalBench, scene: Scene) -> None:
    log = await next_turn(world, scene.call.run_id)
    await log.open_calls([scene.call])


async def turn_settles(world: JournalBench, scene: Scene) -> None:
    log = await next_turn(world, scene.call.run_id)
    await log.close_call(settled(scene.call, "in doubt"), world.data())


async def opener_closes(world: JournalBench, scene: Scene) -> None:
    await scene.opener.close_call(settled(scene.call, "ran"), world.data())


async def opener_asks_again(world: JournalBench, scene: Scene) -> None:
    again = scene.call.model_copy(update={"suspension": world.suspension()})
    await scene.opener.suspend_calls([again])


async def waiting(world: JournalBench) -> Scene:
    log = await world.taken()
    [call] = await world.waiting(log, "c1")
    return Scene(call, log)


async def decided(world: JournalBench) -> Scene:
    scene = await waiting(world)
    return replace(scene, call=await world.decide(scene.call))


async def open_in_a_branch(world: JournalBench) -> Scene:
    scene = await decided(world)
    branch = await world.join(scene.call.run_id)
    await branch.open_calls([scene.call])
    return Scene(await world.call(scene.call), branch)


async def open_in_a_turn(world: JournalBench) -> Scene:
    log = await world.taken()
    [call] = await world.opened(log, "c1")
    return Scene(call, log)


ASKED: tuple[Writer, ...] = (decides, expires, votes, extends, reminds, stores_a_token, cancels)
DECIDED: tuple[Writer, ...] = (
    branch_opens,
    branch_settles,
    branch_asks_again,
    turn_opens,
    turn_settles,
    cancels,
)
BEGUN: tuple[Writer, ...] = (opener_closes, opener_asks_again, turn_settles, cancels)
PAIRS = [
    (begins, first, second)
    for begins, writers in (
        (waiting, ASKED),
        (decided, DECIDED),
        (open_in_a_branch, BEGUN),
        (open_in_a_turn, BEGUN),
    )
    for first in writers
    for second in writers
    # It reads the call itself, as often as it takes.
    if second is not stores_a_token
]
BRANCHES = (branch_opens, branch_settles, branch_asks_again)
LATE = [
    pair
    for pair in PAIRS
    # Once the others have the run, the first one is refused by that.
    if pair[2] in BRANCHES or (pair[0] is waiting and pair[1] is not pair[2])
]


def name_of(part: object) -> str:
    return str(getattr(part, "__name__", part))


def whole(state: dict[str, Any]) -> dict[str, Any]:
    """Return a run's records without what taking it changes."""
    taking = ("epoch", "attempts", "history", "takes", "by", "phase", "branches")
    meta = {name: value for name, value in state["META"].items() if name not in taking}
    return {**state, "META": meta}


@pytest.mark.both_stores
@pytest.mark.parametrize(("begins", "first", "second"), PAIRS, ids=name_of)
async def test_of_two_writers_that_read_the_same_call_one_is_refused(
    world: JournalBench,
    begins: Callable[[JournalBench], Awaitable[Scene]],
    first: Writer,
    second: Writer,
) -> None:
    scene = await begins(world)
    await first(world, scene)
    before = await world.state(scene.call.run_id)
    assert before[scene.call.key]["rev"] == (scene.call.rev or 0) + 1
    with pytest.raises(REFUSED):
        await second(world, scene)
    assert whole(await world.state(scene.call.run_id)) == whole(before)


@pytest.mark.parametrize(("begins", "first", "second"), LATE, ids=name_of)
async def test_a_writer_is_refused_at_the_last_moment_as_well(
    world: JournalBench,
    begins: Callable[[JournalBench], Awaitable[Scene]],
    first: Writer,
    second: Writer,
) -> None:
    """The first one writes right before the transaction of the second."""
    scene = await begins(world)
    meddled, table = world.meddled()
    transact, after_first = table.transact, dict[str, Any]()

    async def late(actions: Sequence[Action], token: str) -> None:
        if not after_first and any(action.sk == scene.call.key for action in actions):
            await first(world, scene)
            after_first.update(await world.state(scene.call.run_id))
        await transact(actions, token)

    table.transact = late  # type: ignore[method-assign]
    with pytest.raises(REFUSED):
        await second(meddled, scene)
    assert whole(await world.state(scene.call.run_id)) == whole(after_first)


async def test_a_call_of_a_release_without_revs_takes_its_first_write_once(
    world: JournalBench,
) -> None:
    scene = await waiting(world)
    pk = world.keys.run(scene.call.run_id)
    await world.table.write(Update(pk, scene.call.key, set={"rev": None}))
    old = await world.call(scene.call)
    assert old.rev == 0
    await world.decide(old)
    assert (await world.call(old)).rev == 1
    with pytest.raises(DecisionAlreadyMade):
        await world.decide(old)
    with pytest.raises(Fenced):
        await cancels(world, Scene(old, scene.opener))


# Phases


async def test_a_run_is_in_a_turn_then_rests_and_then_is_ended(world: JournalBench) -> None:
    run_id = await world.started()
    assert (await world.run(run_id)).phase is None
    log = await world.take(run_id)
    assert log.snapshot.meta.phase is (await world.run(run_id)).phase is Phase.TURN
    await world.leave(log)
    assert (await world.run(run_id)).phase is Phase.RESTING
    await by_a_successor(world, run_id)
    assert (await world.run(run_id)).phase is Phase.RESTING
    forced = await world.journal.writers.seize(world.owner, run_id)
    assert forced is not None
    assert forced.snapshot.meta.phase is (await world.run(run_id)).phase is Phase.ENDING


async def test_a_turn_that_lost_its_run_does_not_leave_it(world: JournalBench) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    for take in (by_a_turn, by_a_canceller):
        await take(world, run_id)
        before = await world.run(run_id)
        await world.leave(log)
        assert await world.run(run_id) == before


async def by_a_canceller(world: JournalBench, run_id: str) -> None:
    assert await world.journal.writers.seize(world.owner, run_id) is not None


async def by_a_turn(world: JournalBench, run_id: str) -> None:
    await world.take(run_id)


async def by_a_successor(world: JournalBench, run_id: str) -> None:
    assert await world.journal.commands.start_successor(world.owner, run_id, f"{run_id}-1") == 2


@pytest.mark.both_stores
@pytest.mark.parametrize(
    ("attaches", "taken"),
    [
        ("before", by_a_canceller),
        ("before", by_a_turn),
        ("before", by_a_successor),
        ("after", by_a_canceller),
        ("after", by_a_turn),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("writes", BRANCHES, ids=name_of)
async def test_a_branch_begins_and_settles_nothing_of_a_run_that_does_not_rest(
    world: JournalBench,
    writes: Writer,
    attaches: str,
    taken: Callable[[JournalBench, str], Awaitable[None]],
) -> None:
    """Whether it attached before the run was taken or afterwards, when it finds the taker's epoch."""
    scene = await decided(world)
    run_id = scene.call.run_id
    joined = await world.join(run_id)
    await taken(world, run_id)
    if attaches == "after":
        joined = await world.join(run_id)
    before = await world.state(run_id)

    async def join(run_id: str, n: int = 1) -> RunLog:
        return joined

    world.join = join  # type: ignore[method-assign]
    with pytest.raises(Fenced):
        await writes(world, scene)
    assert await world.state(run_id) == before


async def test_what_a_branch_opened_before_a_cancel_it_may_still_close(
    world: JournalBench,
) -> None:
    scene = await open_in_a_branch(world)
    log = await world.journal.writers.seize(world.owner, scene.call.run_id)
    assert log is not None
    await scene.opener.close_call(settled(scene.call, "paid"), world.data())
    with pytest.raises(Fenced):
        await log.cancel_calls(cancelled(log.snapshot.calls), world.data())
    assert (await world.call(scene.call)).result == "paid"


async def test_a_branch_that_runs_a_tool_is_work_and_one_that_is_done_is_not(
    world: JournalBench,
) -> None:
    log = await world.taken()
    first, second = await world.waiting(log, "c1", "c2")
    assert (await world.run(first.run_id)).only_waits
    decided = await world.decide(first)
    assert not (await world.run(first.run_id)).only_waits
    branch = await world.join(first.run_id)
    await branch.open_calls([decided])
    run = await world.run(first.run_id)
    assert (run.branches, run.decided, run.only_waits) == (
        frozenset({first.key}),
        frozenset(),
        False,
    )
    await branch.close_call(settled(open_by(branch, decided)), world.data())
    run = await world.run(first.run_id)
    assert (run.branches, run.waiting, run.only_waits) == (
        frozenset(),
        frozenset({second.key}),
        True,
    )


async def test_a_branch_whose_call_waits_again_is_no_longer_work(world: JournalBench) -> None:
    scene = await open_in_a_branch(world)
    assert not (await world.run(scene.call.run_id)).only_waits
    await opener_asks_again(world, scene)
    assert (await world.run(scene.call.run_id)).only_waits


async def test_what_a_branch_left_open_is_the_next_branchs_or_the_next_turns(
    world: JournalBench,
) -> None:
    scene = await open_in_a_branch(world)
    again = await world.join(scene.call.run_id)
    await again.close_call(settled(scene.call, "in doubt"), world.data())
    assert (await world.run(scene.call.run_id)).branches == frozenset()
    other = await open_in_a_branch(world)
    assert (await world.take(other.call.run_id)).snapshot.meta.branches == frozenset()


# Whoever ends a run


async def test_a_run_that_is_being_ended_is_taken_by_nobody_else(world: JournalBench) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    first = await world.journal.writers.seize(world.owner, run_id)
    assert first is not None
    before = await world.run(run_id)
    with pytest.raises(BeingEnded) as refusal:
        await world.journal.writers.seize(world.owner, run_id)
    assert refusal.value.epoch == before.epoch
    assert await world.journal.writers.acquire(world.owner, run_id, f"{run_id}-1") is None
    assert await world.run(run_id) == before
    await world.end(first, status=Status.CANCELLED)
    assert await world.journal.writers.seize(world.owner, run_id) is None


async def test_who_waited_for_the_end_in_vain_takes_the_run_once(world: JournalBench) -> None:
    log = await world.taken()
    run_id, seize = log.snapshot.meta.id, world.journal.writers.seize
    dead = await seize(world.owner, run_id)
    assert dead is not None
    epoch = dead.snapshot.meta.epoch
    second = await seize(world.owner, run_id, epoch)
    assert second is not None
    with pytest.raises(BeingEnded) as refusal:
        await seize(world.owner, run_id, epoch)
    assert refusal.value.epoch == second.snapshot.meta.epoch
    with pytest.raises(Fenced):
        await world.end(dead)
    await world.end(second)


async def test_a_successor_leads_out_of_an_end_that_nobody_writes(world: JournalBench) -> None:
    log = await world.taken()
    run_id = log.snapshot.meta.id
    assert await world.journal.writers.seize(world.owner, run_id) is not None
    assert await world.journal.commands.start_successor(world.owner, run_id, f"{run_id}-1") == 2
    assert (await world.take(run_id, 2)).snapshot.meta.phase is Phase.TURN


# Setting aside

STORED: dict[str, st.SearchStrategy[Any]] = {
    "status": st.sampled_from([Status.RUNNING, Status.QUEUED, Status.SUCCESS]),
    "phase": st.sampled_from([None, *Phase]),
    "epoch": st.integers(0, 2),
    "branches": st.sampled_from([frozenset(), frozenset({"a"})]),
    "waiting": st.sampled_from([frozenset(), frozenset({"a"}), frozenset({"a", "b"})]),
    "decided": st.sampled_from([frozenset(), frozenset({"a"})]),
    "cancel": st.booleans(),
}
FACTS = st.fixed_dictionaries(STORED)


@examples(200)
@given(read=FACTS, now=FACTS)
async def test_the_condition_to_set_a_run_aside_holds_while_it_is_as_it_was_read(
    read: dict[str, Any], now: dict[str, Any]
) -> None:
    run = _BASE.model_copy(update=read)
    stored = {n: v for n, v in now.items() if v is not None and v is not False and v != frozenset()}
    assert holds(as_it_waits(run), stored) == (read == now)


def test_every_field_by_which_a_run_only_waits_is_in_its_condition() -> None:
    assert set(STORED) == set(WAITS_BY)


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": Phase.TURN},
        {"phase": Phase.ENDING},
        {"phase": None},
        {"branches": frozenset({"a"})},
        {"waiting": frozenset()},
        {"decided": frozenset({"a"})},
        {"cancel": True},
        {"status": Status.SUCCESS},
    ],
)
def test_a_run_that_does_anything_but_wait_is_not_set_aside(changes: dict[str, Any]) -> None:
    nothing = {"decided": frozenset[str](), "branches": frozenset[str](), "cancel": False}
    waits = {"status": Status.RUNNING, "phase": Phase.RESTING, "waiting": frozenset({"b"})}
    run = _BASE.model_copy(update={**nothing, **waits})
    assert run.only_waits
    SetAside(run, "a message", run.created_at)
    with pytest.raises(ValueError, match="only waits"):
        SetAside(run.model_copy(update=changes), "a message", run.created_at)
