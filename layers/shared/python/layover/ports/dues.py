"""Data that may have outlived its use, of all owners. `layover.ports` has it with the others."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

DueKind = Literal["run", "thread", "file", "node", "entries", "export", "owner"]
"""`run`: the run's objects in S3, as `THREAD/RUN`; `thread`: a thread without activity; `file`: a file that
no message named; `node`: a node's memory, by its key; `entries`: all of the owner's; `export`: by its key;
`owner`: a user who is to be forgotten."""


@dataclass(frozen=True)
class Due:
    """A thing that the sweeper looks at from `at` on. `made_at`: the time of the first request for it."""

    owner: str
    kind: DueKind
    name: str
    at: datetime
    made_at: datetime


class Dues(Protocol):
    """Data that the sweeper looks at when its time is over. Part of the journal."""

    async def schedule(self, owner: str, kind: DueKind, name: str, at: datetime) -> None:
        """Have the sweeper look at this then. An earlier look that was requested stays."""
        ...

    async def overdue(self, until: datetime, limit: int) -> list[Due]:
        """Return the data that the sweeper has to look at by then, of all owners, the oldest first."""
        ...

    async def dues(self, owner: str) -> list[Due]:
        """Return all that the sweeper is to look at for an owner."""
        ...

    async def reschedule(self, due: Due, at: datetime) -> None:
        """Look again then: the data is still of use."""
        ...

    async def remove_due(self, due: Due) -> None:
        """Look no more: the data is gone, or stays for good."""
        ...
