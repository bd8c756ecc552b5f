"""For tests of agents: a model that follows a script, an embedder that needs no model."""

from layover.adapters.inmemory.embedder import HashingEmbedder
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
    "ScriptExhausted",
    "ScriptedModel",
    "broken",
    "call",
    "calls",
    "fail",
    "say",
    "too_long",
]
