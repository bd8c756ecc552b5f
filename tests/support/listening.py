"""The end of a server of asyncio's on loopback."""

import asyncio

_STEPS_OF_AN_ACCEPT = 5
"""Turns of the loop until a connection that was accepted has reached its server, and some more."""


async def stop_accepting(server: asyncio.Server) -> None:
    """Accept no more, and let those that were accepted reach the server. One that is closed in between would
    leave a connection of the last moment open for good, which is a warning in some later test."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(_STEPS_OF_AN_ACCEPT):
        await asyncio.sleep(0)
    server.close()
