"""Room in a user's day for the next step of a run (docs/behaviour.md#daily-limits)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal

from layover.context.assembly import estimated_tokens
from layover.engine.work import RunWork
from layover.errors import RunFailed
from layover.ports import DayLimits, DayUse, Reservation
from layover.values.prompt import Prompt
from layover.values.runs.usage import Usage

ANSWER_TOKENS = 4_000
"""The tokens that are reserved for an answer before it arrives."""
POLL_INTERVAL = timedelta(seconds=0.5)
"""The pause between two looks while steps of the user's other runs hold the rest of the day."""


class DayRoom:
    """The room that one frame of a run has in its user's day, a step at a time. Sub-agents that run side by
    side each hold their own room, under their own run ids."""

    def __init__(self, work: RunWork) -> None:
        self._runtime = work.runtime
        self._meta = work.state.meta
        self._holder = work.state.run_id
        settings = work.runtime.settings
        self._is_limited = settings.limits_days
        self._limits = DayLimits(settings.daily_tokens, settings.daily_cost_usd)

    async def reserve(self, prompt: Prompt) -> None:
        """Hold the room that a request may need. Waits while other runs hold the rest. Raises RunFailed if
        the day is used up."""
        if not self._is_limited:
            return
        allowance, meta = self._runtime.allowance, self._meta
        need = self._need(prompt)
        while True:
            answer = await allowance.reserve(meta.owner, self._holder, need, self._limits)
            if answer is Reservation.GRANTED:
                return
            if answer is Reservation.USED_UP:
                reason = "the user's day is used up; the next one begins at 00:00 UTC"
                raise RunFailed(reason, type="LimitReached", run_id=meta.id)
            await self._runtime.clock.sleep(POLL_INTERVAL)

    @asynccontextmanager
    async def released(self) -> AsyncIterator[None]:
        """Release the room that was held, and count the use. A step that is cut off may still be paid for: it
        keeps its room until the run reserves again."""
        try:
            yield
        except Exception:
            await self._runtime.allowance.release(self._meta.owner, self._holder)
            raise
        await self._runtime.allowance.release(self._meta.owner, self._holder)

    def _need(self, prompt: Prompt) -> DayUse:
        usage = Usage(input_tokens=estimated_tokens(prompt), output_tokens=ANSWER_TOKENS)
        price = self._runtime.price
        cost = price(prompt.model, usage) if price is not None else None
        return DayUse(usage.total_tokens, cost or Decimal(0))
