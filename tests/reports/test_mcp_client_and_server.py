"""Servers of tools that break the protocol, and clients of `POST /mcp` that do."""

import json
from typing import Any

import pytest

from integration.api.kit import Api
from layover import Agent, Result, mcp
from layover.testing import ScriptedModel, call, say, tool_results
from reports import Found, report
from support.mcp_servers import Asked, Raw, ScriptedServer, listed, serving, text

FIND = listed("find", description="Find an order.", readOnlyHint=True)
AS_JSON = {"content-type": "application/json"}


async def find(server: ScriptedServer) -> tuple[Result, ScriptedModel]:
    """A run that calls the tool `find` once."""
    clerk = Agent("clerk", tools=[*mcp(server.url, name="shop", private=True, timeout=20)])
    with clerk.override(model=ScriptedModel([call("shop_find"), say("That is all.")])) as model:
        return await clerk.generate("Where is my order?"), model


def refusal(code: int, message: str) -> bytes:
    """An error of the protocol that names no request."""
    problem = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": problem}).encode()


@report("DeusData/codebase-memory-mcp#1247", Found.MENDED)
async def test_list_whose_only_page_names_a_next_one_for_ever_is_that_page() -> None:
    """A server that gives the same cursor with its only page has its tools once, and the run goes on."""
    on = {"tools/list": lambda _: {"tools": [FIND], "nextCursor": "MQ=="}}
    async with serving(ScriptedServer(on=on)) as server:
        result, model = await find(server)
    assert tool_results(result) == ["done"]
    assert [spec.name for spec in model.turns[0].tools] == ["shop_find"]


@report(
    "modelcontextprotocol/typescript-sdk#1476, samanhappy/mcphub#405, DAWNCR0W/affine-mcp-server#301",
    Found.RIGHT,
)
async def test_session_that_a_restarted_server_refuses_with_400_is_opened_anew() -> None:
    """A server that restarted refuses the session with 400: another one is opened, and the call made once."""

    def restarted(asked: Asked) -> Any:
        if asked.headers.get("mcp-session-id") != "session-1":
            return text("found")
        return Raw(400, refusal(-32000, "Bad Request: No valid session ID provided"), AS_JSON)

    async with serving(ScriptedServer(FIND, on={"tools/call": restarted})) as server:
        result, _ = await find(server)
    assert tool_results(result) == ["found"]


@report(
    "modelcontextprotocol/python-sdk#732, opensearch-project/opensearch-mcp-server-py#271",
    Found.RIGHT,
)
async def test_server_that_moves_every_request_to_its_address_with_a_slash_is_asked_there() -> None:
    """A server that answers 307 to the same address with a slash is listed and called there."""

    async with serving(ScriptedServer(FIND)) as server:
        there = Raw(307, headers={"location": f"{server.url}/"})
        server.moved = lambda asked: there if asked.path == "/mcp" else None
        result, _ = await find(server)
    assert tool_results(result) == ["done"]


@report("helidon-io/helidon-mcp#65, modelcontextprotocol/java-sdk#506", Found.MENDED)
async def test_error_that_names_no_request_is_that_of_the_call() -> None:
    """An error with the id null ends the call at once, and the model reads why."""
    raw = Raw(200, refusal(-32602, "There is no order of this number."), AS_JSON)
    async with serving(ScriptedServer(FIND, on={"tools/call": lambda _: raw})) as server:
        _, model = await find(server)
    assert "There is no order of this number." in str(model.turns[-1].messages[-1].model_output)


@report("modelcontextprotocol/php-sdk#405, shopware/shopware#18722", Found.MENDED)
async def test_tool_whose_properties_are_an_empty_list_takes_no_arguments() -> None:
    """A tool with `"properties": []` is there, and providers get an object."""
    tool = listed("find", {"type": "object", "properties": []}, readOnlyHint=True)
    async with serving(ScriptedServer(tool)) as server:
        result, model = await find(server)
    assert tool_results(result) == ["done"]
    assert model.turns[0].tools[0].parameters["properties"] == {}


@report("basicmachines-co/basic-memory#1378", Found.MENDED)
async def test_server_that_is_asked_too_often_is_asked_again_when_it_says() -> None:
    """A call that is refused with 429 and a short Retry-After is made again after that time."""
    busy = [Raw(429, b"{}", {"retry-after": "0", **AS_JSON})]
    on = {"tools/call": lambda _: busy.pop() if busy else text("found")}
    async with serving(ScriptedServer(FIND, on=on)) as server:
        result, _ = await find(server)
    assert tool_results(result) == ["found"]


@report(
    "cristianuibar/bricks-mcp#45, oculairmedia/Letta-MCP-server#102", Found.RIGHT, held_back=True
)
async def test_tool_that_promises_data_and_answers_a_text_has_that_text_as_its_result() -> None:
    """A tool with an `outputSchema` whose answer is only a text has this text as its result."""
    promise = {"type": "object", "properties": {"state": {"type": "string"}}, "required": ["state"]}
    tool = {**FIND, "outputSchema": promise}
    on = {"tools/call": lambda _: text("on its way")}
    async with serving(ScriptedServer(tool, on=on)) as server:
        result, _ = await find(server)
    assert tool_results(result) == ["on its way"]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "*/*", None])
@report(
    "modelcontextprotocol/python-sdk#2349, modelcontextprotocol/typescript-sdk#1944",
    Found.RIGHT,
    held_back=True,
)
def test_client_that_takes_one_kind_of_answer_is_answered(api: Api, accept: str | None) -> None:
    """A client of `POST /mcp` that accepts only one kind of answer gets one, and no 406."""
    message = {"jsonrpc": "2.0", "id": "a-1", "method": "tools/list"}
    answer = api.post("/mcp", message, headers={"Accept": accept} if accept else {})
    assert answer.status == 200
    assert answer.json["id"] == "a-1"
    assert answer.json["result"]["tools"]
