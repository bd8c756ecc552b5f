"""The stores, the clock, the dice and the sink that the parts of one journal share."""

from dataclasses import dataclass

from layover.adapters.journal.items.codec import PayloadStore
from layover.ports import Blobs, Clock, Dice, EventSink
from layover.ports.table import Table


# No generated comparison and text, as in `ports.Journal`.
@dataclass(frozen=True, eq=False, repr=False)
class Backing:
    """The resources under a journal. `bodies`: large parts of items, in `blobs`; `sink`: is notified of new
    events of runs that connections follow."""

    table: Table
    blobs: Blobs
    bodies: PayloadStore
    clock: Clock
    sink: EventSink
    dice: Dice
