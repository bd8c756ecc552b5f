"""Streamed responses: a function's prelude and pieces, as API Gateway passes them on."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from layover.desk.local.functions.invocation import Invocation, ResponseStream
from layover.desk.local.http.event import Response, http_response
from layover.values.deployment.access import CHAT_ROUTES, STREAM_ROUTES, TICKETED_ROUTE

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PRELUDE_ENDS = b"\0" * 8


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", path))


_ROUTES = tuple((method, _pattern(path)) for method, path in STREAM_ROUTES)
_CHATS = tuple((method, _pattern(path)) for method, path in CHAT_ROUTES)
_TICKETED = _pattern(TICKETED_ROUTE)


@dataclass(frozen=True)
class StreamedResponse:
    """Status and headers, the first bytes of the body, and the stream of the rest."""

    head: Response
    stream: ResponseStream
    invocation: Invocation


def is_streamed(method: str, path: str, accepts: Iterable[str]) -> bool:
    """Return whether the function `streams` answers instead of `api`."""
    asks = any("text/event-stream" in accept.lower() for accept in accepts)
    routes = (*_CHATS, *_ROUTES) if asks else _CHATS
    return any(m == method and route.fullmatch(path) for m, route in routes)


def has_ticket(scope: Mapping[str, Any]) -> bool:
    """Return whether the request has a ticket where one may replace a token. The function verifies it."""
    if scope["method"] != "GET" or not _TICKETED.fullmatch(scope["path"]):
        return False
    return bool(parse_qs(scope["query_string"].decode("latin-1")).get("ticket"))


async def streamed_response(invocation: Invocation) -> StreamedResponse | None:
    """The answer, once its prelude has arrived. None: it ended before that, and the invocation's result says
    why."""
    stream = invocation.stream
    assert stream is not None
    data = b""
    while PRELUDE_ENDS not in data:
        piece = await stream.piece()
        if piece is None:
            return None
        data += piece
    prelude, _, body = data.partition(PRELUDE_ENDS)
    head = http_response(json.dumps({**json.loads(prelude), "body": ""}).encode())
    return StreamedResponse(Response(head.status, head.headers, body), stream, invocation)


async def send_stream(answer: StreamedResponse, receive: Receive, send: Send) -> None:
    """Send the pieces until the stream ends or the client leaves. A stream that breaks off breaks off for the
    client, too: a regular end would look complete."""
    head = {"type": "http.response.start", "status": answer.head.status}
    await send({**head, "headers": answer.head.headers})
    disconnect = asyncio.create_task(_wait_for_disconnect(receive))
    sending = asyncio.create_task(_send_pieces(answer, send))
    try:
        await asyncio.wait({disconnect, sending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        answer.stream.leave()
        for task in (disconnect, sending):
            if not task.done():
                task.cancel()
        with suppress(asyncio.CancelledError):
            await sending


async def _send_pieces(answer: StreamedResponse, send: Send) -> None:
    piece: bytes | None = answer.head.body
    while piece is not None:
        if piece:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        piece = await answer.stream.piece()
    result = await answer.invocation.result
    if result.error_type is None:
        await send({"type": "http.response.body", "body": b""})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
