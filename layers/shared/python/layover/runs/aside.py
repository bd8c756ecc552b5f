"""Runs that only wait do not hold their threads (docs/run-lifecycle.md#set-aside). Another run may take the
thread: the waiting one is set aside then, and takes the thread back once it can go on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import Enum

from layover.clock import MICROSECOND
from layover.context.rendering import render_notices
from layover.context.repair import without_orphans
from layover.context.tokens import total_tokens, with_token_count
from layover.context.transcript import Branch, branch, own_steps, parents_first, unheard_leaf
from layover.context.waiting import with_waiting_results
from layover.context.withheld import for_models
from layover.errors import Fenced, RetryableError
from layover.ports import RunLog, SetAside
from layover.records.deployed import deployed_agent
from layover.records.threads import LOOK
from layover.runs.executions import start_execution, start_successor
from layover.runtime import Runtime
from layover.values.message import Message, Role
from layover.values.runs.run import OnWaiting, RunMeta, RunSnapshot, Status
from layover.values.thread import ThreadHead

MAX_HEARD = 100
"""The most messages that a run hears of others when it goes on, the newest ones."""
HEARD_TOKENS = 16_000
"""The most tokens of them, by estimate."""
_TRIES = 50
_MAX_PAUSE_S = 0.2
_log = logging.getLogger("layover")


class Claim(Enum):
    """The outcome for a run that wants its thread back."""

    TAKEN = "taken"
    LATER = "later"


async def find_waiting(runtime: Runtime, owner: str, run_id: str) -> RunSnapshot | None:
    """Return the run, if it only waits for decisions."""
    snapshot = await runtime.journal.runs.snapshot(owner, run_id)
    return snapshot if snapshot is not None and snapshot.meta.only_waits else None


def set_aside(head: ThreadHead, snapshot: RunSnapshot) -> SetAside:
    """Return the run as another one may take its thread. `head`: as read with it."""
    own, steps = branch(snapshot, ended=False), own_steps(snapshot)
    last_at = own.messages[-1].created_at
    newest = max(last_at, head.last_created_at or last_at)
    if steps:
        # Room for the results of the step, and for the messages of its tools.
        step = steps[-1]
        newest = max(newest, step.message.created_at + 2 * len(step.slots) * MICROSECOND)
    return SetAside(snapshot.meta, own.leaf_id, newest)


async def save_waiting(runtime: Runtime, head: ThreadHead, *more: Branch) -> None:
    """Write the messages of the thread's waiting runs, and `more`, to the database, as far as there are any,
    before anything is written behind them. The end of a run writes them again, with the results."""
    # Those that have ended and left something without a place may have ended without the database.
    run_ids = (*head.waiting_runs, *head.unplaced)
    read = [await runtime.journal.runs.snapshot(head.owner, run_id) for run_id in run_ids]
    # What is loose has no place yet, even if the run has ended since the thread was read. One that ended in
    # the queue has nothing else.
    waiting = [branch(each, ended=False) for each in read if each is not None and each.meta.began]
    messages = [with_token_count(m) for each in (*waiting, *more) for m in each.messages]
    if messages:
        await runtime.threads.save_messages(head, parents_first(messages))


async def save_ahead(runtime: Runtime, head: ThreadHead, snapshot: RunSnapshot) -> None:
    """Write the messages of waiting runs that this run's next message follows, unless an earlier turn of this
    run has."""
    if unheard_leaf(snapshot):
        await save_waiting(runtime, head, branch(snapshot, ended=False))
    elif (head.waiting_runs or head.unplaced) and not snapshot.steps:
        await save_waiting(runtime, head)


async def branch_up_to(
    runtime: Runtime, head: ThreadHead, message_ids: Collection[str | None]
) -> list[Branch]:
    """Return what the run that has the thread has said up to the last of these messages, which others follow
    already; none if they are not its own."""
    if head.active_run is None or not any(message_ids):
        return []
    active = await runtime.journal.runs.snapshot(head.owner, head.active_run)
    own = branch(active, ended=False) if active is not None else None
    followed = [n for n, m in enumerate(own.messages, 1) if m.id in message_ids] if own else []
    return [own._replace(messages=own.messages[: followed[-1]])] if own and followed else []


async def load_heard(
    runtime: Runtime, head: ThreadHead, snapshot: RunSnapshot
) -> tuple[Message, ...]:
    """Return what other runs have said since this one was set aside, as its model reads it: the newest of it,
    oldest first. None of it, if the conversation goes on in another branch than the run's."""
    meta = snapshot.meta
    assert meta.hears is not None
    stored = await runtime.threads.newest_messages(meta.owner, meta.thread_id, meta.hears, LOOK)
    own = [place for place, message in enumerate(stored) if message.run_id == meta.id]
    # Its own messages are further back, or in another branch, which has older ones.
    newest = branch(snapshot, ended=False).messages[-1].created_at
    if not own and (len(stored) < LOOK or stored[0].created_at < newest):
        return ()
    # A branch that began behind an early message of the run has what the run heard of it before.
    earlier = {message.id for step in own_steps(snapshot) for message in step.heard}
    missed = [m for m in (stored[own[-1] + 1 :] if own else stored) if m.id not in earlier]
    others = [run_id for run_id in head.waiting_runs if run_id != meta.id]
    whole = with_waiting_results(for_models(missed), others)
    visible = without_orphans(render_notices(whole))
    return tuple(_newest(visible))


