"""The time left before the invocation is cut off, and whether a step or a tool fits into it
(docs/behaviour.md#yields)."""

from collections.abc import Iterable
from datetime import timedelta

from layover.ports import Deadline

RESERVE = timedelta(seconds=1)
"""The time kept for journaling and for the answer."""
MODEL_NEEDS = timedelta(seconds=60)
MODEL_SHARE = 0.3
"""The share of the limit that a model call needs to begin, if that is less than a minute."""
TOOL_NEEDS = timedelta(seconds=30)
TOOL_SHARE = 0.5
"""The same for a tool that sets no `timeout`."""


class NoDeadline:
    """`ports.Deadline` of a process that has none."""

    def remaining(self) -> timedelta:
        """Return a practically endless time."""
        return timedelta(days=365)


class TimeLeft:
    """The deadline of one invocation. Its first piece of work always begins: otherwise a step that is longer
    than any limit would be put off for ever."""

    def __init__(self, deadline: Deadline | None = None) -> None:
        self._deadline = deadline = deadline or NoDeadline()
        self._limit = deadline.remaining()
        self._fresh = True
        self._closed = False

    def close(self) -> None:
        """Let nothing more begin: the invocation is about to answer."""
        self._closed = True

    def for_model(self) -> bool:
        """Return whether there is time for a model call."""
        return self._for(min(MODEL_NEEDS, self._limit * MODEL_SHARE))

    def for_tools(self, timeouts: Iterable[timedelta | None]) -> bool:
        """Return whether there is time for tools with these time-outs."""
        usual = min(TOOL_NEEDS, self._limit * TOOL_SHARE)
        return self._for(max((t or usual for t in timeouts), default=usual))

    def until_cut(self) -> float:
        """Return the seconds until work that can be repeated has to be let go."""
        return max(0.0, (self._deadline.remaining() - RESERVE).total_seconds())

    def _for(self, need: timedelta) -> bool:
        if self._closed:
            return False
        enough = self._fresh or self._deadline.remaining() >= need + RESERVE
        self._fresh = False
        return enough
