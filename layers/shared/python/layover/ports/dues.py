"""Data that may have outlived its use, of all owners. `layover.ports` has it with the others."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

DueKind = Literal["run", "thread", "file", "node", "entries", "export", "owner"]
"""`run`: what one keeps in S3, as `THREAD/RUN`; `thread`: one without activity; `file`: one that no message
named; `node`: a node's memory, by its key; `entries`: all of the owner's; `export`: by its key; `owner`: who
is to be forgotten."""


@dataclass(frozen=True)
class Due:
    """Something that the sweeper looks at from `at` on. `made_at`: since when it does."""

    owner: str
    kind: DueKind
    name: str
    at: datetime
    made_at: datetime


class Dues(Protocol):
    """Data that the sweeper looks at when its time is over. Part of the journal."""

    async def schedule(self, owner: str, kind: DueKind, name: str, at: datetime) -> None:
        """Have the sweeper look at this then; an earlier look that was asked for stands."""
        ...

    async def overdue(self, until: datetime, limit: int) -> list[Due]:
        """Lists the data that the sweeper has to look at by then, of all owners, the oldest first."""
        ...

    async def dues(self, owner: str) -> list[Due]:
        """All that the sweeper is to look at for an owner."""
        ...

    async def reschedule(self, due: Due, at: datetime) -> None:
        """It is still of use: look then."""
        ...

    async def remove_due(self, due: Due) -> None:
        """It is gone, or stays for good."""
        ...
