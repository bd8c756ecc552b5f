"""The time limit of an invocation."""

from collections.abc import Callable
from datetime import timedelta


class LambdaDeadline:
    """`ports.Deadline` over a Lambda context's `get_remaining_time_in_millis`."""

    def __init__(self, remaining_ms: Callable[[], int]) -> None:
        self._remaining_ms = remaining_ms

    def remaining(self) -> timedelta:
        """Return the time left of this invocation."""
        return timedelta(milliseconds=self._remaining_ms())


class NoDeadline:
    """For a process without a deadline."""

    def remaining(self) -> timedelta:
        """Return a practically endless time."""
        return timedelta(days=365)
