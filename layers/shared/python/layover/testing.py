"""For tests of agents: a model that follows a script, an embedder that needs no model,
metrics to look at."""

from layover.adapters.inmemory.embedder import HashingEmbedder
from layover.adapters.inmemory.metrics import MemoryMetrics
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

__all__ = [
    "HashingEmbedder",
    "MemoryMetrics",
    "ScriptExhausted",
    "ScriptedModel",
    "broken",
    "call",
    "calls",
    "fail",
    "say",
    "too_long",
]
