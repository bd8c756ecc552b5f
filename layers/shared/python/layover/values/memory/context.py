"""A turn's read of the thread's store, and its write."""

from typing import Any

from pydantic import Field

from layover.values.base import Json, Time, Value
from layover.values.memory.compaction import Compacted, CompactionQuery
from layover.values.memory.entry import EntryQuery, FoundEntries, NewEntry
from layover.values.message import Message
from layover.values.note import Note, NoteKey
from layover.values.runs.run import RunMeta
from layover.values.runs.usage import Usage
from layover.values.thread import ThreadHead


class LoggedAttempt(Value):
    """One line of a thread's iteration log; `attempt` counts from 1 within its task, without gaps."""

    task: str
    attempt: int = 0
    action: str
    result: str | None = None
    error: str | None = None
    diagnosis: str | None = None
    fix_applied: str | None = None
    run_id: str | None = None
    created_at: Time


class ThreadState(Value):
    """Session memory and the plan of a thread. Version 0: neither is stored."""

    session: Json = None
    session_said: dict[str, Time] = Field(default_factory=dict)
    """The time of the newest turn that changed a field of the session, by field."""
    plan: Json = None
    version: int = 0
    attempts: tuple[LoggedAttempt, ...] = ()
    """The newest attempts of the iteration log, oldest first."""


class IndexedText(Value):
    """A message as semantic recall will find it. `text`: the source of its words, with the date in words and
    the speaker. `vector` None: it is found by words only."""

    thread_id: str
    message_id: str
    agent: str
    text: str
    speaker: str | None = None
    vector: tuple[float, ...] | None = None
    model: str | None = None
    """Label of the embedder that made `vector`."""


class RecallQuery(Value):
    """A search of semantic recall. `vector` None: by words only. `thread_id` None: all threads of the user
    with this agent."""

    agent: str
    text: str
    vector: tuple[float, ...] | None = None
    model: str | None = None
    """Label of the embedder that made `vector`; rows of another one are found by words."""
    top_k: int = 5
    before: int = 2
    after: int = 1
    thread_id: str | None = None
    now: Time
    """The time from which the recency term counts."""
    whole_path: bool = False
    """In a turn: search the window, too. The caller knows which messages of the window are shown."""
    most_rows: int | None = None
    """The number of the scope's rows that are searched, the newest ones. None: the product's number
    (`memory.ranking`)."""
    whole_rows: int | None = None
    """A scope of more rows is ranked by its candidates only. None: the product's number."""


class Recalled(Value):
    """A message that recall found, or a neighbour of a match, for readability."""

    message: Message
    match: bool
    score: float | None = None
    text_score: float | None = None
    vector_score: float | None = None
    place: int = 0
    """In the scope, in the order of the conversation: neighbours of a thread follow each other."""


class StepUsage(Value):
    """Usage of a run's steps, or of a task of background work. `step` names the row within its run. A row of
    steps takes the place of the one before it: its run went on. `at`: the time of the newest."""

    step: str
    agent: str
    model: str
    usage: Usage
    at: Time


class TurnQuery(Value):
    """Everything that a turn needs from the database: one round trip.

    The input is written first of all (an upsert: a repeated turn changes nothing), and with it the
    thread's row, made from its head."""

    head: ThreadHead
    run_id: str
    input: Message
    window: int
    """The least number of messages before the input that are read, if there are as many
    (docs/behaviour.md#prompt-window)."""
    pinned_depth: int | None = None
    """The depth at which the run's window began at its first step; None at the first step."""
    max_messages: int | None = None
    """With a token buffer: the largest number of messages, whatever `window` is."""
    notes: tuple[NoteKey, ...] = ()
    thread_state: bool = False
    recall: RecallQuery | None = None
    entries: EntryQuery | None = None
    usage: tuple[StepUsage, ...] = ()
    """Usage of background work that this query needed; stored with the input."""
    compaction: CompactionQuery | None = None
    """With a compaction mode: the history is everything after the branch's last compacted message, and
    `window` has no effect."""
    pinned: tuple[str, ...] = ()
    """Ids of messages that the run's prompt shows since its first step. The answer says which of them are
    gone."""


class TurnContext(Value):
    """The answer to `TurnQuery`. `history`: the branch before the input, oldest first, from the window's
    start on."""

    history: tuple[Message, ...] = ()
    window_depth: int = 0
    """Depth (messages from the root) at which the window begins; the run pins it."""
    notes: tuple[Note, ...] = ()
    state: ThreadState = Field(default_factory=ThreadState)
    recalled: tuple[Recalled, ...] = ()
    """Recalled messages in the order of the conversation, without those in the window, only from the branch's
    path."""
    recall_cut: bool = False
    """True if the scope has more texts than were searched."""
    entries: FoundEntries = FoundEntries()
    compacted: Compacted | None = None
    """With a compaction mode; `window_depth` is the depth behind its last message."""
    gone: tuple[str, ...] = ()
    """Ids of `TurnQuery.pinned` that were deleted meanwhile."""


class TurnRecord(Value):
    """A run's write to the database: one round trip. Every part is an upsert."""

    head: ThreadHead
    run: RunMeta
    input: Message
    response: tuple[Message, ...]
    usage: tuple[StepUsage, ...] = ()
    snapshot: dict[str, Any] | None = None
    """The run's final tree, when it is over."""
    refused: tuple[str, ...] = ()
    """The messages of the thread that the run's hooks have refused, other runs' among them."""


class PastRun(Value):
    """A run that is over, as the database has it: its tree, and its messages, the input first."""

    thread_id: str
    tree: dict[str, Any]
    messages: tuple[Message, ...] = ()


class Extraction(Value):
    """The results of one run's extraction; recorded once, however often it is tried."""

    run_id: str
    thread_id: str
    title: str | None = None
    token_counts: dict[str, int] = {}
    """Message id -> tokens."""
    at: Time | None = None
    """The time of learning; needed for `profile` and `session`."""
    said_at: Time | None = None
    """The time of the turn; None: as `at`. Threads are free before their runs are extracted, so an earlier
    turn may be learned later."""
    profile: dict[str, Json] | None = None
    """Fields of `agent`'s profile to set; a field that is None is removed. A field that a later turn has set
    stays as it is, and all fields do if the owner put or deleted the profile later."""
    agent: str | None = None
    session: Json = None
    """The session memory as it is from now on."""
    session_said: dict[str, Time] = Field(default_factory=dict)
    """The times that belong to `session`."""
    state_version: int | None = None
    """The version of the ThreadState that `session` was made from."""
    entries: tuple[NewEntry, ...] = ()
    """Entries of `agent` and of this run and thread, with their own hashes."""
    entries_version: int | None = None
    """The version of the KnownEntries that `entries` were compared with; None: with none."""
    usage: tuple[StepUsage, ...] = ()
    """Usage of the background work that produced all this."""
