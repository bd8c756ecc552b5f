"""The function `turn`: it takes a run and advances it until the run ends, suspends, or has to yield."""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from layover import logs
from layover.approvals.token_answer import next_wait, record_answer, tell_answer
from layover.approvals.waiting import waiting_call
from layover.context.assembly import model_of
from layover.engine.dependencies import with_deps
from layover.engine.frames.node_history import remember_turn
from layover.engine.frames.tools import with_run_tools
from layover.engine.hooks.at_end import run_cancel_hooks
from layover.engine.loop import Loop
from layover.engine.progress import Aside, Over, Suspended, Yielded, failed
from layover.engine.state import RunState
from layover.errors import Fenced, RunFailed
from layover.metering.allowance import find_reached_limit, release_room
from layover.ports import Deadline, RunLog
from layover.records.deployed import deployed_agent
from layover.records.lifetimes import set_ttl, watch_thread
from layover.runs.aside import Claim, hand_on, save_ahead, take_back
from layover.runs.executions import BRANCH_EVENTS, PAUSE_EVENTS, room_for, start_successor
from layover.runs.finish import end_run, head_now, save_unsaved, tell_end, thread_of
from layover.runs.load_turn import agent_of, load_turn_input
from layover.runs.resume import resume
from layover.runtime import Runtime
from layover.values.metrics import PAUSE_LINE
from layover.values.runs.event import ModelWaiting
from layover.values.runs.payload import (
    MemoryWork,
    ResumePayload,
    RunPayload,
    TurnPayload,
    WaitingCall,
)
from layover.values.runs.provider_wait import ProviderWait
from layover.values.runs.run import Phase, RunMeta, Status
from layover.values.thread import ThreadHead

logger = logging.getLogger("layover")

TurnResult = Mapping[str, Any]
"""The facts of a turn for the state machine. `status`: suspended | yielded | compact | paused | away | over |
left; `waiting`: the waiting calls; `next`: the transition to take; `call`: the waiting call, if there is only
one; `pause_s`: seconds until the next turn, if a provider is away. Executions that began before `next`
existed use `status`."""
_NEXT_STATES = {
    "yielded": "turn",
    "compact": "compact",
    "paused": "pause",
    "away": "away",
    "left": "done",
}
_ENDS = {
    MemoryWork.NOTHING: ("done", "fail"),
    MemoryWork.LEARN: ("learn", "learn_then_fail"),
    MemoryWork.CONDENSE: ("condense", "condense_then_fail"),
}
"""The transitions of a run that is over, by the work that follows: of one that failed the second, after
which its execution fails as well."""


async def turn(runtime: Runtime, payload: RunPayload, deadline: Deadline) -> TurnResult:
    """Advance a run for one invocation. Raises RetryableError, AttemptsUsedUp."""
    item = payload.call if isinstance(payload, TurnPayload) else None
    # The answer to a token is handled before the run is taken, because an answer without a decision must not
    # use up an attempt. Every retry of this turn gets the same answer, so a death here loses nothing.
    paid = frozenset[str]()
    if item is not None:
        waits_on, paid = await _take_answer(runtime, payload, item)
        if waits_on is not None:
            return waits_on
    # The operator's switch is checked before the run is taken as well, because a pause must not use up an
    # attempt either.
    if await runtime.allowance.stopped():
        if item is not None:
            # A decision that arrives is carried out even so.
            item = await resume(runtime, ResumePayload(**payload.model_dump()))
            if item.status == "waiting":
                return _result("suspended", [item])
        room = await room_for(runtime, payload, PAUSE_EVENTS)
        return _result("paused" if room else "left")
    # The connection to the database begins here, that to the model below: connecting takes as long as the
    # requests in between.
    runtime.dialer.dial_database()
    # From here on, every earlier writer of the run is fenced off: its next write fails, and it stops.
    log = await runtime.journal.writers.acquire(payload.owner, payload.run_id, payload.execution)
    if log is None:
        return await _not_mine(runtime, payload)
    log.pay(paid)
    try:
        return await _advance(runtime, payload, log, deadline)
    except Fenced:
        logger.info("another attempt holds the run", extra={"run_id": payload.run_id})
        return await _not_mine(runtime, payload, log.snapshot.meta.epoch)


