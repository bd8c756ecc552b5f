"""The right of an operator: whoever uses it leaves a row in the audit of operations before anything
has an effect (docs/adr/0022-operators.md). No other place grants it."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from layover.errors import LimitReached, RequestError, RetryableError
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.operations import OperationKind, OperationOutcome, OperationRow
from layover.values.runs.run import RunMeta

T = TypeVar("T")
_log = logging.getLogger("layover")


@dataclass(frozen=True)
class Deed:
    """Something that an operator does: to a run of whoever it is, to all data of a `user`, or, without
    either, to everything."""

    kind: OperationKind
    run: RunMeta | None = None
    reason: str | None = None
    user: str | None = None


def is_operator(runtime: Runtime, actor: Actor) -> bool:
    """Return whether the actor may do deeds."""
    return runtime.settings.access.operate_scope in actor.scopes


async def as_operator(
    runtime: Runtime, actor: Actor, deed: Deed, effect: Callable[[], Awaitable[T]]
) -> T:
    """Write the row, let the deed have its effect, write what came of it, and return what it gave. The caller
    has checked that the actor is an operator. A death in between, and an error that may come after the
    effect, leave the row pending."""
    run = deed.run
    row = OperationRow(
        operation=deed.kind,
        by=actor.sub,
        on_behalf_of=actor.on_behalf_of,
        run_id=run.id if run else None,
        thread_id=run.thread_id if run else None,
        agent=run.agent if run else None,
        owner=run.owner if run else deed.user,
        reason=deed.reason,
        at=runtime.clock.now(),
    )
    key = await runtime.journal.operations.open(row)
    about = {"run_id": run.id} if run else {}
    _log.warning("an operator acts", extra={**about, "operation": deed.kind.value})
    try:
        result = await effect()
    except (RequestError, LimitReached) as error:
        await _close(runtime, row, key, OperationOutcome.REFUSED, type(error).__name__)
        raise
    await _close(runtime, row, key, OperationOutcome.DONE)
    return result


async def _close(
    runtime: Runtime,
    row: OperationRow,
    key: str,
    outcome: OperationOutcome,
    problem: str | None = None,
) -> None:
    # What was done is done, and has its row: nobody gains from an error here.
    with suppress(RetryableError):
        await runtime.journal.operations.close(row, key, outcome, problem)
