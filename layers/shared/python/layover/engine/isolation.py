"""An author's code in a task of its own, so that its cancellations are not the engine's."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

CLEANUP_GRACE_S = 1.0
"""Seconds that cancelled code has to clean up. After that it is left behind."""

T = TypeVar("T")

_left: set[asyncio.Future[Any]] = set()


def count_abandoned() -> int:
    """Return how many pieces of work go on although they were cancelled. They would wake up in the middle of
    this process's next event (compare `declare.blocking.count_abandoned`)."""
    return sum(not task.done() for task in _left)


class TimedOut(Exception):
    """The time limit of the engine is over (a tool's own TimeoutError is something else)."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"it took longer than {limit:g} s")
        self.limit = limit


class Raised(Exception):
    """Carries an exception that is no `Exception`: a CancelledError of the author's own, an exit."""


async def isolate(work: Coroutine[Any, Any, T], limit: timedelta | None = None) -> T:
    """Return the work's result. Raises what the work raises (always an Exception), TimedOut, and
    CancelledError only if the caller itself was cancelled. The work is cancelled in both cases."""
    seconds = None if limit is None else limit.total_seconds()
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve_exception)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not done:
        await _stop(task)
        raise TimedOut(seconds or 0)
    return _result(task)


def _result(task: asyncio.Future[T]) -> T:
    try:
        return task.result()
    except Exception:
        raise
    except asyncio.CancelledError:
        raise _with_type_name("CancelledError", "the tool cancelled itself") from None
    except BaseException as error:
        raise _with_type_name(type(error).__name__, str(error)) from error


def _with_type_name(name: str, message: str) -> Exception:
    """Return an exception that reads as the one it stands for: the model is shown the type's name."""
    error_type: type[Exception] = type(name, (Raised,), {})
    return error_type(message)


async def _stop(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=CLEANUP_GRACE_S)
    if not task.done():
        _left.add(task)
        task.add_done_callback(_left.discard)


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a task that nothing waits for any more, so that asyncio does not report
    it."""
    if not task.cancelled():
        task.exception()
