"""Following a run for as long as it takes: the source of streams (docs/behaviour.md#streams)."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta

from layover.errors import NotFound
from layover.records.runs import MAX_SEQ, meta_of
from layover.runs.long_polls import Pace, close_looks, place_to_wait
from layover.runtime import Runtime
from layover.values.lease import LeaseKind
from layover.values.runs.event import LoggedEvent

HEARTBEAT_S = 10.0
"""Seconds of silence after which a stream sends a heartbeat: proxies close silent connections."""
STREAM_LIVES = timedelta(minutes=14)
"""Lambda and API Gateway both end a stream after 15 minutes (docs/aws-facts.md#api-gateway)."""
_PAGE = 500


async def follow(
    runtime: Runtime,
    owner: str,
    run_id: str,
    after: int,
    until: datetime | None = None,
    pace: Pace | None = None,
) -> AsyncGenerator[tuple[LoggedEvent, ...], None]:
    """Yield the run's events after this seq, in order and each exactly once; an empty tuple after each look
    that finds nothing new. Ends after the last event. Ends earlier after `STREAM_LIVES`, at `until` (the end
    of the caller's token), when the thread is deleted, and, after the events that exist, for a caller with
    too many waiting requests. A caller that comes back with the last seq misses nothing."""
    pace = pace or Pace()
    now = runtime.clock.now()
    ends_at = min(now + STREAM_LIVES, until or datetime.max.replace(tzinfo=now.tzinfo))
    end = pace.now() + (ends_at - now).total_seconds()
    last, checked = min(after, MAX_SEQ), pace.now()
    page = await runtime.journal.events.page(owner, run_id, last, _PAGE)
    if page.items or page.done:
        yield page.items
    last = max(last, page.last_seq)
    if page.done:
        return
    async with place_to_wait(runtime, owner, LeaseKind.STREAM, STREAM_LIVES) as may_wait:
        pauses, reads = close_looks(), bool(page.items)
        while may_wait or page.items:
            if reads or await runtime.journal.events.peek(owner, run_id, last):
                page = await runtime.journal.events.page(owner, run_id, last, _PAGE)
            yield page.items
            last, reads = max(last, page.last_seq), bool(page.items)
            if page.done or pace.now() >= end:
                return
            if page.items:
                pauses = close_looks()
                continue
            if pace.now() - checked >= HEARTBEAT_S:
                checked = pace.now()
                # A caller whose seq is beyond the last event has no end of a batch to look behind.
                reads = True
                try:
                    await meta_of(runtime, owner, run_id)
                except NotFound:
                    return
            await pace.sleep(min(next(pauses), max(0.0, end - pace.now())))


async def with_heartbeat(
    pieces: AsyncGenerator[bytes, None], beat: bytes, pace: Pace | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces, and `beat` after `HEARTBEAT_S` with only empty ones."""
    now = pace.now if pace else time.monotonic
    last_sent_at = now()
    # Closed with this generator, because the garbage collector would give a place back too late.
    async with aclosing(pieces):
        async for piece in pieces:
            if piece:
                last_sent_at = now()
            elif now() - last_sent_at >= HEARTBEAT_S:
                piece, last_sent_at = beat, now()
            yield piece
