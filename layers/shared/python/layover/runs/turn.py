"""Turn: take a run and advance it until it ends, suspends, or has to yield."""

import logging
from collections.abc import Mapping
from typing import Any

from layover import logs
from layover.approvals.waiting import waiting_call
from layover.declare.agent import Agent
from layover.engine.loop import Loop, failed
from layover.engine.progress import Over, Suspended, Yielded
from layover.engine.state import RunState
from layover.errors import DefinitionError, Fenced, RunFailed
from layover.memory.node.history import remember_turn
from layover.metering.quota import reached_today
from layover.ports import Deadline, RunLog, Runtime
from layover.runs.event_budget import BRANCH_EVENTS, PAUSE_EVENTS, room_for, start_successor
from layover.runs.finish import end_run
from layover.runs.load_turn import given_for
from layover.runs.pending_saves import save_unsaved
from layover.values.runs.payload import RunPayload
from layover.values.runs.run import RunMeta, Status
from layover.values.thread import ThreadHead

logger = logging.getLogger("layover")

Answer = Mapping[str, Any]
"""`status`: suspended | yielded | compact | paused | over | left; `waiting`: the Map's items."""


async def turn(runtime: Runtime, payload: RunPayload, deadline: Deadline) -> Answer:
    """One invocation's worth of a run. Raises RetryableError, AttemptsUsedUp."""
    if await runtime.allowance.stopped():
        room = await room_for(runtime, payload, PAUSE_EVENTS)
        return _answer("paused" if room else "left")
    log = await runtime.journal.acquire(payload.owner, payload.run_id, payload.execution)
    if log is None:
        return await _not_mine(runtime, payload)
    try:
        return await _turn(runtime, payload, log, deadline)
    except Fenced:
        logger.info("another attempt holds the run", extra={"run_id": payload.run_id})
        return await _not_mine(runtime, payload, log.snapshot.meta.epoch)


async def _not_mine(runtime: Runtime, payload: RunPayload, epoch: int | None = None) -> Answer:
    """`over`, so that a run whose last answer was lost is still remembered; else another drives it.
    `yielded`: nobody does, since the writer of this epoch was only in the way of an older one that
    closed its call late."""
    run = await runtime.journal.run(payload.owner, payload.run_id)
    if run is not None and run.status.over:
        return _answer("over")
    mine = run is not None and (run.execution, run.epoch) == (payload.execution, epoch)
    return _answer("yielded" if mine else "left")


async def _turn(runtime: Runtime, payload: RunPayload, log: RunLog, deadline: Deadline) -> Answer:
    meta = log.snapshot.meta
    logs.name(thread_id=meta.thread_id)
    head = await head_of(runtime, meta)
    await save_unsaved(runtime, head)
    try:
        await _may_begin(runtime, log)
        agent = agent_of(runtime, meta)
    except RunFailed as failure:
        await end_run(runtime, log, RunState(log.snapshot), head, failed(failure))
        return _answer("over")
    given = await given_for(runtime, agent, head, log.snapshot)
    loop = Loop(runtime, log, agent, given, deadline)
    progress = await loop.advance()
    if isinstance(progress, Suspended):
        return await _suspended(runtime, payload, progress)
    if isinstance(progress, Over):
        state = await _at_the_end(runtime, loop.state, progress)
        await remember_turn(runtime, agent, state, progress, given.history)
        await end_run(runtime, log, state, head, progress)
        return _answer("over")
    return await _yielded(runtime, payload, meta, progress)


async def _at_the_end(runtime: Runtime, state: RunState, over: Over) -> RunState:
    """The run as it is to end. A cancel may have met a fact on its way to the journal, which has it now
    though the loop was stopped before it knew: only the journal says what there is."""
    if over.status is not Status.CANCELLED:
        return state
    snapshot = await runtime.journal.snapshot(state.meta.owner, state.meta.id)
    if snapshot is None:
        raise Fenced("the run is gone", run_id=state.meta.id)
    return RunState(snapshot)


async def _may_begin(runtime: Runtime, log: RunLog) -> None:
    """A run that waited in a queue was accepted when its user's day had room. Raises RunFailed."""
    if log.snapshot.steps:
        return
    reached = await reached_today(runtime, log.snapshot.meta.owner)
    if reached is not None:
        raise RunFailed(reached, type="LimitReached", run_id=log.snapshot.meta.id)


async def _suspended(runtime: Runtime, payload: RunPayload, how: Suspended) -> Answer:
    """Wait, in a fresh execution if this one's history may not hold all branches. A run that waits is in
    order: whatever goes wrong while it does, it has all its attempts again."""
    if not await room_for(runtime, payload, BRANCH_EVENTS * len(how.waiting), fresh=True):
        return _answer("left")
    now = runtime.clock.now()
    return _answer("suspended", [waiting_call(c, now).model_dump() for c in how.waiting])


async def _yielded(runtime: Runtime, payload: RunPayload, meta: RunMeta, how: Yielded) -> Answer:
    """Go on in a fresh invocation; after many, in a fresh execution (its history has a limit)."""
    if meta.history <= runtime.settings.max_history:
        return _answer("compact" if how.context else "yielded")
    await start_successor(runtime, meta.owner, meta.id, payload.execution)
    return _answer("left")


def agent_of(runtime: Runtime, meta: RunMeta) -> Agent:
    """The run's agent. An agents' module that cannot be imported, or an agent that is gone, ends the
    run with an error that names it."""
    try:
        agent = runtime.agents().get(meta.agent)
    except DefinitionError as error:
        raise RunFailed(error.message, type=type(error).__name__, run_id=meta.id) from error
    if agent is None:
        raise RunFailed(f"there is no agent {meta.agent!r}", type="UnknownAgent", run_id=meta.id)
    return agent


async def head_of(runtime: Runtime, meta: RunMeta) -> ThreadHead:
    """The thread's head; a run without one belongs to a thread that is gone for good."""
    head = await runtime.journal.thread(meta.owner, meta.thread_id)
    if head is None:
        raise Fenced("the thread is gone", run_id=meta.id, thread_id=meta.thread_id)
    return head


def _answer(status: str, waiting: list[dict[str, Any]] | None = None) -> Answer:
    return {"status": status, "waiting": waiting or []}
