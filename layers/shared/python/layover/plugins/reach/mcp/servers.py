"""`ToolServers` by the client of the package `mcp`. A session lives in its own task, which enters and
leaves it, and requests wait for whichever ends first: their answer, the session, or their time."""

import asyncio
import base64
import binascii
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from layover.errors import ConfigurationError
from layover.ports.tool_servers import (
    TOO_MANY,
    Answers,
    BytesContent,
    Content,
    Endpoint,
    LinkContent,
    OnEvent,
    ServerAnswer,
    ServerAsks,
    TextContent,
    ToolServerError,
)
from layover.values.text import json_size

if TYPE_CHECKING:
    from layover.plugins.reach.mcp.dialogue import Dialogue
    from layover.plugins.reach.mcp.guard import Trip
    from layover.plugins.reach.mcp.session import Session

MAX_SESSIONS = 16
"""Sessions that a process keeps. Above that those in which nobody waits are closed, oldest first."""
LIST_S = 30.0
"""Seconds for a list, all of its pages, and the session that it opens."""
MAX_PAGES = 20
"""Pages of a list."""
MAX_ENTRIES = 5_000
"""Tools of a list, of which an agent may include some."""
BUSY_S = 1.0
"""Seconds before a server that is asked too often is asked again, if it names none."""
MAX_WAIT_S = 20.0
"""Seconds that it may name. Above that, the call is an error that says how long."""
_LOST = (400, 404)
"""Statuses by which servers say that they have forgotten a session. Such a request had no effect."""

_Sessions = OrderedDict[tuple[Any, ...], "Session"]


class McpServers:
    """`layover.ports.ToolServers`. Sessions belong to an event loop."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Sessions] = (
            WeakKeyDictionary()
        )

    async def list_tools(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        """Return the tools of all pages, as the server describes them."""
        # The first import of the client takes its own time, which is not the server's.
        _client()
        try:
            async with asyncio.timeout(LIST_S):
                return await self._pages(endpoint)
        except TimeoutError:
            session = self._of_loop().get(_key(endpoint))
            if session is not None:
                self._drop(endpoint, session)
            raise ToolServerError(f"it took longer than {LIST_S:g} s", retryable=True) from None

    async def _pages(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        from mcp_types import ListToolsRequest, PaginatedRequestParams

        from layover.plugins.reach.mcp.guard import MAX_RESPONSE

        tools: list[dict[str, Any]] = []
        size = 0
        cursor: str | None = None
        cursors: set[str] = set()
        last: list[Any] = []
        for _ in range(MAX_PAGES):
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            raw = await self._request(endpoint, ListToolsRequest(params=params))
            page = raw.get("tools")
            if not isinstance(page, list):
                raise ToolServerError("its answer has no list of tools")
            if page and page == last:
                # Some servers give a cursor with their only page, too.
                return tools
            last = page
            tools += page
            size += json_size(page)
            if len(tools) > MAX_ENTRIES:
                raise ToolServerError(f"its list has more than {MAX_ENTRIES} tools")
            if size > MAX_RESPONSE:
                raise ToolServerError(f"its list has more than {MAX_RESPONSE // 2**20} MB")
            cursor = raw.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor in cursors:
                return tools
            cursors.add(cursor)
        raise ToolServerError(f"its list has more than {MAX_PAGES} pages")

    async def call(
        self,
        endpoint: Endpoint,
        tool: str,
        args: Mapping[str, Any],
        on_event: OnEvent,
        answers: Answers | None = None,
    ) -> ServerAnswer | ServerAsks:
        """Return the result of a call, or what the server asks."""
        _client()
        from mcp_types import CallToolRequest, CallToolRequestParams

        from layover.plugins.reach.mcp.dialogue import Dialogue, asked_in

        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(args)))
        dialogue = Dialogue(answers) if endpoint.elicitation else None
        try:
            raw = await self._request(endpoint, request, on_event, dialogue)
        except ToolServerError:
            if dialogue is None or dialogue.asks is None:
                raise
            # It was told that nobody answers now: what became of the call does not matter.
            return dialogue.asks
        if dialogue is not None and dialogue.asks is not None:
            return dialogue.asks
        if dialogue is not None and raw.get("resultType") == "input_required":
            return asked_in(raw)
        if raw.get("resultType", "complete") != "complete":
            raise ToolServerError(
                "it asked for more input in the middle of the call, which Layover does not give",
                sent=True,
            )
        content = raw.get("content")
        if not isinstance(content, list):
            content = []
        return ServerAnswer(
            content=tuple(filter(None, map(_content, content))),
            structured=raw.get("structuredContent"),
            is_error=raw.get("isError") is True,
        )

    async def _request(
        self,
        endpoint: Endpoint,
        request: Any,
        on_event: OnEvent | None = None,
        dialogue: "Dialogue | None" = None,
    ) -> dict[str, Any]:
        """Return the raw result of a request, in the endpoint's session, which is opened first where there is
        none. A session that the server has forgotten is opened anew, once, and a server that is asked too
        often is asked once more. Raises ToolServerError."""
        from layover.plugins.reach.mcp.guard import Trip

        for is_last in (False, True):
            session, is_new = self._session(endpoint)
            trip = Trip()
            with session.using():
                try:
                    await session.opened()
                    return await session.request(request, trip, on_event, dialogue)
                except ToolServerError as error:
                    self._drop_if_bad(endpoint, session, trip, error)
                    is_forgotten = trip.refused in _LOST and session.has_id and not is_new
                    wait_s = 0.0 if is_forgotten else _wait_of(error)
                    if is_last or wait_s is None:
                        raise
                    await self._sleep(wait_s)
                except BaseException:
                    if not session.is_open:
                        self._drop(endpoint, session)
                    raise
        raise AssertionError

    def _session(self, endpoint: Endpoint) -> tuple["Session", bool]:
        """Return the endpoint's session, and whether it is a new one, which is about to be opened."""
        sessions = self._of_loop()
        key = _key(endpoint)
        session = sessions.get(key)
        if session is not None and not session.is_over:
            sessions.move_to_end(key)
            return session, False
        # Also more than MAX_SESSIONS, as long as somebody waits in each.
        idle = [each for each, old in sessions.items() if old.is_idle]
        for each in idle[: max(0, len(sessions) + 1 - MAX_SESSIONS)]:
            sessions.pop(each).retire()
        session = sessions[key] = _client()(endpoint)
        return session, True

    def _drop_if_bad(
        self, endpoint: Endpoint, session: "Session", trip: "Trip", error: ToolServerError
    ) -> None:
        is_over = session.is_over or not session.is_open
        is_refused = trip.refused is not None and error.status != TOO_MANY
        if is_over or is_refused or trip.problem is not None:
            self._drop(endpoint, session)

    def _drop(self, endpoint: Endpoint, session: "Session") -> None:
        """Have nobody else begin in the session. Those who wait in it go on."""
        sessions = self._of_loop()
        if sessions.get(_key(endpoint)) is session:
            del sessions[_key(endpoint)]
        session.retire()

    def _of_loop(self) -> _Sessions:
        return self._sessions.setdefault(asyncio.get_running_loop(), OrderedDict())