async def _take_answer(
    runtime: Runtime, payload: Any, item: WaitingCall
) -> tuple[TurnResult | None, frozenset[str]]:
    """Record the decision in the answer to the only waiting call's token. Return the result if it waits on,
    and what the run does not owe any more if it goes on. The run is not taken here, so that an answer without
    a decision does not use up an attempt."""
    run, call = await asyncio.gather(
        runtime.journal.runs.get(payload.owner, payload.run_id),
        runtime.journal.runs.call(payload.owner, payload.run_id, item.key),
    )
    if run is None or (run.status, run.execution) != (Status.RUNNING, payload.execution):
        return None, frozenset()
    if run.cancel or run.waiting - {item.key} or call is None:
        return None, frozenset()
    if call.undecided:
        call = await record_answer(runtime, run, call, item.attempt, payload.output)
    if not call.undecided:
        return None, await tell_answer(runtime, run, call, item, payload.output)
    if not await room_for(runtime, payload, BRANCH_EVENTS):
        return _result("left"), frozenset()
    waits = next_wait(item, payload.output, call, runtime.clock.now())
    return _result("suspended", [waits]), frozenset()


async def _not_mine(runtime: Runtime, payload: RunPayload, epoch: int | None = None) -> TurnResult:
    """Answer for a run that this turn could not take, or lost. `over`: its memory work may be left to do, if
    its last answer was lost. `left`: another execution drives it. `yielded`: no process does, since the
    writer of this epoch only stood in the way of an older one that closed its call late."""
    run = await runtime.journal.runs.get(payload.owner, payload.run_id)
    if epoch is not None and (run is None or run.status.over or run.phase is Phase.ENDING):
        # Its end, or its deletion, released the room in the user's day before this process held some for a
        # step.
        await _release_room(runtime, payload)
    if run is not None and run.status.over:
        head = await runtime.journal.heads.get(run.owner, run.thread_id)
        work = _memory_work_after(runtime, run.agent, run.status, head)
        # The turn that ended the run may have died before it told the bus, and before it retired the records.
        if not await tell_end(runtime, run):
            return await _tell_later(runtime, payload)
        if work is MemoryWork.NOTHING and run.saved:
            await watch_thread(runtime, run.owner, run.thread_id)
            await _set_ttl(runtime, run)
        return _result("over", memory=work, has_failed=run.status is Status.FAILED)
    mine = run is not None and (run.execution, run.epoch) == (payload.execution, epoch)
    return _result("yielded" if mine else "left")


async def _tell_later(runtime: Runtime, payload: RunPayload) -> TurnResult:
    """Let the execution come back to a run that is over, once the bus may take its end."""
    room = await room_for(runtime, payload, PAUSE_EVENTS)
    return _result("paused" if room else "left")


async def _release_room(runtime: Runtime, payload: RunPayload) -> None:
    if not runtime.settings.limits_days:
        return
    owner, run_id = payload.owner, payload.run_id
    snapshot = await runtime.journal.runs.snapshot(owner, run_id)
    await release_room(runtime, owner, run_id, snapshot.calls if snapshot is not None else ())


