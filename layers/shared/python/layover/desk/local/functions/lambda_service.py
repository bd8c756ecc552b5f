"""Lambda on one machine: warm environments are reused, more are started under load, and beyond that events
wait in a queue."""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError, wait
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from layover.desk.local.functions.execution_environment import (
    ExecutionEnvironment,
    FunctionSpec,
    State,
)
from layover.desk.local.functions.invocation import (
    PAYLOAD_LIMIT,
    FunctionNotFound,
    Invocation,
    InvokeResult,
    LambdaError,
    RequestTooLarge,
    ResponseStream,
    failure,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_LIMIT = timedelta(minutes=5)
_REAP_EVERY = timedelta(seconds=30)
_ASYNC_RETRY_DELAYS = (timedelta(seconds=1), timedelta(seconds=2))
"""Lambda repeats a failed asynchronous event after one and two minutes, too long to wait for here."""
_STARTING_AT_ONCE = min(4, max(2, os.cpu_count() or 2))
"""A start costs a second of CPU: starting twelve at once makes all of them late."""
_POLL_INTERVAL_S = 0.5
"""Seconds between two looks of a caller that waits for a loop whether the loop has ended silently."""


def result_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in `loop` and return its result; for a thread that is not the loop's.

    Raises LambdaError if the loop has ended, or ends before `work` does. A check before is not enough:
    between the check and the use, a thread may be paused for as long as the loop lives."""
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        raise LambdaError("the runner is stopping") from None
    while not wait([future], _POLL_INTERVAL_S).done:
        if loop.is_closed():
            # The loop took it and never ran it. Python would report the coroutine as never awaited.
            work.close()
            raise LambdaError("the runner is stopping")
    try:
        return future.result()
    except CancelledError:
        raise LambdaError("the runner is stopping") from None


class FunctionPool:
    """The environments of one function, and the events that wait for one of them."""

    def __init__(self, spec: FunctionSpec, maximum: int) -> None:
        self.spec = spec
        self.environments: list[ExecutionEnvironment] = []
        self._maximum = maximum
        self._waiting: deque[Invocation] = deque()
        self._lives: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.failed_start: str | None = None
        """Why its last start failed; None once a process is ready."""

    async def invoke(self, invocation: Invocation) -> InvokeResult:
        """Return the function's result, however long the queue is."""
        if self._is_closed:
            return failure("Runtime.ExitError", "the runner is stopping")
        if environment := self._warmest():
            environment.assign(invocation)
        else:
            self._waiting.append(invocation)
            self._scale()
        return await invocation.result

    def prewarm(self) -> None:
        """Start one environment if there is none."""
        if not self.environments and not self._is_closed:
            self._start()

    def reap(self, idle_limit: timedelta) -> None:
        """End the environments that have been idle for longer than `idle_limit`."""
        limit = time.monotonic() - idle_limit.total_seconds()
        for environment in self._in_state(State.READY):
            if environment.idle_since < limit:
                environment.kill()

    def renew(self) -> None:
        """Let no environment that exists now take another event: idle ones end now, others after their
        event."""
        for environment in self.environments:
            environment.is_outdated = True
        for environment in self._in_state(State.READY):
            environment.kill()

    async def stop(self) -> None:
        """Kill every environment. Callers that wait get an error."""
        self._is_closed = True
        while self._waiting:
            invocation = self._waiting.popleft()
            invocation.resolve(invocation.crashed("the runner is stopping"))
        for environment in self.environments:
            environment.kill()
        if self._lives:
            await asyncio.wait(self._lives, timeout=5)

    def next_invocation(self) -> Invocation | None:
        """Return the event that waits longest, or None. Called by an environment that is ready."""
        self.failed_start = None
        invocation = self._waiting.popleft() if self._waiting else None
        # The environment that asks is no longer starting, so another one may start for the events that wait.
        self._scale()
        return invocation

    def init_failed(self, environment: ExecutionEnvironment, error: InvokeResult) -> None:
        """Fail one waiting event for each start that failed. A handler that can never be loaded is therefore
        started once for each event, and not for ever."""
        logger.warning(
            "%s: %s while it was loaded, see %s",
            self.spec.name,
            error.error_type,
            self.spec.log,
        )
        self.failed_start = f"it does not start ({error.error_type}), see {self.spec.log}"
        environment.kill()
        if self._waiting:
            self._waiting.popleft().resolve(error)

    def forget(self, environment: ExecutionEnvironment, reason: str) -> None:
        """Forget an environment whose process is gone."""
        self.environments.remove(environment)
        if environment.state is State.STARTING:
            self.init_failed(environment, failure("Runtime.ExitError", f"Error: {reason}"))
        self._scale()

    def _warmest(self) -> ExecutionEnvironment | None:
        """Return the ready environment that served last: so the others grow idle and end."""
        ready = self._in_state(State.READY)
        for environment in sorted(ready, key=lambda each: each.idle_since, reverse=True):
            if environment.alive():
                return environment
            environment.kill()
        return None

    def _scale(self) -> None:
        """Start as many environments as the waiting events need, within the limits."""
        # One that has responded asks for the next event in a moment, unless it has died since.
        returning = sum(each.alive() for each in self._in_state(State.RETURNING))
        while True:
            starting = len(self._in_state(State.STARTING))
            living = sum(each.state is not State.GONE for each in self.environments)
            if self._is_closed or len(self._waiting) <= starting + returning:
                return
            if starting >= _STARTING_AT_ONCE or living >= self._maximum:
                return
            self._start()

    def _start(self) -> None:
        environment = ExecutionEnvironment(self.spec, self)
        self.environments.append(environment)
        life = asyncio.create_task(environment.run())
        self._lives.add(life)
        life.add_done_callback(self._lives.discard)

    def _in_state(self, state: State) -> list[ExecutionEnvironment]:
        return [each for each in self.environments if each.state is state]


class LambdaService:
    """All functions. It belongs to one event loop; `invoke_blocking` and `accept` are for other threads."""

    def __init__(self, *, concurrency: int = 12) -> None:
        self._concurrency = concurrency
        self._pools: dict[str, FunctionPool] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False
        self.notices_readers = True
        """Functions learn that the reader of their stream has left. On Lambda they do not."""

    def add(self, spec: FunctionSpec, concurrency: int | None = None) -> None:
        """Add a function, with at most so many environments."""
        self._pools[spec.name] = FunctionPool(spec, concurrency or self._concurrency)

    async def start(self) -> None:
        """Bind to the running loop and begin to end idle environments."""
        self._loop = asyncio.get_running_loop()
        self._spawn(self._reap_forever())

    async def stop(self) -> None:
        """End every process. Events under way end with `Runtime.ExitError`."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(pool.stop() for pool in self._pools.values()))

    def names(self) -> list[str]:
        """Return the names of the functions."""
        return list(self._pools)

    def failed_starts(self) -> dict[str, str]:
        """Return why the last start failed, of each function for which it did."""
        failed = {name: pool.failed_start for name, pool in self._pools.items()}
        return {name: why for name, why in failed.items() if why is not None}

    def environments(self) -> list[dict[str, object]]:
        """Return `[{"function", "pid", "busy"}]` of the processes that run."""
        return [
            {"function": name, "pid": each.pid, "busy": each.state is State.BUSY}
            for name, pool in self._pools.items()
            for each in pool.environments
            if each.pid is not None and each.state is not State.GONE and each.alive()
        ]

    async def invoke(self, name: str, payload: bytes) -> InvokeResult:
        """Invoke a function and wait for its result (RequestResponse). Raises LambdaError if Lambda refuses
        the event."""
        self.check(name, payload)
        return await self._pools[name].invoke(Invocation(payload))

    async def stream(self, name: str, payload: bytes) -> Invocation:
        """Invoke a function (InvokeWithResponseStream). The pieces come in `stream` as the function writes
        them, and `result` tells how it ended. Raises LambdaError if Lambda refuses the event."""
        self.check(name, payload)
        stream = ResponseStream(notices=self.notices_readers)
        pool, invocation = self._pools[name], Invocation(payload, stream)

        async def drive() -> None:
            invocation.resolve(await pool.invoke(invocation))

        self._spawn(drive())
        return invocation

    def invoke_blocking(self, name: str, payload: bytes) -> InvokeResult:
        """Do what `invoke` does, from a thread that is not the event loop's. The loop may have ended."""
        self.check(name, payload)
        return result_in(self.loop, self.invoke(name, payload))

    def accept(self, name: str, payload: bytes) -> None:
        """Invoke a function without waiting (Event), with up to three attempts, as Lambda makes them. For a
        thread that is not the event loop's. Raises LambdaError."""

        async def begin() -> None:
            # Once more, in the loop: a stop may have come since.
            self.check(name, payload)
            self._spawn(self._attempts(self._pools[name], payload))

        self.check(name, payload)
        result_in(self.loop, begin())

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop in which the service was started."""
        assert self._loop is not None, "the service has not been started"
        return self._loop

    def prewarm(self, *names: str) -> None:
        """Start one environment of each of these functions, as far as they exist."""
        for name in names:
            if name in self._pools:
                self._pools[name].prewarm()

    def change(self, variables: Mapping[str, str], *, renew: bool) -> None:
        """Give these variables to environments that start from here on, in addition to their own. `renew`:
        those that exist finish their event and serve no further one."""
        for pool in self._pools.values():
            pool.spec = replace(pool.spec, variables={**pool.spec.variables, **variables})
            if renew:
                pool.renew()

    def check(self, name: str, payload: bytes) -> None:
        """Raise LambdaError if Lambda would refuse the event, and after a stop."""
        if self._is_stopped:
            raise LambdaError("the runner is stopping")
        if name not in self._pools:
            raise FunctionNotFound(f"Function not found: {name}")
        if len(payload) > PAYLOAD_LIMIT:
            raise RequestTooLarge(f"Request must be smaller than {PAYLOAD_LIMIT} bytes")

    async def _attempts(self, pool: FunctionPool, payload: bytes) -> None:
        for delay in (*_ASYNC_RETRY_DELAYS, None):
            result = await pool.invoke(Invocation(payload))
            if result.function_error is None:
                return
            if delay is not None:
                await asyncio.sleep(delay.total_seconds())
        logger.warning("%s: event dropped after %s", pool.spec.name, result.error_type)

    async def _reap_forever(self) -> None:
        while True:
            await asyncio.sleep(_REAP_EVERY.total_seconds())
            try:
                for pool in self._pools.values():
                    pool.reap(IDLE_LIMIT)
            except Exception:  # The next look may succeed; without one, processes pile up.
                logger.exception("idle environments could not be ended")

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
