"""The result of a case's run."""

from decimal import Decimal
from typing import Any

from layover.values.base import Json, Usd, Value


class Call(Value):
    """A call that the agent made."""

    name: str
    args: Json
    result: Json = None
    is_error: bool = False


class Asked(Value):
    """A call that asked for a person, and what was decided: None is nothing, since no case expects it."""

    tool: str
    args: dict[str, Any]
    kind: str
    decision: str | None


class Verdict(Value):
    """A judge's opinion on a rule. None: it gave none, and the reason says why."""

    judge: str
    rule: str
    holds: bool | None
    reason: str


class Outcome(Value):
    """One run of a case. It holds if there are no `failures`."""

    case: str
    repeat: int = 1
    status: str = "failed"
    finish_reason: str | None = None
    failures: tuple[str, ...] = ()
    text: str = ""
    output: Json = None
    calls: tuple[Call, ...] = ()
    approvals: tuple[Asked, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    steps: int = 0
    tokens: int = 0
    cost_usd: Usd | Decimal | None = None
    seconds: float = 0.0
    metadata: dict[str, Any] = {}

    @property
    def holds(self) -> bool:
        """True if everything that the case expects is so."""
        return not self.failures
