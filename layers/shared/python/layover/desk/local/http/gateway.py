"""The HTTP front: API Gateway and its JWT authorizer, as an ASGI application."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Protocol

from layover.desk.local.doors import LOCAL_HEADER, is_json, is_local, is_loopback
from layover.desk.local.functions.invocation import (
    PAYLOAD_LIMIT,
    FunctionNotFound,
    Invocation,
    InvokeResult,
    LambdaError,
    RequestTooLarge,
)
from layover.desk.local.http.event import Response, http_event, http_response
from layover.desk.local.http.streams import (
    Receive,
    Scope,
    Send,
    StreamedResponse,
    has_ticket,
    is_streamed,
    send_stream,
    streamed_response,
)
from layover.errors import SEND_LESS
from layover.values.deployment.access import Access, is_open

LocalRoute = Callable[[bytes], Response]
WebSocket = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH_PATH = "/healthz"
_LOCAL_PREFIX = "/_local/"
_TOKEN = re.compile(rb"^bearer[ \t]+dev(\+act-as)?:(.+)$", re.IGNORECASE | re.DOTALL)


class Functions(Protocol):
    """The Lambda service, as far as the front needs it."""

    async def invoke(self, name: str, payload: bytes) -> InvokeResult:
        """Invoke and wait; raises LambdaError before the function is reached."""
        ...


class Streaming(Protocol):
    """The Lambda service, where functions stream."""

    async def stream(self, name: str, payload: bytes) -> Invocation:
        """Invoke for a streamed response; raises LambdaError before the function is reached."""
        ...


class _ClientLeft(Exception):
    """The request ended early, so there is nothing to do and no client to answer."""


Service = Callable[[str, str, Mapping[str, str], bytes], tuple[int, Mapping[str, str], bytes]]
"""Takes method, path, headers (names in lower case) and body; returns status, headers and body."""


class Front:
    """The front: every HTTP request becomes an event for the function `api`; `/_local/*` is answered here.

    Hosts other than this machine's names are refused on every path. `websocket` serves the connections of
    that kind; `streaming` the requests that ask for a stream; `health` answers HEALTH_PATH for a system that
    is not whole."""

    def __init__(
        self,
        functions: Functions,
        websocket: WebSocket | None = None,
        streaming: Streaming | None = None,
        health: Callable[[], Response | None] = lambda: None,
    ) -> None:
        self._functions = functions
        self._health = health
        self._streaming = streaming
        self._websocket = websocket
        self._local: dict[tuple[str, str], LocalRoute] = {}
        self._services: dict[str, Service] = {}

    def add_local(self, method: str, path: str, answer: LocalRoute) -> None:
        """Answer `method path` here, by what `answer` makes of the request's body."""
        self._local[method, path] = answer

    def add_service(self, prefix: str, answer: Service) -> None:
        """Answer all paths below `/_local/PREFIX` here, whoever asks: a service for programs, which send no
        header of ours. The prefix has a part that no page knows."""
        self._services[f"{_LOCAL_PREFIX}{prefix}"] = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry."""
        if scope["type"] == "websocket" and not is_loopback(_values(scope, b"host")):
            await receive()
            await refuse(send, HTTPStatus.MISDIRECTED_REQUEST)
        elif scope["type"] == "websocket" and self._websocket is not None:
            await self._websocket(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            with suppress(_ClientLeft):
                body = await _read(receive)
                answer = await self._answer(scope, body)
                if isinstance(answer, StreamedResponse):
                    await send_stream(answer, receive, send)
                else:
                    await _send(send, answer, scope["method"])

    async def _answer(self, scope: Scope, body: bytes | None) -> Response | StreamedResponse:
        if not is_loopback(_values(scope, b"host")):
            detail = (
                "this system answers only its own machine: ask for 127.0.0.1, localhost or [::1]"
            )
            return Response.problem(HTTPStatus.MISDIRECTED_REQUEST, "wrong-host", detail)
        if body is None:
            return _too_large()
        path = scope["path"]
        if path.startswith(_LOCAL_PREFIX):
            return self._answer_locally(scope, path, body)
        if path == HEALTH_PATH and (unwell := self._health()) is not None:
            return unwell
        streaming = self._streaming
        if not is_streamed(scope["method"], path, _values(scope, b"accept")):
            streaming = None
        claims = None if is_open(path) else _claims(scope)
        if claims is None and not is_open(path) and not (streaming and has_ticket(scope)):
            return _unauthorized()
        event = http_event(scope, body, claims)
        return await (self._stream(streaming, event) if streaming else self._invoke(event))

    def _answer_locally(self, scope: Scope, path: str, body: bytes) -> Response:
        for prefix, answer in self._services.items():
            if path.startswith(f"{prefix}/"):
                names = ((k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"])
                below, headers = path.removeprefix(prefix), {k.lower(): v for k, v in names}
                status, pairs, content = answer(scope["method"], below, headers, body)
                encoded = [(k.lower().encode(), v.encode("latin-1")) for k, v in pairs.items()]
                return Response(status, encoded, content)
        if not is_local(_values(scope, LOCAL_HEADER.lower().encode())):
            detail = f"send `{LOCAL_HEADER}: 1` with requests to {_LOCAL_PREFIX}"
            return Response.problem(HTTPStatus.FORBIDDEN, "not-local", detail)
        method = scope["method"]
        if method != "GET" and not is_json(_values(scope, b"content-type")):
            detail = "send `Content-Type: application/json`"
            return Response.problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail
            )
        route = self._local.get((method, path))
        if route is None:
            detail = f"{method} {path} is not one of the runner's own routes"
            return Response.problem(HTTPStatus.NOT_FOUND, "not-found", detail)
        return route(body)

    async def _stream(self, streaming: Streaming, event: Any) -> Response | StreamedResponse:
        try:
            invocation = await streaming.stream("streams", json.dumps(event).encode())
        except LambdaError as error:
            return _refusal(error)
        answer = await streamed_response(invocation)
        if answer is not None:
            return answer
        return self._answer_of(await invocation.result)

    async def _invoke(self, event: Any) -> Response:
        try:
            result = await self._functions.invoke("api", json.dumps(event).encode())
        except LambdaError as error:
            return _refusal(error)
        return self._answer_of(result)

    def _answer_of(self, result: InvokeResult) -> Response:
        if result.error_type == "Sandbox.Timedout":
            detail = "the function did not answer in time"
            return Response.problem(HTTPStatus.GATEWAY_TIMEOUT, "function-timeout", detail)
        if result.function_error is not None:
            return _bad_gateway(f"the function failed: {result.error_type}")
        try:
            return http_response(result.payload)
        except (ValueError, TypeError, AttributeError):
            return _bad_gateway("the function's answer is not an HTTP response")


async def refuse(send: Send, status: int) -> None:
    """Answer a WebSocket's handshake with an HTTP status and no body."""
    headers = [(b"content-length", b"0")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": b""})


def _values(scope: Scope, header: bytes) -> list[str]:
    """All values of a header, whose name is in lower case."""
    return [v.decode("latin-1").strip() for name, v in scope["headers"] if name.lower() == header]


async def _read(receive: Receive) -> bytes | None:
    """The body, or None if it is too large. It is read to its end, because the client would otherwise see a
    reset.

    Raises _ClientLeft if it has no end.
    """
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientLeft
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= PAYLOAD_LIMIT:
            chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks) if size <= PAYLOAD_LIMIT else None


