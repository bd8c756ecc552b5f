"""The journal in memory: the same logic over a table that is a dict."""

from layover.adapters.journal.journal import table_journal
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.table import InMemoryTable
from layover.ports import Blobs, Clock, Journal, Table


def in_memory_journal(
    clock: Clock,
    blobs: Blobs | None = None,
    table: Table | None = None,
) -> Journal:
    """Return a journal that ends with the process, or with `table`."""
    table = InMemoryTable() if table is None else table
    return table_journal(table, blobs or InMemoryBlobs(), clock)
