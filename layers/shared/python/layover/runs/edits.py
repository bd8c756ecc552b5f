"""Calls that wait for a wish that its user takes back, by editing the message or by leaving it for another
branch (docs/behaviour.md#edits). Only requests and runs that begin a branch load this."""

from layover.approvals.decide import record_withdrawal, tell_and_wake
from layover.context.transcript import own_steps
from layover.errors import DecisionAlreadyMade
from layover.ports import StaleCall
from layover.records.threads import is_on_branch, live_messages
from layover.runs.cancel import cancel
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.run import (
    CallRecord,
    CallState,
    Decision,
    DecisionKind,
    RunMeta,
    RunSnapshot,
)
from layover.values.thread import ThreadHead

TAKEN_BACK = "its user took back the message that led to it"
"""The reason of such a withdrawal, as approvers and the model read it."""


async def withdraw_left(runtime: Runtime, run: RunMeta, by: Actor | None = None) -> None:
    """Withdraw what earlier runs of the thread wait for, if it is not on the branch that this run begins. A
    call whose rule keeps it says so from now on. A run that has nothing left to do ends: what it would say
    would be the thread's newest message. A decision that comes first stands. Repeatable. `by`: None: the
    run's owner."""
    actor = by or Actor(sub=run.owner)
    head = await runtime.journal.heads.get(run.owner, run.thread_id)
    for left in await _left_by(runtime, head, run) if head is not None else ():
        for call in left.calls:
            if call.undecided and call.rule is not None and call.rule.when_edited == "keep":
                await _mark(runtime, left.meta, call)
            elif call.undecided:
                await record_withdrawal(runtime, actor, left, call, TAKEN_BACK, tells=False)
        await _go_on(runtime, actor, left.meta)


async def _go_on(runtime: Runtime, actor: Actor, run: RunMeta) -> None:
    """End the run whose calls were taken back, or let it go on with a decision that came first."""
    now = await runtime.journal.runs.snapshot(run.owner, run.id)
    if now is None or now.meta.status.over:
        return
    in_progress = [
        call for call in now.calls if call.state is not CallState.SETTLED and call.child is None
    ]
    if any(map(_was_taken_back, now.calls)) and all(map(_was_taken_back, in_progress)):
        await cancel(runtime, run.owner, run.id, by=actor)
        return
    for call in filter(_was_taken_back, in_progress):
        await tell_and_wake(runtime, now.meta, call)


async def _left_by(runtime: Runtime, head: ThreadHead, run: RunMeta) -> list[RunSnapshot]:
    """Return the runs of the thread that wait, or waited until they were taken back, and came before this
    one, whose newest request is not on its branch."""
    earlier: list[tuple[RunSnapshot, str]] = []
    for run_id in (*head.waiting_runs, *filter(None, [head.active_run])):
        snapshot = await runtime.journal.runs.snapshot(head.owner, run_id)
        if snapshot is None or snapshot.meta.input.created_at >= run.input.created_at:
            continue
        if any(call.undecided or _was_taken_back(call) for call in snapshot.calls):
            steps = own_steps(snapshot)
            asks = steps[-1].message if steps else snapshot.meta.input
            earlier.append((snapshot, asks.id))
    live = await live_messages(runtime, head) if earlier else []
    parent_id = run.input.parent_id
    return [
        snapshot
        for snapshot, asks_id in earlier
        if not await is_on_branch(runtime, head, live, parent_id, {asks_id})
    ]


async def _mark(runtime: Runtime, run: RunMeta, call: CallRecord) -> None:
    """Note that what led to the call was taken back, unless a decision came first."""
    now: CallRecord | None = call
    while now is not None and now.undecided and now.taken_back_at is None:
        marked = now.model_copy(update={"taken_back_at": runtime.clock.now()})
        try:
            await runtime.journal.decisions.amend(run, now, marked)
        except DecisionAlreadyMade:
            return
        except StaleCall:
            now = await runtime.journal.runs.call(run.owner, run.id, call.key)
        else:
            return


def _was_taken_back(call: CallRecord) -> bool:
    match call.decision:
        case Decision(kind=DecisionKind.WITHDRAWN, reason=reason):
            return reason == TAKEN_BACK
    return False
