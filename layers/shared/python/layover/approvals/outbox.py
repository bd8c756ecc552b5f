"""The outbox of a run (docs/journal.md#owed): whoever made a fact tells it, and the sweeper tells what that
process could not. So others learn of each fact at least once."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from layover.approvals.bus import (
    publish_decision,
    publish_escalation,
    publish_request,
    publish_vote,
)
from layover.batches import batched
from layover.errors import RetryableError
from layover.runtime import Runtime
from layover.values.decision import WakeUp
from layover.values.runs.debts import WAKE_CUT, Debt, DebtKind, debts_of, paid_with
from layover.values.runs.run import CallRecord, CallState, RunMeta

logger = logging.getLogger("layover")

MAX_TOLD = 8
"""Events that are published side by side."""


async def calls_of(
    runtime: Runtime, run: RunMeta, more: Iterable[str] = ()
) -> dict[str, CallRecord]:
    """Return the calls of which a run owes something, and those with these keys, by key."""
    keys = sorted({*more, *(debt.key for debt in debts_of(run.owed))} - {""})
    records = [await runtime.journal.runs.call(run.owner, run.id, key) for key in keys]
    return {call.key: call for call in records if call is not None}


async def tell(
    runtime: Runtime,
    run: RunMeta,
    calls: Mapping[str, CallRecord],
    owed: Iterable[str],
    within_s: float | None = None,
) -> frozenset[str]:
    """Tell the bus what a run owes it, and return what is paid then. `calls`: by key; what is owed of one
    that is gone is paid. `within_s`: seconds that the bus has."""
    paid: set[str] = set()

    async def try_one(debt: Debt) -> None:
        call = calls.get(debt.key)
        if call is None or await _tell(runtime, run, call, debt):
            paid.add(str(debt))

    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            debts = [debt for debt in debts_of(owed) if debt.kind is not DebtKind.WAKE]
            for some in batched(debts, MAX_TOLD):
                await asyncio.gather(*(try_one(debt) for debt in some))
    return frozenset(paid)


async def _tell(runtime: Runtime, run: RunMeta, call: CallRecord, debt: Debt) -> bool:
    if debt.kind is DebtKind.DECIDED:
        return await publish_decision(runtime, run, call.at_attempt(debt.attempt))
    if debt.attempt != call.attempt or not call.undecided:
        # What was decided since says more.
        return True
    if debt.kind is DebtKind.ESCALATED:
        return await publish_escalation(runtime, run, call)
    if debt.kind is DebtKind.VOTED:
        return await publish_vote(runtime, run, call)
    return await publish_request(runtime, run, call)


async def tell_decision(
    runtime: Runtime, run: RunMeta, call: CallRecord, *, is_told: bool = False
) -> frozenset[str]:
    """Publish the decision of a call, unless that `is_told`. Return what the run does not owe any more; what
    the bus does not take stays owed."""
    if not is_told and not await publish_decision(runtime, run, call):
        return frozenset()
    return paid_with(run.owed, Debt(DebtKind.DECIDED, call.attempt, call.key))


def news_of(owed: Iterable[str], call: CallRecord) -> WakeUp:
    """Return what a wake-up says of a call's decision."""
    is_owed = str(Debt(DebtKind.DECIDED, call.attempt, call.key)) in owed
    return WakeUp.UNTOLD if is_owed else WakeUp.DECIDED


async def wake(runtime: Runtime, token: str, run_id: str, news: WakeUp) -> bool:
    """Try to wake a branch: the record decides, and the sweeper looks again. Return False if no branch waits
    on the token."""
    try:
        return await runtime.callbacks.wake(token, news)
    except RetryableError:
        logger.warning("a branch was not woken", extra={"run_id": run_id})
        return True


async def wake_cut(
    runtime: Runtime, calls: Iterable[CallRecord], owed: Collection[str]
) -> frozenset[str]:
    """Wake the branches of these calls that the end of their run cut, if that is owed. Return what is paid
    then."""
    if WAKE_CUT not in owed:
        return frozenset()
    tokens = [c.token for c in calls if c.state is CallState.SETTLED and c.token is not None]
    try:
        for token in tokens:
            await runtime.callbacks.wake(token)
    except RetryableError:
        logger.warning("branches are woken later")
        return frozenset()
    return frozenset({WAKE_CUT})
