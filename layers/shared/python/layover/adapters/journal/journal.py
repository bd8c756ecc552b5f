"""The journal (`ports.Journal`) over a table: its parts, put together."""

from datetime import timedelta

from layover.adapters.journal.audit import TableAudit
from layover.adapters.journal.backing import Backing
from layover.adapters.journal.commands import TableRunCommands
from layover.adapters.journal.decisions import TableDecisions
from layover.adapters.journal.erasure import TableErasure
from layover.adapters.journal.expiry import TableExpiry
from layover.adapters.journal.feedback import TableFeedback
from layover.adapters.journal.heads import TableHeads
from layover.adapters.journal.inbox import TableInbox
from layover.adapters.journal.items.codec import PayloadStore
from layover.adapters.journal.log.events import TableRunEvents
from layover.adapters.journal.operations import TableOperations
from layover.adapters.journal.overview import TableOverview
from layover.adapters.journal.runs import TableRuns
from layover.adapters.journal.sweep import TableDues, TableWatch
from layover.adapters.journal.writers import TableWriters
from layover.dice import SYSTEM_DICE
from layover.ports import Blobs, Clock, Dice, EventSink, Journal, NoSink
from layover.ports.table import Table


def table_journal(
    table: Table,
    blobs: Blobs,
    clock: Clock,
    sink: EventSink | None = None,
    *,
    audit_retention: timedelta = timedelta(days=400),
    dice: Dice = SYSTEM_DICE,
) -> Journal:
    """Return the journal over this table: DynamoDB with `DynamoTable`, memory with `InMemoryTable`.

    Args:
        table: The items.
        blobs: Bodies that are too large for an item.
        clock: Times of changes, and of expiry.
        sink: Is notified of new events of runs that connections follow.
        audit_retention: The life of an audit row.
        dice: Names of transactions and of writers, and pauses between attempts.
    """
    backing = Backing(
        table, blobs, PayloadStore(blobs), clock=clock, sink=sink or NoSink(), dice=dice
    )
    heads = TableHeads(backing)
    runs = TableRuns(backing)
    dues = TableDues(table, clock)
    audit = TableAudit(backing, audit_retention)
    inbox = TableInbox(backing, runs)
    return Journal(
        heads=heads,
        runs=runs,
        events=TableRunEvents(backing),
        commands=TableRunCommands(backing, runs),
        writers=TableWriters(backing, heads=heads, runs=runs, audit=audit, inbox=inbox),
        decisions=TableDecisions(backing, runs, audit, inbox),
        inbox=inbox,
        audit=audit,
        operations=TableOperations(backing, audit_retention),
        overview=TableOverview(backing, runs),
        feedback=TableFeedback(backing),
        erasure=TableErasure(backing),
        expiry=TableExpiry(backing, dues),
        watch=TableWatch(table, dice),
        dues=dues,
    )
