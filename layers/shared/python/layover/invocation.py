"""Invocations of an execution environment: the event loop that it keeps between them, and the time that each
has."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from layover.errors import RetryableError

T = TypeVar("T")

LEAVE_AFTER_S = 0.25
"""Seconds for the runtime client to send an answer before an unclean process leaves."""


class LambdaDeadline:
    """`ports.Deadline` over a Lambda context's `get_remaining_time_in_millis`."""

    def __init__(self, remaining_ms: Callable[[], int]) -> None:
        self._remaining_ms = remaining_ms

    def remaining(self) -> timedelta:
        """Return the time left of this invocation."""
        return timedelta(milliseconds=self._remaining_ms())


class InvocationLoop:
    """The event loop of an execution environment, made by its first invocation.

    `finish`: records what an invocation has left unrecorded. It runs after each invocation, even after one
    that failed."""

    def __init__(self, finish: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._finish = finish
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. A passing fault is raised as `RetryableError`: the state machine
        retries errors of exactly that name."""
        try:
            return self._run(work)
        except RetryableError as error:
            if type(error) is RetryableError:
                raise
            raise RetryableError(f"{type(error).__name__}: {error}") from error
        finally:
            self._run(self._finish())
            _leave_if_unclean()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(work)


def _leave_if_unclean() -> None:
    """End a process that had to abandon a tool, once its answer is sent. It must not take another event,
    because the tool could go on in the middle of it."""
    threads = sys.modules.get("layover.declare.blocking")
    isolation = sys.modules.get("layover.engine.isolation")
    if (threads and threads.count_abandoned()) or (isolation and isolation.count_abandoned()):
        leave = threading.Timer(LEAVE_AFTER_S, os._exit, (1,))
        leave.daemon = True
        leave.start()
