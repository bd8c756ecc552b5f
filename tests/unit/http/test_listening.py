"""The end of the servers on loopback that tests start."""

import asyncio
import socket

from support.listening import stop_accepting


async def test_connection_of_the_last_moment_reaches_its_server() -> None:
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()):
        before = len(asyncio.all_tasks())
        for _ in range(100):
            if len(asyncio.all_tasks()) > before:
                break  # It is accepted, and its server does not know yet.
            await asyncio.sleep(0)
        assert not writers
        await stop_accepting(server)
        (writer,) = writers
        writer.close()
        await writer.wait_closed()
