"""Following a run for as long as it takes: the source of streams (docs/behaviour.md#streams)."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, nullcontext
from datetime import datetime, timedelta

from layover.clock import loop_time
from layover.errors import NotFound
from layover.records.runs import MAX_SEQ, meta_of
from layover.runs.long_polls import Pace, close_looks
from layover.runs.places import StreamPlace, place_to_stream
from layover.runtime import Runtime
from layover.values.runs.event import LoggedEvent
from layover.values.runs.run import Status

HEARTBEAT_S = 10.0
"""Seconds of silence after which a stream sends a heartbeat: proxies close silent connections."""
STREAM_LIVES = timedelta(minutes=14)
"""Lambda and API Gateway both end a stream after 15 minutes (docs/aws-facts.md#api-gateway)."""
SILENCE_S = 30.0
"""Seconds without an event after which a stream ends whose reader comes back. On Lambda nobody else ends the
stream of a reader that has left (docs/aws-facts.md#lambda)."""
_REST_S = 1.0
"""Seconds without an event after which a run may count as waiting: another of its calls may be at work."""
_PAGE = 500


class LogReader:
    """The events of a run that a caller does not have yet. `done`: True once the last one is read."""

    def __init__(self, runtime: Runtime, owner: str, run_id: str, after: int) -> None:
        self.done = False
        self._runtime = runtime
        self._owner = owner
        self._run_id = run_id
        self._last = min(after, MAX_SEQ)
        self._reads_page = True

    async def read(self) -> tuple[LoggedEvent, ...]:
        """Return the next events; none if there is nothing new, which a cheap look tells."""
        events = self._runtime.journal.events
        place = self._owner, self._run_id, self._last
        if not self._reads_page and not await events.peek(*place):
            return ()
        page = await events.page(*place, _PAGE)
        self._last = max(self._last, page.last_seq)
        self._reads_page, self.done = bool(page.items), page.done
        return page.items

    async def status(self) -> Status | None:
        """Return what the run shows as its status; None: it is not there any more. The next `read` reads a
        page, because a caller whose seq is beyond the last event has no end of a batch to look behind."""
        self._reads_page = True
        try:
            return (await meta_of(self._runtime, self._owner, self._run_id)).shown_status
        except NotFound:
            return None


class StreamLife:
    """The rules by which a stream ends, and its rests between looks. `lasts`: seconds from now to its end;
    `returns`: as in `follow`."""

    def __init__(
        self,
        reader: LogReader,
        pace: Pace,
        lasts: float,
        *,
        returns: bool,
    ) -> None:
        self._reader = reader
        self._pace = pace
        self._returns = returns
        self._end = pace.now() + lasts
        self._hear()

    async def goes_on(self, events: Collection[LoggedEvent], place: StreamPlace | None) -> bool:
        """Return whether the stream goes on after a look that found these events. Rests after one that found
        none."""
        if self._pace.now() >= self._end or (place and await place.is_lost()):
            return False
        if events:
            self._hear()
            return True
        if place is None or await self._is_idle():
            return False
        await self._pace.sleep(min(next(self._pauses), max(0.0, self._end - self._pace.now())))
        return True

    def _hear(self) -> None:
        self._pauses, self._news_at = close_looks(), self._pace.now()
        self._check_at = self._news_at + _REST_S

    async def _is_idle(self) -> bool:
        """Return whether a stream without news has nothing to wait for."""
        if self._returns and self._pace.now() - self._news_at >= SILENCE_S:
            return True
        if self._pace.now() < self._check_at:
            return False
        self._check_at = self._pace.now() + HEARTBEAT_S
        status = await self._reader.status()
        return status is None or (self._returns and status is Status.SUSPENDED)


async def follow(
    runtime: Runtime,
    owner: str,
    run_id: str,
    after: int,
    until: datetime | None = None,
    pace: Pace | None = None,
    *,
    returns: bool = False,
) -> AsyncGenerator[tuple[LoggedEvent, ...], None]:
    """Yield the run's events after this seq, in order and each exactly once; an empty tuple after each look
    that finds nothing new. Ends after the last event. Ends earlier after `STREAM_LIVES`, at `until` (the end
    of the caller's token), when the thread is deleted, when another stream needs the place, and, after the
    events that exist, where no place is free. A caller that comes back with the last seq misses nothing.

    `returns`: the caller comes back by itself. The stream then ends after `SILENCE_S` without an event, and
    where the run waits for a person, for whom no place is held."""
    now = runtime.clock.now()
    ends_at = min(now + STREAM_LIVES, until or datetime.max.replace(tzinfo=now.tzinfo))
    reader = LogReader(runtime, owner, run_id, after)
    life = StreamLife(reader, pace or Pace(), (ends_at - now).total_seconds(), returns=returns)
    waits = returns and await waits_for_person(runtime, owner, run_id)
    events = await reader.read()
    if events or reader.done:
        yield events
    if reader.done:
        return
    async with nullcontext() if waits else place_to_stream(runtime, owner) as place:
        goes_on = bool(place or events)
        while goes_on:
            events = await reader.read()
            yield events
            goes_on = not reader.done and await life.goes_on(events, place)


async def waits_for_person(runtime: Runtime, owner: str, run_id: str) -> bool:
    """Return whether the run waits for a person. One that is not there (any more) does not."""
    try:
        return (await meta_of(runtime, owner, run_id)).shown_status is Status.SUSPENDED
    except NotFound:
        return False


async def with_heartbeat(
    pieces: AsyncGenerator[bytes, None], beat: bytes, pace: Pace | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces, and `beat` after `HEARTBEAT_S` with only empty ones."""
    now = pace.now if pace else loop_time
    last_sent_at = now()
    # Closed with this generator, because the garbage collector would give a place back too late.
    async with aclosing(pieces):
        async for piece in pieces:
            if piece:
                last_sent_at = now()
            elif now() - last_sent_at >= HEARTBEAT_S:
                piece, last_sent_at = beat, now()
            yield piece
