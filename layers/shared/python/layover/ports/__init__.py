"""Protocols of everything outside the runtime. Each port has an in-memory implementation and
a real one; both pass the same contract tests (tests/contract)."""

from layover.ports.allowance import Allowance, DayLimits, DayUse, NoAllowance, Reservation
from layover.ports.blobs import BlobFacts, Blobs
from layover.ports.dues import Due, DueKind, Dues
from layover.ports.journal import (
    Accepted,
    Decided,
    DueCheck,
    InboxItem,
    Journal,
    RequestKey,
    StaleHead,
    StaleVotes,
)
from layover.ports.leases import Leases, NoLeases
from layover.ports.memory.entries import EntryStore
from layover.ports.memory.notes import NoteStore
from layover.ports.memory.recall import RecallStore
from layover.ports.platform import (
    Aborts,
    Background,
    Callbacks,
    ChatModel,
    Clock,
    Deadline,
    Dialer,
    Embedder,
    Ids,
    Metrics,
    NoDialer,
    NoMetrics,
    OnDelta,
    send_deltas,
)
from layover.ports.runlog import CancelRequest, Ended, RunLog
from layover.ports.sockets import (
    Connections,
    EventSink,
    NoSink,
    PushLater,
    SocketPorts,
    Sockets,
)
from layover.ports.stores import MemoryStore, ThreadStore
from layover.ports.table import Table

__all__ = [
    "Aborts",
    "Accepted",
    "Allowance",
    "Background",
    "BlobFacts",
    "Blobs",
    "Callbacks",
    "CancelRequest",
    "ChatModel",
    "Clock",
    "Connections",
    "DayLimits",
    "DayUse",
    "Deadline",
    "Decided",
    "Dialer",
    "Due",
    "DueCheck",
    "DueKind",
    "Dues",
    "Embedder",
    "Ended",
    "EntryStore",
    "EventSink",
    "Ids",
    "InboxItem",
    "Journal",
    "Leases",
    "MemoryStore",
    "Metrics",
    "NoAllowance",
    "NoDialer",
    "NoLeases",
    "NoMetrics",
    "NoSink",
    "NoteStore",
    "OnDelta",
    "PushLater",
    "RecallStore",
    "RequestKey",
    "Reservation",
    "RunLog",
    "SocketPorts",
    "Sockets",
    "StaleHead",
    "StaleVotes",
    "Table",
    "ThreadStore",
    "send_deltas",
]
