"""Readers that have left, on Lambda, where no function learns of it: what that takes from their user."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from functions.api.routes_chat import UiFrames
from layover.errors import LimitReached
from layover.plugins.fronts.chat.answers import answer
from layover.plugins.fronts.protocols import sse
from layover.plugins.fronts.protocols.ui_messages import UiMessage
from layover.ports import RunLog
from layover.runs import read as runs
from layover.runs.follow import SILENCE_S, STREAM_LIVES, follow
from layover.runs.long_polls import Pace
from layover.runs.places import STREAM_LEASE, check_place_to_stream
from layover.runtime import Runtime
from support.worlds.loops import LoopClock, played
from support.worlds.services import ANN, BOB
from support.worlds.sockets import SocketBench

READERS = 100
LEASE_S = STREAM_LEASE.total_seconds()
TURN_USD = 0.97 / 1_000
"""docs/deploy/costs.md."""
STREAM_USD_S = 0.5 * 0.0000133
"""A second of `streams`, with 512 MiB."""
Stream = AsyncGenerator[Any, None]


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Function:
    """`streams` on Lambda: it streams to the end, whether somebody reads or not. `seconds`: of all streams
    that have ended."""

    runtime: Runtime
    seconds: float = 0.0
    open: set[asyncio.Task[None]] = field(default_factory=set)

    def events(self, run_id: str, after: int = 0) -> Stream:
        """A run's events for a reader who comes back."""
        pace = Pace(now=now)
        return sse.event_frames(follow(self.runtime, ANN, run_id, after, None, pace, returns=True))

    def chat(self, run_id: str) -> Stream:
        """The answer of a chat."""
        return answer(
            self.runtime, ANN, run_id, UiFrames(UiMessage(run_id, "t")), pace=Pace(now=now)
        )

    def leave(self, stream: Stream) -> None:
        """The reader closes the page at once."""
        task = asyncio.create_task(self._serve(stream))
        self.open.add(task)
        task.add_done_callback(self.open.discard)

    async def _serve(self, stream: Stream) -> None:
        began = now()
        async with aclosing(stream):
            async for _ in stream:
                pass
        self.seconds += now() - began

    async def over(self) -> None:
        """Wait until the last stream has ended."""
        while self.open:
            await asyncio.wait(set(self.open))

    @property
    def turns(self) -> float:
        """The cost of all streams, in turns."""
        return self.seconds * STREAM_USD_S / TURN_USD


@dataclass
class Scene:
    """ANN's run, and the function that streams it."""

    world: SocketBench
    log: RunLog
    function: Function

    @property
    def run_id(self) -> str:
        return self.log.snapshot.meta.id

    async def speak(self, seconds: float) -> None:
        """The run says something every half second."""
        until = now() + seconds
        while now() < until:
            await self.world.tell(self.log, "word")
            await asyncio.sleep(0.5)

    async def wait_for_person(self) -> None:
        step = await self.world.step(self.log, "one moment", ("c1", "refund", {}))
        await self.world.suspend(self.log, step, "c1")
        await self.world.tell(self.log, "it waits")

    async def is_shut(self) -> bool:
        """True if a chat of ANN's would be refused."""
        try:
            await check_place_to_stream(self.function.runtime, ANN)
        except LimitReached:
            return True
        return False

    async def shut_for(self) -> float:
        """Seconds until a chat of ANN's begins."""
        began = now()
        while await self.is_shut():
            await asyncio.sleep(0.1)
        return now() - began

    async def polled(self, wait: float) -> float:
        """Seconds that a long poll of ANN's waits."""
        began = now()
        last = (await self.world.journal.events.page(ANN, self.run_id, 0, 500)).last_seq
        await runs.events(self.function.runtime, ANN, self.run_id, last, 10, wait, Pace(now=now))
        return now() - began


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    world = SocketBench()
    world.runtime = replace(world.runtime, clock=LoopClock())
    log = await world.running()
    function = Function(world.runtime)
    yield Scene(world, log, function)
    await function.over()


