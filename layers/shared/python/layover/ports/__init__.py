"""Protocols of everything outside the runtime. Each port has an in-memory implementation and
a real one; both pass the same contract tests (tests/contract)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

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
from layover.values.deployment.settings import Settings
from layover.values.runs.usage import Usage

if TYPE_CHECKING:
    from layover.declare import Agent

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
    "Runtime",
    "SocketPorts",
    "Sockets",
    "StaleHead",
    "StaleVotes",
    "Table",
    "ThreadStore",
    "send_deltas",
]


@dataclass(frozen=True)
class Runtime:
    """All ports of one process, made by `layover.wiring` (or by the in-process SDK)."""

    journal: Journal
    threads: ThreadStore
    memory: MemoryStore
    blobs: Blobs
    model: ChatModel
    callbacks: Callbacks
    clock: Clock
    ids: Ids
    settings: Settings
    agents: "Callable[[], Mapping[str, Agent]]"
    """The user's agents by name. They are imported on first use."""
    price: "Callable[[str, Usage], Decimal | None] | None" = None
    """(model, usage) -> USD; None if the price is unknown."""
    window: "Callable[[str], int | None] | None" = None
    """Tokens of a model's context window; None if it is unknown."""
    embedder: Embedder | None = None
    """None: semantic recall is off."""
    embedder_named: "Callable[[str], Embedder] | None" = None
    """The embedder of a model, for agents that name one of their own."""
    metrics: Metrics = field(default_factory=NoMetrics)
    allowance: Allowance = field(default_factory=NoAllowance)
    leases: Leases = field(default_factory=NoLeases)
    background: Background | None = None
    """None: nothing is observed ahead while a run goes on."""
    aborts: Aborts | None = None
    """None: only the journal says that a run is to stop."""
    sockets: SocketPorts | None = None
    """None: no run can be followed by socket."""
    dialer: Dialer = field(default_factory=NoDialer)
