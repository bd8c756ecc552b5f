"""Beside a piece of work (a model's stream, running tools): flush its events, and watch for a cancel."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from layover.engine.hooks import Stopping
from layover.engine.progress import Stopped
from layover.ports import RunLog

FLUSH_EVERY = 0.1
"""Seconds between two batches of deltas (DESIGN 2)."""
POLL_CANCEL_EVERY = 0.5
"""Seconds between two looks at the cancel flag (DESIGN 1)."""
TOOLS_HAVE_S = 0.9
"""Seconds that running tools have to finish once the run is to be cancelled: with the look at the flag
and the end itself less than the 2 s of BEHAVIOUR 5.5."""

T = TypeVar("T")


async def watched(log: RunLog, work: Coroutine[Any, Any, T], stopping: Stopping) -> T:
    """The work's result. Raises Stopped when the run is to be cancelled, Fenced when another attempt
    took it; the work is cancelled first in both cases, and tools are told through `stopping`."""
    task = asyncio.ensure_future(work)
    companions = [
        asyncio.create_task(_flush(log)),
        asyncio.create_task(_poll(log)),
    ]
    try:
        done, _ = await asyncio.wait([task, *companions], return_when=asyncio.FIRST_COMPLETED)
        if task not in done:
            stopping.asked = True
            if stopping.tools:
                await asyncio.wait([task], timeout=TOOLS_HAVE_S)
            task.cancel()
            await asyncio.wait([task])
            for companion in companions:
                if companion in done:
                    companion.result()
        return task.result()
    finally:
        stopping.asked = stopping.asked or not task.done()
        for companion in companions:
            companion.cancel()
        if not task.done():
            task.cancel()
        await asyncio.gather(task, *companions, return_exceptions=True)


async def _flush(log: RunLog) -> None:
    while True:
        await log.flush()
        await asyncio.sleep(FLUSH_EVERY)


async def _poll(log: RunLog) -> None:
    while True:
        await asyncio.sleep(POLL_CANCEL_EVERY)
        if await log.cancel_requested():
            raise Stopped
