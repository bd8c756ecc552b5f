"""Background work without an orchestrator or a function: tasks of this process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from layover.plugins.memory.condenses.compact import AHEAD, compact
from layover.plugins.memory.learns.extract import extract
from layover.runtime import Runtime
from layover.values.runs.payload import CompactPayload, RunPayload

logger = logging.getLogger("layover")

Chore = Callable[[], Awaitable[None]]
"""Work that may be started again after an interruption. Raises nothing."""


class BackgroundTasks:
    """Background tasks. They finish even if `asyncio.run` ends first."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}

    def begin(self, chore: Chore, line: str | None = None) -> None:
        """Begin the work. Work of the same line runs one after the other."""
        before = self._last.get(line) if line is not None else None
        task = asyncio.create_task(_run_after(chore, before))
        self._tasks.add(task)
        if line is not None:
            self._last[line] = task
        task.add_done_callback(partial(self._forget, line))

    async def wait_until_done(self) -> None:
        """Wait for the work that this event loop has begun, and for the work that this begins."""
        while under_way := {t for t in self._tasks if _is_here(t)}:
            await asyncio.wait(under_way)

    def _forget(self, line: str | None, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if line is not None and self._last.get(line) is task:
            del self._last[line]


async def _run_after(chore: Chore, before: asyncio.Task[None] | None) -> None:
    try:
        await _in_turn(chore, before)
    except asyncio.CancelledError:
        # `asyncio.run` cancels the tasks that are left at its end, and then waits for them. A second
        # cancellation (Ctrl-C) gives the work up.
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        await _in_turn(chore, before)


async def _in_turn(chore: Chore, before: asyncio.Task[None] | None) -> None:
    if before is not None and _is_here(before):
        await asyncio.wait({before})
    await chore()


def _is_here(task: asyncio.Task[None]) -> bool:
    """Return whether the task is under way, and not in a loop that stopped before its end."""
    return not task.done() and task.get_loop() is asyncio.get_running_loop()


async def remember(runtime: Runtime, payload: RunPayload) -> None:
    """Do memory's work after a run. It never fails a run."""
    try:
        await extract(runtime, payload)
        await compact(runtime, CompactPayload(**{**payload.model_dump(), "op": "compact"}))
        await runtime.allowance.flush()
    except Exception:
        logger.warning("a finished run was not remembered", exc_info=True)


class InThisProcess:
    """`ports.Background` for agents that run in this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._chores = BackgroundTasks()

    async def observe(self, owner: str, run_id: str, after_id: str | None, through_id: str) -> None:
        """Begin to observe a slice."""
        payload = CompactPayload(
            op=AHEAD, owner=owner, run_id=run_id, after_id=after_id, through_id=through_id
        )
        self._chores.begin(partial(self._observe, payload))

    async def _observe(self, payload: CompactPayload) -> None:
        try:
            await compact(self._runtime, payload)
            await self._runtime.allowance.flush()
        except Exception:
            logger.warning("a slice was not observed", extra={"run_id": payload.run_id})
