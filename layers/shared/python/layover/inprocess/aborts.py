"""Runs that a caller in this process aborted."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable


class AbortsHere:
    """`ports.Aborts`. `catch_up`: returns once handlers, which may abort a run, have seen the journal."""

    def __init__(self, catch_up: Callable[[str], Awaitable[None]]) -> None:
        self._catch_up = catch_up
        self._aborted: set[str] = set()
        self._bells: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def abort(self, run_id: str) -> None:
        """Stop this run from calling a model or a tool from here on. Callable from any thread."""
        self._aborted.add(run_id)

    def ring(self, run_id: str) -> None:
        """Stop the run's work as well. Must be called on the run's own loop."""
        self._bells[run_id].set()

    def forget(self, run_id: str) -> None:
        """Forget the run: it is at rest."""
        self._aborted.discard(run_id)
        self._bells.pop(run_id, None)

    def stops(self, run_id: str) -> bool:
        """Return whether the run was aborted and is not at rest yet."""
        return run_id in self._aborted

    async def is_aborted(self, run_id: str) -> bool:
        """Return whether the run was aborted, including by a handler of events that the journal already
        has."""
        await self._catch_up(run_id)
        return self.stops(run_id)

    async def wait(self, run_id: str) -> None:
        """Return once the run's work is to stop."""
        await self._bells[run_id].wait()


class EarlyAbort:
    """An abort of a stream whose run is not yet going on. It is carried out once the run does."""

    def __init__(self) -> None:
        self.is_asked = False
        self._over = False

    def ask(self) -> None:
        """Abort, if the run has not gone on since. Callable from any thread."""
        self.is_asked = self.is_asked or not self._over

    def over(self) -> bool:
        """Return whether the run was aborted. The run goes on from here, so a later abort is not early."""
        self._over = True
        return self.is_asked
