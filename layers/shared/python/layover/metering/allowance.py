"""The conditions under which a run may start: the operator's switch, the user's rate and the user's daily
allowance."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from layover.errors import DayUsedUp, LimitReached, StoppedByOperator
from layover.ports import DayLimits
from layover.runtime import Runtime
from layover.values.runs.run import CallRecord


async def may_begin(runtime: Runtime, owner: str) -> None:
    """Count the run for its user's minute. Raises StoppedByOperator, DayUsedUp and LimitReached."""
    await check_open(runtime, owner)
    per_minute = runtime.settings.runs_per_minute
    if per_minute is None:
        return
    wait = await runtime.allowance.admit(owner, per_minute)
    if wait is not None:
        raise LimitReached(f"a user may begin {per_minute} runs a minute", wait)


async def check_open(runtime: Runtime, owner: str) -> None:
    """Raise StoppedByOperator or DayUsedUp if no run of the user may begin for now. It counts nothing."""
    if await runtime.allowance.stopped():
        raise StoppedByOperator("the operator of this system has stopped it for now")
    limit = await find_reached_limit(runtime, owner)
    if limit is not None:
        raise DayUsedUp(limit, _until_tomorrow(runtime.clock.now()))


async def may_embed(runtime: Runtime, owner: str) -> bool:
    """Return whether an embedder may be asked for what a user imports. Without vectors it is stored all the
    same, and found by words."""
    if await runtime.allowance.stopped():
        return False
    return await find_reached_limit(runtime, owner) is None


async def find_reached_limit(runtime: Runtime, owner: str) -> str | None:
    """Return the daily limit that the user has reached, as a sentence; None: there is room."""
    if not runtime.settings.limits_days:
        return None
    tokens, cost = runtime.settings.daily_tokens, runtime.settings.daily_cost_usd
    usage = await runtime.allowance.used(owner)
    if DayLimits(tokens=tokens).are_reached(usage):
        return f"today's {tokens} tokens are used up; the next day begins at 00:00 UTC"
    if DayLimits(cost_usd=cost).are_reached(usage):
        return f"today's {cost} US dollars are used up; the next day begins at 00:00 UTC"
    return None


async def release_room(
    runtime: Runtime, owner: str, run_id: str, calls: Iterable[CallRecord]
) -> None:
    """Release the room in the user's day that steps of the run and of its sub-agents hold."""
    frames = [run_id, *(call.child.id for call in calls if call.child)]
    await runtime.allowance.release_all(owner, frames)


def _until_tomorrow(now: datetime) -> timedelta:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(days=1) - now
