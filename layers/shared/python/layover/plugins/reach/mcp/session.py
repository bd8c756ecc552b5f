"""One session with a server. Importing this module loads the client of the package `mcp`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ElicitResult,
    Implementation,
    JSONRPCError,
    JSONRPCResponse,
)
from pydantic import TypeAdapter

from layover.futures import retrieve_exception
from layover.plugins.reach.mcp.dialogue import Dialogue
from layover.plugins.reach.mcp.guard import (
    CONNECT_S,
    MAX_RESPONSE,
    SILENCE_S,
    GuardedTransport,
    Trip,
    trip,
)
from layover.ports.tool_servers import TOO_MANY, Endpoint, OnEvent, ToolServerError

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

OPEN_S = 10.0
"""Seconds for the handshake."""
_UNREAD = "layover/unread"
_STAND_IN = {
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
    "tools": [],
    "content": [],
}
"""A result that every version of the protocol takes as one of a list and of a call."""
_AS_IT_IS: Any = TypeAdapter(dict[str, Any])
_Answer = JSONRPCResponse | JSONRPCError
_OF_THE_CLIENT = (CONNECTION_CLOSED, PARSE_ERROR, INVALID_REQUEST)
_CLOSE_S = 2.0
"""Seconds in which a session is closed in order."""


class Session:
    """A session, in its own task: the client's scopes have to be left by the task that entered them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: Client | None = None
        self._calls: list[OnEvent] = []
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(retrieve_exception)
        self._opening = Trip()
        self._stop = asyncio.Event()
        self._transport = GuardedTransport(private=endpoint.private)
        self._owner = asyncio.ensure_future(self._own())
        self._owner.add_done_callback(retrieve_exception)
        self.has_id = False
        """True if the server gave the session an id, which it may forget."""
        self._asking = asyncio.Lock()
        self._dialogue: Dialogue | None = None
        self._users = 0
        self._is_retired = False

    @property
    def is_over(self) -> bool:
        """True if nothing can be asked in it any more."""
        return self._owner.done() or self._stop.is_set()

    async def opened(self) -> None:
        """Wait until it is open. Raises ToolServerError if it cannot be opened."""
        await asyncio.wait({self._ready, self._owner}, return_when=asyncio.FIRST_COMPLETED)
        if self._ready.done() and self._ready.exception() is None:
            return
        if self._ready.done() and isinstance(self._ready.exception(), TimeoutError):
            raise ToolServerError(f"it did not open a session within {OPEN_S:g} s", retryable=True)
        raise ToolServerError(
            _reason(self._opening, "it cannot be reached, or opens no session"),
            retryable=self._opening.may_help,
            status=self._opening.refused,
            wait_s=self._opening.wait_s,
        )

    @property
    def is_open(self) -> bool:
        """True once the handshake is over."""
        return self._client is not None

    @property
    def is_idle(self) -> bool:
        """True if no request waits in it."""
        return self._users == 0

    @contextmanager
    def using(self) -> Iterator[None]:
        """Keep it open while a request opens it or waits in it."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self._is_retired and self.is_idle:
                self._stop.set()

    def retire(self) -> None:
        """Close it once the last request in it is over: a request that is cut off may have taken effect.
        Nobody waits for that."""
        self._is_retired = True
        if self.is_idle:
            self._stop.set()

    async def request(
        self,
        request: Any,
        mine: Trip,
        on_event: OnEvent | None,
        dialogue: Dialogue | None = None,
    ) -> dict[str, Any]:
        """Return the raw result of a request. `mine` gets what became of it, `dialogue` what the server asks
        meanwhile. Raises ToolServerError."""
        assert self._client is not None
        if dialogue is None:
            return await self._request(request, mine, on_event)
        if self._client.session.discover_result is not None:
            return await self._request(dialogue.added_to(request), mine, on_event)
        # The protocol does not say which call a question belongs to: there is only one.
        async with self._asking:
            self._dialogue = dialogue
            try:
                return await self._request(request, mine, on_event)
            finally:
                self._dialogue = None

    async def _request(self, request: Any, mine: Trip, on_event: OnEvent | None) -> dict[str, Any]:
        assert self._client is not None
        trip.set(mine)
        if on_event is not None:
            self._calls.append(on_event)
        sending: asyncio.Task[Any] = asyncio.ensure_future(
            self._client.session.send_request(
                request, _AS_IT_IS, progress_callback=_progress(on_event) if on_event else None
            )
        )
        try:
            await asyncio.wait({sending, self._owner}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise ToolServerError(
                    _reason(mine, "the connection broke")
                    if mine.sent
                    else _reason(mine, "it cannot be reached"),
                    sent=mine.in_doubt,
                    retryable=mine.may_help,
                    status=mine.refused,
                )
            result: dict[str, Any] = sending.result()[_UNREAD]
            return result
        except MCPError as error:
            is_closed = error.code == CONNECTION_CLOSED
            if is_closed:
                # Its task may not have ended yet: nobody else is to ask in it.
                self._stop.set()
            # A code is a number of the protocol's. The text is the server's.
            reason = (
                "the connection broke" if is_closed else f"it answered with the error {error.code}"
            )
            raise ToolServerError(
                _reason(mine, reason),
                # An error that the server answered with is no doubt.
                sent=mine.in_doubt and (is_closed or mine.refused is not None),
                retryable=(is_closed or mine.refused is not None) and mine.may_help,
                status=mine.refused,
                wait_s=mine.wait_s,
                words="" if _is_the_clients(error, mine) else error.message,
            ) from None
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait({sending}, timeout=_CLOSE_S)
            if on_event is not None:
                self._calls.remove(on_event)

    async def _own(self) -> None:
        trip.set(self._opening)
        timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
        http = httpx2.AsyncClient(
            transport=self._transport,
            headers=dict(self._endpoint.headers),
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
        )
        http.event_hooks = {"response": [self._note]}
        async with http:
            client = Client(
                self._streams(http),
                client_info=Implementation(name="layover", version="1"),
                logging_callback=self._log,
                elicitation_callback=self._elicit if self._endpoint.elicitation else None,
                log_level="info",
                cache=None,
                read_timeout_seconds=None,
            )
            try:
                async with asyncio.timeout(OPEN_S):
                    await client.__aenter__()
            except Exception as error:
                self._ready.set_exception(error)
                return
            self._client = client
            self._ready.set_result(None)
            try:
                await self._stop.wait()
            finally:
                with suppress(Exception):
                    async with asyncio.timeout(_CLOSE_S):
                        await client.__aexit__(None, None, None)

    @asynccontextmanager
    async def _streams(self, http: httpx2.AsyncClient) -> "AsyncIterator[TransportStreams]":
        transport = streamable_http_client(
            self._endpoint.url, http_client=http, max_sse_event_size=MAX_RESPONSE
        )
        async with transport as (incoming, outgoing):
            yield _Incoming(incoming, self._open_trip), outgoing

    def _open_trip(self) -> Trip | None:
        """Return the trip of the handshake, once that is over."""
        return self._opening if self.is_open else None

    async def _note(self, response: httpx2.Response) -> None:
        if "mcp-session-id" in response.headers:
            self.has_id = True

    async def _elicit(self, context: Any, params: Any) -> Any:
        """Answer a question of the server, in the protocol up to 2025-11-25."""
        if self._dialogue is None:
            return ElicitResult(action="cancel")
        return self._dialogue.answer(
            params.model_dump(mode="json", by_alias=True, exclude_none=True)
        )

    async def _log(self, params: Any) -> None:
        """Pass a line of the server's log to the call that runs. The protocol does not say whose it is: with
        two of them at work it is nobody's."""
        if len(self._calls) == 1:
            message = params.data if isinstance(params.data, str) else str(params.data)
            self._calls[0]({"level": str(params.level), "message": message})


