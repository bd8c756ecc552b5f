"""Servers that ask the user in the middle of a call: the call waits, without a connection, and is made again
with the answer."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from layover import Agent, DecisionInvalid, DefinitionError, mcp
from layover.testing import ScriptedModel, call, say, tool_results
from support.mcp_servers import ScriptedServer, events, listed, serving, serving_app, text

ERAS = ["2025-11-25", "2026-07-28"]
EMPTY = {"type": "object", "properties": {}}


class Address(BaseModel):
    street: str = Field(description="The street and the number.")
    copies: int = 1


class Sure(BaseModel):
    sure: bool


def bookshop() -> tuple[Any, list[str]]:
    """The application of a bookshop's server that asks where to, then whether, and the orders that it got."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.resolve import Elicit, Resolve
    from mcp_types import ToolAnnotations

    orders: list[str] = []
    server = MCPServer("bookshop")

    def ask_address(title: str) -> Any:
        return Elicit(f"Where does {title} go?", Address)

    def ask_again(address: Annotated[Address, Resolve(ask_address)]) -> Any:
        return Elicit(f"Is {address.street} right?", Sure)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def quote(title: str, address: Annotated[Address, Resolve(ask_address)]) -> str:
        """The price of a book and its postage."""
        orders.append(f"quote {title} to {address.street}")
        return f"{address.copies} of {title} to {address.street}: 15 euros"

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def order(
        title: str,
        address: Annotated[Address, Resolve(ask_address)],
        answer: Annotated[Sure, Resolve(ask_again)],
    ) -> str:
        """Order a book."""
        orders.append(f"order {title} to {address.street}: {answer.sure}")
        return "ordered" if answer.sure else "not ordered"

    @server.tool()
    def pay(title: str, answer: Annotated[Sure, Resolve(lambda: Elicit("Sure?", Sure))]) -> str:
        """Pay for a book."""
        orders.append(f"pay {title}: {answer.sure}")
        return "paid"

    return server.streamable_http_app(), orders


class OlderServer:
    """An ASGI application that knows no version without a handshake."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", []))
        if headers.get(b"mcp-protocol-version") == b"2026-07-28":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


@asynccontextmanager
async def clerk_of(
    era: str, *script: Any, **options: Any
) -> AsyncIterator[tuple[Agent, list[str]]]:
    """An agent with the tools of the bookshop, and the shop's orders."""
    app, orders = bookshop()
    options = {"elicitation": True, "approve": lambda tool: False, **options}
    async with serving_app(app if era == "2026-07-28" else OlderServer(app)) as url:
        books = mcp(f"{url}/mcp", name="books", private=True, **options)
        clerk = Agent("clerk", tools=[*books])
        with clerk.override(model=ScriptedModel([*script, say("Done.")])):
            yield clerk, orders


@pytest.mark.parametrize("era", ERAS)
async def test_call_waits_for_the_user_and_is_made_again_with_their_answer(era: str) -> None:
    async with clerk_of(era, call("books_quote", title="Emma")) as (clerk, orders):
        waiting = await clerk.generate("What is Emma?")
        (pending,) = waiting.pending
        assert (pending.kind, pending.args) == ("input", {"title": "Emma"})
        assert pending.payload == {"server": "books", "message": "Where does Emma go?"}
        fields = pending.resume_schema["properties"]
        assert fields["street"]["description"] == "The street and the number."
        assert fields["copies"]["default"] == 1
        assert "127.0.0.1" in pending.resume_schema["description"]
        assert orders == []
        data = {"street": "Hill 1", "copies": 2}
        result = await clerk.resume(waiting.run_id, pending.tool_call_id, data)
    assert (result.text, orders) == ("Done.", ["quote Emma to Hill 1"])
    assert tool_results(result)[-1] == {"result": "2 of Emma to Hill 1: 15 euros"}


@pytest.mark.parametrize("era", ERAS)
async def test_server_may_ask_twice_and_gets_each_answer(era: str) -> None:
    async with clerk_of(era, call("books_order", title="Emma")) as (clerk, orders):
        first = await clerk.generate("Order Emma.")
        id = first.pending[0].tool_call_id
        second = await clerk.resume(first.run_id, id, {"street": "Hill 1", "copies": 1})
        (pending,) = second.pending
        assert (pending.attempt, pending.payload["message"]) == (2, "Is Hill 1 right?")
        assert orders == []
        result = await clerk.resume(first.run_id, id, {"sure": True})
    assert (result.text, orders) == ("Done.", ["order Emma to Hill 1: True"])


@pytest.mark.parametrize("era", ERAS)
async def test_user_who_does_not_answer_declines(era: str) -> None:
    async with clerk_of(era, call("books_quote", title="Emma")) as (clerk, orders):
        waiting = await clerk.generate("What is Emma?")
        id = waiting.pending[0].tool_call_id
        result = await clerk.resume(waiting.run_id, id, {"decline": True})
    assert (result.text, orders) == ("Done.", [])
    assert "decline" in str(tool_results(result)[-1])


@pytest.mark.parametrize("era", ERAS)
async def test_user_who_denies_the_call_ends_it_and_the_server_hears_no_more_of_it(
    era: str,
) -> None:
    asks = call("books_quote", title="Emma")
    async with clerk_of(era, asks, asks) as (clerk, orders):
        waiting = await clerk.generate("What is Emma?")
        (pending,) = waiting.pending
        assert "goes on" in pending.resume_schema["properties"]["decline"]["description"]
        result = await clerk.deny(waiting.run_id, pending.tool_call_id, reason="no address")
    assert (result.text, orders) == ("Done.", [])
    first, again = tool_results(result)
    assert first == again
    assert (first["message"], first["reason"]) == (
        'Tool "books_quote" was not answered',
        "no address",
    )


async def test_second_question_of_a_call_is_denied_like_its_first() -> None:
    async with clerk_of("2026-07-28", call("books_order", title="Emma")) as (clerk, orders):
        first = await clerk.generate("Order Emma.")
        id = first.pending[0].tool_call_id
        await clerk.resume(first.run_id, id, {"street": "Hill 1", "copies": 1})
        result = await clerk.deny(first.run_id, id)
    assert (result.text, orders) == ("Done.", [])
    assert tool_results(result)[0]["declined"] is True


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "data", [{}, {"copies": 1}, {"street": 7}, {"street": "x", "more": 1}, {"decline": False}, "x"]
)
async def test_answer_that_does_not_fit_the_form_is_refused_and_the_call_waits(
    era: str, data: Any
) -> None:
    async with clerk_of(era, call("books_quote", title="Emma")) as (clerk, orders):
        waiting = await clerk.generate("What is Emma?")
        id = waiting.pending[0].tool_call_id
        with pytest.raises(DecisionInvalid):
            await clerk.resume(waiting.run_id, id, data)
        assert orders == []
        result = await clerk.resume(waiting.run_id, id, {"street": "Hill 1", "copies": 1})
    assert result.text == "Done."


async def test_call_that_may_not_be_repeated_waits_where_the_protocol_repeats_it() -> None:
    async with clerk_of("2026-07-28", call("books_pay", title="Emma")) as (clerk, orders):
        waiting = await clerk.generate("Pay.")
        id = waiting.pending[0].tool_call_id
        result = await clerk.resume(waiting.run_id, id, {"sure": True})
    assert (result.text, orders) == ("Done.", ["pay Emma: True"])


async def test_call_that_may_not_be_repeated_is_an_error_where_it_would_begin_anew() -> None:
    async with clerk_of("2025-11-25", call("books_pay", title="Emma")) as (clerk, orders):
        result = await clerk.generate("Pay.")
    assert (result.text, orders, result.pending) == ("Done.", [], [])
    said = tool_results(result)[-1]
    assert "begin anew" in said
    assert "may or may not have taken effect" in said