def _newest(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the last messages within the limits, from a user's on."""
    start = max(0, len(messages) - MAX_HEARD)
    while start < len(messages) and total_tokens(messages[start:]) > HEARD_TOKENS:
        start += 1
    users = (at for at in range(start, len(messages)) if messages[at].role is Role.USER)
    return messages[next(users, start) :] if start else messages


async def take_back(
    runtime: Runtime,
    log: RunLog,
    *,
    waits: bool,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Claim:
    """Take the thread for a run that was set aside and can go on. If another run is at work in it, the run
    goes on after that one (`waits`), or nothing is written. Raises Fenced, RetryableError."""
    meta = log.snapshot.meta
    for attempt in range(_TRIES):
        head = await runtime.journal.heads.get(meta.owner, meta.thread_id)
        if head is None or head.deleted:
            raise Fenced("the thread is gone", run_id=meta.id, thread_id=meta.thread_id)
        if head.active_run == meta.id:
            return Claim.TAKEN
        # Read once: one that waits by now, and did not before, has looked for this one already.
        at = head.active_run
        active = await runtime.journal.runs.snapshot(meta.owner, at) if at else None
        if at is None or (active is not None and active.meta.only_waits):
            if await log.take_thread(head, set_aside(head, active) if active else None):
                return Claim.TAKEN
        elif not waits or (active and await log.wait_for_thread(head, active.meta)):
            return Claim.LATER
        # Something changed in between. Requests that collided here must not collide again.
        await sleep(runtime.dice.up_to(min(_MAX_PAUSE_S, 0.01 * 2 ** min(attempt, 5))))
    raise RetryableError("other requests keep changing the thread", run_id=meta.id)


async def hand_on(runtime: Runtime, owner: str, thread_id: str) -> bool:
    """If the run that holds the thread only waits, let one go on that was set aside and can, or start the
    first in the queue. Return whether one was. A process that dies before this leaves it to the sweeper."""
    head = await runtime.journal.heads.get(owner, thread_id)
    if head is None or head.deleted or head.active_run is None:
        return False
    if not head.ready and not head.queue:
        return False
    snapshot = await find_waiting(runtime, owner, head.active_run)
    if snapshot is None:
        return False
    if head.ready:
        return await go_on(runtime, owner, head.ready[0])
    if policy_of(runtime, snapshot.meta) is not OnWaiting.ANSWER:
        return False
    started = await runtime.journal.commands.start_queued(head, set_aside(head, snapshot))
    if started is None:
        return False
    await start_execution(runtime, owner, started, 1)
    return True


async def go_on(runtime: Runtime, owner: str, run_id: str) -> bool:
    """Start the next execution of a run that was set aside and can go on: its turn takes the thread."""
    run = await runtime.journal.runs.get(owner, run_id)
    if run is None or run.status is not Status.RUNNING or not run.ready:
        return False
    return await start_successor(runtime, owner, run_id, run.execution) is not None


def policy_of(runtime: Runtime, run: RunMeta) -> OnWaiting:
    """Return what the run's agent does with a message that comes while it waits."""
    agent = deployed_agent(runtime.agents, run.agent)
    return agent.on_waiting if agent else OnWaiting.ANSWER
