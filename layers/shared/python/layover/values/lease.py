"""Leases: a user may hold a limited number of them at once, and loses one when its holder dies. An expired
lease makes room as soon as another one needs it, the oldest first."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_SOCKETS = 20
"""Open connections of a user."""
MAX_UPLOADS = 100
"""Files of a user that are announced and not uploaded."""


def max_waits(environments: int) -> int:
    """Return how many requests of all users may wait at once, given this many environments of `api`: the
    other environments answer."""
    return environments * 6 // 10


class LeaseKind(StrEnum):
    """The kind of a lease."""

    WAIT = "WAIT"
    """A request that waits: it occupies an environment of `api` that no other request can use."""
    STREAM = "STREAM"
    """A stream: it occupies an environment of `streams`."""
    SOCKET = "SOCKET"
    UPLOAD = "UPLOAD"


@dataclass(frozen=True)
class Lease:
    """One lease, held until a moment at most. `owner` None: it counts for all users together."""

    owner: str | None
    kind: LeaseKind
    id: str
    until: datetime
