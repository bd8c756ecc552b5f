"""Debts of a run to others: facts of its calls that the bus has to be told of, and branches that have to be
woken. The transaction of such a fact notes it in META's `owed`; whoever has told it takes it out
(docs/journal.md#owed)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class DebtKind(StrEnum):
    """The kind of what is owed."""

    REQUESTED = "REQUESTED"
    """The request for a decision: the bus did not take it when the call's token was stored."""
    ESCALATED = "ESCALATED"
    """The escalation."""
    VOTED = "VOTED"
    """The newest vote."""
    DECIDED = "DECIDED"
    """The decision, whichever way it came."""
    WAKE = "WAKE"
    """The branches of the calls that the end of the run cut: one debt for all of them. The branch of a
    decided call is owed as long as the call is in META's `decided`."""


_KINDS = frozenset(kind.value for kind in DebtKind)
_BEFORE_DECISION = (DebtKind.REQUESTED, DebtKind.ESCALATED, DebtKind.VOTED)


@dataclass(frozen=True)
class Debt:
    """A fact of one attempt of the call with this key. As text it is an element of META's `owed`:

    ```python
    assert str(Debt(DebtKind.VOTED, 1, "STEP#0001#CALL#c1")) == "VOTED#1#STEP#0001#CALL#c1"
    ```
    """

    kind: DebtKind
    attempt: int
    key: str

    def __str__(self) -> str:
        return f"{self.kind.value}#{self.attempt}#{self.key}"


WAKE_CUT = str(Debt(DebtKind.WAKE, 0, ""))
"""The debt of a run whose end cut calls on whose tokens branches may wait."""


def debts_of(owed: Iterable[str]) -> Iterator[Debt]:
    """Return the debts among these elements, in their order as texts; those of a kind that a newer release
    knows stay for that one."""
    for text in sorted(owed):
        kind, attempt, key = text.split("#", 2)
        if kind in _KINDS:
            yield Debt(DebtKind(kind), int(attempt), key)


def paid_with(owed: Iterable[str], decision: Debt) -> frozenset[str]:
    """Return the elements that nobody owes any more once the bus knows this decision: itself, and what came
    before it (the request, the escalation, the votes), which the decision has as well."""
    before = {
        str(each)
        for each in debts_of(owed)
        if each.key == decision.key
        and each.attempt <= decision.attempt
        and each.kind in _BEFORE_DECISION
    }
    return frozenset({str(decision), *before})
