"""A loop that skips time while no task has anything to do: tests of seconds take none."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec

_BEGINNING = 1_000.0
_P = ParamSpec("_P")


class Skipping(asyncio.SelectorEventLoop):
    """A loop that waits for nothing: if no task has anything to do, it is later at once."""

    def __init__(self) -> None:
        self._skipped = 0.0
        super().__init__()
        selector: Any = vars(self)["_selector"]  # asyncio's own; no public name leads to it
        self._look = selector.select
        selector.select = self._skip

    def time(self) -> float:
        """Only skipped time counts: on a busy machine, no task is late."""
        return _BEGINNING + self._skipped

    def _skip(self, timeout: float | None = None) -> Any:
        found = self._look(0)
        if not found:
            assert timeout is not None, "everybody waits for somebody else"
            self._skipped += timeout
        return found


class LoopClock:
    """The loop's time as a clock, which may be set wrong."""

    def __init__(self) -> None:
        self.wrong = timedelta(0)

    def now(self) -> datetime:
        moment = datetime.fromtimestamp(asyncio.get_running_loop().time(), UTC)
        return moment + self.wrong

    async def sleep(self, delay: timedelta) -> None:
        await asyncio.sleep(delay.total_seconds())


@dataclass
class LoopDeadline:
    """A deadline at a moment of the loop's time, in its seconds."""

    at: float

    def remaining(self) -> timedelta:
        return timedelta(seconds=self.at - asyncio.get_running_loop().time())


def played(scene: Coroutine[Any, Any, None]) -> None:
    """Run a scene on such a loop."""
    with asyncio.Runner(loop_factory=Skipping) as runner:
        runner.run(scene)


def skipping(test: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, None]:
    """Run a test on such a loop. It waits for no thread and for no process."""

    @functools.wraps(test)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        played(test(*args, **kwargs))

    return run
