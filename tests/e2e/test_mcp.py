"""A client of the package `mcp` and the whole system: tokens, processes, waits and decisions are real."""

import asyncio
import logging
from typing import Any

import httpx2
import pytest

from support.providers.openai import call, say
from support.system.system import Brain, Caller, System, unique


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_client_asks_an_agent_and_its_user_decides(
    ann: Caller, bob: Caller, brain: Brain, system: System, mode: str
) -> None:
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    key = unique()
    asks = brain.plan(call("refund", order_id=key, amount=1), say("It is paid back."))

    async def wait(client: Any, run_id: str) -> Any:
        return await client.call_tool("get_run", {"run_id": run_id})

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer dev:{ann.name}"}, timeout=60) as http,
        Client(streamable_http_client(f"{system.url}/mcp", http_client=http), mode=mode) as client,
    ):
        assert "support" in {tool.name for tool in (await client.list_tools()).tools}
        first = await client.call_tool("support", {"message": asks})
        facts = first.structured_content
        assert (facts["status"], first.is_error) == ("suspended", False)
        assert facts["url"].startswith(f"{system.url}/#/t/thread_")
        assert system.ledger(key) == []
        run = await asyncio.to_thread(ann.run, facts["run_id"])
        call_id = run["pending"][0]["tool_call_id"]
        decided = await asyncio.to_thread(ann.decide, facts["run_id"], call_id, "approve")
        assert decided.status == 202
        over = await wait(client, facts["run_id"])
    assert over.content[0].text == "It is paid back."
    assert len(system.ledger(key)) == 1
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer dev:{bob.name}"}, timeout=60) as http,
        Client(streamable_http_client(f"{system.url}/mcp", http_client=http), mode=mode) as client,
    ):
        theirs = await wait(client, facts["run_id"])
    assert (theirs.is_error, theirs.content[0].text) == (True, "there is no such run")
