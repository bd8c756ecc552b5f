"""The run that answers a chat, as one answer of a protocol: until it is over, or waits for a person."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from datetime import datetime
from typing import Protocol

from layover.records.runs import all_events
from layover.runs.follow import follow
from layover.runs.long_polls import Pace
from layover.runtime import Runtime
from layover.values.client_ids import shown_id
from layover.values.runs.event import LoggedEvent, MessageEvent, ToolCallSuspended
from layover.values.runs.run import Status

BROKEN_OFF = (
    "the stream ended before the answer; a run that is not over goes on: reload to follow it"
)
"""The error of an answer whose stream ends early: at its time limit, with the caller's token or thread, or
because the caller has too many streams."""
_QUIET_LOOKS = 3
"""The number of looks without news after which a run with a waiting call counts as doing nothing else."""


class Translation(Protocol):
    """A run's events in a protocol's words."""

    @property
    def waits(self) -> bool:
        """True if the run waits for a person and no part of it is working."""
        ...

    def begin(self) -> bytes:
        """Return the beginning of every answer."""
        ...

    def go_on(self) -> bytes:
        """Return the beginning of an answer that resumes in the middle."""
        ...

    def frames(self, event: LoggedEvent) -> bytes:
        """Return an event's frames."""
        ...

    def rest(self) -> bytes:
        """Return the end of an answer whose run waits for a person."""
        ...

    def end(self) -> bytes:
        """Return the end of an answer whose run is over."""
        ...

    def break_off(self, message: str) -> bytes:
        """Return the end of an incomplete answer, with the reason why the rest is missing."""
        ...


class _Teller:
    """The frames of an answer's events. `went_on`: True once the client was told an event that is new to
    it."""

    def __init__(
        self,
        translation: Translation,
        after: int,
        closing: Callable[[], Awaitable[bytes]] | None,
        opening: Callable[[LoggedEvent], Awaitable[bytes]] | None,
    ) -> None:
        self.went_on = after == 0
        self._translation = translation
        self._after = after
        self._closing = closing
        self._opening = opening

    async def piece(self, event: LoggedEvent) -> bytes:
        """Return the frames of an event, with what comes before them."""
        piece, is_new = b"", event.seq > self._after
        if not self.went_on and is_new:
            self.went_on = True
            piece += self._translation.go_on()
        if event.type == "finish" and self._closing is not None:
            piece += await self._closing()
        if self._opening is not None:
            piece += await self._opening(event)
        frames = self._translation.frames(event)
        return piece + frames if is_new else piece


async def answer(
    runtime: Runtime,
    owner: str,
    run_id: str,
    translation: Translation,
    after: int = 0,
    until: datetime | None = None,
    pace: Pace | None = None,
    closing: Callable[[], Awaitable[bytes]] | None = None,
    opening: Callable[[LoggedEvent], Awaitable[bytes]] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the frames of the run's events after this seq; an empty piece if there are no new events.
    `closing`: frames just before the end of the run, or its rest. `opening`: frames just before those of an
    event. Every answer has an end: one of these, or an error."""
    yield translation.begin()
    quiet, waits = 0, False
    teller = _Teller(translation, after, closing, opening)
    # From the first event on, whatever the client has seen: the translation has to know which calls wait and
    # run. Silence does not end it, since no client of these protocols comes back by itself: a person would
    # read an error because a tool takes a minute.
    looks = follow(runtime, owner, run_id, after=0, until=until, pace=pace)
    async with aclosing(looks):
        async for events in looks:
            yield b"".join([await teller.piece(event) for event in events])
            if any(e.type == "finish" for e in events):
                yield translation.end()
                return
            quiet = 0 if events else quiet + 1
            waits = quiet >= _QUIET_LOOKS and await _waits(runtime, owner, run_id, translation)
            if waits:
                break
    # An answer without any event ends the step that it resumes in, too.
    resumed = b"" if teller.went_on else translation.go_on()
    if waits or await _waits(runtime, owner, run_id, translation):
        yield resumed + (await closing() if closing is not None else b"") + translation.rest()
    else:
        yield resumed + translation.break_off(BROKEN_OFF)


async def seq_of_waits(
    runtime: Runtime, owner: str, run_id: str, attempts: Iterable[tuple[str, int]]
) -> int:
    """Return the seq at which the last of these attempts of calls, `(tool_call_id, attempt)`, began to wait:
    whoever answers them has seen no later event. The calls may have run, or wait again, since."""
    answered = set(attempts)
    events = await all_events(runtime.journal.events, owner, run_id)
    waits = (e for e in events if isinstance(e, ToolCallSuspended))
    return max((e.seq for e in waits if (e.tool_call_id, e.attempt) in answered), default=0)


async def seq_before_message(runtime: Runtime, owner: str, run_id: str, message_id: str) -> int:
    """Return the seq at which the last call began to wait before the run read this message: its sender has
    what the run said up to there."""
    seq = 0
    for event in await all_events(runtime.journal.events, owner, run_id):
        if isinstance(event, ToolCallSuspended):
            seq = event.seq
        elif isinstance(event, MessageEvent) and shown_id(event.message.id) == message_id:
            break
    return seq


async def _waits(runtime: Runtime, owner: str, run_id: str, translation: Translation) -> bool:
    """Return whether the run only waits for a person."""
    if not translation.waits:
        return False
    meta = await runtime.journal.runs.get(owner, run_id)
    return meta is None or meta.shown_status is Status.SUSPENDED
