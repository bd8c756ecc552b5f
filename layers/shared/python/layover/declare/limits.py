"""`Limits` on a run's use of tokens, money and tool calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from layover.declare.option_names import unknown_options, with_named_options
from layover.declare.schemas import checks

_LIMITS = frozenset({"tokens", "cost_usd", "tool_calls"})
_NO_LIMIT = {"type": "null"}
ARGS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tokens": {"anyOf": [{"type": "integer", "minimum": 1}, _NO_LIMIT]},
        "cost_usd": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, _NO_LIMIT]},
        "tool_calls": {"anyOf": [{"type": "integer", "minimum": 0}, _NO_LIMIT]},
    },
    "additionalProperties": False,
}
"""The JSON schema of limits that a person writes (`Limits.from_args`)."""
MAX_PATIENCE = timedelta(days=30)
"""The longest time for which a run waits for a provider."""
STALE_STEPS = 4
"""Steps in a row without anything new, of a run whose agent says nothing else."""


@with_named_options
@dataclass(frozen=True)
class Limits:
    '''Limits on what a run may use in tokens, money and tool calls.

    Once a limit is reached, the run waits for a person to extend it (a call of `layover.budget`), or fails.
    A step that is under way is always finished, so a run may end somewhat above. If a provider reports no
    usage, tokens are estimated.

    An approval without `args`, or with `{}`, gives as much again as is declared here. With
    `{"tokens": 50000}` that limit is the new one, null lifts it, and the others stay as they were.

    Args:
        tokens: Input and output tokens, at least 1; None: no limit.
        cost_usd: US dollars, above 0, that its models cost, as far as the price catalogue knows them; None:
            no limit.
        tool_calls: Calls of tools, at least 0; None: no limit.
        on_reached: `suspend`: the run waits for a person. `fail`: it fails.
        stale_steps: Steps in a row, at least 1, of which each call has been in the run before with the same
            result. Then the model is told; three such steps later the run ends with `loop`. The same error
            in three steps in a row ends it at once. None: no run ends so.
        provider_patience: The time for which a run waits for a model's provider that is away: it pauses
            without a process and goes on by itself, or fails with `ProviderAway`. 0: it fails at once. None:
            one hour, and 0 in the author's own process (`generate`). 30 days at most.

    Raises:
        DefinitionError: If a value is not a limit.

    Example:
        ```python
        import asyncio

        from layover import Agent, Limits, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def look_up(word: str) -> str:
            """Look a word up."""
            return f"{word}: a word"


        reader = Agent("reader", tools=[look_up], limits=Limits(tool_calls=1))


        async def main() -> None:
            script = [call("look_up", word="a"), call("look_up", word="b"), say("Both are words.")]
            with reader.override(model=ScriptedModel(script)):
                waiting = await reader.generate("What are a and b?")
                (pending,) = waiting.pending
                assert pending.tool_name == "layover.budget"
                result = await reader.approve(waiting.run_id, pending.tool_call_id, {"tool_calls": 5})
            assert result.text == "Both are words."


        asyncio.run(main())
        ```
    '''

    tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: int | None = None
    on_reached: Literal["suspend", "fail"] = "suspend"
    stale_steps: int | None = STALE_STEPS
    provider_patience: timedelta | None = None

    def __post_init__(self) -> None:
        checks.whole_or_none("Limits.tokens", self.tokens)
        checks.whole_or_none("Limits.tool_calls", self.tool_calls, least=0)
        if self.cost_usd is not None:
            checks.number("Limits.cost_usd", self.cost_usd, above=0)
        checks.whole_or_none("Limits.stale_steps", self.stale_steps)
        patience = self.provider_patience
        if patience not in (0, timedelta(0)):
            patience = checks.duration("Limits.provider_patience", patience, most=MAX_PATIENCE)
            object.__setattr__(self, "provider_patience", patience)
        checks.one_of("Limits.on_reached", self.on_reached, frozenset({"suspend", "fail"}))

    def as_args(self) -> dict[str, Any]:
        """Return the three limits, as an approval shows them."""
        return {"tokens": self.tokens, "cost_usd": self.cost_usd, "tool_calls": self.tool_calls}

    @classmethod
    def from_args(cls, args: Mapping[str, Any]) -> "Limits":
        """Return limits that a person wrote. Raises DefinitionError for a value that is not a limit."""
        if unknown := args.keys() - _LIMITS:
            raise unknown_options("Limits", unknown, _LIMITS, "limit")
        return cls(**args)

    def plus(self, other: "Limits") -> "Limits":
        """Return each limit raised by the other's, or doubled if the other has none; never unchanged."""
        more = other.as_args()
        raised = {
            name: None if own is None else own + ((own if more[name] is None else more[name]) or 1)
            for name, own in self.as_args().items()
        }
        return Limits.from_args(raised)
