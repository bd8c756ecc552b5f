"""Followers of this process's runs: consumers of a stream, and handlers of events."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from layover.ports import Journal
from layover.values.runs.event import Event

_POLL_INTERVAL_S = 0.05
"""Seconds between two looks, if the stores send no signal."""

Handler = Callable[[Any], Any]
logger = logging.getLogger("layover")


class Followers:
    """Reads events from the journal and calls handlers, once for each event."""

    def __init__(self, journal: Journal, bell: asyncio.Event) -> None:
        self._journal = journal
        self._bell = bell
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        self._following: Counter[str] = Counter()
        self._last_seqs: dict[str, int] = {}
        """The newest event of a run that handlers have seen."""
        self._reading: Counter[str] = Counter()
        """Followers of a run that read by themselves, unlike the consumers of a stream."""
        self._handling: Counter[str] = Counter()
        """Handlers of a run's events that wait for something themselves."""

    def on(self, event: str, handler: Handler) -> None:
        """Call `handler` with each event of this type."""
        self._handlers[event].append(handler)

    def any_of(self, *events: str) -> bool:
        """Return whether a handler takes one of these types (none given: any type)."""
        return any(self._handlers[e] for e in events or tuple(self._handlers))

    async def begin(self, owner: str, run_id: str) -> None:
        """Call handlers for the events from here on, unless they already follow the run."""
        if not self._following[run_id]:
            self._last_seqs[run_id] = await self.last_seq(owner, run_id)

    async def last_seq(self, owner: str, run_id: str) -> int:
        """Return the seq of the run's newest event."""
        last = 0
        while True:
            page = await self._journal.events.page(owner, run_id, last, 1_000)
            if not page.items:
                return last
            last = page.last_seq

    def ring(self) -> None:
        """Signal that there may be new events."""
        self._bell.set()

    async def tell(self, owner: str, run_id: str, drive: asyncio.Task[None]) -> None:
        """Call handlers for all events until the drive is at rest."""
        self._reading[run_id] += 1
        try:
            async for _ in self.follow(owner, run_id, drive, self._last_seqs.get(run_id, 0)):
                pass
        finally:
            self._reading[run_id] -= 1

    async def wait_for_handlers(self, owner: str, run_id: str) -> None:
        """Return once handlers have had all events in the journal. Does not wait for a handler that itself
        waits for something, because that may be the run."""
        while self._reading[run_id] and not self._handling[run_id]:
            page = await self._journal.events.page(owner, run_id, self._last_seqs.get(run_id, 0), 1)
            if not page.items:
                return
            self.ring()
            await asyncio.sleep(0)

    async def follow(
        self, owner: str, run_id: str, drive: asyncio.Task[None], after: int
    ) -> AsyncIterator[Event]:
        """Yield the run's events after this one, until the drive is at rest."""
        self._following[run_id] += 1
        try:
            while True:
                at_rest = drive.done()
                self._bell.clear()
                page = await self._journal.events.page(owner, run_id, after, 1_000)
                # An agent reads what its own version wrote, unless it shares a table with another version.
                for event in cast("tuple[Event, ...]", page.items):
                    await self._tell(event)
                    yield event
                after = max(after, page.last_seq)
                if page.done or (at_rest and not page.items):
                    return
                if not page.items:
                    await self._rung()
        finally:
            self._following[run_id] -= 1

    async def _rung(self) -> None:
        try:
            await asyncio.wait_for(self._bell.wait(), _POLL_INTERVAL_S)
        except TimeoutError:
            return
        except RuntimeError:
            # The event belongs to the loop of an earlier `asyncio.run`.
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def _tell(self, event: Event) -> None:
        """Call the handlers. Their errors are logged and end no run."""
        if event.seq <= self._last_seqs.get(event.run_id, 0):
            return
        self._last_seqs[event.run_id] = event.seq
        for handler in self._handlers[event.type]:
            try:
                answer = handler(event)
                if asyncio.iscoroutine(answer):
                    await self._wait_for_handler(event.run_id, answer)
            except Exception:
                logger.exception("a handler of %r failed", event.type)

    async def _wait_for_handler(self, run_id: str, answer: Any) -> None:
        self._handling[run_id] += 1
        try:
            await answer
        finally:
            self._handling[run_id] -= 1
