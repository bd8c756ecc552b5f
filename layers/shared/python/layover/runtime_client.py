"""A client of the Lambda Runtime API whose functions stream their responses.

AWS's own client for Python answers an invocation with one body. This one takes its place
(`AWS_LAMBDA_EXEC_WRAPPER`, docs/adr/0013-response-streaming.md) in functions that stream, on Lambda and on
one machine. A handler answers with `statusCode`, `headers` and `body`: a text, or an asynchronous
generator of bytes.
"""

import base64
import http.client
import importlib
import json
import logging
import os
import select
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from layover import logs, wiring

_PATH = "/2018-06-01/runtime"
_PRELUDE_ENDS = b"\0" * 8
"""The separator between status and headers, as JSON, and the body of a streamed HTTP response."""
_TYPE = "application/vnd.awslambda.http-integration-response"
_STATUS_AND_HEADERS = ("statusCode", "headers", "cookies")

logger = logging.getLogger("layover")

Handler = Callable[[dict[str, Any], "Context"], Mapping[str, Any]]


@dataclass(frozen=True)
class Context:
    """A handler's view of its invocation, under the names of AWS's own client."""

    aws_request_id: str
    invoked_function_arn: str
    deadline_ms: int

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the process."""
        return max(0, self.deadline_ms - int(time.time() * 1000))


class RuntimeApi:
    """One connection to the Runtime API at `host:port`, or at `host:port/path` on one machine."""

    def __init__(self, address: str) -> None:
        self._address, slash, path = address.partition("/")
        self._path = f"{slash}{path}{_PATH}"
        self._connection = http.client.HTTPConnection(self._address)

    def next(self) -> tuple[dict[str, Any], Context]:
        """Wait for the next event, however long that takes, and return it."""
        self._connection.request("GET", f"{self._path}/invocation/next")
        response = self._connection.getresponse()
        event = json.loads(response.read())
        if trace := response.headers.get("Lambda-Runtime-Trace-Id"):
            os.environ["_X_AMZN_TRACE_ID"] = trace
        return event, Context(
            aws_request_id=response.headers["Lambda-Runtime-Aws-Request-Id"],
            invoked_function_arn=response.headers.get("Lambda-Runtime-Invoked-Function-Arn", ""),
            deadline_ms=int(response.headers.get("Lambda-Runtime-Deadline-Ms", "0")),
        )

    def fail(self, place: str, error: BaseException) -> None:
        """Report an error before any response: at `init`, or at `invocation/ID`."""
        self._connection.request(
            "POST",
            f"{self._path}/{place}/error",
            _error_object(error),
            {"Lambda-Runtime-Function-Error-Type": type(error).__name__},
        )
        self._connection.getresponse().read()

    async def stream(self, request_id: str, answer: Mapping[str, Any]) -> None:
        """Send the answer piece by piece. Ends quietly if the reader is gone."""
        try:
            await self._stream(request_id, answer)
        except ConnectionError:
            self.reconnect()

    def reconnect(self) -> None:
        """Open a fresh connection, because the old one is in the middle of a request."""
        self._connection.close()
        self._connection = http.client.HTTPConnection(self._address)

    async def _stream(self, request_id: str, answer: Mapping[str, Any]) -> None:
        self._begin(f"{self._path}/invocation/{request_id}/response")
        prelude = {name: answer[name] for name in _STATUS_AND_HEADERS if name in answer}
        self._send(json.dumps(prelude).encode() + _PRELUDE_ENDS)
        trailers = b""
        body = answer.get("body") or ""
        if isinstance(body, AsyncGenerator):
            try:
                await self._send_all(body)
            except ConnectionError:
                raise
            except Exception as error:
                _log("a response stream failed", error)
                trailers = _error_trailers(error)
        elif body:
            raw = base64.b64decode(body) if answer.get("isBase64Encoded") else body.encode()
            self._send(raw)
        self._connection.send(b"0\r\n" + trailers + b"\r\n")
        self._connection.getresponse().read()

    def _begin(self, path: str) -> None:
        self._connection.putrequest("POST", path)
        for name, value in (
            ("Content-Type", _TYPE),
            ("Lambda-Runtime-Function-Response-Mode", "streaming"),
            ("Transfer-Encoding", "chunked"),
            ("Trailer", "Lambda-Runtime-Function-Error-Type"),
            ("Trailer", "Lambda-Runtime-Function-Error-Body"),
        ):
            self._connection.putheader(name, value)
        self._connection.endheaders()

    async def _send_all(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Send each piece as a chunk. An empty piece sends nothing and only checks for a reader. Raises
        ConnectionError."""
        async with aclosing(pieces):
            async for piece in pieces:
                if self._is_closed():
                    raise ConnectionAbortedError
                if piece:
                    self._send(piece)

    def _send(self, piece: bytes) -> None:
        self._connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    def _is_closed(self) -> bool:
        """Return whether the other side has closed the connection. It has no reason to write before the
        end."""
        readable, _, _ = select.select([self._connection.sock], [], [], 0)
        return bool(readable)


def _log(what: str, error: BaseException) -> None:
    """Log where the error was raised, without its text, which may quote a message."""
    extra = {"error": type(error).__name__, "where": logs.where(error)}
    logger.error(what, extra=extra)


def _error_object(error: BaseException) -> bytes:
    """Return the error in Lambda's shape. Its message may be a user's text: only its type is sent."""
    return json.dumps(
        {"errorType": type(error).__name__, "errorMessage": "see the function's log"}
    ).encode()


def _error_trailers(error: BaseException) -> bytes:
    body = base64.b64encode(_error_object(error)).decode()
    return (
        f"Lambda-Runtime-Function-Error-Type: {type(error).__name__}\r\n"
        f"Lambda-Runtime-Function-Error-Body: {body}\r\n"
    ).encode()


def serve(api: RuntimeApi, handler: Handler) -> None:
    """Answer one invocation. Raises the error that ends the process: the Runtime API is gone."""
    event, context = api.next()
    try:
        answer = handler(event, context)
    except Exception as error:
        _log("a function failed", error)
        api.fail(f"invocation/{context.aws_request_id}", error)
        return
    wiring.run(api.stream(context.aws_request_id, answer))


def main() -> None:
    """Serve invocations of the handler that `_HANDLER` names, until Lambda ends this process."""
    # Lambda tells its runtime client the address only here.
    api = RuntimeApi(os.environ["AWS_LAMBDA_RUNTIME_API"])
    module, _, function = os.environ["_HANDLER"].rpartition(".")
    try:
        handler: Handler = getattr(importlib.import_module(module), function)
    except BaseException as error:
        _log("the handler could not be loaded", error)
        api.fail("init", error)
        sys.exit(1)
    while True:
        serve(api, handler)


if __name__ == "__main__":
    main()
