"""Writes that a cancelled task still waits for."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_to_end(write: Coroutine[Any, Any, None] | asyncio.Task[None]) -> None:
    """Wait for a write that has begun, even in a task that is being cancelled: its request may have arrived,
    and if it were not known to be done, its events would be written twice."""
    task = asyncio.ensure_future(write)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise
