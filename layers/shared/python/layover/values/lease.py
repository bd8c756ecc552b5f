"""Leases: a user may hold a limited number of them at once, and loses one when its holder dies."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_SOCKETS = 20
"""Open connections of a user."""
MAX_UPLOADS = 100
"""Files of a user that are announced and not uploaded."""


def max_waits(environments: int) -> int:
    """Requests of all users that may wait at once, of so many environments of `api`: the others answer."""
    return environments * 6 // 10


class LeaseKind(StrEnum):
    """The kind of what is held."""

    WAIT = "WAIT"
    """A request that waits: it keeps an environment of `api` from everybody else."""
    STREAM = "STREAM"
    """The same of `streams`, over all users; of one user, streams and other requests count together."""
    SOCKET = "SOCKET"
    UPLOAD = "UPLOAD"


@dataclass(frozen=True)
class Lease:
    """One thing that is held until a moment, at most. `owner` None: it counts for all users together."""

    owner: str | None
    kind: LeaseKind
    id: str
    until: datetime
