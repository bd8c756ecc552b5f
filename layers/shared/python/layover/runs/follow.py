"""Following a run for as long as it takes: the source of streams (docs/behaviour.md#streams)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from datetime import datetime, timedelta

from layover.clock import loop_time
from layover.errors import NotFound
from layover.records.runs import MAX_SEQ, meta_of
from layover.runs.long_polls import Pace, close_looks
from layover.runs.places import place_to_stream
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
    pace = pace or Pace()
    now = runtime.clock.now()
    ends_at = min(now + STREAM_LIVES, until or datetime.max.replace(tzinfo=now.tzinfo))
    end = pace.now() + (ends_at - now).total_seconds()
    last, news_at = min(after, MAX_SEQ), pace.now()
    waits = returns and await waits_for_person(runtime, owner, run_id)
    page = await runtime.journal.events.page(owner, run_id, last, _PAGE)
    if page.items or page.done:
        yield page.items
    last = max(last, page.last_seq)
    if page.done:
        return
    async with nullcontext() if waits else place_to_stream(runtime, owner) as place:
        pauses, reads, check_at = close_looks(), bool(page.items), news_at + _REST_S
        while place or page.items:
            if reads or await runtime.journal.events.peek(owner, run_id, last):
                page = await runtime.journal.events.page(owner, run_id, last, _PAGE)
            yield page.items
            last, reads = max(last, page.last_seq), bool(page.items)
            if page.done or pace.now() >= end or (place and await place.is_lost()):
                return
            if page.items:
                pauses, news_at = close_looks(), pace.now()
                check_at = news_at + _REST_S
                continue
            if returns and pace.now() - news_at >= SILENCE_S:
                return
            if pace.now() >= check_at:
                check_at = pace.now() + HEARTBEAT_S
                # A caller whose seq is beyond the last event has no end of a batch to look behind.
                reads = True
                try:
                    status = (await meta_of(runtime, owner, run_id)).shown_status
                except NotFound:
                    return
                if returns and status is Status.SUSPENDED:
                    return
            await pace.sleep(min(next(pauses), max(0.0, end - pace.now())))


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
