"""The calls of each function to AWS: its role allows exactly these.

`tests/infra/test_calls.py` compares the table with the calls that a running system makes."""

from collections.abc import Mapping
from dataclasses import dataclass

JOURNAL = ("GetItem", "Query", "PutItem", "UpdateItem", "ConditionCheckItem")
"""IAM has no action for a transaction: it needs the actions of its parts."""
ERASE = ("DeleteItem",)
BLOBS = ("GetObject", "PutObject")
BLOBS_ERASE = ("DeleteObject",)
PARTS_ERASE = ("AbortMultipartUpload",)
"""Uploads in parts need no other action than whole objects, except to end one without an object."""
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
    """True if it publishes events that ask people for decisions, or that tell what was decided."""
    condenses: bool = False
    """True if it asks `compact` to work ahead, by an event that it does not wait for."""
    pushes: bool = False
    """True if it writes events, which it also sends to sockets; `sockets` sends the rest."""

    @property
    def actions(self) -> frozenset[str]:
        """As IAM names them."""
        calls_by_service = {
            "dynamodb": self.journal,
            # Without ListBucket, S3 answers 403 for a missing object.
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
        # It erases exports that are being made.
        blobs=BLOBS + BLOBS_ERASE + PARTS_ERASE,
        machine=RUN + WAKE,
        executions=STOP,
        publishes=True,
        pushes=True,
    ),
    # A function that writes events forgets the sockets that are gone.
    "turn": Calls(
        journal=JOURNAL + ERASE,
        blobs=BLOBS + BLOBS_ERASE,
        machine=RUN,
        # It hears the answer of the only call's token.
        publishes=True,
        condenses=True,
        pushes=True,
    ),
    # It starts nothing: only Turn and Settle end a run, and with that start the next one of the thread.
    "resume": Calls(
        journal=JOURNAL + ERASE,
        blobs=BLOBS + BLOBS_ERASE,
        machine=WAKE,
        publishes=True,
        pushes=True,
    ),
    # A run that ends decides the calls that wait.
    "settle": Calls(
        journal=JOURNAL + ERASE, blobs=BLOBS, machine=RUN + WAKE, publishes=True, pushes=True
    ),
    "sweep": Calls(
        journal=JOURNAL + ERASE,
        index=True,
        # It makes large exports.
        blobs=BLOBS + BLOBS_ERASE + PARTS_ERASE,
        machine=RUN + WAKE,
        # It cancels the runs of a deleted thread.
        executions=LOOK + STOP,
        # It reminds people of calls that wait, and tells of decisions whose deciders died.
        publishes=True,
        pushes=True,
    ),
    "extract": Calls(journal=("GetItem", "Query", "UpdateItem"), blobs=("GetObject",)),
    # As `extract`, it writes nothing to the journal but a user's usage of the day.
    "compact": Calls(journal=("GetItem", "Query", "UpdateItem"), blobs=("GetObject",)),
    # Tickets and connections; events that were missed.
    "sockets": Calls(journal=JOURNAL + ERASE, blobs=("GetObject",), pushes=True),
    # It accepts runs and decisions, and reads what follows.
    "streams": Calls(
        journal=JOURNAL + ERASE,
        # A chat looks up its newest run in the owner's index.
        index=True,
        blobs=BLOBS,
        machine=RUN + WAKE,
        executions=STOP,
        publishes=True,
        pushes=True,
    ),
    # Messages that it sent, and links in them. Parts of a run may be in S3.
    "notify": Calls(journal=JOURNAL, blobs=("GetObject",)),
    "migrate": Calls(),
}


SEALS: Mapping[str, tuple[str, ...]] = {
    "api": ("Decrypt", "Encrypt"),
    "resume": ("Decrypt", "Encrypt"),
    "streams": ("Decrypt", "Encrypt"),
    # It tells services that a user who is erased has left.
    "sweep": ("Decrypt",),
    "turn": ("Decrypt", "Encrypt"),
}
"""Calls to the key of users' tokens, where agents have connections of users."""
ENCRYPTS = (
    "Decrypt",
    "DescribeKey",
    "Encrypt",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
)
"""Actions that both services ask of whoever uses a table or a bucket with a key of the account's."""