def plays(act: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def play() -> None:
        async with scene() as stage:
            await act(stage)

    played(play())


def test_a_hundred_closed_readers_of_a_silent_run_shut_their_users_chats_for_one_lease() -> None:
    """Two turns' money for all of them. It was 14 minutes and six turns for each."""

    async def act(stage: Scene) -> None:
        for _ in range(READERS):
            stage.function.leave(stage.function.events(stage.run_id))
        await asyncio.sleep(1)
        assert await stage.is_shut()
        assert await stage.polled(5) == pytest.approx(5), "polls have places of their own"
        assert await stage.shut_for() <= LEASE_S - 5
        await stage.function.over()
        most = stage.world.runtime.settings.max_user_streams
        assert stage.function.seconds == pytest.approx(most * SILENCE_S, rel=0.05)
        assert 2 < stage.function.turns < 2.2

    plays(act)


def test_closed_readers_of_a_run_that_speaks_make_room_after_one_lease() -> None:
    """They are served as long as nobody else needs the place: the function cannot know better."""

    async def act(stage: Scene) -> None:
        most = stage.world.runtime.settings.max_user_streams
        speaks = asyncio.create_task(stage.speak(120))
        for _ in range(READERS):
            stage.function.leave(stage.function.events(stage.run_id))
        await asyncio.sleep(1)
        assert len(stage.function.open) == most
        assert await stage.shut_for() == pytest.approx(LEASE_S - 1, abs=1.1)
        assert len(stage.function.open) == most, "nobody has needed a place yet"
        # Each page that is opened now takes the place of one that was left, and of no more than one.
        for n in range(most):
            stage.function.leave(stage.function.events(stage.run_id))
            await asyncio.sleep(6)
            assert len(stage.function.open) == most, n
        await speaks

    plays(act)


def test_closed_readers_of_a_run_that_waits_for_a_person_shut_nothing() -> None:
    async def act(stage: Scene) -> None:
        await stage.wait_for_person()
        for _ in range(READERS):
            stage.function.leave(stage.function.events(stage.run_id))
            await asyncio.sleep(0.01)
            assert not await stage.is_shut()
        await stage.function.over()
        assert stage.function.seconds < 0.05 * READERS

    plays(act)


def test_closed_readers_of_a_run_that_begins_to_wait_are_gone_within_seconds() -> None:
    async def act(stage: Scene) -> None:
        for _ in range(READERS):
            stage.function.leave(stage.function.events(stage.run_id))
        await asyncio.sleep(10)
        assert await stage.is_shut()
        await stage.wait_for_person()
        assert await stage.shut_for() < 2
        await stage.function.over()

    plays(act)


def test_closed_chats_shut_a_user_for_one_lease_and_end_with_their_run() -> None:
    """A chat's client does not come back by itself, so silence does not end it; a place can be taken."""

    async def act(stage: Scene) -> None:
        for _ in range(stage.world.runtime.settings.max_user_streams):
            stage.function.leave(stage.function.chat(stage.run_id))
        await asyncio.sleep(1)
        assert await stage.shut_for() == pytest.approx(LEASE_S - 1, abs=1.1)
        await asyncio.sleep(2 * SILENCE_S)
        assert len(stage.function.open) == stage.world.runtime.settings.max_user_streams
        began = now()
        await stage.world.end(stage.log)
        await stage.function.over()
        assert now() - began < 1

    plays(act)


def test_a_chat_whose_place_is_taken_says_that_it_broke_off() -> None:
    async def act(stage: Scene) -> None:
        pieces = [stage.function.chat(stage.run_id)]
        told = asyncio.create_task(whole(pieces[0]))
        await asyncio.sleep(LEASE_S + 1)
        for _ in range(stage.world.runtime.settings.max_user_streams):
            stage.function.leave(stage.function.events(stage.run_id))
        assert '"type": "error"' in (await told)
        assert len(stage.function.open) == stage.world.runtime.settings.max_user_streams

    plays(act)


async def whole(pieces: Stream) -> str:
    """All that a reader is sent."""
    async with aclosing(pieces):
        return b"".join([piece async for piece in pieces]).decode()


def test_a_reader_who_stays_keeps_the_stream_as_long_as_there_is_room() -> None:
    async def act(stage: Scene) -> None:
        speaks = asyncio.create_task(stage.speak(300))
        reading = asyncio.create_task(whole(stage.function.events(stage.run_id)))
        await speaks
        assert not reading.done()
        await stage.world.end(stage.log)
        said = await reading
        assert said.count('"word"') == said.count("event: data") == 600

    plays(act)


def test_another_user_gets_a_place_of_those_that_closed_readers_left() -> None:
    async def act(stage: Scene) -> None:
        settings = stage.world.runtime.settings
        stage.function.runtime = replace(
            stage.function.runtime,
            settings=settings.model_copy(update={"max_waits": settings.max_user_streams}),
        )
        for _ in range(READERS):
            stage.function.leave(stage.function.chat(stage.run_id))
        await asyncio.sleep(1)
        with pytest.raises(LimitReached):
            await check_place_to_stream(stage.function.runtime, BOB)
        await asyncio.sleep(LEASE_S)
        await check_place_to_stream(stage.function.runtime, BOB)
        await stage.world.end(stage.log)

    plays(act)


def test_a_stream_that_nobody_ends_ends_before_lambda_ends_it() -> None:
    async def act(stage: Scene) -> None:
        began = now()
        stage.function.leave(stage.function.chat(stage.run_id))
        await stage.function.over()
        assert now() - began == pytest.approx(STREAM_LIVES.total_seconds(), abs=1)

    plays(act)


def test_streams_do_not_count_as_waiting_requests_nor_these_as_streams() -> None:
    async def act(stage: Scene) -> None:
        settings = stage.world.runtime.settings
        polls = [asyncio.create_task(stage.polled(20)) for _ in range(settings.max_user_waits)]
        await asyncio.sleep(1)
        assert await stage.polled(20) == 0, "one too many is answered at once"
        assert not await stage.is_shut()
        for _ in range(settings.max_user_streams):
            stage.function.leave(stage.function.events(stage.run_id))
        assert [await poll for poll in polls] == pytest.approx([20] * settings.max_user_waits)
        assert await stage.polled(20) == pytest.approx(20)

    plays(act)
