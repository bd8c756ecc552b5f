"""Author code in a separate task, so that its cancellations are not the engine's."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from layover.declare.connection import consent_in
from layover.errors import ConfigurationError
from layover.futures import retrieve_exception

CLEANUP_GRACE_S = 1.0
"""Seconds that cancelled code has to clean up. After that the engine abandons it."""

T = TypeVar("T")

_NOT_HERE = (
    "the user has not connected the account, and only the tool's own function makes its call wait for it: "
    "ask for the token there"
)
_left: set[asyncio.Future[Any]] = set()


def count_abandoned() -> int:
    """Return how many pieces of work are still running although they were cancelled. They would wake up in
    the middle of this process's next event (compare `declare.blocking.count_abandoned`)."""
    return sum(not task.done() for task in _left)


class TimedOut(Exception):
    """The engine's time limit has passed. (A tool's own TimeoutError is something else.)"""

    def __init__(self, limit: float) -> None:
        super().__init__(f"it took longer than {limit:g} s")
        self.limit = limit


class Raised(Exception):
    """Carries an exception that is not an `Exception`: a CancelledError that the author's code raised, or an
    exit."""


async def isolate(
    work: Coroutine[Any, Any, T], limit: timedelta | None = None, *, may_wait: bool = False
) -> T:
    """Return the work's result. Raises what the work raises (always an Exception), TimedOut, and
    CancelledError only if the caller itself was cancelled. The work is cancelled in both cases. `may_wait`:
    the work may also raise ConsentNeeded, because its caller can make a call wait."""
    seconds = None if limit is None else limit.total_seconds()
    task = asyncio.ensure_future(work)
    task.add_done_callback(retrieve_exception)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not done:
        await _stop(task)
        raise TimedOut(seconds or 0)
    return _result(task, may_wait)


def _result(task: asyncio.Future[T], may_wait: bool) -> T:
    try:
        return task.result()
    except Exception:
        raise
    except asyncio.CancelledError:
        raise _with_type_name("CancelledError", "the tool cancelled itself") from None
    except BaseException as error:
        if (needed := consent_in(error)) is not None:
            raise needed if may_wait else ConfigurationError(_NOT_HERE) from None
        raise _with_type_name(type(error).__name__, str(error)) from error


def _with_type_name(name: str, message: str) -> Exception:
    """Return an exception with the type name of the one that it stands for, because the model sees that
    name."""
    error_type: type[Exception] = type(name, (Raised,), {})
    return error_type(message)


async def _stop(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=CLEANUP_GRACE_S)
    if not task.done():
        _left.add(task)
        task.add_done_callback(_left.discard)