async def test_approval_comes_before_what_the_server_asks() -> None:
    script = call("books_order", title="Emma")
    async with clerk_of("2026-07-28", script, approve=None) as (clerk, orders):
        first = await clerk.generate("Order Emma.")
        (pending,) = first.pending
        assert pending.kind == "approval"
        asked = await clerk.approve(first.run_id, pending.tool_call_id)
        (pending,) = asked.pending
        assert pending.kind == "input"
        data = {"street": "Hill 1", "copies": 1}
        again = await clerk.resume(first.run_id, pending.tool_call_id, data)
        result = await clerk.resume(first.run_id, again.pending[0].tool_call_id, {"sure": False})
    assert (result.text, orders) == ("Done.", ["order Emma to Hill 1: False"])


@pytest.mark.parametrize("era", ERAS)
async def test_server_that_may_not_ask_is_not_told_that_it_may(era: str) -> None:
    script = call("books_quote", title="Emma")
    async with clerk_of(era, script, elicitation=False) as (clerk, orders):
        result = await clerk.generate("What is Emma?")
    assert (result.text, orders, result.pending) == ("Done.", [], [])


def test_whether_a_server_may_ask_is_yes_or_no() -> None:
    with pytest.raises(DefinitionError, match="elicitation"):
        mcp("https://shop.example.com", elicitation="yes")  # type: ignore[arg-type]


# Hostile servers


def asks(*questions: Any, **more: Any) -> dict[str, Any]:
    """A result that asks these things."""
    requests = {
        f"q{n}": {"method": "elicitation/create", "params": each}
        for n, each in enumerate(questions)
    }
    return {"resultType": "input_required", "inputRequests": requests, **more}


def form(schema: Any, message: Any = "Tell me.") -> dict[str, Any]:
    return {"mode": "form", "message": message, "requestedSchema": schema}


def one(field: Any, **more: Any) -> dict[str, Any]:
    return form({"type": "object", "properties": {"x": field}, **more})


class StatelessShop(ScriptedServer):
    """A server of 2026-07-28 that answers calls by `results`, one after the other, the last for ever."""

    def __init__(self, *results: Any) -> None:
        self._results = list(results)
        about = {
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
        }
        tools = [listed("find", EMPTY, readOnlyHint=True)]
        cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools}
        on = {
            "server/discover": lambda _: about,
            "tools/list": lambda _: cached,
            "tools/call": lambda _: self._next(),
        }
        super().__init__(on=on)

    def _next(self) -> Any:
        return self._results.pop(0) if len(self._results) > 1 else self._results[0]


@asynccontextmanager
async def shop_of(*results: Any) -> AsyncIterator[tuple[Agent, ScriptedServer]]:
    async with serving(StatelessShop(*results)) as server:
        shop = mcp(server.url, name="shop", private=True, elicitation=True)
        clerk = Agent("clerk", tools=[*shop])
        with clerk.override(model=ScriptedModel([call("shop_find"), say("Done.")])):
            yield clerk, server


DONE = text("found", resultType="complete")


