"""Events and results of a function, and the errors with which Lambda itself responds."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

ACCOUNT = "123456789012"
REGION = "us-east-1"
PAYLOAD_LIMIT = 6 * 1024 * 1024
"""Bytes of a synchronous payload, both ways (docs/aws-facts.md#lambda)."""


class LambdaError(Exception):
    """An error of the Invoke API, not of the function. `code` is AWS's name for it."""

    status = 500
    code = "ServiceException"


class FunctionNotFound(LambdaError):
    """No folder of this name has a handler."""

    status = 404
    code = "ResourceNotFoundException"


class RequestTooLarge(LambdaError):
    """The event is larger than Lambda accepts."""

    status = 413
    code = "RequestTooLargeException"


@dataclass(frozen=True, slots=True)
class InvokeResult:
    """The payload (JSON bytes). `function_error` is `Unhandled` if it is an error object."""

    payload: bytes
    function_error: str | None = None

    @property
    def error_type(self) -> str | None:
        """The name of the error, as a state machine's Retry and Catch see it; None on success."""
        if self.function_error is None:
            return None
        error = json.loads(self.payload or b"{}")
        return str(error.get("errorType", "Exception")) if isinstance(error, dict) else "Exception"


def failure(error_type: str, message: str) -> InvokeResult:
    """Return an error object in Lambda's shape."""
    body = json.dumps({"errorType": error_type, "errorMessage": message})
    return InvokeResult(body.encode(), "Unhandled")


class ReaderLeft(ConnectionError):
    """The reader of a streamed response has left."""


class ResponseStream:
    """The pieces of a response that a function streams (`RESPONSE_STREAM`). `notices`: the function learns
    that its reader has left. On Lambda it does not (docs/aws-facts.md#lambda)."""

    def __init__(self, *, notices: bool = True) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._has_left = asyncio.Event()
        self._notices = notices
        self._is_unread = False

    async def take(self, pieces: AsyncIterator[bytes]) -> None:
        """Hand the pieces on to the reader as they come. Raises ReaderLeft, and whatever `pieces` raises."""

        async def hand_on() -> None:
            async for piece in pieces:
                if not self._is_unread:
                    self._pieces.put_nowait(piece)

        # A silent function sends no piece for minutes: until then, it has to notice that its reader leaves.
        disconnect = asyncio.create_task(self._has_left.wait())
        handing = asyncio.create_task(hand_on())
        try:
            await asyncio.wait({disconnect, handing}, return_when=asyncio.FIRST_COMPLETED)
            if not handing.done():
                raise ReaderLeft
            await handing
        finally:
            disconnect.cancel()
            handing.cancel()

    def end(self) -> None:
        """Tell the reader that no piece follows."""
        self._pieces.put_nowait(None)

    def leave(self) -> None:
        """Tell the function that its reader has left, if it notices that. Nobody reads the rest."""
        self._is_unread = True
        if self._notices:
            self._has_left.set()

    async def piece(self) -> bytes | None:
        """Return the next piece, once it is there; None at the end."""
        return await self._pieces.get()


@dataclass(eq=False, slots=True)
class Invocation:
    """One event on its way through a function. `result` is set exactly once. If there is a `stream` and the
    function streams, it says how the stream ended."""

    payload: bytes
    stream: ResponseStream | None = None
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    result: "asyncio.Future[InvokeResult]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def resolve(self, result: InvokeResult) -> None:
        """Give the caller the result. A later one (after the time-out) is dropped."""
        if not self.result.done():
            self.result.set_result(result)
            if self.stream is not None:
                self.stream.end()

    def timed_out(self, limit: timedelta) -> InvokeResult:
        """Return Lambda's result for an event whose environment it had to kill."""
        seconds = limit.total_seconds()
        message = f"{self.request_id} Task timed out after {seconds:.2f} seconds"
        return failure("Sandbox.Timedout", message)

    def crashed(self, reason: str) -> InvokeResult:
        """Return Lambda's result for an event whose process died."""
        message = f"RequestId: {self.request_id} Error: {reason}"
        return failure("Runtime.ExitError", message)
