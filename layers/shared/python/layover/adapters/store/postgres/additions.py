"""Statements that come with a thread's own in one round trip, from whoever keeps more than messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from layover.adapters.store.postgres.database import Row
from layover.adapters.store.postgres.queries import Statement
from layover.values.memory.context import IndexedText, TurnQuery


@dataclass(frozen=True)
class Read:
    """A read of a turn. `fields`: makes fields of `TurnContext` of its answer."""

    statement: Statement
    fields: Callable[[list[Row]], Mapping[str, Any]]


class Additions(Protocol):
    """The statements of memory."""

    def reads(self, query: TurnQuery) -> Sequence[Read]:
        """Return the reads that the query asks for besides the history."""
        ...

    def place_window(self, query: TurnQuery) -> Statement:
        """Return what lets a turn's history begin behind the messages that its prompt shows as compacted."""
        ...

    def index(self, texts: Sequence[IndexedText]) -> Statement:
        """Return what stores the texts by which messages are found."""
        ...
