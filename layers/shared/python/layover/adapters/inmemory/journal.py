"""The journal in memory: the same logic over a table that is a dict."""

from layover.adapters.inmemory.blobs import MemoryBlobs
from layover.adapters.inmemory.table import MemoryTable
from layover.adapters.journal.journal import TableJournal
from layover.ports import Blobs, Clock


def in_memory_journal(clock: Clock, blobs: Blobs | None = None) -> TableJournal:
    """A journal that forgets when the process ends."""
    return TableJournal(MemoryTable(), blobs or MemoryBlobs(), clock)
