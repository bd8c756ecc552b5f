"""For tests of agents: `Agent.override` with a model that follows a script, no AWS and no real model.

    with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
        done = await shop.generate("5 euros back, please.")
    assert tool_results(done, "refund") == ["Refunded 5.00 euros."]

With it come an embedder that needs no model, metrics to look at, and a clock that a test moves."""

from typing import Any

from layover.clock import ManualClock
from layover.declare.result import Result
from layover.inmemory.embedder import HashingEmbedder
from layover.inmemory.metrics import InMemoryMetrics
from layover.inmemory.model import (
    ScriptedModel,
    ScriptExhausted,
    broken,
    call,
    calls,
    fail,
    say,
    too_long,
)
from layover.values.message import ToolResultPart

__all__ = [
    "HashingEmbedder",
    "InMemoryMetrics",
    "ManualClock",
    "ScriptExhausted",
    "ScriptedModel",
    "broken",
    "call",
    "calls",
    "fail",
    "say",
    "too_long",
    "tool_results",
]


def tool_results(result: Result, tool: str | None = None) -> list[Any]:
    '''Return the results of a run's calls, as JSON and in order. A call that a person denied is `{"declined":
    True, ...}`, the result of one that failed is the error's text.

    Args:
        result: The run, as `generate` or a decision returned it.
        tool: The name of the tool whose results are returned; None: those of all tools.

    Example:
        ```python
        import asyncio

        from layover import Agent, tool
        from layover.testing import ScriptedModel, call, calls, say, tool_results


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return 42.0


        @tool
        def stock(item: str) -> int:
            """Return how many are in stock."""
            return 3


        shop = Agent("shop", tools=[price, stock])
        both = calls(call("price", item="lamp"), call("stock", item="lamp"))
        with shop.override(model=ScriptedModel([both, say("42 euros, and we have three.")])):
            result = asyncio.run(shop.generate("The lamp?"))
        assert tool_results(result, "stock") == [3]
        assert tool_results(result) == [42.0, 3]
        ```
    '''
    parts = (part for message in result.messages for part in message.content)
    results = (part for part in parts if isinstance(part, ToolResultPart))
    return [part.result for part in results if tool in (None, part.tool_name)]