async def _send(send: Send, answer: Response, method: str) -> None:
    length = (b"content-length", str(len(answer.body)).encode())
    has_body = answer.status not in (204, 304)
    bare = [pair for pair in answer.headers if pair[0] != b"content-type"]
    headers = [*answer.headers, length] if has_body else bare
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    body = answer.body if has_body and method != "HEAD" else b""
    await send({"type": "http.response.body", "body": body})


def _claims(scope: Scope) -> dict[str, str] | None:
    """The claims of a token. `Authorization: Bearer dev:NAME` stands for a verified token of NAME,
    `dev:NAME;groups=finance,ops;scopes=audit,operate` for one with groups and more scopes,
    `dev+act-as:NAME` for that of a backend; None for anything else."""
    values = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    match = _TOKEN.match(values[0].strip()) if len(values) == 1 else None
    if match is None:
        return None
    name, *more = (part.strip() for part in match[2].decode("utf-8", "replace").split(";"))
    options = {
        key.strip(): [each.strip() for each in value.split(",") if each.strip()]
        for key, _, value in (m.partition("=") for m in more)
    }
    if not name or not options.keys() <= {"groups", "scopes"} or len(options) < len(more):
        return None
    access = Access()
    scopes = [access.scope, *([access.act_as_scope] if match[1] else [])]
    scopes += [f"layover/{each}" for each in options.get("scopes", [])]
    claims = {"sub": name, "scope": " ".join(dict.fromkeys(scopes))}
    if groups := options.get("groups"):
        # As the JWT authorizer of an HTTP API passes a list on.
        claims[access.groups_claim] = f"[{' '.join(groups)}]"
    return claims


def _unauthorized() -> Response:
    detail = "send `Authorization: Bearer dev:NAME`, with any NAME"
    headers = {"www-authenticate": "Bearer"}
    return Response.problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, headers)


def _too_large() -> Response:
    detail = f"the request is larger than {PAYLOAD_LIMIT} bytes: {SEND_LESS}"
    return Response.problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail)


def _refusal(error: LambdaError) -> Response:
    """Return the answer to an event that Lambda refused."""
    if isinstance(error, RequestTooLarge):
        return _too_large()
    return _bad_gateway(
        "a function is missing" if isinstance(error, FunctionNotFound) else str(error)
    )


def _bad_gateway(detail: str) -> Response:
    return Response.problem(HTTPStatus.BAD_GATEWAY, "function-error", detail)
