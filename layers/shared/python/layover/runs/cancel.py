"""Cancel: a suspended or queued run ends at once, a running one within 2 s (docs/behaviour.md#cancel)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from layover.context.transcript import branch
from layover.declare.agent import Agent
from layover.declare.hooks.base import is_any_asked
from layover.engine.progress import CANCELLED
from layover.engine.state import RunState
from layover.errors import NotFound, RetryableError
from layover.ports import RunLog
from layover.records.deployed import deployed_agent
from layover.runs.finish import end_even_unsaved, last_events, log_end, thread_of
from layover.runs.seizure import LOOK_EVERY_S, end_by_force
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.run import (
    CANCEL_GRACE,
    CANCEL_HOOKS_GRACE,
    FinishReason,
    Outcome,
    RunMeta,
    Status,
)

END_DURATION_S = 0.2
"""Seconds that the process at work on a run has to end it after its tools have had their time."""
HOLDER_HAS_S = CANCEL_GRACE.total_seconds() + END_DURATION_S
"""Seconds that the process at work has, from the request on, to see the flag (it polls every 0.5 s) and end
the run. The rest of the 2 s is for an end by force."""
SAVE_HAS_S = 0.5
"""Seconds that the database has to save a run that ends by force. An unavailable database does not delay a
cancel: the next read of the thread saves the run first."""
FORCED_SAVE_HAS_S = 0.15
"""The same after a wait for the process at work on the run."""
_TRIES = 5
"""Attempts to end a queued run that is sent messages meanwhile."""


async def cancel(
    runtime: Runtime,
    owner: str,
    run_id: str,
    *,
    by: Actor | None = None,
    holder_has_s: float = HOLDER_HAS_S,
    asks_hooks: bool = True,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> RunMeta:
    """End the run as cancelled; a run that is over does not change. Raises NotFound. `by`: the person who
    cancels, and who has then decided the calls that waited; None: nobody does. `holder_has_s`: after
    this many seconds it ends by force; running tools have `END_DURATION_S` less. Hooks asked `at_end` have
    their own time on top, in whichever process asks them. `asks_hooks`: this process has the user's code, and
    may ask them."""
    time = asyncio.get_running_loop().time
    give_up = time() + holder_has_s
    grace = timedelta(seconds=max(0.0, holder_has_s - END_DURATION_S))
    # The flag comes first, and its write sets the sweeper's next look: a death anywhere below leaves a run
    # that is flagged and due, and the sweeper ends it.
    run = await runtime.journal.commands.request_cancel(owner, run_id, grace, by)
    if run is None:
        raise NotFound("there is no such run", run_id=run_id)
    if run.status is Status.QUEUED:
        await _drop(runtime, run)
        # Read again: the run ahead of it may have ended and started it. It is then cancelled as a running
        # one.
        run = await _now(runtime, run)
    agent = _agent_with_hooks(runtime, run) if asks_hooks else None
    if agent is not None and holder_has_s:
        give_up += CANCEL_HOOKS_GRACE.total_seconds()
    save_has_s = SAVE_HAS_S
    # The process at work can end the run better than this one: it can let its tools finish, and knows which
    # of its calls have not begun.
    while (left := give_up - time()) > 0 and run.status is Status.RUNNING and not run.at_rest:
        save_has_s = FORCED_SAVE_HAS_S
        await sleep(min(LOOK_EVERY_S, left))
        run = await _now(runtime, run)
    if not run.status.over:
        await _force(runtime, run, timedelta(seconds=save_has_s), agent, sleep)
        run = await _now(runtime, run)
    return run


def _agent_with_hooks(runtime: Runtime, run: RunMeta) -> Agent | None:
    """Return the run's agent, if one of its hooks is asked at the end."""
    agent = deployed_agent(runtime.agents, run.agent)
    return agent if agent is not None and is_any_asked(agent.hooks, "at_end") else None


async def _drop(runtime: Runtime, run: RunMeta) -> None:
    """End a queued run. Its messages come behind the run at work."""
    for _ in range(_TRIES):
        snapshot = await runtime.journal.runs.snapshot(run.owner, run.id)
        if snapshot is None or snapshot.meta.status is not Status.QUEUED:
            return
        own = branch(snapshot, ended=True)
        newest_at = max(message.created_at for message in own.messages)
        outcome = Outcome(
            status=Status.CANCELLED,
            finish_reason=FinishReason.CANCELLED,
            leaf_id=own.leaf_id,
            last_created_at=newest_at,
            loose_at=newest_at,
            saved=False,
        )
        events = last_events(runtime, outcome, ())
        # Refused if it was sent a message since the read.
        if await runtime.journal.commands.end_queued(snapshot.meta, outcome, *events):
            log_end(snapshot.meta, CANCELLED)
            return


async def _force(
    runtime: Runtime,
    run: RunMeta,
    save_has: timedelta,
    agent: Agent | None,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Seize the run from a process that does not react, or while it waits, and end it. `agent`: the one whose
    hooks are asked."""

    async def end(log: RunLog) -> None:
        # The execution is stopped first: a process that dies in between leaves a flagged run, which the
        # sweeper ends, and never an execution that waits for a run that is over.
        if run.execution is not None:
            # If this fails, the execution finds the run over and does nothing.
            with suppress(RetryableError):
                await runtime.callbacks.stop(run.execution, "the run was cancelled")
        head = thread_of(log)
        state = RunState(log.snapshot)
        if agent is not None:
            # Few agents have such hooks, and every cold start of `api` would load what asks them.
            from layover.engine.hooks.at_end import run_cancel_hooks

            await run_cancel_hooks(runtime, log, state, agent)
        await end_even_unsaved(runtime, log, state, head, CANCELLED, within=save_has)

    await end_by_force(runtime, run.owner, run.id, end, sleep=sleep)


async def _now(runtime: Runtime, run: RunMeta) -> RunMeta:
    return await runtime.journal.runs.get(run.owner, run.id) or run
