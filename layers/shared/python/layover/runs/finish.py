"""The end of a run (docs/behaviour.md#end-of-run): first the database, then one transaction that frees
the thread."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from layover.approvals.bus import publish_end
from layover.approvals.outbox import tell, wake_cut
from layover.batches import batched
from layover.context.fit import learned_windows
from layover.context.tokens import with_token_count
from layover.context.transcript import Branch, branch
from layover.engine.progress import Over
from layover.engine.state import RunState
from layover.errors import Fenced
from layover.keys import path_of
from layover.metering.allowance import release_room
from layover.metering.usage import usage_of_steps
from layover.ports import MAX_CANCELLED, Ended, RunLog
from layover.records.past_runs import tree_of
from layover.records.views import last_model, run_view
from layover.runs.aside import branch_up_to, save_ahead, save_waiting
from layover.runs.executions import start_execution
from layover.runtime import Runtime
from layover.values.memory.context import TurnRecord
from layover.values.message import Message, ToolResultPart
from layover.values.metrics import END_LINE
from layover.values.runs.event import (
    AgentEnd,
    ErrorEvent,
    Event,
    Finish,
    MessageEvent,
    ToolCallDecided,
    ToolExecutionEnd,
)
from layover.values.runs.run import (
    BUDGET_TOOL,
    SYSTEM,
    CallRecord,
    CallState,
    Decision,
    DecisionKind,
    FinishReason,
    Outcome,
    RunMeta,
    Status,
    Via,
)
from layover.values.runs.views import Run
from layover.values.thread import ThreadHead

logger = logging.getLogger("layover")

TOLD_WITHIN = timedelta(seconds=2)
"""The time that the bus has to take an end. The run is over, and nobody waits for that."""
PUBLISH_HAS_S = 0.3
"""Seconds that the bus has to take what the run owes, before the run ends. A bus that is away does not delay
a cancel: the sweeper asks it again."""
_Save = Callable[[TurnRecord], Awaitable[bool]]
"""Saves a run to the database, and returns whether it is there."""


def thread_of(log: RunLog) -> ThreadHead:
    """Return the head of the thread of a run that was taken. Raises Fenced if the thread is gone for good."""
    if log.head is None:
        meta = log.snapshot.meta
        raise Fenced("the thread is gone", run_id=meta.id, thread_id=meta.thread_id)
    return log.head


async def head_now(runtime: Runtime, run: RunMeta) -> ThreadHead:
    """Return the head of the run's thread as it is now. Raises Fenced as `thread_of` does."""
    head = await runtime.journal.heads.get(run.owner, run.thread_id)
    if head is None:
        raise Fenced("the thread is gone", run_id=run.id, thread_id=run.thread_id)
    return head


async def end_run(
    runtime: Runtime,
    log: RunLog,
    state: RunState,
    head: ThreadHead,
    *,
    over: Over,
    retention: timedelta | None = None,
) -> Ended:
    """Save the run's messages, end it, start the next run in the queue. `retention` as in `RunLog.end`.
    Raises RetryableError while the database is unavailable; the run is then not over."""

    async def save(record: TurnRecord) -> bool:
        # Errors are raised, so that the turn is tried again. A run that succeeded is not over before the
        # database has it, since the next run of its thread may read the history at once.
        await runtime.threads.save_turn(record)
        return True

    # The execution of a run tells its end, and is repeated if it dies before. An end other than a success
    # tells the sweeper too: operators count on it, and a write more makes no run dearer that succeeds.
    untold = over.status is not Status.SUCCESS
    return await _end(
        runtime, log, state, head, over=over, save=save, retention=retention, untold=untold
    )