def _wait_of(error: ToolServerError) -> float | None:
    """Return the seconds after which a request that had no effect is sent again; None: it is not."""
    if error.status != TOO_MANY:
        return None
    wait_s = BUSY_S if error.wait_s is None else error.wait_s
    return wait_s if wait_s <= MAX_WAIT_S else None


def _client() -> "type[Session]":
    """Return the class of sessions. Raises ConfigurationError if the client is not installed."""
    try:
        from layover.plugins.reach.mcp.session import Session
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigurationError(
            "mcp(...) needs the package mcp: install layover[mcp] where the agents run"
        ) from error
    # They log what servers send, and the ids of sessions.
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return Session


def _key(endpoint: Endpoint) -> tuple[Any, ...]:
    headers = tuple(sorted(endpoint.headers.items()))
    return (endpoint.url, endpoint.scope, endpoint.private, endpoint.elicitation, headers)


def _content(part: Any) -> Content | None:
    """Return a part of a result; None for one that says nothing."""
    if not isinstance(part, dict):
        return None
    kind, text = part.get("type"), part.get("text")
    if kind == "text" and isinstance(text, str):
        return TextContent(text)
    if kind in ("image", "audio"):
        return _bytes(kind, part.get("mimeType"), part.get("data"))
    if kind == "resource_link" and isinstance(part.get("uri"), str):
        name = part.get("name")
        return LinkContent(part["uri"], name if isinstance(name, str) else "")
    if kind == "resource" and isinstance(part.get("resource"), dict):
        return _resource(part["resource"])
    return None


def _resource(resource: dict[str, Any]) -> Content | None:
    uri, text = resource.get("uri"), resource.get("text")
    if isinstance(text, str):
        return TextContent(f"{uri}:\n{text}" if isinstance(uri, str) else text)
    name = str(uri).rstrip("/").rpartition("/")[2] or "resource"
    return _bytes(name, resource.get("mimeType"), resource.get("blob"))


def _bytes(name: str, mime_type: Any, data: Any) -> Content:
    kind = mime_type if isinstance(mime_type, str) else "application/octet-stream"
    try:
        return BytesContent(name, kind, base64.b64decode(str(data), validate=True))
    except (binascii.Error, ValueError):
        return TextContent(f"[{name}: its bytes cannot be read]")
