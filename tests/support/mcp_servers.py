"""MCP servers on loopback: one that does what a test tells it, and the real one of the package `mcp`."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from support.listening import stop_accepting

Json = Any
EMPTY = {"type": "object", "properties": {}}


@dataclass
class Asked:
    """A request that a server got. `method`: the protocol's, or HTTP's where there is no message."""

    method: str
    params: dict[str, Any]
    headers: dict[str, str]
    id: Any = None
    path: str = ""


@dataclass
class Raw:
    """A whole response."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    """True: the connection breaks in the middle of the body."""


class Broken(Exception):
    """Close the connection without an answer."""


Answer = Callable[[Asked], Any]
"""Returns a result, or a `Raw`; a coroutine of one, too. Raises Broken."""


def text(words: str, **more: Any) -> dict[str, Any]:
    """The result of a call: a text."""
    return {"content": [{"type": "text", "text": words}], **more}


def listed(name: str, schema: Any = EMPTY, description: str = "", **hints: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints}


class ScriptedServer:
    """An MCP server without any rules of its own. `on`: what it answers to a method of the protocol."""

    def __init__(self, *tools: Json, on: Mapping[str, Answer] | None = None) -> None:
        self.tools: Sequence[Json] = tools
        self.on: dict[str, Answer] = dict(on or {})
        self.asked: list[Asked] = []
        self.url = ""
        self.moved: Answer | None = None
        """The answer to a request instead of all others; None if there is none to it."""
        self._sessions = 0
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    def requests(self, method: str) -> list[Asked]:
        """The requests of one method, in their order."""
        return [each for each in self.asked if each.method == method]

    async def answer(self, asked: Asked) -> Any:
        """Return what the test wants, else what a server would say."""
        if self.moved is not None and (away := self.moved(asked)) is not None:
            return away
        self.asked.append(asked)
        if asked.method in self.on:
            answer = self.on[asked.method](asked)
            return await answer if asyncio.iscoroutine(answer) else answer
        if asked.method == "initialize":
            self._sessions += 1
            facts = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "scripted", "version": "1"},
            }
            return _reply(asked, facts, {"mcp-session-id": f"session-{self._sessions}"})
        if asked.method == "tools/list":
            return {"tools": list(self.tools)}
        if asked.method == "tools/call":
            return text("done")
        if asked.method in ("GET", "server/discover"):
            return Raw(405 if asked.method == "GET" else 404)
        return Raw(202)

    def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection."""
        self._connections[writer] = asyncio.ensure_future(self._handle(reader, writer))

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, Broken):
            while asked := await _read(reader):
                answer = await self.answer(asked)
                raw = answer if isinstance(answer, Raw) else _reply(asked, answer)
                writer.write(_bytes(raw))
                await writer.drain()
                if raw.cut:
                    break
        writer.close()

    async def hang_up(self) -> None:
        """Close all connections."""
        for task in self._connections.values():
            task.cancel()
        await asyncio.gather(*self._connections.values(), return_exceptions=True)
        for writer in self._connections:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def _reply(asked: Asked, result: Any, headers: dict[str, str] | None = None) -> Raw:
    body = json.dumps({"jsonrpc": "2.0", "id": asked.id, "result": result}).encode()
    return Raw(200, body, {"content-type": "application/json", **(headers or {})})


def events(asked: Asked, *messages: Json, result: Json) -> Raw:
    """A stream of events that ends with a result."""
    last = {"jsonrpc": "2.0", "id": asked.id, "result": result}
    body = b"".join(
        b"event: message\ndata: " + json.dumps(each).encode() + b"\n\n"
        for each in (*messages, last)
    )
    return Raw(200, body, {"content-type": "text/event-stream"})


def _bytes(raw: Raw) -> bytes:
    length = len(raw.body) + (10 if raw.cut else 0)
    lines = [f"HTTP/1.1 {raw.status} X", f"content-length: {length}"]
    lines += [f"{name}: {value}" for name, value in raw.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + raw.body


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines if line)
    headers = {name.lower(): value for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    path = first.split(" ")[1]
    if not body:
        return Asked(first.split(" ")[0], {}, headers, path=path)
    message = json.loads(body)
    method = message.get("method", "response")
    return Asked(method, message.get("params") or message, headers, message.get("id"), path)


@asynccontextmanager
async def serving(server: ScriptedServer) -> AsyncIterator[ScriptedServer]:
    """Serve it on a free port."""
    listening = await asyncio.start_server(server.connect, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}/mcp"
    try:
        yield server
    finally:
        await stop_accepting(listening)
        await server.hang_up()


@asynccontextmanager
async def serving_app(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI application on a free port. The value is its base URL."""
    import uvicorn

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()  # requests wait here until it serves
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    task = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
