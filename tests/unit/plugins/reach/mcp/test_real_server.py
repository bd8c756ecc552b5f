"""A server that is made with the package `mcp`, over loopback HTTP."""

import warnings
from typing import Any

import pytest

from layover import Agent, mcp
from layover.testing import ScriptedModel, call, calls, say, tool_results
from support.mcp_servers import serving_app


def bookshop(**options: Any) -> tuple[Any, list[str]]:
    """The application of a bookshop's server, and the orders that it got."""
    from mcp.server.mcpserver import Context, MCPServer
    from mcp_types import ToolAnnotations

    orders: list[str] = []
    server = MCPServer("bookshop")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def price(title: str) -> dict[str, float]:
        """The price of a book."""
        return {"euros": 12.5}

    @server.tool()
    async def order(title: str, ctx: Context[Any, Any], copies: int = 1) -> str:
        """Order copies of a book."""
        await ctx.report_progress(1, 2, "packing")
        orders.append(f"{copies} of {title}")
        return f"{copies} of {title} ordered"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def stock(title: str) -> str:
        """Whether a book is there."""
        raise ValueError("no such book")

    return server.streamable_http_app(**options), orders


@pytest.mark.parametrize(
    "options",
    [{}, {"json_response": True}, {"stateless_http": True}],
    ids=["events", "json", "stateless"],
)
async def test_run_reads_waits_and_orders_at_a_real_server(options: dict[str, Any]) -> None:
    app, orders = bookshop(**options)
    async with serving_app(app) as url:
        clerk = Agent("clerk", tools=[*mcp(f"{url}/mcp", name="books", private=True)])
        script = [
            calls(call("books_price", title="Emma"), call("books_stock", title="Emma")),
            call("books_order", title="Emma", copies=2),
            say("Two are on their way."),
        ]
        with clerk.override(model=ScriptedModel(script)) as model:
            told: list[Any] = []
            clerk.on("data", told.append)
            first = await clerk.generate("Two of Emma, please.")
            (pending,) = first.pending
            assert (pending.args, orders) == ({"title": "Emma", "copies": 2}, [])
            result = await clerk.approve(first.run_id, pending.tool_call_id)
    assert result.text == "Two are on their way."
    assert orders == ["2 of Emma"]
    price, stock = tool_results(first)
    assert price == {"euros": 12.5}
    assert "Error executing tool stock" in stock
    # A server that answers without a stream has no way to tell of progress.
    progress = [] if "json_response" in options else ["packing"]
    assert [each.data["message"] for each in told] == progress
    assert {spec.name for spec in model.turns[0].tools} >= {
        "books_price",
        "books_order",
        "books_stock",
    }


async def test_sessions_leave_nothing_behind_when_their_loop_ends() -> None:
    import asyncio

    def whole_process() -> None:
        async def main() -> None:
            app, _ = bookshop()
            async with serving_app(app) as url:
                clerk = Agent("clerk", tools=[*mcp(f"{url}/mcp", name="books", private=True)])
                script = [call("books_price", title="Emma"), say("12.50 euros.")]
                with clerk.override(model=ScriptedModel(script)):
                    assert (await clerk.generate("What is it?")).text == "12.50 euros."

        asyncio.run(main())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await asyncio.to_thread(whole_process)
