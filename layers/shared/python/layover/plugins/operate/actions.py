"""Actions of operators on runs of all users. Each has its row in the audit of operations before it has any
effect (docs/adr/0022-operators.md)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from layover.approvals.decide import record_denial
from layover.errors import (
    Conflict,
    LayoverError,
    LimitReached,
    NotFound,
    RequestError,
    RetryableError,
)
from layover.plugins.operate.views import prompt_view, timeline_of
from layover.ports import RunFilter
from layover.records.deeds import Deed, as_operator, is_operator
from layover.records.runs import meta_of, snapshot_of
from layover.records.views import run_view
from layover.recovery.redrive import redrive
from layover.runs.cancel import cancel
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.operated import OperatedPrompt, OperatedTimeline
from layover.values.runs.operations import OperationKind
from layover.values.runs.run import RunMeta, Status
from layover.values.runs.views import Run
from layover.values.text import sanitise

MAX_REDRIVEN = 1_000
"""Failed runs that one request redrives."""
MAX_AT_ONCE = 16
"""Runs that one request works on side by side. A cancel may take two seconds."""
_NO_RUN = "there is no such run"


async def act_on(
    runtime: Runtime,
    actor: Actor,
    kind: OperationKind,
    run_ids: Sequence[str],
    reason: str | None = None,
) -> list[LayoverError | None]:
    """Cancel, redrive or deny each run as if it were asked for by itself. Return the error of each that was
    refused, in order; None: it was done. Raises errors that no caller could have caused, after all were
    tried."""
    effect = _EFFECTS[kind]
    reason = sanitise(reason)
    ids = list(dict.fromkeys(run_ids))
    runs = await runtime.journal.overview.find(ids)
    room = asyncio.Semaphore(MAX_AT_ONCE)

    async def act(run_id: str) -> LayoverError | None:
        async with room:
            facts = runs.get(run_id)
            if facts is None:
                return NotFound(_NO_RUN, run_id=run_id)
            try:
                run = await meta_of(runtime, str(facts.owner), run_id)
                deed = Deed(kind, run, reason)
                await as_operator(runtime, actor, deed, lambda: effect(runtime, actor, run, reason))
            except (RequestError, LimitReached, RetryableError) as error:
                return error
            return None

    outcomes = await asyncio.gather(*(act(id) for id in ids), return_exceptions=True)
    results: dict[str, LayoverError | None] = {}
    for id, outcome in zip(ids, outcomes, strict=True):
        if outcome is not None and not isinstance(outcome, LayoverError):
            raise outcome
        results[id] = outcome
    return [results[id] for id in run_ids]


async def read_run(
    runtime: Runtime, actor: Actor, run_id: str, *, with_content: bool
) -> tuple[OperatedTimeline, Run | None]:
    """Return any user's run step by step and, `with_content`, the run as its owner sees it: that leaves a row
    before it is read. The caller has checked the actor's scopes. Raises NotFound."""
    facts = (await runtime.journal.overview.find([run_id])).get(run_id)
    if facts is None:
        raise NotFound(_NO_RUN, run_id=run_id)
    owner = str(facts.owner)
    if with_content:
        run = await meta_of(runtime, owner, run_id)
        await as_operator(runtime, actor, Deed(OperationKind.READ, run), _read)
    snapshot = await snapshot_of(runtime, owner, run_id)
    timeline = timeline_of(snapshot, with_content=with_content)
    return timeline, run_view(snapshot, runtime.agents) if with_content else None


async def has_failed(runtime: Runtime, actor: Actor, run_id: str) -> bool:
    """Return whether a run of the actor's has failed, or goes on since it did. Raises NotFound."""
    run = await meta_of(runtime, actor.owner, run_id)
    return run.status is Status.FAILED or run.reopened_at is not None


async def read_prompt(runtime: Runtime, actor: Actor, run_id: str, number: int) -> OperatedPrompt:
    """Return the prompt of a step of any user's run, behind a row. The caller has checked the actor's scopes.
    Raises NotFound and RetryableError."""
    from layover.runs.prompts import remake_prompt

    facts = (await runtime.journal.overview.find([run_id])).get(run_id)
    if facts is None:
        raise NotFound(_NO_RUN, run_id=run_id)
    owner = str(facts.owner)
    run = await meta_of(runtime, owner, run_id)
    await as_operator(runtime, actor, Deed(OperationKind.READ, run), _read)
    snapshot = await snapshot_of(runtime, owner, run_id)
    head = await runtime.journal.heads.get(owner, run.thread_id)
    if head is None:
        raise NotFound(_NO_RUN, run_id=run_id)
    again = await remake_prompt(runtime, head, snapshot, number)
    return prompt_view(number, again.prompt, again.problem)


async def redrive_run(runtime: Runtime, actor: Actor, run_id: str) -> Run:
    """Let a run of the actor's go on in a fresh execution: any run of an operator's, else one that failed.
    One that goes on since it failed stays as it is. Raises as `redrive`."""
    run = await meta_of(runtime, actor.owner, run_id)
    if is_operator(runtime, actor):
        deed = Deed(OperationKind.REDRIVE, run)
        return await as_operator(runtime, actor, deed, lambda: redrive(runtime, run.owner, run.id))
    if run.status is not Status.FAILED:
        # The request comes again, since the answer to it was lost.
        return run_view(await snapshot_of(runtime, run.owner, run.id), runtime.agents)
    return await redrive(runtime, run.owner, run.id)


async def redrive_failed(
    runtime: Runtime, actor: Actor, only: RunFilter, reason: str | None = None
) -> dict[str, LayoverError | None]:
    """Redrive the failed runs that pass a filter, the newest first and `MAX_REDRIVEN` at most. Return the
    error of each that was refused; None: it goes on."""
    ids: list[str] = []
    cursor: str | None = None
    while len(ids) < MAX_REDRIVEN:
        page = await runtime.journal.overview.page(only, MAX_REDRIVEN - len(ids), cursor)
        ids += [facts.id for facts in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    outcomes = await act_on(runtime, actor, OperationKind.REDRIVE, ids, reason)
    return dict(zip(ids, outcomes, strict=True))


Effect = Callable[[Runtime, Actor, RunMeta, str | None], Awaitable[None]]


async def _cancel(runtime: Runtime, actor: Actor, run: RunMeta, reason: str | None) -> None:
    _refuse_over(run)
    await cancel(runtime, run.owner, run.id, by=actor)


async def _redrive(runtime: Runtime, actor: Actor, run: RunMeta, reason: str | None) -> None:
    await redrive(runtime, run.owner, run.id)


async def _deny(runtime: Runtime, actor: Actor, run: RunMeta, reason: str | None) -> None:
    """Deny every call that waits, at any depth. The others of a run, and its next step, follow as after any
    denial."""
    _refuse_over(run)
    snapshot = await snapshot_of(runtime, run.owner, run.id)
    denials = [
        await record_denial(runtime, actor, snapshot, call, reason or "")
        for call in snapshot.calls
        if call.undecided
    ]
    if not any(denials):
        raise Conflict("no call of the run waits for a decision", run_id=run.id)


async def _read() -> None:
    """The answer is the effect, and follows."""


def _refuse_over(run: RunMeta) -> None:
    if run.status.over:
        raise Conflict(f"the run is over: {run.status.value}", run_id=run.id)


_EFFECTS: dict[OperationKind, Effect] = {
    OperationKind.CANCEL: _cancel,
    OperationKind.REDRIVE: _redrive,
    OperationKind.DENY: _deny,
}
