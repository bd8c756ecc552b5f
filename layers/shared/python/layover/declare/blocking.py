"""Blocking functions outside the event loop."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_abandoned: set[threading.Thread] = set()


def count_abandoned() -> int:
    """Return how many threads still run after their caller was cancelled. A process that has one must not
    take another event: the thread could go on in the middle of another user's event."""
    return sum(thread.is_alive() for thread in _abandoned)


async def in_thread(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run `fn` in its own thread, with the caller's context variables.

    Not `asyncio.to_thread`: its pool has cores + 4 threads, fewer than a window has calls (40), and
    a process waits for it at exit, also for a tool that was given up after its time-out. If the
    caller is cancelled, the thread runs on and its result is dropped."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(fn, *args, **kwargs)
        except BaseException as error:
            _tell(loop, future, None, error)
        else:
            _tell(loop, future, result, None)

    thread = threading.Thread(target=run, name="layover-tool", daemon=True)
    thread.start()
    try:
        return await future
    except asyncio.CancelledError:
        _abandoned.difference_update([t for t in _abandoned if not t.is_alive()])
        _abandoned.add(thread)
        raise


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[T],
    result: T | None,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        elif isinstance(error, StopIteration):  # a future cannot carry it
            future.set_exception(RuntimeError(f"StopIteration: {error}"))
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        return  # the loop is closed: the result is wanted no more


async def call_author(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the result of an author's function. A coroutine runs on the loop; a plain function runs in a
    thread, so that one that blocks does not hold up the run's heartbeat."""
    if inspect.iscoroutinefunction(fn):
        return await fn(*args, **kwargs)
    result = await in_thread(fn, *args, **kwargs)
    return await result if inspect.isawaitable(result) else result
