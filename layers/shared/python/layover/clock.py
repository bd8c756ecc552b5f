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
    """A clock that moves only when told to (tests)."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time that was set, timezone-aware, in UTC."""
        return self._now

    def advance(self, by: timedelta) -> None:
        """Move the clock forward by `by`."""
        self._now += by

    async def sleep(self, delay: timedelta) -> None:
        """Move the clock forward by `delay`, after everything else that is ready to run."""
        await asyncio.sleep(0)
        self.advance(delay)


def rfc3339(moment: datetime) -> str:
    """Return RFC 3339 in UTC with microseconds and `Z`: the text sorts in the order of time."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def from_rfc3339(text: str) -> datetime:
    """Invert `rfc3339`."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
