"""The server with everything, of the makers of the protocol, from npm."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from layover import Agent, mcp
from layover.testing import ScriptedModel, call, calls, say, tool_results

SCRIPT = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"


@pytest.fixture
def url(packages: Path) -> Iterator[str]:
    """The server, on a free port."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["node", str(packages / SCRIPT), "streamableHttp"]
    process = subprocess.Popen(
        command,
        env={"PORT": str(port), "PATH": "/usr/bin:/bin:/usr/local/bin"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "listening" in line:
                break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


async def test_run_uses_the_tools_of_a_server_from_npm(url: str) -> None:
    everything = mcp(url, name="all", private=True)
    clerk = Agent("clerk", tools=[*everything])
    script = [
        calls(
            call("all_get-sum", a=19, b=23),
            call("all_get-structured-content", location="Chicago"),
            call("all_get-tiny-image"),
            call("all_trigger-long-running-operation", duration=0.2, steps=2),
        ),
        say("Done."),
    ]
    with clerk.override(model=ScriptedModel(script)):
        told: list[dict[str, object]] = []
        clerk.on("data", lambda event: told.append(event.data))
        result = await clerk.generate("Try them.")
    total, weather, image, operation = tool_results(result)
    assert "42" in total
    assert {"temperature", "conditions", "humidity"} <= set(weather)
    assert image["files"][0]["mime_type"] == "image/png"
    assert "completed" in operation
    assert [each["progress"] for each in told] == [1, 2]
    assert {each["mcp"] for each in told} == {"all"}