async def tell_end(runtime: Runtime, run: RunMeta) -> bool:
    """Tell the bus of a run that is over. Return False if the bus did not take it in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(TOLD_WITHIN.total_seconds()):
            return await publish_end(runtime, run)
    return False


async def end_even_unsaved(
    runtime: Runtime,
    log: RunLog,
    state: RunState,
    head: ThreadHead,
    over: Over,
    *,
    within: timedelta | None = None,
) -> None:
    """End a run that will not be tried again. A database that is unavailable, or does not answer `within`
    this time, does not delay the end. The thread is freed and marked unsaved, and its next turn, or the
    sweeper, saves the run from the journal."""

    async def save(record: TurnRecord) -> bool:
        if head.unsaved:
            # If its parent were missing from the database, it would begin another branch.
            return False
        try:
            async with asyncio.timeout(within.total_seconds() if within else None):
                await save_ahead(runtime, head, log.snapshot)
                await runtime.threads.save_turn(record)
        except Exception as error:  # the process that saves the run later will meet it too
            logger.warning(
                "the run is saved later",
                extra={"run_id": state.meta.id, "cause": type(error).__name__},
            )
            return False
        return True

    # Whoever ends a run by force is not repeated: the sweeper tells.
    await _end(runtime, log, state, head, over=over, save=save, untold=True)


async def save_unsaved(runtime: Runtime, head: ThreadHead) -> None:
    """Write the messages and the usage of the thread's unsaved runs to the database, oldest first, before
    anything reads the thread's history (docs/behaviour.md#unsaved-runs). Once a run is there, the journal
    says so."""
    if not head.unsaved:
        return
    snapshots = {id: await runtime.journal.runs.snapshot(head.owner, id) for id in head.unsaved}
    branches = {id: branch(s, ended=True) for id, s in snapshots.items() if s is not None}
    # The messages of all of them first: one may follow another that ended later, one that waits, or, if it
    # was cancelled in the queue, the run that has the thread.
    parent_ids = {s.meta.input.parent_id for s in snapshots.values() if s and s.meta.parent_given}
    ahead = await branch_up_to(runtime, head, parent_ids)
    await save_waiting(runtime, head, *ahead, *branches.values())
    for run_id, snapshot in snapshots.items():
        if snapshot is not None:
            record = _turn_record(RunState(snapshot), head, branches[run_id], run_view(snapshot))
            await runtime.threads.save_turn(record)
        # After a death before this line, the run is saved again, which changes nothing: its messages got
        # their ids when they were made.
        await runtime.journal.commands.mark_saved(head.owner, run_id, head.id)


async def _end(
    runtime: Runtime,
    log: RunLog,
    state: RunState,
    head: ThreadHead,
    *,
    over: Over,
    save: _Save,
    retention: timedelta | None = None,
    untold: bool,
) -> Ended:
    # A death before the end is written leaves a run that is not over: the next attempt, or the sweeper, ends
    # it, and repeats what was done here.
    #
    # The calls come first, in a separate write. A process that still runs a tool closes its call without the
    # run's epoch: it finds the call settled, and writes nothing into a run that is over.
    await _close_open_calls(runtime, log, state, over.status)
    cut_frames = state.meta.takes > 1 and any(call.child for call in state.calls.values())
    if over.status is not Status.SUCCESS or cut_frames:
        # What cut the run, or a turn before, may have cut a step that held room in its user's day, and a
        # sub-agent may be deployed no more that would reserve again. A run that goes on all the same (its end
        # loses a race) reserves again.
        await release_room(runtime, state.meta.owner, state.meta.id, state.calls.values())
    own = branch(state.snapshot(), ended=True, newest_at=head.last_created_at)
    unplaced, loose_at = None, own.loose[0].created_at if own.loose else None
    if own.loose and head.active_run != state.meta.id:
        # The run was cancelled, or failed, while others have its thread: they say what comes before. What is
        # loose gets its time with its place, and none of it an earlier one than it has.
        unplaced, loose_at = own.leaf_id, own.loose[-1].created_at
        own = own.without_loose()
    last_created_at = max(message.created_at for message in own.messages)
    last_created_at = max(last_created_at, head.last_created_at or last_created_at)
    windows = learned_windows(head, state.steps) | state.windows
    outcome = Outcome(
        status=over.status,
        finish_reason=over.finish_reason,
        output=over.output,
        error=over.error,
        error_detail=over.error_detail,
        usage=state.usage(),
        model=last_model(state.steps),
        leaf_id=own.leaf_id,
        last_created_at=last_created_at,
        loose_at=loose_at,
        unplaced=unplaced,
        windows=windows if windows != head.windows else {},
    )
    # The database before the journal. A death in between repeats an upsert. The other way round, the thread
    # would be free, and its next run would not find this one.
    # Before the end, whose write says what is paid.
    log.pay(await tell(runtime, state.meta, state.calls, log.owed, within_s=PUBLISH_HAS_S))
    saved = await save(_turn_record(state, head, own, _run_over(state, outcome)))
    outcome = outcome.model_copy(update={"saved": saved and unplaced is None})
    events = [*over.events, *last_events(runtime, outcome, own.response)]
    # With the head that this writer read. If the head has changed since, the end is planned again with the
    # new one.
    end = await log.end(outcome, *events, head=head, retention=retention, untold=untold)
    log_end(state.meta, over)
    # After the end, so that a branch that wakes up finds the run over and does nothing. The execution says
    # that it is awake when it retires the run.
    await wake_cut(runtime, state.calls.values(), end.owed)
    # The next run holds the thread since the write before. A death here leaves it due and without an
    # execution, and the sweeper starts one.
    if end.next_run is not None:
        await start_execution(runtime, state.meta.owner, end.next_run, end.next_n)
    return end


async def _close_open_calls(runtime: Runtime, log: RunLog, state: RunState, status: Status) -> None:
    """Settle as cancelled the calls that run or wait when their run ends (cancelled, failed)."""
    unfinished = [c for c in state.calls.values() if c.state is not CallState.SETTLED]
    if not unfinished:
        return
    now = runtime.clock.now()
    cut = Decision(kind=DecisionKind.CANCELLED, decided_by=SYSTEM, via=Via.SYSTEM, at=now)
    if status is Status.CANCELLED and any(call.undecided for call in unfinished):
        # Read now, because a turn that is at work has read its run before the request came.
        request = await log.cancel_requested()
        if request is not None and request.by is not None:
            person = {"decided_by": request.by, "on_behalf_of": request.on_behalf_of}
            cut = cut.model_copy(update={**person, "via": Via.API})
    # The deepest first: a sub-agent's calls end before the call that it stands for.
    cancelled_calls = sorted(
        (_cancelled(c, cut) for c in unfinished), key=lambda c: -c.key.count("/")
    )
    for call in cancelled_calls:
        state.update(call)
    for some in batched(cancelled_calls, MAX_CANCELLED):
        # Each part is a fact: after a death between two of them, whoever ends the run closes the rest.
        decisions = [ToolCallDecided.of(c, cut) for c in some if c.decision is cut]
        # Raises Fenced if one was decided or settled since it was read: that stands, and the run is read
        # again.
        await log.cancel_calls(
            some,
            *decisions,
            *_closed_events(state, some, now),
            more_follow=some[-1] is not cancelled_calls[-1],
        )


def _closed_events(
    state: RunState, cancelled_calls: Sequence[CallRecord], now: datetime
) -> list[Event]:
    """Return the events of every settled call: its end, and its message as it will be saved. A call for a
    larger budget has no events, because no model made it."""
    frames = {path_of(c.key): state.frame_of(c.key) for c in cancelled_calls}
    messages = {
        part.tool_call_id: message
        for frame in frames.values()
        for message in frame.response()
        for part in message.content
        if isinstance(part, ToolResultPart)
    }
    events: list[Event] = []
    for call in cancelled_calls:
        if call.tool_name == BUDGET_TOOL:
            continue
        message = messages[call.tool_call_id]
        events += [ToolExecutionEnd.of(call, now), MessageEvent.of(call, message, now)]
    return events


def _cancelled(call: CallRecord, cut: Decision) -> CallRecord:
    """Return the call as it ends. One that ran is in doubt; one that waited or did not begin never ran; a
    sub-agent did what its own calls say."""
    child = call.child
    if child is not None:
        text, changes = "was not finished", {"status": Status.CANCELLED, "ended_at": cut.at}
        reason = {"finish_reason": FinishReason.CANCELLED}
        child = child.model_copy(update={**changes, **reason})
    elif call.state is CallState.OPEN:
        text = "may or may not have taken effect"
    else:
        text = "was not run"
    text = f"Cancelled: {call.tool_name} {text}"
    return call.model_copy(
        update={
            "state": CallState.SETTLED,
            "result": text,
            "model_output": text,
            "is_error": True,
            "decision": cut if call.undecided else call.decision,
            "settled_at": cut.at,
            "child": child,
        }
    )


def _run_over(state: RunState, outcome: Outcome) -> Run:
    """Return the run as readers will see it once it is over. The database has it before the journal says
    so."""
    names = ("status", "finish_reason", "output", "error", "usage", "model")
    changes = {name: getattr(outcome, name) for name in names}
    snapshot = state.snapshot()
    over = {"status": outcome.status, "updated_at": outcome.last_created_at}
    meta = snapshot.meta.model_copy(update=over)
    return run_view(snapshot.model_copy(update={"meta": meta})).model_copy(update=changes)


def _turn_record(state: RunState, head: ThreadHead, own: Branch, run: Run) -> TurnRecord:
    """Return the record for the database: the messages with their token counts, the usage, and the tree of
    the run."""
    return TurnRecord(
        head=head,
        run=state.meta,
        input=with_token_count(own.messages[0]),
        refused=tuple(sorted(state.refused_ids())),
        response=tuple(with_token_count(m) for m in own.messages[1:]),
        usage=usage_of_steps(
            ((s.agent or state.frame_of(s.key).meta.agent, s) for s in state.all_steps()),
            state.unused_replies(),
        ),
        snapshot=tree_of(run),
    )


def log_end(run: RunMeta, over: Over) -> None:
    """Write the one line of a run's end. It has ids and kinds, and no words of anybody."""
    level = logging.INFO
    facts: dict[str, object] = {"status": over.status.value, "finish_reason": over.finish_reason}
    if over.error is not None:
        level, facts["error_type"] = logging.WARNING, over.error.type
    if (detail := over.error_detail) is not None:
        facts |= {"provider": detail.provider, "model": detail.model}
        facts |= {"provider_status": detail.status, "provider_request_id": detail.request_id}
    ids = {"run_id": run.id, "thread_id": run.thread_id, "agent": run.agent}
    logger.log(level, END_LINE, extra={**ids, **facts})


def last_events(runtime: Runtime, outcome: Outcome, response: Sequence[Message]) -> list[Event]:
    """Return the last events: `error` (failed), exactly one `finish`, `agent-end` (success)."""
    now = runtime.clock.now()
    events: list[Event] = []
    if outcome.error is not None:
        events.append(ErrorEvent(at=now, error=outcome.error))
    events.append(
        Finish(
            at=now,
            status=outcome.status,
            finish_reason=outcome.finish_reason,
            usage=outcome.usage,
            model=outcome.model,
            output=outcome.output,
        )
    )
    if outcome.status is Status.SUCCESS:
        events.append(AgentEnd(at=now, messages=tuple(response)))
    return events
