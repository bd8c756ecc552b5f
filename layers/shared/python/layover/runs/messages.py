"""Messages to a run after its input: its next step reads them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from layover.approvals.decide import record_withdrawal
from layover.context.transcript import unread_messages
from layover.errors import Conflict, LimitReached
from layover.files.uploads import take_files
from layover.ports import RequestKey, StaleRun
from layover.records.runs import meta_of
from layover.runs.aside import policy_of
from layover.runtime import Runtime
from layover.values.client_ids import with_client_id
from layover.values.deployment.access import Actor
from layover.values.message import InputPart, Message, Role
from layover.values.runs.run import BUDGET_TOOL, MAX_SAID, OnWaiting, RunSnapshot

_TRIES = 50
_MAX_PAUSE_S = 0.1


async def send(
    runtime: Runtime,
    actor: Actor,
    run_id: str,
    content: Sequence[InputPart],
    request: RequestKey | None = None,
    sent: RequestKey | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Send a message to the actor's run, once for each request key. A run that waits goes on waiting.

    Raises NotFound (the run), Conflict (it is over, or being cancelled; or a key came with another request),
    LimitReached (it was sent as many as it may be)."""
    message_id = with_client_id(runtime.ids.new("msg"), sent.key if sent else None)
    parts: tuple[InputPart, ...] | None = None
    for _ in range(_TRIES):
        run = await meta_of(runtime, actor.owner, run_id)
        if run.status.over or run.cancel:
            raise Conflict("the run is over, and takes no message", run_id=run_id)
        if run.said >= MAX_SAID:
            raise LimitReached(f"a run takes {MAX_SAID} messages at most", run_id=run_id)
        if parts is None:
            parts = await take_files(runtime, actor.owner, run.thread_id, tuple(content))
        message = Message(
            id=message_id,
            thread_id=run.thread_id,
            run_id=run.id,
            # The step that reads it gives it its place in the thread.
            parent_id=None,
            role=Role.USER,
            content=parts,
            created_at=runtime.clock.now(),
        )
        try:
            await runtime.journal.commands.add_message(run, message, request, sent)
        except StaleRun:
            await sleep(runtime.dice.up_to(_MAX_PAUSE_S))
        else:
            return
    raise Conflict("other requests keep changing the run; try again", run_id=run_id)


async def withdraw(runtime: Runtime, actor: Actor, snapshot: RunSnapshot) -> None:
    """Settle each call that waited in this snapshot as withdrawn by the actor, whose message the run reads
    instead. A decision that comes first stands, and a call or an attempt that came later waits on: it may be
    the run's answer to that message."""
    for call in snapshot.calls:
        if call.undecided:
            await record_withdrawal(runtime, actor, snapshot, call)


async def withdraw_again(
    runtime: Runtime,
    actor: Actor,
    run_id: str,
    is_it: Callable[[Message], bool],
    on_waiting: OnWaiting | None = None,
) -> None:
    """Finish what a process began that died between sending a message to a run and withdrawing what the run
    waits for. Once the run has read the message, it was withdrawn.

    Args:
        runtime: The ports.
        actor: The caller, who sends the message again.
        run_id: The run that has it.
        is_it: Returns True for that message, of those that the run was sent and has not read.
        on_waiting: The request's policy; None: the agent's.
    """
    snapshot = await runtime.journal.runs.snapshot(actor.owner, run_id)
    if snapshot is None or not any(map(is_it, unread_messages(snapshot))):
        return
    policy = on_waiting or policy_of(runtime, snapshot.meta)
    # A run that asks for a larger budget by now had gone on: what it waited for was decided.
    if policy is OnWaiting.WITHDRAW and not asks_for_budget(snapshot):
        await withdraw(runtime, actor, snapshot)


def asks_for_budget(snapshot: RunSnapshot) -> bool:
    """Return whether a run waits for a larger budget. It could answer no message without it."""
    return any(call.undecided and call.tool_name == BUDGET_TOOL for call in snapshot.calls)
