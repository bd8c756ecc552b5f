"""The journal in memory: the same logic over a table that is a dict."""

from collections.abc import Callable

from layover.adapters.inmemory.blobs import MemoryBlobs
from layover.adapters.inmemory.table import MemoryTable
from layover.adapters.journal.journal import TableJournal
from layover.ports import Blobs, Clock


def in_memory_journal(
    clock: Clock, blobs: Blobs | None = None, on_change: Callable[[], None] | None = None
) -> TableJournal:
    """Return a journal that ends with the process. `on_change` is called after every write."""
    return TableJournal(MemoryTable(on_change), blobs or MemoryBlobs(), clock)
