"""Actions of operators on the whole deployment or on one user, and the limits of all users. Each action has
its row in the audit of operations before it has any effect, as those on runs (docs/adr/0022-operators.md)."""

from layover.metering.allowance import find_reached_limit
from layover.records.deeds import Deed, as_operator
from layover.retention.forget import Forgetting, forget
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.runs.operated import DaySpend, OperatedLimits
from layover.values.runs.operations import OperationKind, Switch
from layover.values.text import sanitise


async def stop(runtime: Runtime, actor: Actor, reason: str) -> Switch:
    """Turn the switch: no run is accepted and, within seconds, no model is asked. Return how it stands: one
    that was turned before keeps its author, reason and time."""
    words = sanitise(reason)
    wish = Switch(
        stopped=True,
        by=actor.sub,
        on_behalf_of=actor.on_behalf_of,
        reason=words,
        since=runtime.clock.now(),
    )
    deed = Deed(OperationKind.STOP, reason=words)
    return await as_operator(runtime, actor, deed, lambda: runtime.journal.operations.stop(wish))


async def start(runtime: Runtime, actor: Actor) -> Switch:
    """Turn the switch back: everything goes on."""
    await as_operator(runtime, actor, Deed(OperationKind.START), runtime.journal.operations.start)
    return await runtime.journal.operations.switch()


async def erase_user(runtime: Runtime, actor: Actor, user: str, reason: str) -> Forgetting:
    """Erase all data of a user, as that user may: data from before `until` is hidden at once. A user of whom
    nothing is stored is answered in the same way. Raises RetryableError as `forget`."""
    deed = Deed(OperationKind.ERASE, reason=sanitise(reason), user=user)
    return await as_operator(runtime, actor, deed, lambda: forget(runtime, user))


async def read_limits(runtime: Runtime, owner: str | None) -> OperatedLimits:
    """Return the limits of each user, the switch, and what `owner` (None: nobody) has used of today."""
    settings = runtime.settings
    used = None
    if owner is not None and settings.limits_days:
        use = await runtime.allowance.used(owner)
        is_used_up = await find_reached_limit(runtime, owner) is not None
        used = DaySpend(tokens=use.tokens, cost_usd=use.cost_usd, used_up=is_used_up)
    return OperatedLimits(
        daily_tokens=settings.daily_tokens,
        daily_cost_usd=settings.daily_cost_usd,
        runs_per_minute=settings.runs_per_minute,
        switch=await runtime.journal.operations.switch(),
        used=used,
    )
