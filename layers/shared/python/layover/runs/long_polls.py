"""Waiting requests. One that has no place to wait is answered at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from layover.clock import loop_time
from layover.runs.places import place_to_wait
from layover.runtime import Runtime

MAX_WAIT = 25.0
"""Seconds: API Gateway gives up after 30."""

T = TypeVar("T")


@dataclass(frozen=True)
class Pace:
    """The rhythm of a caller's wait, both in seconds; tests give their own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = loop_time


def loose_looks() -> Iterator[float]:
    """Yield pauses in seconds: looks come after 27, 66 and 123 ms, ten within 2.1 s, then every 0.5 s."""
    pause = 0.027
    while True:
        yield pause
        pause = min(pause * 1.45, 0.5)


def close_looks() -> Iterator[float]:
    """Yield pauses in seconds, for looks that cost little. The first is 25 ms long, those after 1 to 8 s of
    waiting are 0.155 s, and later ones 2 % of the wait so far, up to 0.5 s. A caller therefore learns of news
    within 80 ms on average, or within 1 % of its wait."""
    pause, waited = 0.025, 0.0
    while True:
        yield pause
        waited += pause
        pause = max(min(pause * 1.25, 0.155), min(0.02 * waited, 0.5))


async def wait_for(
    runtime: Runtime,
    owner: str,
    look: Callable[[], Awaitable[T | None]],
    wait: float,
    pace: Pace,
    pauses: Callable[[], Iterator[float]] = loose_looks,
) -> T | None:
    """Return the first result of `look` that is true; None after `wait` seconds (`MAX_WAIT` at most), or if
    no place is free. The first look comes after a pause, because the caller has just looked."""
    if wait <= 0:
        return None
    async with place_to_wait(runtime, owner) as may_wait:
        end = pace.now() + (min(wait, MAX_WAIT) if may_wait else 0)
        for pause in pauses():
            left = end - pace.now()
            if left <= 0:
                break
            await pace.sleep(min(pause, left))
            if value := await look():
                return value
        return None
