"""Drives of runs in this process, which do what the state machine does for a deployed run."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from layover.engine.time_left import NoDeadline
from layover.inprocess.background_tasks import BackgroundTasks, remember
from layover.plugins.memory.condenses.compact import NOW, compact
from layover.recovery.give_up import give_up
from layover.runs.turn import has_memory_work, turn
from layover.runtime import Runtime
from layover.values.runs.payload import CompactPayload, RunPayload, SettlePayload

T = TypeVar("T")


class Drives:
    """Drives runs, one drive at a time for each: Turn until the run is over or waits. `at_rest(run_id)` ends
    each drive. `on_end(run_id)` is called once its task is done."""

    def __init__(
        self,
        runtime: Runtime,
        at_rest: Callable[[str], Awaitable[object]],
        on_end: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._at_rest = at_rest
        self._on_end = on_end
        self._drives: dict[str, asyncio.Task[None]] = {}
        self._next_drives: dict[str, asyncio.Task[None]] = {}
        """Drives that have not begun. They wait for the previous drive and for `_settling`."""
        self._settlements: dict[str, set[asyncio.Task[Any]]] = defaultdict(set)
        self._cancels: dict[str, set[asyncio.Task[Any]]] = defaultdict(set)
        self._remembering = BackgroundTasks()

    def drive_of(self, run_id: str) -> asyncio.Task[None] | None:
        """Return the newest drive of the run, if one is under way."""
        return self._drives.get(run_id)

    def task_of(self, run_id: str) -> asyncio.Task[Any] | None:
        """Return a task of the run: its drive, else one that settles a call; None: it is at rest."""
        return self._drives.get(run_id) or next(iter(self._settlements[run_id]), None)

    def at_work(self) -> dict[str, asyncio.Task[Any]]:
        """Return such a task of each run that is not at rest, by run."""
        settlement = {run_id: next(iter(t)) for run_id, t in self._settlements.items() if t}
        return {**settlement, **self._drives}

    async def wait_for_memory(self) -> None:
        """Wait until memory has learned from the runs that are over."""
        await self._remembering.wait_until_done()

    async def settle_first(self, run_id: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `work`, which settles calls. No drive of the run begins before it is done."""
        # Registered before the decision: no turn may begin between a decision and its call.
        return await asyncio.shield(_begin_in(self._settlements[run_id], work()))

    def cancel_beside(self, run_id: str, work: Coroutine[Any, Any, object]) -> None:
        """Begin `work`, which cancels the run. Drives of the run do not end before it is done."""
        _begin_in(self._cancels[run_id], work)

    def begin(self, owner: str, run_id: str) -> asyncio.Task[None]:
        """Return the drive that will do the present work: one that has not begun yet, or a new one."""
        next_drive = self._next_drives.get(run_id)
        if next_drive is not None and not next_drive.done():
            return next_drive
        before = self._drives.get(run_id)
        task = asyncio.create_task(self._drive(owner, run_id, before))
        self._drives[run_id] = self._next_drives[run_id] = task
        task.add_done_callback(partial(self._end, run_id))
        return task

    def _end(self, run_id: str, task: asyncio.Task[None]) -> None:
        for tasks in (self._drives, self._next_drives):
            if tasks.get(run_id) is task:
                del tasks[run_id]
        self._on_end(run_id)

    async def _drive(self, owner: str, run_id: str, before: asyncio.Task[None] | None) -> None:
        """Drive the run as the state machine does. Memory then learns in the background."""
        if before is not None and not before.done():
            await asyncio.wait({before})
        while True:
            if not await self._has_work(owner, run_id):
                break
            payload = await self._payload(owner, run_id)
            try:
                turn_result = await turn(self._runtime, payload, NoDeadline())
            except Exception as error:
                if await self._give_up(payload, error):
                    break
                continue
            answer = turn_result["status"]
            if has_memory_work(turn_result):
                # A user's runs in order, because the newest run's lessons have to win.
                self._remembering.begin(partial(remember, self._runtime, payload), owner)
            if answer == "compact":
                request = CompactPayload(**{**payload.model_dump(), "op": NOW})
                await compact(self._runtime, request)
            elif answer == "away":
                await self._runtime.clock.sleep(timedelta(seconds=turn_result["pause_s"]))
            elif answer == "left" and await self._is_next(owner, run_id):
                continue
            elif answer != "yielded":
                break
        # A cancel that seized the run from its turn has yet to write the end, which callers wait for.
        while cancels := self._cancels.get(run_id):
            await asyncio.wait(set(cancels))
        await self._at_rest(run_id)

    async def _payload(self, owner: str, run_id: str) -> RunPayload:
        """Return the input of the execution that the run is in: the next one, after it was set aside."""
        run = await self._runtime.journal.runs.get(owner, run_id)
        execution = run.execution if run is not None else None
        return RunPayload(owner=owner, run_id=run_id, execution=execution or f"{run_id}-1")

    async def _is_next(self, owner: str, run_id: str) -> bool:
        """Wait for the run that has the thread of one that was set aside. Return whether that one goes on."""
        run = await self._runtime.journal.runs.get(owner, run_id)
        if run is None or not run.ready:
            return False
        head = await self._runtime.journal.heads.get(owner, run.thread_id)
        drive = self._drives.get(head.active_run) if head and head.active_run else None
        if drive is None:
            return False
        await asyncio.wait({drive})
        return True

    async def _has_work(self, owner: str, run_id: str) -> bool:
        """Return whether a turn has anything to do, once no decided call is being settled."""
        while True:
            while settlement := self._settlements[run_id]:
                await asyncio.wait(set(settlement))
            run = await self._runtime.journal.runs.get(owner, run_id)
            if not self._settlements[run_id]:
                self._next_drives.pop(run_id, None)
                return run is None or not run.waiting or bool(run.decided)

    async def _give_up(self, payload: RunPayload, error: Exception) -> bool:
        cause = json.dumps({"errorMessage": str(error)})
        facts = {"Error": type(error).__name__, "Cause": cause}
        failure = SettlePayload(**payload.model_dump(), error=facts)
        return str((await give_up(self._runtime, failure))["status"]) != "again"


def _begin_in(tasks: set[asyncio.Task[Any]], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Return a task of `work`, which is in the set until it is done."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task
