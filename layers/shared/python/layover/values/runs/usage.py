"""Tokens and money (docs/behaviour.md#usage)."""

from datetime import date
from typing import Any, Literal

from pydantic import computed_field

from layover.values.base import Usd, Value

MAX_TOKENS = 2**31 - 1
"""The largest count in one answer: more than any provider can mean. The database stores sums of such numbers,
too."""


def parse_tokens(count: object) -> int:
    """Return a provider's count: 0 if it is missing or senseless, `MAX_TOKENS` if it is absurd."""
    if not isinstance(count, int):
        if not isinstance(count, float) or not count.is_integer():
            return 0
        count = int(count)
    return min(max(0, count), MAX_TOKENS)


class Usage(Value):
    """Usage of one model call or of a sum of them.

    Attributes:
        input_tokens: Tokens of the prompts, those from the provider's cache included.
        output_tokens: Tokens of the answers, as the provider counts them.
        cached_input_tokens: The part of the input that the provider read from its cache.
        cache_write_input_tokens: The part of the input that the provider put into its cache; 0 if it does not
            say.
        reasoning_tokens: The part of the output that is reasoning; 0 if the provider does not say.
        cost_usd: US dollars (a `Decimal`); None if a model's price is unknown.
        sub_agents: The part that is each sub-agent's: `agent`, `run_id`, `tool_call_id` and these fields.

    Example:
        ```python
        import asyncio

        from layover import Agent, Usage
        from layover.testing import ScriptedModel, say

        shop = Agent("shop")
        script = [say("Hello.", usage=Usage(input_tokens=200, output_tokens=3))]
        with shop.override(model=ScriptedModel(script)):
            result = asyncio.run(shop.generate("Hi"))
        assert result.usage.total_tokens == 203
        ```
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: Usd | None = None
    sub_agents: tuple[dict[str, Any], ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_tokens(self) -> int:
        """Always the sum of input and output."""
        return self.input_tokens + self.output_tokens

    @staticmethod
    def total(usages: "list[Usage]") -> "Usage":
        """Return the sum. Its cost is known only if every part's is (no parts: 0 tokens, cost unknown).

        Args:
            usages: The parts.
        """
        costs = [u.cost_usd for u in usages]
        return Usage(
            input_tokens=sum([u.input_tokens for u in usages]),
            output_tokens=sum([u.output_tokens for u in usages]),
            cached_input_tokens=sum([u.cached_input_tokens for u in usages]),
            cache_write_input_tokens=sum([u.cache_write_input_tokens for u in usages]),
            reasoning_tokens=sum([u.reasoning_tokens for u in usages]),
            cost_usd=sum((c for c in costs if c is not None), start=costs[0] * 0)
            if costs and costs[0] is not None and None not in costs
            else None,
            sub_agents=tuple([s for u in usages for s in u.sub_agents]),
        )


class DayUsage(Value):
    """One agent's use of one model in a UTC day: in runs, or in the background for them."""

    day: date
    agent: str
    """A sub-agent's own name for its usage."""
    model: str
    kind: Literal["run", "background"]
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int
    reasoning_tokens: int
    cost_usd: Usd | None
    """None if the price of a call is unknown."""
