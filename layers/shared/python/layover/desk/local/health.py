"""The parts of the running system that do not work. A system that lacks one is not whole, and says so."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus

from layover.desk.local.http.event import Response

logger = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Returns what is wrong with a part; None if it works."""
_RETRY_AFTER_S = "2"


class Health:
    """The parts that are down, with the reasons. It belongs to the event loop's thread. `now`: seconds,
    monotonic."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._down: dict[str, str] = {}
        self._checks: dict[str, Check] = {}
        self._heard: dict[str, tuple[float, float]] = {}

    def check(self, part: str, check: Check) -> None:
        """Ask `check` about the part whenever the health is read."""
        self._checks[part] = check

    def expect(self, part: str, every: timedelta) -> None:
        """Count the part as down if neither `works` nor `fails` is called for so long."""
        self._heard[part] = (self._now(), every.total_seconds())

    def fails(self, part: str, why: str) -> None:
        """Take note that the part does not work."""
        self._hear(part)
        if part not in self._down:
            logger.error("%s does not work: %s", part, why)
        self._down[part] = why

    def works(self, part: str) -> None:
        """Take note that the part works."""
        self._hear(part)
        if self._down.pop(part, None) is not None:
            logger.warning("%s works again", part)

    def problem(self) -> str | None:
        """Return which parts are down, and why; None if all work."""
        for part, check in self._checks.items():
            why = check()
            if why is not None:
                self.fails(part, why)
            else:
                self.works(part)
        silent = {
            part: f"nothing was heard of it for {self._now() - at:.0f} s"
            for part, (at, every) in self._heard.items()
            if self._now() - at > every
        }
        down = {**self._down, **silent}
        return "; ".join(f"{part}: {why}" for part, why in down.items()) or None

    def answer(self) -> Response | None:
        """Return the answer to `GET /healthz` of a system that is not whole; None if it is."""
        problem = self.problem()
        if problem is None:
            return None
        return Response.problem(
            HTTPStatus.SERVICE_UNAVAILABLE, "not-whole", problem, {"retry-after": _RETRY_AFTER_S}
        )

    def _hear(self, part: str) -> None:
        if part in self._heard:
            self._heard[part] = (self._now(), self._heard[part][1])
