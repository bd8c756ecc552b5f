"""Invocations of an execution environment: the event loop that it keeps between them, and the time that each
has."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from layover.errors import RetryableError

T = TypeVar("T")

UNCLEAN_EXIT = 70
"""The exit status of a process that leaves because of an abandoned tool (`EX_SOFTWARE` of sysexits.h)."""
logger = logging.getLogger("layover")


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
        _leave_if_unclean()
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self.handle(work))

    async def handle(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work` as `run` does, on the loop that runs."""
        try:
            return await work
        except RetryableError as error:
            if type(error) is RetryableError:
                raise
            raise RetryableError(f"{type(error).__name__}: {error}") from error
        finally:
            await self._finish()


def _leave_if_unclean() -> None:
    """End a process that had to abandon a tool, before it takes another event: the tool could go on in the
    middle of it. Lambda counts the event as failed, and the state machine sends it to another process.

    A timer behind the answer would not do: Lambda freezes the process once it has answered, and the timer
    goes off when another event thaws it."""
    threads = sys.modules.get("layover.declare.blocking")
    isolation = sys.modules.get("layover.engine.isolation")
    if (threads and threads.count_abandoned()) or (isolation and isolation.count_abandoned()):
        logger.warning("this process leaves: a tool that was given up still runs in it")
        # No clean-up, which would wait for the tool.
        os._exit(UNCLEAN_EXIT)
