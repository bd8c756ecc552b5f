"""The client of the makers of the protocol, from npm, over HTTP on loopback."""

import asyncio
import json
from pathlib import Path

from layover import Agent
from layover.testing import say
from npm.conftest import LIMIT_S
from support.mcp_servers import serving_app
from support.worlds.driven import Driven
from support.worlds.runs import answers


async def test_client_from_npm_talks_to_an_agent(packages: Path) -> None:
    world = Driven(Agent("support"), model=answers(say("It is on its way.")))
    try:
        async with asyncio.timeout(LIMIT_S), serving_app(world.front) as url:
            client = await asyncio.create_subprocess_exec(
                "node",
                "mcp_client.mjs",
                f"{url}/mcp",
                "dev:ann",
                cwd=packages,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            printed, failed = await client.communicate()
    finally:
        await asyncio.to_thread(world.close)
    assert client.returncode == 0, failed.decode()[-3000:]
    told = json.loads(printed)
    assert told["tools"] == ["support", "get_run"]
    assert told["first"]["content"][0]["text"] == "It is on its way."
    first, second, again = (
        told[name]["structuredContent"] for name in ("first", "second", "again")
    )
    assert second["thread_id"] == first["thread_id"]
    assert again == first
    assert told["wrong"]["isError"] is True
    assert told["unknown"] == -32602
    assert world.leaks == []
