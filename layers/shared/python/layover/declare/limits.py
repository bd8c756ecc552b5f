"""`Limits` on a run's use of tokens, money and tool calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from layover.declare.schemas import checks
from layover.errors import DefinitionError


@dataclass(frozen=True)
class Limits:
    """Limits on what a run may use; None: no limit. Once a limit is reached, the run waits for a person to
    extend it (a call of `layover.budget`), or fails (`on_reached="fail"`). A step that is under way is always
    finished, so a run may end somewhat above. `cost_usd` counts what the price catalogue knows. If a provider
    reports no usage, tokens are estimated.

    An approval without `args`, or with `{}`, gives as much again as is declared here. With
    `{"tokens": 50000}` that limit is the new one, null lifts it, and the others stay as they were."""

    tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: int | None = None
    on_reached: Literal["suspend", "fail"] = "suspend"

    def __post_init__(self) -> None:
        checks.whole_or_none("Limits.tokens", self.tokens)
        checks.whole_or_none("Limits.tool_calls", self.tool_calls, least=0)
        if self.cost_usd is not None:
            checks.number("Limits.cost_usd", self.cost_usd, above=0)
        checks.one_of("Limits.on_reached", self.on_reached, frozenset({"suspend", "fail"}))

    def as_args(self) -> dict[str, Any]:
        """Return the three limits, as an approval shows them."""
        return {"tokens": self.tokens, "cost_usd": self.cost_usd, "tool_calls": self.tool_calls}

    @classmethod
    def from_args(cls, args: Mapping[str, Any]) -> "Limits":
        """Return limits that a person wrote. Raises DefinitionError for a value that is no limit."""
        unknown = sorted(set(args) - {"tokens", "cost_usd", "tool_calls"})
        if unknown:
            raise DefinitionError(f"there is no limit of {', '.join(unknown)}")
        return cls(**args)

    def plus(self, other: "Limits") -> "Limits":
        """Return each limit raised by the other's, or doubled if the other has none; never as it was."""
        more = other.as_args()
        raised = {
            name: None if own is None else own + ((own if more[name] is None else more[name]) or 1)
            for name, own in self.as_args().items()
        }
        return Limits.from_args(raised)
