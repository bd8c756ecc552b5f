"""A service on loopback that answers by a function, as the twins of channels do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from support.listening import stop_accepting

Answer = tuple[int, Mapping[str, str], bytes]
Respond = Callable[[str, str, Mapping[str, str], bytes], Answer]


@asynccontextmanager
async def served(respond: Respond) -> AsyncIterator[str]:
    """The URL of a server whose answers a function gives."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, path, _ = head[0].split(" ", 2)
                pairs = (line.partition(": ") for line in head[1:] if line)
                headers = {name.lower(): value for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                status, fields, content = respond(method, path, headers, body)
                lines = [f"HTTP/1.1 {status} Answer", f"content-length: {len(content)}"]
                lines += [f"{name}: {value}" for name, value in fields.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + content)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.close()
        await stop_accepting(server)