async def _advance(
    runtime: Runtime, payload: RunPayload, log: RunLog, deadline: Deadline
) -> TurnResult:
    """Advance a run that was taken, and write its end. Raises Fenced once another writer has taken it."""
    meta = log.snapshot.meta
    logs.name(thread_id=meta.thread_id)
    head = thread_of(log)
    is_aside = _is_aside(head, meta)
    # A run whose calls are all decided takes its thread back at once, if no run is at work there.
    if is_aside and not meta.waiting and await take_back(runtime, log, waits=False) is Claim.TAKEN:
        head, is_aside = await head_now(runtime, meta), False
        meta = log.snapshot.meta
    head = await _withdraw_left(runtime, meta, head, is_first=not log.snapshot.steps)
    # Before the history is read below, which would otherwise lack the runs that only the journal has.
    await save_unsaved(runtime, head)
    await save_ahead(runtime, head, log.snapshot)
    try:
        await _check_may_start(runtime, log)
        agent = await with_deps(agent_of(runtime, meta), runtime.settings)
        if (model := model_of(agent, runtime.settings, meta)) not in agent.own_models:
            runtime.dialer.dial_model(model)
        turn_input = await load_turn_input(runtime, agent, head, log.snapshot)
        turn_input = await with_run_tools(runtime, agent, RunState(log.snapshot), turn_input)
    except RunFailed as failure:
        over, state = failed(failure, meta.id), RunState(log.snapshot)
        return await _end(runtime, payload, log, state, head, over=over)
    loop = Loop(runtime, log, agent, turn_input, deadline, holds_thread=not is_aside)
    progress = await loop.advance()
    if isinstance(progress, Aside):
        return await _take_back(runtime, log)
    if isinstance(progress, Suspended):
        return await _wait(runtime, payload, meta, progress, is_aside=is_aside)
    if isinstance(progress, Yielded) and progress.wait is not None:
        return await _pause(runtime, payload, log, progress.wait)
    if isinstance(progress, Yielded):
        # The run goes on in a fresh invocation, and after many of them in a fresh execution (a history has a
        # limit).
        if meta.history <= runtime.settings.max_history:
            return _result("compact" if progress.context else "yielded")
        await start_successor(runtime, meta.owner, meta.id, payload.execution)
        return _result("left")
    state = loop.state
    if progress.status is Status.CANCELLED:
        # A cancel may have coincided with the write of a fact: the journal then has the fact, but the loop
        # stopped before it knew. So the journal is read again, and the run ends as journaled.
        snapshot = await runtime.journal.runs.snapshot(meta.owner, meta.id)
        if snapshot is None:
            raise Fenced("the run is gone", run_id=meta.id)
        state = loop.with_unbegun(snapshot)
        await run_cancel_hooks(runtime, log, state, agent)
    # Before the end, because no attempt follows the end of a run; a death in between only repeats this.
    await remember_turn(runtime, agent, state, progress, turn_input.history)
    return await _end(runtime, payload, log, state, head, over=progress)


async def _withdraw_left(
    runtime: Runtime, meta: RunMeta, head: ThreadHead, *, is_first: bool
) -> ThreadHead:
    """Withdraw what waits on the branch that the run leaves as it begins: the process that accepted it may
    have died before that, or the run was in the queue. Return the thread as it is then."""
    if not (is_first and meta.parent_given and head.waiting_runs):
        return head
    # Few runs begin a branch, and every cold start would load it.
    from layover.runs.edits import withdraw_left

    await withdraw_left(runtime, meta)
    return await head_now(runtime, meta)


async def _wait(
    runtime: Runtime, payload: RunPayload, meta: RunMeta, progress: Suspended, *, is_aside: bool
) -> TurnResult:
    """Return what the run waits for, and let the thread go on without it. `fresh`: a waiting run has made
    progress, so it has all its attempts again, whatever goes wrong during the wait. If this execution's
    history may be too short for all branches, the run waits in a fresh one."""
    branch_events = BRANCH_EVENTS * len(progress.waiting)
    if not await room_for(runtime, payload, branch_events, fresh=True, rests=meta.epoch):
        return _result("left")
    if not is_aside:
        await hand_on(runtime, meta.owner, meta.thread_id)
    now = runtime.clock.now()
    return _result("suspended", [waiting_call(c, now) for c in progress.waiting])


async def _pause(
    runtime: Runtime, payload: RunPayload, log: RunLog, wait: ProviderWait
) -> TurnResult:
    """Return the pause of a run whose provider is away. It has all its attempts again, and rests: a cancel
    ends it at once. If this execution's history is full, a fresh one asks at once."""
    now = runtime.clock.now()
    facts = wait.view.model_dump()
    await log.pause(wait, ModelWaiting(at=now, attempt=wait.attempt, **facts))
    ids = {"run_id": payload.run_id, "provider": wait.provider, "cause": wait.error}
    wait_s = math.ceil((wait.until - wait.since).total_seconds())
    logger.warning(PAUSE_LINE, extra={**ids, "wait_s": wait_s})
    epoch = log.snapshot.meta.epoch
    if not await room_for(runtime, payload, PAUSE_EVENTS, fresh=True, rests=epoch):
        return _result("left")
    return _result("away", pause_s=math.ceil((wait.until - now).total_seconds()))


