"""For tests of agents: `Agent.override` with a model that follows a script, no AWS and no real model.

    with shop.override(model=ScriptedModel([call("refund", amount=5), say("Done.")])):
        done = await shop.generate("5 euros back, please.")
    assert tool_results(done, "refund") == ["Refunded 5.00 euros."]

With it come an embedder that needs no model, metrics to look at, and a clock that a test moves."""

from typing import Any

from layover.adapters.inmemory.embedder import HashingEmbedder
from layover.adapters.inmemory.metrics import InMemoryMetrics
from layover.adapters.inmemory.model import (
    ScriptedModel,
    ScriptExhausted,
    broken,
    call,
    calls,
    fail,
    say,
    too_long,
)
from layover.clock import ManualClock
from layover.declare.result import Result
from layover.values.message import ToolResultPart

MemoryMetrics = InMemoryMetrics
"""Its name in releases before the first."""

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
    """Return the results of a run's calls, as JSON and in order: those of one tool, None: of all. A call
    that a person denied is `{"declined": True, ...}`, the result of one that failed is the error's text."""
    parts = (part for message in result.messages for part in message.content)
    results = (part for part in parts if isinstance(part, ToolResultPart))
    return [part.result for part in results if tool in (None, part.tool_name)]