@pytest.mark.parametrize(
    "question",
    [
        None,
        "x",
        {},
        form(None),
        form({"type": "array"}),
        form({"type": "object"}),
        form({"type": "object", "properties": []}),
        form({"type": "object", "properties": {"x": {"type": "string"}}}, message=7),
        form({"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(31)}}),
        form({"type": "object", "properties": {}, "description": "x" * 17_000}),
        form({"type": "object", "properties": {}, "required": ["x"]}),
        form({"type": "object", "properties": {"": {"type": "string"}}}),
        form({"type": "object", "properties": {"a\u202eb": {"type": "string"}}}),
        form({"type": "object", "properties": {"x" * 201: {"type": "string"}}}),
        one(None),
        one({"type": "object", "properties": {}}),
        one({"type": ["string", "null"]}),
        one({"$ref": "#/$defs/X"}, **{"$defs": {"X": {"type": "string"}}}),
        one({"type": "string", "enum": []}),
        one({"type": "string", "enum": [1]}),
        one({"type": "string", "enum": ["a\u200bb"]}),
        one({"type": "string", "enum": [f"c{n}" for n in range(101)]}),
        one({"type": "string", "maxLength": "7"}),
        one({"type": "number", "minimum": True}),
        one({"type": "array", "items": {"type": "string"}}),
        one({"type": "string"}, required=[["x"]]),
        {"mode": "url", "message": "Open.", "url": "http://evil.example.com"},
        {"mode": "url", "message": "Open.", "url": "javascript:alert(1)"},
        {"mode": "url", "message": "Open.", "url": "https://user:pw@evil.example.com"},
        {"mode": "url", "message": "Open.", "url": "https://b\u0430nk.example.com"},
        {"mode": "url", "message": "Open.", "url": "https://x.example.com/" + "x" * 3000},
        {"mode": "url", "message": "Open."},
        {"mode": "secret", "message": "Password?"},
    ],
)
async def test_question_that_nobody_can_be_shown_is_an_error(question: Any) -> None:
    async with shop_of(asks(question)) as (clerk, server):
        result = await clerk.generate("Find it.")
    assert (result.status, result.pending) == ("success", [])
    assert "it asked its user" in tool_results(result)[-1]
    assert len(server.requests("tools/call")) == 1


@pytest.mark.parametrize(
    "result",
    [
        asks(),
        {"resultType": "input_required", "requestState": "s"},
        {"resultType": "input_required", "inputRequests": []},
        asks(*(one({"type": "string"}) for _ in range(6))),
        asks(one({"type": "string"}), requestState="s" * 70_000),
        {"resultType": "input_required", "inputRequests": {"q": {"method": "roots/list"}}},
        {
            "resultType": "input_required",
            "inputRequests": {"q": {"method": "sampling/createMessage", "params": {}}},
        },
    ],
)
async def test_server_that_wants_something_else_gets_nothing(result: Any) -> None:
    async with shop_of(result) as (clerk, _):
        ended = await clerk.generate("Find it.")
    assert (ended.status, ended.pending) == ("success", [])
    assert "it asked its user" in tool_results(ended)[-1]


async def test_server_that_never_stops_asking_is_answered_ten_times() -> None:
    async with shop_of(asks(one({"type": "string"}), requestState="s")) as (clerk, server):
        result = await clerk.generate("Find it.")
        for _ in range(10):
            id = result.pending[0].tool_call_id
            result = await clerk.resume(result.run_id, id, {"x": "again"})
    assert result.pending == []
    assert "more than 10 times" in tool_results(result)[-1]
    assert len(server.requests("tools/call")) == 11


async def test_words_of_a_server_are_cleaned_and_cut() -> None:
    field = {"type": "string", "title": "a\u202eb", "description": "y" * 900, "pattern": "(a+)+$"}
    question = form({"type": "object", "properties": {"x": field}}, message="a\u200bb" * 5000)
    async with shop_of(asks(question), DONE) as (clerk, _):
        waiting = await clerk.generate("Find it.")
    (pending,) = waiting.pending
    assert len(pending.payload["message"]) == 2000
    assert "\u200b" not in pending.payload["message"]
    shown = pending.resume_schema["properties"]["x"]
    assert (shown["title"], len(shown["description"])) == ("ab", 200)
    assert "pattern" not in shown


FIGS = [{"const": "sku-1", "title": "Fig\u200b"}, {"const": "sku-2", "title": "Pear"}]


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ({"type": "string", "oneOf": FIGS}, ["Fig", "Pear"]),
        ({"anyOf": FIGS}, ["Fig", "Pear"]),
        ({"enum": ["sku-1", "sku-2"], "enumNames": ["Fig", "Pear"]}, ["Fig", "Pear"]),
        ({"enum": ["sku-1", "sku-2"], "enumNames": ["Fig"]}, None),
        ({"enum": ["sku-1", "sku-2"]}, None),
        ({"oneOf": [FIGS[0], {"const": "sku-2"}]}, ["Fig", "sku-2"]),
        ({"oneOf": [FIGS[0], {"const": "sku-2", "title": "Fig"}]}, None),
        ({"oneOf": [FIGS[0], {"const": "sku-2", "title": 7}]}, ["Fig", "sku-2"]),
    ],
)
async def test_choice_is_shown_by_its_title_and_answered_by_its_value(
    field: Any, names: Any
) -> None:
    async with shop_of(asks(one(field)), DONE) as (clerk, server):
        waiting = await clerk.generate("Find it.")
        (pending,) = waiting.pending
        shown = pending.resume_schema["properties"]["x"]
        assert (shown["type"], shown["enum"]) == ("string", ["sku-1", "sku-2"])
        assert shown.get("enumNames") == names
        await clerk.resume(waiting.run_id, pending.tool_call_id, {"x": "sku-2"})
    sent = server.requests("tools/call")[-1].params["inputResponses"]
    assert sent["q0"]["content"] == {"x": "sku-2"}


