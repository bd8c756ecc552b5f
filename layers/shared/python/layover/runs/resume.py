"""Await and Resume: store a call's task token, and settle the call when the token is answered."""

import logging
from typing import Any

from layover import logs
from layover.approvals.bus import publish_decision, publish_request
from layover.approvals.consent import go_on_if_connected
from layover.approvals.outbox import news_of
from layover.approvals.token_answer import next_wait, record_answer, tell_answer
from layover.engine.frames.subagents import NestedRuns
from layover.engine.frames.tools import agent_at
from layover.engine.hooks.frame_hooks import FrameHooks
from layover.engine.invocation import Invocation
from layover.engine.progress import Stopped
from layover.engine.state import RunState
from layover.engine.supervise import supervise
from layover.engine.tools.calls import Calls
from layover.engine.tools.toolbox import Toolbox
from layover.engine.work import RunWork
from layover.errors import Fenced, RunFailed
from layover.keys import path_of
from layover.ports import RunLog
from layover.runs.aside import hand_on
from layover.runs.executions import BRANCH_EVENTS, spend
from layover.runs.load_turn import agent_of
from layover.runtime import Runtime
from layover.values.decision import WakeUp
from layover.values.runs.debts import Debt, DebtKind
from layover.values.runs.payload import AwaitPayload, ResumePayload, WaitingCall
from layover.values.runs.run import DECLINES, CallRecord, CallState

logger = logging.getLogger("layover")


async def await_decision(runtime: Runtime, payload: AwaitPayload) -> dict[str, Any]:
    """Store the token if the call waits; wake the branch at once if it does not."""
    # The write's condition is that the call waits undecided for this attempt. Either the decision finds the
    # token or the token finds the decision, so neither is lost whichever comes first.
    call = await runtime.journal.commands.store_token(
        owner=payload.owner,
        run_id=payload.run_id,
        execution=payload.execution,
        key=payload.call.key,
        attempt=payload.call.attempt,
        token=payload.token,
    )
    if call is None:
        await runtime.callbacks.wake(payload.token, await _news(runtime, payload))
        return {"status": "woken"}
    # After a death before this, the task is repeated with another token, and that one is published.
    if not await _publish(runtime, payload, call):
        # The call waits and can be decided anyway, whereas a failure here would cost the run an attempt.
        debt = Debt(DebtKind.REQUESTED, call.attempt, call.key)
        await runtime.journal.commands.owe(payload.owner, payload.run_id, debt)
    return {"status": "waiting"}


async def _news(runtime: Runtime, payload: AwaitPayload) -> WakeUp:
    """Tell of a decision that came before the token, if its decider could not: a bus that is away does not
    hold up the call."""
    owner, run_id = payload.owner, payload.run_id
    call = await runtime.journal.runs.call(owner, run_id, payload.call.key)
    run = await runtime.journal.runs.get(owner, run_id)
    if run is None or call is None or call.decision is None:
        return WakeUp.UNTOLD
    news = news_of(run.owed, call)
    if news is WakeUp.UNTOLD and await publish_decision(runtime, run, call):
        return WakeUp.DECIDED
    return news


async def _publish(runtime: Runtime, payload: AwaitPayload, call: CallRecord) -> bool:
    """Return whether the bus knows that the call waits on this token."""
    run = await runtime.journal.runs.get(payload.owner, payload.run_id)
    if run is None:
        return True
    current = call.model_copy(update={"token": payload.token})
    is_told = await publish_request(runtime, run, current)
    await go_on_if_connected(runtime, run, current)
    return is_told


async def resume(runtime: Runtime, payload: ResumePayload) -> WaitingCall:
    """Settle one call. Status `waiting`: it waits (again, or the decision was invalid); `done`: it no longer
    waits."""
    # Under the epoch in which the call was suspended, so that branches that settle their calls at the same
    # time do not fence each other off. The call's own record keeps two processes from settling it.
    log = await runtime.journal.writers.attach(payload.owner, payload.run_id, payload.execution)
    call = log.snapshot.call(payload.call.key) if log else None
    if log is None or call is None:
        return _as_done(payload.call)
    logs.name(thread_id=log.snapshot.meta.thread_id)
    try:
        if call.undecided:
            call = await record_answer(
                runtime, log.snapshot.meta, call, payload.call.attempt, payload.output
            )
            if call.undecided:
                return await _wait_again(runtime, payload, call)
        log.pay(await tell_answer(runtime, log.snapshot.meta, call, payload.call, payload.output))
        item = await _settle(runtime, payload, log, call)
    except (Fenced, Stopped):
        logger.info("the call was settled elsewhere", extra={"run_id": payload.run_id})
        return _as_done(payload.call)
    run = log.snapshot.meta
    if item.status == "waiting" or run.waiting - {call.key}:
        # The run may only wait from now on, and until the last of its branches ends no turn looks.
        await hand_on(runtime, run.owner, run.thread_id)
    return item


async def _wait_again(runtime: Runtime, payload: ResumePayload, call: CallRecord) -> WaitingCall:
    """Let the call wait on a new token."""
    await spend(runtime, payload, BRANCH_EVENTS)
    return next_wait(payload.call, payload.output, call, runtime.clock.now())


async def _settle(
    runtime: Runtime, payload: ResumePayload, log: RunLog, call: CallRecord
) -> WaitingCall:
    if call.state is CallState.SETTLED:
        return _as_done(_item(call))
    run = RunState(log.snapshot)
    run.update(call)
    try:
        agent = await agent_at(runtime, agent_of(runtime, run.meta), run, path_of(call.key))
    except RunFailed:
        # The turn that follows ends the run with this error; nothing can be settled without code.
        return _as_done(_item(call))
    if agent is None:
        # The turn that follows tells the parent's model that its sub-agent is gone.
        return _as_done(_item(call))
    if call.tool_name in agent.built_in_tools and not _is_declined(call):
        # The turn has these tools, with the embedder and the notes of the run's prompt. This process does
        # not.
        return _as_done(_item(call))
    state = run.frame_of(call.key)
    step = next(s for s in state.steps if call.key.startswith(f"{s.key}#CALL#"))
    invocation = Invocation(runtime, log)
    work = RunWork(invocation, state, agent)
    calls = Calls(work, Toolbox(work, FrameHooks(work)), NestedRuns(work))
    await supervise(invocation, calls.settle(step, call))
    settled = state.calls[call.key]
    if settled.undecided:
        return await _wait_again(runtime, payload, settled)
    return _as_done(_item(settled))


def _is_declined(call: CallRecord) -> bool:
    """Return whether the decision settles the call without its tool."""
    return call.decision is not None and call.decision.kind in DECLINES


def _item(call: CallRecord) -> WaitingCall:
    return WaitingCall(key=call.key, attempt=call.attempt, timeout_s=1)


def _as_done(item: WaitingCall) -> WaitingCall:
    return item.model_copy(update={"status": "done"})