def _is_aside(head: ThreadHead, meta: RunMeta) -> bool:
    return meta.id in head.waiting_runs and head.active_run != meta.id


async def _take_back(runtime: Runtime, log: RunLog) -> TurnResult:
    """Take the thread back, now or later. The run goes on in a fresh turn, which reads what was said
    meanwhile."""
    turn = await take_back(runtime, log, waits=True)
    return _result("yielded" if turn is Claim.TAKEN else "left")


async def _check_may_start(runtime: Runtime, log: RunLog) -> None:
    """Raise RunFailed if the run may not begin, or go on. A queued run was accepted when its user's day had
    room. A run does not go on if some of its records have expired while it stood still."""
    meta = log.snapshot.meta
    expire_at = meta.records_expire_at
    if expire_at is not None and not meta.records_kept and expire_at <= runtime.clock.now():
        raise RunFailed("records of the run have expired", type="RecordsExpired", run_id=meta.id)
    if log.snapshot.steps:
        return
    limit = await find_reached_limit(runtime, meta.owner)
    if limit is not None:
        raise RunFailed(limit, type="LimitReached", run_id=meta.id)


async def _end(
    runtime: Runtime,
    payload: RunPayload,
    log: RunLog,
    state: RunState,
    head: ThreadHead,
    *,
    over: Over,
) -> TurnResult:
    """End the run. If no work follows, its records may expire from here on."""
    meta = log.snapshot.meta
    is_cut_short = _is_aside(head, meta) and state.is_cut_short()
    if is_cut_short and over.status is not Status.CANCELLED:
        # What it has to add comes behind what others say now. A cancel waits for nobody.
        return await _take_back(runtime, log)
    work, retention = _memory_work_after(runtime, meta.agent, over.status, head), None
    if work is MemoryWork.NOTHING:
        # Before the end, because nothing looks at the run after it. A look that comes too early is put off.
        await watch_thread(runtime, meta.owner, meta.thread_id)
        retention = None if is_cut_short else runtime.settings.run_retention
    end = await end_run(runtime, log, state, head, over=over, retention=retention)
    changes = {"status": over.status, "updated_at": end.at}
    changes |= {"finish_reason": over.finish_reason, "error": over.error}
    changes |= {"sockets": end.sockets, "owed": end.owed}
    ended = meta.model_copy(update=changes)
    # Behind the end: nobody who follows the run waits for it.
    if not await tell_end(runtime, ended):
        return await _tell_later(runtime, payload)
    # What a run that was cut short adds is saved once it has its place.
    if work is MemoryWork.NOTHING and not end.retired and not is_cut_short:
        await _set_ttl(runtime, ended)
    return _result("over", memory=work, has_failed=over.status is Status.FAILED)


async def _set_ttl(runtime: Runtime, run: RunMeta) -> None:
    """Give the records their time to live: no work follows, except the sweeper's if a socket still
    follows."""
    if not run.sockets:
        await set_ttl(runtime, run)


def _memory_work_after(
    runtime: Runtime, agent_name: str, status: Status, head: ThreadHead | None
) -> MemoryWork:
    """Return the memory work that follows a run that ended with `status`. `head`: its thread before the
    end."""
    agent = deployed_agent(runtime.agents, agent_name)
    if agent is None:
        return MemoryWork.NOTHING
    return runtime.agent_memory.work_after(agent, status, head)


def has_memory_work(result: TurnResult) -> bool:
    """Return whether memory's work follows the run that this turn found over, or ended."""
    return result["status"] == "over" and result["next"] not in _ENDS[MemoryWork.NOTHING]


def _result(
    status: str,
    waiting: Sequence[WaitingCall] = (),
    memory: MemoryWork = MemoryWork.NOTHING,
    *,
    has_failed: bool = False,
    pause_s: int = 0,
) -> TurnResult:
    only = waiting[0] if len(waiting) == 1 else None
    if status == "over":
        way = _ENDS[memory][has_failed]
    elif status == "suspended":
        way = "await_all" if only is None else "rest" if only.pause_s else "await"
    else:
        way = _NEXT_STATES[status]
    items = [item.model_dump() for item in waiting]
    call = items[0] if only else None
    facts = {"status": status, "waiting": items, "call": call, "next": way}
    return {**facts, "pause_s": pause_s}
