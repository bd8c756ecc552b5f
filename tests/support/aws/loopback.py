"""An HTTP server on loopback that does with each request what a test says: answers, half answers, silence."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.credentials import CredentialChain
from layover.adapters.aws.retries import RetryRules
from layover.adapters.aws.signature import Signer
from support.listening import stop_accepting

KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}
HANG = b"HANG"
"""Say nothing, and keep the connection."""
CLOSE = b"CLOSE"
"""After these bytes, close the connection."""


def answer(document: object = None, status: int = 200, **headers: str) -> bytes:
    """A whole answer as DynamoDB's."""
    body = json.dumps({} if document is None else document).encode()
    lines = {"Content-Length": str(len(body)), "x-amz-crc32": str(crc32(body))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + body


def error(code: str, status: int = 400, **headers: str) -> bytes:
    """An error as DynamoDB's."""
    return answer({"__type": f"com.amazonaws#{code}", "message": "no"}, status, **headers)


@dataclass
class Request:
    """A request as it arrived. `connection`: the number of the connection that it came on."""

    connection: int
    headers: Mapping[str, str]
    first: str
    body: bytes


@dataclass
class Loopback:
    """`script`: what to do with each request, in order; the last holds for all that follow."""

    url: str = ""
    script: list[bytes] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    open: list[asyncio.StreamWriter] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.open.append(writer)
        number = len(self.open)
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {k.lower(): v for k, _, v in (x.partition(": ") for x in lines) if k}
                body = await reader.readexactly(int(headers["content-length"]))
                self.requests.append(Request(number, headers, first, body))
                self.arrived.set()
                reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                if reply == HANG:
                    continue
                writer.write(reply.removesuffix(CLOSE))
                await writer.drain()
                if reply.endswith(CLOSE):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def loopback(*script: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Loopback]:
    """A server that lives as long as the block."""
    served = Loopback(script=list(script))
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    served.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    try:
        yield served
    finally:
        await stop_accepting(server)
        for writer in served.open:
            writer.close()
        await server.wait_closed()


@dataclass
class Bench:
    """A client of the server, and what it waited."""

    client: AwsClient
    served: Loopback
    pauses: list[float]

    async def ask(self) -> dict[str, Any]:
        """One operation."""
        return await self.client.call("DynamoDB_20120810.GetItem", {"TableName": "t"})


@asynccontextmanager
async def bench(
    *script: bytes,
    variables: Mapping[str, str] = KEYS,
    dice: Callable[[], float] = lambda: 1.0,
    max_attempts: int = 4,
    **settings: Any,
) -> AsyncIterator[Bench]:
    """A client over a server with this script; it does not wait, and its jitter is `dice`."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with loopback(*script) as served:
        rules = RetryRules(0.025, max_attempts, dice)
        signer, chain = Signer("dynamodb", "us-east-1"), CredentialChain(variables)
        client = AwsClient(served.url, signer, chain, retries=rules, sleep=sleep, **settings)
        yield Bench(client, served, pauses)
        await client.aclose()


@dataclass
class Tunnels:
    """A proxy that opens tunnels. `heads`: each request to open one; `refusal`: what it answers instead."""

    url: str = ""
    refusal: bytes = b""
    heads: list[str] = field(default_factory=list)
    open: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.open.append(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        try:
            if self.refusal:
                writer.write(self.refusal)
                await writer.drain()
                return
            host, _, port = head.split(" ")[1].rpartition(":")
            from_server, to_server = await asyncio.open_connection(host, int(port))
            self.open.append(to_server)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_pass_on(reader, to_server), _pass_on(from_server, writer))
        finally:
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def tunnels(
    refusal: bytes = b"", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Tunnels]:
    """A proxy that lives as long as the block."""
    proxy = Tunnels(refusal=refusal)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    proxy.url = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    try:
        yield proxy
    finally:
        await stop_accepting(server)
        for writer in proxy.open:
            writer.close()
        for writer in proxy.open:
            with suppress(OSError):
                await writer.wait_closed()
        await server.wait_closed()
