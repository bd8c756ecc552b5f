"""The WebSocket front with a function that lists its requests, and `@connections` next to it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from layover.desk.local.aws.emulator import Services
from layover.desk.local.aws.storage import Storage
from layover.desk.local.aws.wsgi import WsgiServer
from layover.desk.local.functions.invocation import InvokeResult, failure
from layover.desk.local.functions.lambda_service import LambdaService
from layover.desk.local.http.gateway import Front
from layover.desk.local.http.server import HttpServer
from layover.desk.local.http.socket_front import Limits, WebSocketFront

Event = dict[str, Any]
LIMIT_S = 10.0


@dataclass
class Clock:
    """Stands for `time` in the front. Passes when it is told to; `step` is a change of the machine's date."""

    now: float = 1000.0
    step: float = 0.0
    looks: int = 0
    gmtime = staticmethod(time.gmtime)
    strftime = staticmethod(time.strftime)

    def monotonic(self) -> float:
        """Seconds that only go forward."""
        self.looks += 1
        return self.now

    def time(self) -> float:
        """The date."""
        return self.now + self.step

    async def complete(self) -> None:
        """Return once a client has asked, has stayed after the answer, and has asked again."""
        wanted = self.looks + 2
        async with asyncio.timeout(LIMIT_S):
            while self.looks < wanted:
                await asyncio.sleep(0.01)


@dataclass
class Function:
    """Stands for the function `sockets`. `answers` may say something else for an event."""

    events: list[Event] = field(default_factory=list)
    answers: Callable[[Event], Any] = lambda event: {"statusCode": 200}

    async def invoke(self, name: str, payload: bytes) -> InvokeResult:
        assert name == "sockets"
        event = json.loads(payload)
        self.events.append(event)
        answer = self.answers(event)
        if answer is None:
            return failure("Boom", "it broke")
        return InvokeResult(json.dumps(answer).encode())

    def of(self, route: str) -> list[Event]:
        """Events of one route."""
        return [e for e in self.events if e["requestContext"]["routeKey"] == route]

    async def asked(self, route: str, times: int = 1) -> list[Event]:
        """Events of one route, once there are so many."""
        async with asyncio.timeout(LIMIT_S):
            while len(self.of(route)) < times:
                await asyncio.sleep(0.01)
        return self.of(route)


@dataclass(frozen=True)
class Served:
    """`url` for clients, `endpoint` of `@connections`."""

    function: Function
    front: WebSocketFront
    url: str
    endpoint: str

    def connect(self, query: str = "", name: str = "127.0.0.1") -> connect:
        """A client that knows the machine under this name."""
        url = self.url.replace("127.0.0.1", name) + query
        own: dict[str, Any] = {"host": "127.0.0.1"}
        return connect(url, proxy=None, open_timeout=LIMIT_S, close_timeout=1, **own)

    async def id_of(self, client: ClientConnection) -> str:
        """The connection that was opened last."""
        assert client.response is not None
        return str(self.function.of("$connect")[-1]["requestContext"]["connectionId"])


@asynccontextmanager
async def serving(limits: Limits | None = None) -> AsyncIterator[Served]:
    """A front and its `@connections`, on free ports."""
    function = Function()
    front = WebSocketFront(function, limits)
    server = HttpServer(Front(function, websocket=front.serve))
    storage = Storage()
    services = WsgiServer(Services(LambdaService(), front, storage))
    await server.start()
    services.start()
    try:
        yield Served(function, front, f"ws{server.url.removeprefix('http')}/socket", services.url)
    finally:
        await server.stop()
        await asyncio.to_thread(services.stop)
        storage.close()
