"""Server-sent events (text/event-stream), as browsers' `EventSource` reads them."""

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any

from layover.values.runs.event import LoggedEvent

CONTENT_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"
"""A comment: clients pass over it."""
OPENING = b"retry: 1000\n"
"""Milliseconds after which a browser comes back; the first bytes also open the way through proxies. They
belong to the first event's block, so that the first block that a client reads has an event."""
LATER = b"retry: 5000\n\n"
"""The same, while a run waits for a person. A page that is open all day then costs little."""
_JSON = json.JSONEncoder(ensure_ascii=False)
"""Made once: `json.dumps` would make one for each delta of an answer."""
_BREAKS = {character: f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}
"""Characters that end no line of a stream, but do for clients that split as text is split (`str.splitlines`,
httpx): JSON has them as they are."""
_LAST_SEQ = re.compile(r"\d{1,18}", re.ASCII)


def event_frame(event: LoggedEvent) -> bytes:
    """Return the frame of one event of a run: `id` is its seq, `event` its type, `data` the event as JSON."""
    return _frame(f"id: {event.seq}\nevent: {event.type}\n", event.model_dump_json())


def named_frame(name: str, data: str) -> bytes:
    """Return JSON under a name, without an id: a client that reconnects does not count it."""
    return _frame(f"event: {name}\n", data)


def data_frame(data: str) -> bytes:
    """Return a frame that has only JSON."""
    return _frame("", data)


def data_frames(values: Iterable[Any]) -> bytes:
    """Return a frame for each of the values, with only its JSON."""
    return b"".join([data_frame(_JSON.encode(value)) for value in values])


def last_seq(last_event_id: str | None) -> int | None:
    """Return the seq in a `Last-Event-ID`; None if it is missing or not a seq."""
    text = (last_event_id or "").strip()
    return int(text) if _LAST_SEQ.fullmatch(text) else None


async def event_frames(
    looks: AsyncGenerator[Iterable[LoggedEvent], None],
    first: bytes = b"",
    waits: Callable[[], Awaitable[bool]] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a run that is followed; an empty piece for a look that found nothing. `waits`: at
    the end, whether a client has time to come back."""
    async with aclosing(looks):
        yield OPENING + first
        async for events in looks:
            yield b"".join(map(event_frame, events))
        if waits is not None and await waits():
            yield LATER


def _frame(fields: str, data: str) -> bytes:
    # JSON escapes newlines, so the data is one line.
    if not data.isascii():
        for character, escaped in _BREAKS.items():
            data = data.replace(character, escaped)
    return f"{fields}data: {data}\n\n".encode()
