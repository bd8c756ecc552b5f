"""For tests of agents: a model that follows a script (`layover.adapters.inmemory.model`)."""

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
    "ScriptExhausted",
    "ScriptedModel",
    "broken",
    "call",
    "calls",
    "fail",
    "say",
    "too_long",
]
