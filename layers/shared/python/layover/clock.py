"""The clock. All code reads the time here, so that tests and the local runner can move it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

MICROSECOND = timedelta(microseconds=1)

_offset: Callable[[], timedelta] | None = None


def install_offset(offset: Callable[[], timedelta] | None) -> None:
    """Let a host move every `SystemClock` of this process (the local runner's `/_local/clock`)."""
    global _offset
    _offset = offset


class SystemClock:
    """UTC wall time, plus the host's offset if one is installed."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        now = datetime.now(UTC)
        return now if _offset is None else now + _offset()

    async def sleep(self, delay: timedelta) -> None:
        """Let the event loop do other work for `delay`."""
        await asyncio.sleep(delay.total_seconds())


class ManualClock:
    """A clock that moves only when it is told to: a test moves it instead of sleeping.

    Args:
        start: The time at which it begins, timezone-aware; None: 2026-01-01 00:00 UTC.

    Example:
        ```python
        import asyncio
        from datetime import timedelta

        from layover import Agent, RunContext
        from layover.testing import ManualClock, ScriptedModel, say


        def today(ctx: RunContext) -> str:
            return f"Today is {ctx.now:%A}."


        async def main() -> None:
            guide, clock = Agent("guide", instructions=today), ManualClock()
            model = ScriptedModel([say("Good morning."), say("Good morning again.")])
            with guide.override(model=model, clock=clock):
                await guide.generate("Hi")
                clock.advance(timedelta(days=1))
                await guide.generate("Hi")
            assert [turn.system for turn in model.turns] == ["Today is Thursday.", "Today is Friday."]


        asyncio.run(main())
        ```
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time that was set, timezone-aware, in UTC."""
        return self._now

    def advance(self, by: timedelta) -> None:
        """Move the clock forward.

        Args:
            by: The time by which it moves.
        """
        self._now += by

    async def sleep(self, delay: timedelta) -> None:
        """Move the clock forward by `delay`, after everything else that is ready to run.

        Args:
            delay: The time by which it moves; no time passes.
        """
        await asyncio.sleep(0)
        self.advance(delay)


def loop_time() -> float:
    """Return the seconds of the running event loop, by which waits of one process are counted. No clock that
    is set moves them."""
    return asyncio.get_running_loop().time()


def rfc3339(moment: datetime) -> str:
    """Return RFC 3339 in UTC with microseconds and `Z`: the text sorts in the order of time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def from_rfc3339(text: str) -> datetime:
    """Invert `rfc3339`."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
