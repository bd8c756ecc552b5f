"""The places that runs have in the watch index once they are over. They have what lists of all owners ask
about, so that no record is read for a run that a list passes over."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from layover.clock import from_rfc3339, rfc3339
from layover.ids import reverse_order
from layover.keys import over_partition
from layover.ports.table import Item

_MICRO = Decimal(1_000_000)
_LONGEST = 150
"""Characters of a name in a place, encoded: a sort key has 1,024 bytes."""
_OF = "@"
"""Stands between the type of an error and the provider that it came from; no encoded name has it. The release
before reads the two as one type."""


@dataclass(frozen=True)
class OverPlace:
    """The facts in a run's place. `agent`, `error`, `provider`: encoded, and cut if they are long."""

    run_id: str
    created_at: datetime
    agent: str
    error: str
    tokens: int
    cost: Decimal | None
    provider: str = ""
    """The model's provider that the error came from."""

    @property
    def text(self) -> str:
        """The sort key. The newest run has the lowest."""
        cost = "" if self.cost is None else str(int(self.cost * _MICRO))
        error = f"{self.error}{_OF}{self.provider}" if self.provider else self.error
        facts = (rfc3339(self.created_at), self.agent, error, str(self.tokens), cost)
        return "#".join((reverse_order(self.run_id), *facts))


def place_in_lists(meta: Item, outcome: str | None) -> dict[str, Any]:
    """Return the attributes that move META of a run that is over to its place. `outcome`: its text."""
    facts = json.loads(outcome) if outcome else {}
    usage, error = facts.get("usage") or {}, facts.get("error") or {}
    cost = usage.get("cost_usd")
    place = OverPlace(
        run_id=meta["id"],
        created_at=from_rfc3339(meta["created_at"]),
        agent=shorten(meta["agent"]),
        error=shorten(error.get("type") or ""),
        tokens=int(usage.get("input_tokens") or 0) + int(usage.get("output_tokens") or 0),
        cost=None if cost is None else Decimal(str(cost)),
        provider=shorten(provider_in(facts) or ""),
    )
    return {"gsi2pk": over_partition(meta["status"], meta["id"]), "gsi2sk": place.text}


def provider_in(outcome: Mapping[str, Any]) -> str | None:
    """Return the provider that a run's failure came from, as its outcome is stored; None: from none."""
    provider: str | None = (outcome.get("error_detail") or {}).get("provider")
    return provider


def read_place(text: str) -> OverPlace:
    """Return the facts of a place."""
    id, created_at, agent, failure, tokens, cost = text.split("#")
    error, _, provider = failure.partition(_OF)
    return OverPlace(
        run_id=reverse_order(id),
        created_at=from_rfc3339(created_at),
        agent=agent,
        error=error,
        tokens=int(tokens),
        cost=Decimal(cost) / _MICRO if cost else None,
        provider=provider,
    )


def place_behind(run_id: str) -> str:
    """Return the text behind the place of a run, and before that of the next older one."""
    return f"{reverse_order(run_id)}$"


def shorten(name: str) -> str:
    """Return a name as places have it."""
    return quote(name, safe="")[:_LONGEST]
