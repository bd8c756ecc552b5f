"""The calls of each function to AWS: its role allows these and no more.

`tests/infra/test_calls.py` holds the table against the calls that a running system makes."""

from collections.abc import Mapping
from dataclasses import dataclass

JOURNAL = ("GetItem", "Query", "PutItem", "UpdateItem", "ConditionCheckItem")
"""A transaction asks for the actions of its parts."""
ERASE = ("DeleteItem",)
BLOBS = ("GetObject", "PutObject")
BLOBS_ERASE = ("DeleteObject",)
RUN = ("StartExecution",)
WAKE = ("SendTaskSuccess",)
STOP = ("StopExecution",)
LOOK = ("DescribeExecution",)


@dataclass(frozen=True)
class Calls:
    """Actions by the resource that they are on."""

    journal: tuple[str, ...] = ()
    index: bool = False
    """True if it queries an index of the table."""
    blobs: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()
    publishes: bool = False
    """True if it publishes events that ask people for decisions."""
    condenses: bool = False
    """True if it lets `compact` work ahead, by an event that it does not wait for."""
    pushes: bool = False
    """True if it writes events, and so sends them to sockets; `sockets` sends the rest."""

    @property
    def actions(self) -> frozenset[str]:
        """As IAM names them."""
        calls_by_service = {
            "dynamodb": self.journal,
            # Listing makes an object that is not there a 404 and not a 403.
            "s3": (*self.blobs, "ListBucket") if self.blobs else (),
            "states": self.machine + self.executions,
            "events": ("PutEvents",) if self.publishes else (),
            "lambda": ("InvokeFunction",) if self.condenses or self.pushes else (),
            "execute-api": ("ManageConnections",) if self.pushes else (),
        }
        return frozenset(
            f"{service}:{action}" for service, all_ in calls_by_service.items() for action in all_
        )


CALLS: Mapping[str, Calls] = {
    "api": Calls(
        journal=JOURNAL + ERASE,
        index=True,
        blobs=BLOBS + BLOBS_ERASE,
        machine=RUN + WAKE,
        executions=STOP,
        pushes=True,
    ),
    # A function that writes events forgets the sockets that are gone.
    "turn": Calls(
        journal=JOURNAL + ERASE,
        blobs=BLOBS + BLOBS_ERASE,
        machine=RUN,
        condenses=True,
        pushes=True,
    ),
    # The end of a run is Turn's or Settle's: nothing is started from here.
    "resume": Calls(
        journal=JOURNAL + ERASE,
        blobs=BLOBS + BLOBS_ERASE,
        machine=WAKE,
        publishes=True,
        pushes=True,
    ),
    "settle": Calls(journal=JOURNAL + ERASE, blobs=BLOBS, machine=RUN + WAKE, pushes=True),
    "sweep": Calls(
        journal=JOURNAL + ERASE,
        index=True,
        blobs=BLOBS + BLOBS_ERASE,
        machine=RUN + WAKE,
        # It cancels the runs of a deleted thread.
        executions=LOOK + STOP,
        pushes=True,
    ),
    "extract": Calls(journal=("GetItem", "Query", "UpdateItem"), blobs=("GetObject",)),
    # Both write nothing to the journal except the day's usage of a user.
    "compact": Calls(journal=("GetItem", "Query", "UpdateItem"), blobs=("GetObject",)),
    # Tickets and connections; events that were missed.
    "sockets": Calls(journal=JOURNAL + ERASE, blobs=("GetObject",), pushes=True),
    # It accepts runs and decisions, and reads what follows.
    "streams": Calls(
        journal=JOURNAL + ERASE,
        # The newest run of a chat is asked for again.
        index=True,
        blobs=BLOBS,
        machine=RUN + WAKE,
        executions=STOP,
        pushes=True,
    ),
    "migrate": Calls(),
}