async def test_questions_of_one_round_are_asked_one_after_the_other() -> None:
    first = one({"type": "string"})
    second = form({"type": "object", "properties": {"decline": {"type": "boolean"}}}, "And?")
    async with shop_of(asks(first, second, requestState="s1"), DONE) as (clerk, server):
        waiting = await clerk.generate("Find it.")
        id = waiting.pending[0].tool_call_id
        again = await clerk.resume(waiting.run_id, id, {"x": "one"})
        (pending,) = again.pending
        assert pending.payload["message"] == "And?"
        assert {"decline", "decline_"} == pending.resume_schema["properties"].keys()
        assert len(server.requests("tools/call")) == 1
        result = await clerk.resume(waiting.run_id, id, {"decline": True})
    assert tool_results(result) == ["found"]
    _, sent = server.requests("tools/call")
    assert sent.params["requestState"] == "s1"
    assert sent.params["inputResponses"] == {
        "q0": {"action": "accept", "content": {"x": "one"}},
        "q1": {"action": "accept", "content": {"decline": True}},
    }


async def test_answers_of_a_round_are_not_sent_with_the_next() -> None:
    rounds = asks(one({"type": "string"})), asks(one({"type": "integer"}), requestState="s2"), DONE
    async with shop_of(*rounds) as (clerk, server):
        waiting = await clerk.generate("Find it.")
        id = waiting.pending[0].tool_call_id
        await clerk.resume(waiting.run_id, id, {"x": "one"})
        await clerk.resume(waiting.run_id, id, {"x": 2})
    _, second, third = server.requests("tools/call")
    assert "requestState" not in second.params
    assert third.params["inputResponses"] == {"q0": {"action": "accept", "content": {"x": 2}}}
    assert third.params["requestState"] == "s2"


async def test_address_is_shown_and_nothing_opens_it() -> None:
    question = {"mode": "url", "message": "Sign in.", "url": "https://id.example.com/x?y=1"}
    async with shop_of(asks(question), DONE) as (clerk, server):
        waiting = await clerk.generate("Find it.")
        (pending,) = waiting.pending
        assert pending.payload["url"] == "https://id.example.com/x?y=1"
        assert pending.resume_schema["properties"].keys() == {"decline"}
        await clerk.resume(waiting.run_id, pending.tool_call_id, {})
    _, sent = server.requests("tools/call")
    assert sent.params["inputResponses"] == {"q0": {"action": "accept"}}


async def test_state_of_a_server_is_shown_to_nobody() -> None:
    async with shop_of(asks(one({"type": "string"}), requestState="secret-1"), DONE) as (clerk, _):
        told: list[Any] = []
        for kind in ("tool-call-suspended", "turn-end"):
            clerk.on(kind, lambda event: told.append(event.model_dump(mode="json")))
        waiting = await clerk.generate("Find it.")
        shown = json.dumps([waiting.pending[0].model_dump(mode="json"), told])
    assert told
    assert "secret-1" not in shown


async def test_server_that_asks_although_it_may_not_gets_nothing() -> None:
    """Up to 2025-11-25: a question in the stream of a call."""
    question = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "elicitation/create",
        "params": {"message": "Password?", "requestedSchema": EMPTY},
    }
    find = listed("find", EMPTY, readOnlyHint=True)
    on = {"tools/call": lambda asked: events(asked, question, result=text("found"))}
    async with serving(ScriptedServer(find, on=on)) as server:
        shop = mcp(server.url, name="shop", private=True)
        clerk = Agent("clerk", tools=[*shop])
        with clerk.override(model=ScriptedModel([call("shop_find"), say("Done.")])):
            result = await clerk.generate("Find it.")
    assert result.pending == []
    assert tool_results(result) == ["found"]
