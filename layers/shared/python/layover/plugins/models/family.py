"""The capabilities of a model behind the Messages API or Converse."""

from typing import Literal, NamedTuple

from layover.values.runs.model_settings import Reasoning

Place = Literal["tools", "system", "history", "last"]
Thinking = Literal["budget", "adaptive", "effort"]


class Family(NamedTuple):
    """The capabilities of a model. `caches`: where cache points may stand. `thinks`: how the request controls
    its thinking: Claude's by a `budget` of tokens or `adaptive`, Nova's by an `effort`. `most`: the highest
    level that it knows. `result_status`: True if a tool's result may say that it is an error."""

    caches: frozenset[Place] = frozenset()
    thinks: Thinking | None = None
    most: Literal["high", "xhigh"] = "high"
    result_status: bool = False

    def effort(self, level: Reasoning) -> Reasoning:
        """Return the level, or the nearest one that the family knows."""
        if level == "minimal":
            return "low"
        return self.most if level == "xhigh" else level
