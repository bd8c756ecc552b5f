"""Requests of the HTTP API on a loop that runs: several at once, each as the real function answers it.

The function's routes are synchronous: they hand their host a coroutine and go on with its result. On AWS, the
host runs it on the environment's loop, which does nothing else. Here each request has a greenlet, which steps
aside for as long as its coroutine takes: no thread, and the loop alone says in which order things happen."""

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from aws_lambda_powertools.event_handler.api_gateway import BaseRouter
from greenlet import getcurrent, greenlet

from functions.api.app import answer, resolver
from layover.clock import loop_time
from layover.invocation import InvocationLoop
from layover.runtime import Runtime

T = TypeVar("T")


async def answered(
    event: Mapping[str, Any], runtime: Runtime, *, streams: bool = False
) -> dict[str, Any]:
    """Return the answer of the API's function to one event (HTTP API, payload 2.0), by these ports.

    Whoever cancels this ends the request where it waits, as a death of its process does."""
    host = _Host(runtime)
    request = greenlet(lambda: answer(event, None, host, streams=streams, now=loop_time))
    # What is logged and traced belongs to the task that waits here.
    request.gr_context = getcurrent().gr_context
    step = request.switch()
    while not request.dead:
        try:
            result = await host.invocations.handle(step)
        except BaseException as error:  # A cancel as well: the request has to see its own end.
            step = request.throw(error)
        else:
            step = request.switch(result)
    return dict(step)


class _Host:
    """`functions.api.call.Host` of one request."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.invocations = InvocationLoop(_finish)

    def runtime(self) -> Runtime:
        return self._runtime

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        """Let the loop do other work until the result is there."""
        # The framework keeps the request that it answers in one place for all: on AWS a process has one.
        app, event, context = resolver(), BaseRouter.current_event, BaseRouter.lambda_context
        kept = dict(app.context)
        try:
            result: T = getcurrent().parent.switch(work)
            return result
        finally:
            app.context.clear()
            app.context.update(kept)
            BaseRouter.current_event, BaseRouter.lambda_context = event, context


async def _finish() -> None:
    """Leave nothing behind: the ports are the test's."""
