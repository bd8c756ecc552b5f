"""One execution environment: a child process that serves one event at a time.

As on Lambda, it is reused for one event after the other; it is killed when an event takes longer than the
function's limit; and if its process dies, its event fails and the next event gets another environment. So a
test that sends SIGKILL to the process sees what a crash leaves."""

import asyncio
import hmac
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from layover.desk.local.functions.invocation import (
    ACCOUNT,
    PAYLOAD_LIMIT,
    REGION,
    Invocation,
    InvokeResult,
    ReaderLeft,
    failure,
)
from layover.desk.local.functions.package import handler_of
from layover.desk.local.output import open_log
from layover.desk.local.wire import Request, Response, StreamFailed, WireServer

logger = logging.getLogger(__name__)

_PREFIX = "2018-06-01/runtime/"
LOADING_LIMIT = timedelta(seconds=60)
"""More than the slowest machine takes to import a handler. It has to end, because callers wait for it."""
_LATE_RESPONSE_S = 0.1
"""Enough to read a response that lay in the socket while the runner itself was stopped."""
_ACCEPTED = Response(
    HTTPStatus.ACCEPTED, b'{"status":"OK"}', (("Content-Type", "application/json"),)
)


@dataclass(frozen=True)
class FunctionSpec:
    """One function: the name of its folder, its limit, and what its processes get."""

    name: str
    timeout: timedelta
    variables: dict[str, str]
    log: Path
    clock: Path

    @property
    def arn(self) -> str:
        """The ARN by which the state machine invokes it."""
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.name}"

    @property
    def handler(self) -> str:
        """Lambda's handler string."""
        return handler_of(self.name)


class State(Enum):
    """Life of an environment. RETURNING has responded and not yet asked for the next event. It may never do
    so: a process that had to abandon a tool leaves in between (`layover.invocation`)."""

    STARTING = auto()
    READY = auto()
    BUSY = auto()
    RETURNING = auto()
    GONE = auto()


class Queue(Protocol):
    """An environment's view of the pool that it belongs to."""

    def next_invocation(self) -> Invocation | None:
        """Return the event that waits longest, or None."""

    def init_failed(self, environment: "ExecutionEnvironment", error: InvokeResult) -> None:
        """Take note that the handler could not be loaded."""

    def forget(self, environment: "ExecutionEnvironment", reason: str) -> None:
        """Take note that the process is gone."""


