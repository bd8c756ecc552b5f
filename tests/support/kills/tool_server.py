"""An MCP server that outlives the processes that call it, and notes the effect of each call."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.agents import ledger
from support.mcp_servers import Asked, ScriptedServer, listed, serving, text

ORDER = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
TOOLS = (
    listed("look_up", ORDER, "May be repeated.", readOnlyHint=True),
    listed("charge", ORDER, "Must not be repeated."),
    listed("refund", ORDER, "Must not be repeated, and needs approval.", destructiveHint=True),
)
START_S = 30.0


@contextmanager
def tool_server(folder: Path) -> Iterator[None]:
    """Serve on a free port, whose address `folder` gets. What its tools do is in the ledger of `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    loop = asyncio.new_event_loop()
    is_over, is_ready = asyncio.Event(), threading.Event()

    async def serve() -> None:
        async with serving(_server(folder)) as server:
            ledger.address_of_tools(folder).write_text(server.url)
            is_ready.set()
            await is_over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert is_ready.wait(START_S)
        yield
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()


def _server(folder: Path) -> ScriptedServer:
    def act(asked: Asked) -> Any:
        order = str(asked.params["arguments"]["order"])
        call = order.removeprefix("of ")
        ledger.append(
            folder,
            asked.params["name"],
            owner=asked.headers["x-owner"],
            run=asked.headers["x-run"],
            call=call,
            idempotency_key=call,
        )
        return text(f"{order}: {asked.params['name']} is done")

    return ScriptedServer(*TOOLS, on={"tools/call": act})
