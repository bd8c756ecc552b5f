"""Clients of the package `mcp` over HTTP on loopback, and runs that are driven on behind the API."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from functions.api.app import answer
from integration.api.kit import http_event
from layover import Agent, tool
from layover.testing import call, say
from support.mcp_servers import serving_app
from support.worlds.driven import Driven
from support.worlds.runs import answers

MODES = ["legacy", "auto"]
"""By the handshake of 2025-11-25, and by the stateless version."""


class Price(BaseModel):
    euros: float


@tool(needs_approval=True, summary=lambda args, ctx: "Pay 5 euros back")
def refund(order_id: str) -> str:
    """Pay back."""
    return f"{order_id} is paid back"


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """The client logs what it is sent."""
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@asynccontextmanager
async def world_of(*script: Any, **options: Any) -> AsyncIterator[Driven]:
    """A world whose agent `support` answers so. Its loop is another than the client's."""
    agent = Agent("support", description="Answers questions about orders.", **options)
    world = Driven(agent, Agent("other"), model=answers(*script))
    try:
        yield world
    finally:
        await asyncio.to_thread(world.close)
    assert world.leaks == []


@pytest.fixture
async def waiting() -> AsyncIterator[Driven]:
    """A world whose agent pays back, which a person approves."""
    script = call("refund", order_id="o1"), say("It is paid back.")
    async with world_of(*script, tools=[refund]) as world:
        yield world


@asynccontextmanager
async def client(
    world: Driven, mode: str, *, sub: str = "ann", **options: Any
) -> AsyncIterator[Any]:
    """A client that is connected."""
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer dev:{sub}"}
    async with (
        serving_app(world.front) as url,
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode, **options) as c,
    ):
        yield c


async def approve(world: Driven) -> None:
    """Let ann approve what her run waits for, as on the console."""
    (item,) = (await rest(world, "GET", "/approvals"))["items"]
    path = f"/runs/{item['run_id']}/tool-calls/{item['tool_call_id']}/approve"
    await rest(world, "POST", path, {"attempt": item["attempt"]})


async def rest(world: Driven, method: str, path: str, body: Any = None) -> Any:
    """The answer to a request of ann's to the API."""
    event = http_event(method, path, json.dumps(body) if body else None, {}, "ann")
    result = await asyncio.to_thread(answer, event, None, world)
    assert result["statusCode"] < 300, result
    return json.loads(result["body"])


@pytest.mark.parametrize("mode", MODES)
async def test_client_lists_the_agents_and_gets_an_answer(mode: str) -> None:
    async with world_of(say("It is on its way.")) as world, client(world, mode) as c:
        tools = (await c.list_tools()).tools
        assert [t.name for t in tools] == ["other", "support", "get_run"]
        assert tools[1].description == "Answers questions about orders."
        first = await c.call_tool("support", {"message": "Where is it?"})
        again = {"message": "And now?", "thread_id": first.structured_content["thread_id"]}
        second = await c.call_tool("support", again)
    assert first.content[0].text == "It is on its way."
    assert (first.is_error, first.structured_content["status"]) == (False, "success")
    assert second.structured_content["thread_id"] == first.structured_content["thread_id"]


@pytest.mark.parametrize("mode", MODES)
async def test_output_of_an_agent_is_data_of_the_result(mode: str) -> None:
    async with world_of(say('{"euros": 12.5}'), output=Price) as world, client(world, mode) as c:
        result = await c.call_tool("support", {"message": "What is it?"})
    assert result.structured_content["output"] == {"euros": 12.5}


@pytest.mark.parametrize("mode", MODES)
async def test_client_that_cannot_ask_its_user_reads_where_they_decide(
    waiting: Driven, mode: str
) -> None:
    async with client(waiting, mode) as c:
        first = await c.call_tool("support", {"message": "Pay it back."})
        facts = first.structured_content
        assert facts["status"] == "suspended"
        assert "Pay 5 euros back" in first.content[0].text
        assert facts["url"].endswith(f"/#/t/{facts['thread_id']}")
        await approve(waiting)
        over = await c.call_tool("get_run", {"run_id": facts["run_id"]})
    assert over.content[0].text == "It is paid back."


async def test_client_of_the_stateless_version_sends_its_user_to_the_page_and_goes_on(
    waiting: Driven,
) -> None:
    from mcp_types import ElicitResult

    shown: list[Any] = []

    async def ask(context: Any, params: Any) -> Any:
        shown.append(params)
        await approve(waiting)
        return ElicitResult(action="accept")

    async with client(waiting, "auto", elicitation_callback=ask) as c:
        result = await c.call_tool("support", {"message": "Pay it back."})
    (params,) = shown
    assert (params.mode, "Pay 5 euros back" in params.message) == ("url", True)
    assert "/#/t/thread_" in params.url
    assert result.content[0].text == "It is paid back."


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_whatever_a_client_answers_decides_nothing(waiting: Driven, action: Any) -> None:
    from mcp_types import ElicitResult

    asked = 0

    async def ask(context: Any, params: Any) -> Any:
        nonlocal asked
        asked += 1
        # Nobody opened the page, and no place is free to wait in.
        waiting.set(max_user_waits=0)
        return ElicitResult(action=action, content={"approved": True})

    async with client(waiting, "auto", elicitation_callback=ask) as c:
        result = await c.call_tool("support", {"message": "Pay it back."})
    assert asked == 1
    assert result.structured_content["status"] == "suspended"
    run = await rest(waiting, "GET", f"/runs/{result.structured_content['run_id']}")
    assert [pending["tool_name"] for pending in run["pending"]] == ["refund"]


@pytest.mark.parametrize("mode", MODES)
async def test_run_that_takes_long_is_named_and_waited_for_again(mode: str) -> None:
    async with world_of(say("It took long.")) as world, client(world, mode) as c:
        world.stands_still = True
        world.set(max_user_waits=0)
        first = await c.call_tool("support", {"message": "Think."})
        facts = first.structured_content
        assert (facts["status"], first.is_error) == ("running", False)
        world.stands_still = False
        over = await c.call_tool("get_run", {"run_id": facts["run_id"]})
        over = await c.call_tool("get_run", {"run_id": facts["run_id"]})
    assert over.content[0].text == "It took long."


@pytest.mark.parametrize("mode", MODES)
async def test_run_that_fails_is_an_error_with_its_reason(mode: str) -> None:
    from layover.testing import fail

    async with world_of(fail("this model is gone", status=404)) as world, client(world, mode) as c:
        result = await c.call_tool("support", {"message": "Hello"})
    assert result.is_error is True
    assert "The language model of this agent is not available." in result.content[0].text


@pytest.mark.parametrize("mode", MODES)
async def test_run_of_another_user_is_nowhere(waiting: Driven, mode: str) -> None:
    async with client(waiting, mode) as c:
        first = await c.call_tool("support", {"message": "Pay it back."})
    run_id = first.structured_content["run_id"]
    async with client(waiting, mode, sub="bob") as c:
        theirs = await c.call_tool("get_run", {"run_id": run_id})
        nowhere = await c.call_tool("get_run", {"run_id": "run_nowhere"})
    assert theirs.is_error is True
    assert theirs.content[0].text == nowhere.content[0].text


async def test_client_pings_and_is_told_of_what_there_is_not() -> None:
    from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

    async with world_of(say("hello")) as world, client(world, "legacy") as c:
        with pytest.warns(MCPDeprecationWarning, match="ping"):
            await c.send_ping()
        with pytest.raises(MCPError, match="no such method"):
            await c.list_prompts()