class ExecutionEnvironment:
    """A process that runs AWS's runtime client. Only events reach it."""

    def __init__(self, spec: FunctionSpec, queue: Queue) -> None:
        self.spec = spec
        self.state = State.STARTING
        self.idle_since = time.monotonic()
        self.pid: int | None = None
        self.is_outdated = False
        self._queue = queue
        # First in every path that the process asks for: no other program may take its events.
        self._secret = secrets.token_hex(16)
        self._server = WireServer(self._respond)
        self._process: asyncio.subprocess.Process | None = None
        self._invocation: Invocation | None = None
        self._parked: asyncio.Future[Invocation] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Start the process, and return when it is gone."""
        try:
            process = await self._launch()
            reason = _exit_reason(await process.wait())
        except Exception as error:  # Any error: events would wait for a process that never comes.
            reason = f"the process could not be started: {error}"
        self._end(reason)

    def assign(self, invocation: Invocation) -> None:
        """Hand an event to a READY environment."""
        assert self._parked is not None
        self._begin(invocation)
        self._parked.set_result(invocation)

    def alive(self) -> bool:
        """Return whether the process still runs. asyncio hears of a death only some time later, and an event
        handed to a dead process in between would be lost; so the kernel is asked, without reaping."""
        if self._process is None or self._process.returncode is not None:
            return False
        if not hasattr(os, "waitid"):  # Not on macOS before Python 3.13.
            return True
        with suppress(ChildProcessError):
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, flags) is None
        return False

    def kill(self) -> None:
        """End the process, and the processes that a tool started from it: they are in its group."""
        self.state = State.GONE
        if self.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def _launch(self) -> asyncio.subprocess.Process:
        # Each environment has its own port, because a request to the Runtime API does not name the
        # environment.
        address = await self._server.start()
        arguments = [self.spec.handler, str(self.spec.clock), str(os.getpid())]
        variables = self.spec.variables | {"AWS_LAMBDA_RUNTIME_API": f"{address}/{self._secret}"}
        with open_log(self.spec.log) as log:
            # Without -P, -m would put the current folder first on the path, and a user's module
            # `layover` would hide ours.
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "layover.desk.local.functions.environment",
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=variables,
                # Its own session, and so its own group: `kill` ends a tool's processes with it, and Ctrl-C in
                # the terminal reaches only the runner, which stops everything in order.
                start_new_session=True,
            )
        self._process, self.pid = process, process.pid
        if self.state is State.GONE:
            # It was killed while the process was being made, when there was no pid to kill.
            self.kill()
        else:
            self._give_up_after(LOADING_LIMIT, self._give_up_loading)
        return process

    async def _respond(self, request: Request) -> Response:
        secret, _, path = request.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            return Response(HTTPStatus.FORBIDDEN)
        match request.method, path.removeprefix(_PREFIX).split("/"):
            case "GET", ["invocation", "next"]:
                return await self._next()
            case "POST", ["invocation", request_id, "response"] if request.pieces is not None:
                return self._finish(request_id, await self._stream(request_id, request.pieces))
            case "POST", ["invocation", request_id, "response"]:
                return self._finish(request_id, _answer(request.body))
            case "POST", ["invocation", request_id, "error"]:
                return self._finish(request_id, InvokeResult(request.body, "Unhandled"))
            case "POST", ["init", "error"]:
                self._queue.init_failed(self, InvokeResult(request.body, "Unhandled"))
                return _ACCEPTED
        return Response(HTTPStatus.NOT_FOUND)

    async def _stream(self, request_id: str, pieces: AsyncIterator[bytes]) -> InvokeResult:
        """Hand the pieces on as they come. An invocation without a reader for them collects them, as `Invoke`
        does. Raises ReaderLeft when the reader is gone: the connection is then closed, which is how the
        process learns of it."""
        invocation = self._invocation
        if invocation is None or invocation.request_id != request_id:
            raise ReaderLeft
        try:
            if invocation.stream is None:
                return _answer(b"".join([piece async for piece in pieces]))
            await invocation.stream.take(pieces)
        except StreamFailed as failed:
            return InvokeResult(failed.error, "Unhandled")
        except ReaderLeft:
            self._finish(request_id, InvokeResult(b""))
            raise
        return InvokeResult(b"")

    async def _next(self) -> Response:
        """Respond to the process's request for its next event, once there is one."""
        if self.is_outdated:
            self.kill()
        # The request of a process that has died since may still lie in the socket.
        if self.state is State.GONE or not self.alive():
            return Response(HTTPStatus.FORBIDDEN)
        self._stop_timer()
        self.state = State.READY
        if invocation := self._queue.next_invocation():
            self._begin(invocation)
        else:
            self.idle_since = time.monotonic()
            # The process waits for this response as one on Lambda is frozen: nothing runs in it but threads
            # that a tool left behind, which Lambda would freeze as well.
            self._parked = asyncio.get_running_loop().create_future()
            invocation = await self._parked
        # The wall clock, as the runtime client compares the deadline with it. The movable clock does not
        # count: a limit is a matter of real seconds.
        deadline = int((time.time() + self.spec.timeout.total_seconds()) * 1000)
        trace = f"Root=1-{int(time.time()):08x}-{invocation.request_id.replace('-', '')[:24]}"
        headers = (
            ("Content-Type", "application/json"),
            ("Lambda-Runtime-Aws-Request-Id", invocation.request_id),
            ("Lambda-Runtime-Deadline-Ms", str(deadline)),
            ("Lambda-Runtime-Invoked-Function-Arn", self.spec.arn),
            ("Lambda-Runtime-Trace-Id", f"{trace};Parent=0000000000000000;Sampled=0"),
        )
        return Response(HTTPStatus.OK, invocation.payload, headers)

    def _begin(self, invocation: Invocation) -> None:
        self.state = State.BUSY
        self._invocation = invocation
        self._give_up_after(self.spec.timeout, self._expire)

    def _give_up_after(self, limit: timedelta, give_up: Callable[[], None]) -> None:
        """Call `give_up` after `limit`, but not before everything that the process sent in time is read: a
        runner that was itself stopped (Ctrl-Z, a suspended machine) finds the response and the time-out at
        once."""
        loop = asyncio.get_running_loop()

        def once_more() -> None:
            self._timer = loop.call_later(_LATE_RESPONSE_S, give_up)

        self._timer = loop.call_later(limit.total_seconds(), once_more)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _finish(self, request_id: str, result: InvokeResult) -> Response:
        invocation = self._invocation
        if invocation is None or invocation.request_id != request_id:
            return Response(HTTPStatus.BAD_REQUEST, b'{"errorMessage":"no such invocation"}')
        self._release(result)
        self.state = State.RETURNING
        return _ACCEPTED

    def _release(self, result: InvokeResult) -> None:
        self._stop_timer()
        if self._invocation is not None:
            self._invocation.resolve(result)
        self._invocation = None

    def _expire(self) -> None:
        assert self._invocation is not None
        logger.warning("%s: timed out, see %s", self.spec.name, self.spec.log)
        self._release(self._invocation.timed_out(self.spec.timeout))
        # As Lambda does: the next event never meets what this one left in the process.
        self.kill()

    def _give_up_loading(self) -> None:
        if self.state is State.STARTING:
            seconds = LOADING_LIMIT.total_seconds()
            message = f"{self.spec.handler} was not loaded after {seconds:.2f} seconds"
            self._queue.init_failed(self, failure("Sandbox.Timedout", message))

    def _end(self, reason: str) -> None:
        self._stop_timer()
        self._server.close()
        if self._invocation is not None:
            if self.state is not State.GONE:
                logger.warning("%s: %s, see %s", self.spec.name, reason, self.spec.log)
            self._release(self._invocation.crashed(reason))
        self._queue.forget(self, reason)
        self.kill()  # The process is gone; those that a tool started from it may not be.


def _answer(body: bytes) -> InvokeResult:
    if len(body) <= PAYLOAD_LIMIT:
        return InvokeResult(body)
    message = f"Response payload size ({len(body)} bytes) exceeded maximum allowed payload size"
    return failure("Function.ResponseSizeTooLarge", message)


def _exit_reason(code: int) -> str:
    """Return the reason that Lambda gives for a process with this exit code."""
    if code == 0:
        return "Runtime exited without providing a reason"
    if code > 0:
        return f"Runtime exited with error: exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # Most real-time signals have no name.
        name = str(-code)
    return f"Runtime exited with error: signal: {name}"
