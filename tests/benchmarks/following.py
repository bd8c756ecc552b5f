"""The delay with which followers see what the model says, and their cost to the run that they follow.

`python tests/benchmarks/following.py` starts the one-machine system and prints, over real HTTP and sockets:

- milliseconds from the model's first chunk to the first delta at one follower, by socket and by stream;
- seconds from the model's first chunk to the end of its turn, for a stream of 300 chunks: without followers,
  with as many sockets as a run may have (20), and with 500 sockets open: 20 of this run's, the others of runs
  that wait for a person. Measured in turn, so that the machine's own pauses are in all.

The first is meant to be below 250 ms, the last within 5 % of the time without followers."""

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import overload

sys.path[:0] = [str(Path(__file__).parents[1])]

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from layover.engine.supervise import FLUSH_EVERY
from layover.values.lease import MAX_SOCKETS
from support.providers.openai import FakeOpenAI, Raw, call, delta, say, stream
from support.system.folders import folder
from support.system.system import Brain, Caller, System, unique

RUNS = 40
"""For each way to follow."""
ROUNDS = 5
WORDS, PAUSE_S = 300, 0.01
THINKS_S = 0.5
"""Seconds before the first chunk: all followers are there by then. Up to FLUSH_EVERY more, so that it comes
anywhere on the beat of the flushes."""
SOCKETS = 500
OPEN_AT_ONCE = 8


class Timed(Sequence[bytes]):
    """Chunks that know when the first was taken, as `time.time()`."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks
        self.began = 0.0

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        return self._chunks[at]

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[bytes]:
        self.began = time.time()
        return iter(self._chunks)


def speech(words: int, pause_s: float) -> tuple[Raw, Timed]:
    """An answer in so many chunks, and when it began."""
    made = stream(*(delta(f"word{n} ") for n in range(words)), delta(finish="stop"))
    timed = Timed(made.chunks)
    delay_s = THINKS_S + random.uniform(0, FLUSH_EVERY)
    return Raw(made.status, made.headers, timed, pause_s, delay_s=delay_s), timed


async def main() -> None:
    """Print all of it."""
    with FakeOpenAI() as provider, folder("following") as data:
        brain = Brain(provider)
        with System(data / "system", brain, checked=False) as system:
            for name, first in (("socket", first_by_socket), ("stream", first_by_stream)):
                ann = system.caller()
                await first(ann, brain)
                seconds = [await first(ann, brain) for _ in range(RUNS)]
                print(row(f"first delta by {name}", seconds), flush=True)
            await slowing(system, brain)


async def first_by_socket(ann: Caller, brain: Brain) -> float:
    """Seconds from the first chunk to the first delta at a socket."""
    answer, timed = speech(5, 0.05)
    async with sockets(ann, 1) as (socket,):
        run = await begin(ann, brain, answer)
        await subscribe(socket, run)
        async for text in socket:
            if json.loads(text).get("type") == "text-delta":
                break
        came = time.time()
    await asyncio.to_thread(ann.over, run)
    return came - timed.began


async def first_by_stream(ann: Caller, brain: Brain) -> float:
    """Seconds from the first chunk to the first delta in a stream of server-sent events."""
    answer, timed = speech(5, 0.05)
    run = await begin(ann, brain, answer)
    headers = {"authorization": f"Bearer dev:{ann.name}", "accept": "text/event-stream"}
    url, came = f"{ann.url}/runs/{run}/events", 0.0
    async with (
        httpx2.AsyncClient(timeout=60, trust_env=False, verify=False, headers=headers) as client,
        client.stream("GET", url) as response,
    ):
        async for line in response.aiter_lines():
            if line == "event: text-delta":
                came = came or time.time()
    return came - timed.began


async def slowing(system: System, brain: Brain) -> None:
    """Measure the cost of followers to the run that they follow."""
    ann = system.caller()
    for followers in (0, MAX_SOCKETS):
        await speaking(ann, brain, followers)
    few: dict[int, list[float]] = {0: [], MAX_SOCKETS: []}
    many: dict[int, list[float]] = {0: [], MAX_SOCKETS: []}
    for _ in range(ROUNDS):
        for followers, found in few.items():
            found.append(await speaking(ann, brain, followers))
    async with AsyncExitStack() as stack:
        for _ in range(SOCKETS // MAX_SOCKETS - 1):
            bob = system.caller()
            run = await asyncio.to_thread(waiting, bob, brain)
            for socket in await stack.enter_async_context(sockets(bob, MAX_SOCKETS)):
                await subscribe(socket, run)
        for _ in range(ROUNDS):
            for followers, found in many.items():
                found.append(await speaking(ann, brain, followers))
    alone = statistics.median(few[0])
    print(f"{'nobody follows':>30}: {alone:.3f} s")
    for title, found in (
        (f"{MAX_SOCKETS} follow", few[MAX_SOCKETS]),
        (f"{SOCKETS - MAX_SOCKETS} sockets elsewhere", many[0]),
        (f"{SOCKETS} sockets, {MAX_SOCKETS} follow", many[MAX_SOCKETS]),
    ):
        half = statistics.median(found)
        print(f"{title:>30}: {half:.3f} s, {(half / alone - 1) * 100:+.1f} %", flush=True)


async def speaking(ann: Caller, brain: Brain, followers: int) -> float:
    """Seconds from the model's first chunk to the end of its turn."""
    answer, timed = speech(WORDS, PAUSE_S)
    async with sockets(ann, followers) as opened:
        run = await begin(ann, brain, answer)
        for socket in opened:
            await subscribe(socket, run)
        reading = [asyncio.create_task(read(socket)) for socket in opened]
        await asyncio.to_thread(ann.over, run)
        await asyncio.gather(*reading)
    (end,) = (e for e in await asyncio.to_thread(ann.events, run) if e["type"] == "turn-end")
    return datetime.fromisoformat(end["at"]).timestamp() - timed.began


async def begin(ann: Caller, brain: Brain, answer: Raw) -> str:
    """A run that the model answers so."""

    def start() -> str:
        run = ann.start(ann.thread("plain"), brain.plan(answer), stream=True)
        return str(run["id"])

    return await asyncio.to_thread(start)


def waiting(bob: Caller, brain: Brain) -> str:
    """A run that waits for a person."""
    text = brain.plan(call("refund", order_id=unique(), amount=1), say("never"))
    return str(bob.ask(bob.thread(), text)["id"])


@asynccontextmanager
async def sockets(caller: Caller, count: int) -> AsyncIterator[list[ClientConnection]]:
    """Open connections of this user."""
    room = asyncio.Semaphore(OPEN_AT_ONCE)

    async def opened() -> ClientConnection:
        async with room:
            ticket = await asyncio.to_thread(caller.want, 201, "POST", "/socket-tickets")
            return await connect(ticket["url"], proxy=None, open_timeout=60, ping_interval=None)

    found = await asyncio.gather(*(opened() for _ in range(count)))
    try:
        yield list(found)
    finally:
        await asyncio.gather(*(each.close() for each in found))


async def subscribe(socket: ClientConnection, run_id: str) -> None:
    """Follow a run."""
    await socket.send(json.dumps({"action": "subscribe", "run_id": run_id, "after": 0}))


async def read(socket: ClientConnection) -> None:
    """All events of the run."""
    async for text in socket:
        if json.loads(text).get("type") == "agent-end":
            return


def row(title: str, seconds: list[float]) -> str:
    """Milliseconds of these."""
    half, most = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
    return f"{title:>30}: p50 {half * 1e3:5.0f} ms, p95 {most * 1e3:5.0f} ms"


if __name__ == "__main__":
    asyncio.run(main())