class _Incoming:
    """Messages of a server. Once the session is open, results pass the client unread: it would refuse a whole
    list for one tool that breaks the protocol, and a result for one of its parts. `servers` reads them."""

    def __init__(
        self, stream: "ReadStream[SessionMessage | Exception]", opened: Callable[[], Trip | None]
    ) -> None:
        self._stream = stream
        self._opened = opened

    @property
    def last_context(self) -> Any:
        """The context of whoever sent the newest message, in which the client handles it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        """Return the next message."""
        return self._unread(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> "_Incoming":
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        return self._unread(await self._stream.__anext__())

    async def __aenter__(self) -> "_Incoming":
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)

    def _unread(self, item: "SessionMessage | Exception") -> "SessionMessage | Exception":
        if isinstance(item, Exception) or not isinstance(item.message, _Answer):
            return item
        message, opened = item.message, self._opened()
        changed: dict[str, Any] = {}
        mine = self.last_context.get(trip) if self.last_context is not None else None
        # What comes after the handshake in its name is of the stream that belongs to no request.
        if mine is not None and mine is not opened and mine.request_id is not None:
            changed["id"] = mine.request_id
        if isinstance(message, JSONRPCResponse):
            changed["result"] = (
                _of_handshake(message.result)
                if opened is None
                else {**_STAND_IN, _UNREAD: message.result}
            )
        return replace(item, message=message.model_copy(update=changed))


def _of_handshake(result: dict[str, Any]) -> dict[str, Any]:
    """Return what a server says of itself. PHP writes an empty object as `[]`, which the client refuses."""
    able = result.get("capabilities")
    if isinstance(able, dict):
        able = {name: {} if each == [] else each for name, each in able.items()}
    return {**result, "capabilities": able or {}} if "capabilities" in result else result


def _is_the_clients(error: MCPError, mine: Trip) -> bool:
    """Return whether an error is the client's word for an answer that is none, and not the server's."""
    return error.code in _OF_THE_CLIENT or (
        error.code == INTERNAL_ERROR and mine.refused is not None
    )


def _progress(on_event: OnEvent) -> Any:
    async def tell(progress: float, total: float | None, message: str | None) -> None:
        notice = {"progress": progress, "total": total, "message": message}
        on_event({name: value for name, value in notice.items() if value is not None})

    return tell


def _reason(mine: Trip, otherwise: str) -> str:
    if mine.problem is not None:
        return mine.problem
    if mine.refused in (401, 403):
        return f"it refused the credentials (status {mine.refused}): check headers="
    if mine.refused == TOO_MANY:
        again = "" if mine.wait_s is None else f", and may be asked again in {mine.wait_s:g} s"
        return f"it is asked too often (status {TOO_MANY}){again}"
    if mine.refused is not None:
        return f"it answered with the status {mine.refused}"
    return otherwise
