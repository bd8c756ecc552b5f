"""The rates of services: so many requests in any second."""

from collections import deque
from collections.abc import Callable


class Rate:
    """`now`: seconds that only grow."""

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit = limit
        self._now = now
        self._times: deque[float] = deque()

    def takes(self) -> bool:
        """Count a request if it is within the rate, and return whether it is."""
        now = self._now()
        while self._times and now - self._times[0] >= 1:
            self._times.popleft()
        if len(self._times) >= self._limit:
            return False
        self._times.append(now)
        return True
